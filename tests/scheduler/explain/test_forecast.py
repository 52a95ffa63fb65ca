"""When a job starts: a time only where it is known, else not before, or unknown and why."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ringwise.durations import time_text
from ringwise.framework.statement import Statement
from ringwise.messages.expected_start import ExpectedStart, StartKind
from ringwise.messages.job_expansion import pod_group_of
from ringwise.scheduler.cache.expected_starts import LEAST, MAX_RUNS
from ringwise.scheduler.explain.forecast import estimates
from ringwise.scheduler.explain.reserving import nodes_free_soonest
from ringwise.scheduler.explain.why import explain, find_job
from ringwise.scheduler.view import SchedulerView
from ringwise.state.model import Owner, Pod, PodGroup, PodTerm, Queue, Requirement, Toleration
from ringwise.state.vcjob import PodTemplate, Task, VcJob
from ringwise.views.explain import explanation_document
from ringwise.wellknown import BATCH_API
from tests.builders.values import SECOND, gang, group, node, pod, pod_class
from tests.examples import examples
from tests.fingerprint import fingerprint, state_of
from tests.scheduler.rig import NOW, PLAIN, Rig, told
from tests.tools.schemas import check_document


def runs(name: str, on: str, seconds: int | None, **more: Any) -> Pod:
    """A job with all chips of a node since 10s, which says that it takes so long."""
    lasting = {} if seconds is None else {"ringwise.io/expected-duration": f"{seconds}s"}
    chips = more.pop("chips", range(8))
    created = NOW - 10 * SECOND
    return pod(name, len(chips), on=on, holds=chips, created=created, annotations=lasting, **more)


def waiting(name: str, seconds: int, **more: Any) -> list[PodGroup | Pod]:
    """A job for a whole node that says that it takes so long."""
    return gang(name, 1, 8, annotations={"ringwise.io/expected-duration": f"{seconds}s"}, **more)


def expected(view: SchedulerView, name: str) -> ExpectedStart:
    """And every view says the same."""
    before = fingerprint(state_of(view))
    answer = explain(view, find_job(view, name), NOW)
    assert fingerprint(state_of(view)) == before
    assert answer.start is not None
    document = explanation_document(answer, NOW)
    assert check_document(document) == "ringwise.io/why/v1"
    start = document.expected_start
    assert start is not None
    assert start["message"] == answer.start.text(NOW)
    return answer.start


def test_a_time_follows_from_the_ends_of_running_jobs() -> None:
    view = told(node("n1"), runs("old", "n1", 60), gang("first", 1, 8, created=1))
    start = expected(view, "first")
    time = NOW + 50 * SECOND
    assert start == ExpectedStart(StartKind.KNOWN, time, time, ("default/old",))
    assert start.text(NOW) == f"{time_text(time)}, in 50s, after the end of default/old"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (60, f"{time_text(NOW + 50 * SECOND)}, in 50s, after the end of default/old"),
        (None, "unknown, no running job has an expected duration"),
    ],
)
def test_a_gang_of_which_a_pod_runs_starts_when_there_are_chips_for_the_other(
    seconds: int | None, text: str
) -> None:
    """What runs of it makes no progress without the other, so it does not end before."""
    view = told(
        node("n1"),
        node("n2"),
        group("half", 2, created=1),
        pod("half-0", 8, group="half", created=1, on="n1", holds=range(8)),
        pod("half-1", 8, group="half", created=2),
        runs("old", "n2", seconds, chips=range(2)),
    )
    assert expected(view, "half").text(NOW) == text


def test_a_gang_that_gets_the_pods_that_it_lacks_may_end_from_then_on() -> None:
    own = {"own": "yes"}
    view = told(
        node("n1", labels=own),
        node("n2"),
        node("n3", labels=own),
        group("half", 2, created=1),
        pod("half-0", 8, group="half", created=1, on="n1", holds=range(8)),
        pod("half-1", 8, group="half", created=2),
        runs("old", "n2", 60),
        runs("long", "n3", 600),
        group("next", created=3),
        pod("next-0", group="next", created=3, cls=pod_class(8, node_selector=(("own", "yes"),))),
    )
    assert expected(view, "half").latest == NOW + 50 * SECOND
    start = expected(view, "next")
    assert (start.earliest, start.latest) == (NOW + 50 * SECOND, NOW + 590 * SECOND)


def test_a_job_waits_for_the_end_of_one_on_a_node_that_it_does_not_select() -> None:
    """Its pods must not be in a zone with the pods of the other job."""
    cls = pod_class(
        8,
        node_selector=(("own", "yes"),),
        pod_anti_affinity=(PodTerm("zone", (Requirement("app", "In", ("web",)),)),),
    )
    view = told(
        node("n1", labels={"zone": "a", "own": "yes"}),
        node("n2", labels={"zone": "a"}),
        runs("old", "n2", 60, labels={"app": "web"}),
        group("first", 1, created=1),
        pod("first-0", group="first", created=1, cls=cls),
    )
    assert expected(view, "first").latest == NOW + 50 * SECOND


def test_a_job_that_others_keep_away_hides_no_equal_job_that_they_do_not() -> None:
    """The pod of a service stays, and wants none of the first job in its zone."""
    apart = pod_class(0, cpu=1, pod_anti_affinity=(PodTerm("zone", (Requirement("app", "In", ("web",)),)),))
    view = told(
        node("n1", labels={"zone": "a"}),
        pod("service", on="n1", cls=apart),
        runs("old", "n1", 60),
        group("kept-away", 1, created=1),
        pod("kept-away-0", 8, group="kept-away", created=1, labels={"app": "web"}),
        gang("fits", 1, 8, created=2),
    )
    assert expected(view, "kept-away").latest is None
    assert expected(view, "fits").latest == NOW + 50 * SECOND


def test_a_job_that_says_it_runs_for_ages_breaks_no_answer() -> None:
    """No manifest can say so, values of a lab can; the view of all jobs shows every expected start."""
    owner = Owner("Job", "old", "uid-old", BATCH_API)
    view = told(
        node("n1"),
        VcJob("default", "old", owner.uid, running_estimate=10**60),
        group("old", owner=owner),
        pod("old-0", 8, on="n1", holds=range(8), group="old", owner=owner),
        gang("first", 1, 8, created=1),
    )
    start = expected(view, "first")
    assert start.earliest is not None
    assert start.earliest > 10**59
    assert start.text(NOW).startswith("9999-12-31T23:59:59Z, in ")
    assert start.short(NOW)


def test_behind_a_job_that_does_not_say_how_long_it_will_run_there_is_only_a_bound() -> None:
    view = told(
        node("n1"), runs("old", "n1", 60), gang("first", 1, 8, created=1), gang("second", 1, 8, created=2)
    )
    start = expected(view, "second")
    assert (start.kind, start.earliest, start.latest) == (StartKind.NOT_BEFORE, NOW + 50 * SECOND, None)
    assert start.text(NOW).startswith(f"not before {time_text(NOW + 50 * SECOND)}, in 50s: ")


def test_jobs_whose_pods_do_not_exist_yet_are_in_the_queue() -> None:
    """The pods of a vcjob are created when it is admitted: both were the first of one, with the same time."""
    waiting: list[object] = []
    for number, name in enumerate(("first", "second"), 1):
        tasks = (Task("worker", 1, 1, PodTemplate(pod_class(8))),)
        vcjob = VcJob("default", name, name, tasks, min_available=1, created=number)
        waiting += [vcjob, pod_group_of(vcjob)]
    view = told(node("n1"), runs("old", "n1", 60), waiting)
    assert (expected(view, "first").kind, expected(view, "second").kind) == (
        StartKind.KNOWN,
        StartKind.NOT_BEFORE,
    )
    answer = explain(view, find_job(view, "second"), NOW)
    assert (answer.position, answer.waiting, answer.ahead) == (2, 2, ("default/first",))
    ended = next(fix for fix in answer.fixes if fix.text == "wait for job default/old to end")
    assert ended.contested == 1


def test_any_number_of_jobs_is_played_forward() -> None:
    """At most 16 were counted."""
    nodes, ahead = 3, 40
    view = told(
        *(node(f"n{n}") for n in range(nodes)),
        *(runs(f"old-{n}", f"n{n}", 60 + n) for n in range(nodes)),
        *(waiting(f"wait-{n}", 10, created=n + 1) for n in range(ahead)),
        waiting("last", 10, created=1000),
    )
    # n0 is free at 50 s, n1 at 51 s, n2 at 52 s, and each again every ten seconds: 41 jobs on three nodes.
    time = NOW + (50 + ahead % nodes + 10 * (ahead // nodes)) * SECOND
    start = expected(view, "last")
    assert (start.kind, start.earliest, start.latest) == (StartKind.KNOWN, time, time)
    assert start.after == (f"default/wait-{ahead - nodes}",)


def test_many_jobs_that_do_not_say_how_long_they_run_leave_a_bound() -> None:
    ahead = 17
    view = told(
        *(node(f"n{n}") for n in range(ahead)),
        *(runs(f"old-{n}", f"n{n}", 60 + n) for n in range(ahead)),
        *(gang(f"wait-{n}", 1, 8, created=n + 1) for n in range(ahead)),
        gang("last", 1, 8, created=1000),
    )
    start = expected(view, "last")
    assert (start.kind, start.earliest) == (StartKind.NOT_BEFORE, NOW + 50 * SECOND)
    assert start.why == f"{ahead} jobs before it have no expected duration"
    assert expected(view, "wait-0").kind is StartKind.KNOWN


def test_queues_take_turns_as_in_a_cycle() -> None:
    def two(first: str, second: str) -> SchedulerView:
        return told(
            node("n1"),
            Queue("other"),
            runs("old", "n1", 60),
            waiting("here", 30, created=1, queue=first),
            waiting("there", 30, created=2, queue=second),
        )

    view = two("default", "other")
    assert expected(view, "here").latest == NOW + 50 * SECOND
    assert expected(view, "there").latest == NOW + 80 * SECOND
    # The order of the queues decides, not the age of the jobs.
    view = two("other", "default")
    assert expected(view, "here").latest == NOW + 80 * SECOND
    assert expected(view, "there").latest == NOW + 50 * SECOND


@pytest.mark.parametrize(
    ("seconds", "why"),
    [
        (None, "no running job has an expected duration"),
        # It runs since 10 s: when it ends is no longer known.
        (5, "no running job has an expected duration"),
    ],
)
def test_without_an_end_that_is_known_the_start_is_unknown(seconds: int | None, why: str) -> None:
    start = expected(told(node("n1"), runs("old", "n1", seconds), gang("new", 1, 8)), "new")
    assert start == ExpectedStart(StartKind.UNKNOWN, why=why)
    assert start.text(NOW) == f"unknown, {why}"


def test_a_job_without_an_end_may_make_room_sooner() -> None:
    """n2 may be free at any moment, n1 is at a known time."""
    view = told(node("n1"), node("n2"), runs("old", "n1", 60), runs("silent", "n2", None), gang("new", 1, 8))
    start = expected(view, "new")
    assert (start.kind, start.earliest, start.latest) == (StartKind.KNOWN, NOW, NOW + 50 * SECOND)
    assert start.text(NOW).startswith(f"at the latest {time_text(NOW + 50 * SECOND)}, in 50s")


def test_what_only_a_job_without_an_end_can_free_is_unknown() -> None:
    view = told(
        node("n1"),
        node("n2"),
        runs("old", "n1", 60),
        runs("silent", "n2", None),
        gang("new", 2, 8, created=1),
    )
    start = expected(view, "new")
    # Both must end, and one of them says when.
    assert (start.kind, start.earliest) == (StartKind.NOT_BEFORE, NOW + 50 * SECOND)
    few = pod_class(8, node_selector=(("kubernetes.io/hostname", "n2"),))
    labels = {"kubernetes.io/hostname": "n2"}
    view = told(
        node("n1"),
        node("n2", labels=labels),
        runs("old", "n1", 60),
        runs("silent", "n2", None),
        pod("new", 8, cls=few),
    )
    assert expected(view, "new").kind is StartKind.UNKNOWN


def test_a_range_lies_between_the_job_alone_and_the_queue() -> None:
    view = told(
        node("n1"),
        node("n2"),
        runs("one", "n1", 60),
        runs("two", "n2", 90),
        gang("first", 1, 8, created=1),
        gang("second", 1, 8, created=2),
    )
    start = expected(view, "second")
    assert (start.earliest, start.latest) == (NOW + 50 * SECOND, NOW + 80 * SECOND)
    assert start.text(NOW) == (
        f"between {time_text(NOW + 50 * SECOND)} and {time_text(NOW + 80 * SECOND)}, in 50s to 1m20s, "
        "after the end of default/two"
    )


def test_what_was_not_looked_at_is_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = 66
    view = told(
        *(node(f"n{n}") for n in range(nodes)),
        *(runs(f"old-{n}", f"n{n}", 60 + n) for n in range(nodes)),
        gang("new", nodes, 8),
    )
    last = NOW + (50 + nodes - 1) * SECOND
    start = expected(view, "new")
    assert (start.kind, start.latest) == (StartKind.KNOWN, last)
    jobs = len(view.jobs)
    monkeypatch.setattr("ringwise.scheduler.explain.forecast.STEPS", jobs + 40)
    start = estimates(view, NOW)["default/new"]
    assert start.kind is StartKind.NOT_BEFORE
    assert start.why == "the search limit was reached"
    assert start.earliest is not None
    assert NOW < start.earliest < last
    # For one job there are no steps left for the earliest time.
    monkeypatch.setattr("ringwise.scheduler.explain.forecast.STEPS_OF_ONE", jobs + 40)
    assert expected(view, "new").kind is StartKind.UNKNOWN


def test_a_refused_job_has_no_start_and_a_gated_one_an_unknown_start() -> None:
    gated = pod("g", 8, gated=True)
    view = told(node("n1"), runs("old", "n1", 60), pod("three", 3), gated)
    assert explain(view, find_job(view, "three"), NOW).start is None
    assert expected(view, "g").why == "its pods are gated"


# -- what jobs took lately -----------------------------------------------------------------------------


def after_runs(*seconds: int) -> Rig:
    """A node on which one job after the other ran, each for so long."""
    rig = Rig(1)
    for number, length in enumerate(seconds):
        rig.submit(f"ran-{number}", chips=8)
        rig.run()
        rig.step(length)
        rig.change(f"ran-{number}-0", phase="Succeeded")
        rig.run()
        rig.end(f"ran-{number}")
        rig.run()
    return rig


def test_a_job_that_does_not_say_how_long_it_runs_is_taken_to_run_as_long_as_others() -> None:
    rig = after_runs(100, 400, 200)
    rig.submit("runs", chips=8)
    rig.run()
    rig.submit("first", chips=8)
    rig.submit("second", chips=8)
    rig.step(10)
    began, found = rig.now - 10 * SECOND, estimates(rig.machine.view, rig.now)
    first, second = found["default/first"], found["default/second"]
    assert (first.earliest, first.latest) == (began + 100 * SECOND, began + 400 * SECOND)
    assert (second.earliest, second.latest) == (began + 200 * SECOND, began + 800 * SECOND)
    assert first.guess
    assert second.guess
    assert first.text(rig.now).endswith("; a guess from what jobs of the same size took lately")
    # It runs longer than one of them did.
    rig.step(140)
    first = estimates(rig.machine.view, rig.now)["default/first"]
    assert first.kind is StartKind.UNKNOWN, "two runs that took longer are not enough for a guess"


@pytest.mark.parametrize("chips", [4, 8])
def test_only_jobs_of_the_same_size_count(chips: int) -> None:
    rig = after_runs(100, 400, 200)
    rig.submit("runs", chips=8, queue="default")
    rig.submit("other", chips=chips)
    rig.run()
    rig.submit("behind", chips=8)
    rig.run()
    start = estimates(rig.machine.view, rig.now)["default/behind"]
    assert (start.latest is not None) is (chips == 8)


def test_runs_are_forgotten() -> None:
    """The last runs of a size count, and of sizes those of which a job ended lately."""
    rig = after_runs(*([1_000] * 3), *([10] * MAX_RUNS))
    rig.submit("one", chips=8)
    rig.run()
    job = rig.machine.view.jobs["default/one"]
    assert rig.machine.view.what_if.starts.guess(job, 0) == (10 * SECOND, 10 * SECOND)


def test_a_run_counts_once_and_only_if_it_ended_by_itself() -> None:
    rig = Rig(2)
    for number in range(2 * LEAST):
        rig.submit(f"job-{number}", pods=2, chips=8)
        rig.run()
        rig.step(10)
        if number % 2:
            # The first pod is reported several times after its end.
            for _ in range(LEAST):
                rig.change(f"job-{number}-0", phase="Succeeded")
                rig.run()
                rig.step(1)
            rig.change(f"job-{number}-1", phase="Succeeded")
            rig.run()
        rig.end(f"job-{number}")
        rig.run()
        rig.submit("next", pods=2, chips=8)
        rig.run()
        guess = rig.machine.view.what_if.starts.guess(rig.machine.view.jobs["default/next"], 0)
        rig.end("next")
        rig.run()
        ended = (number + 1) // 2
        assert guess == (None if ended < LEAST else ((10 + LEAST) * SECOND, (10 + LEAST) * SECOND))


# -- what happens then ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(examples(40)))
def test_with_exact_durations_every_job_starts_when_it_was_expected(seed: int) -> None:
    """In strict order, while no other job comes: asked at the beginning, and again after each end."""
    random = Random(seed)
    nodes = random.randint(1, 4)
    rig = Rig(actions=PLAIN, queue_discipline="strict")
    for number in range(1, nodes + 1):
        rig.node(f"n{number}", labels={"zone": "ab"[number % 2], "own": str(number)})
    lengths: dict[str, int] = {}
    for number in range(random.randint(3, 12)):
        name, length = f"job-{number}", random.randint(1, 300)
        pods, chips = random.choice([(1, 1), (1, 2), (1, 4), (1, 8), (1, 8), (2, 8), (3, 8)])
        asked: dict[str, Any] = {"pods": min(pods, nodes)}
        if random.random() < 0.4:
            asked = {"pods": 1, "node_selector": (("own", str(random.randint(1, nodes))),)}
        if seed % 2 and asked["pods"] == 1 and random.random() < 0.7:
            # No zone, or no node, has two of these jobs.
            key = random.choice(("zone", "own"))
            term = PodTerm(key, (Requirement("app", "In", ("web",)),))
            asked |= {"labels": {"app": "web"}, "pod_anti_affinity": (term,)}
        rig.submit(name, chips=chips, expected=f"{length}s", **asked)
        lengths[name] = length
    rig.run()
    ends: dict[str, int] = {}
    expected_at: dict[str, int | None] = {}
    for _ in range(2 * len(lengths)):
        view = rig.machine.view
        for name in lengths:
            if name not in ends and rig.places(name):
                assert expected_at.get(name, rig.now) == rig.now, name
                ends[name] = rig.now + lengths[name] * SECOND
        for key, start in estimates(view, rig.now).items():
            name = key.removeprefix("default/")
            assert start.earliest == start.latest
            if expected_at.setdefault(name, start.latest) != start.latest:
                pytest.fail(f"{name} was expected at {expected_at[name]}, now at {start.latest}")
        later = [end for end in ends.values() if end > rig.now]
        if not later:
            break
        rig.now = min(later)
        for name, end in ends.items():
            if end == rig.now:
                rig.end(name)
        rig.run()
    assert sorted(ends) == sorted(lengths)


def test_a_job_that_is_too_large_keeps_nobody_waiting() -> None:
    rig = Rig(1, queue_discipline="strict")
    rig.submit("runs", chips=8, expected="100s")
    rig.run()
    rig.submit("next", chips=8, expected="100s")
    rig.submit("large", pods=2, chips=8, expected="100s")
    rig.submit("last", chips=8, expected="100s")
    rig.run()
    found = estimates(rig.machine.view, rig.now)
    assert found["default/next"].latest == rig.now + 100 * SECOND
    assert found["default/last"].latest == rig.now + 200 * SECOND
    large = found["default/large"]
    assert large.text(rig.now) == "unknown, it could not start even after all running jobs have finished"


def test_many_nodes_and_jobs_cost_bounded_steps() -> None:
    """One play for all jobs: four times as many cost four times as many statements, not sixteen times."""

    def statements(jobs: int) -> int:
        view = told(
            *(node(f"n{n}") for n in range(20)),
            *(runs(f"old-{n}", f"n{n}", 60 + n) for n in range(20)),
            *(waiting(f"wait-{n}", 10 + n % 7, created=n + 1) for n in range(jobs)),
        )
        before = Statement.made
        found = estimates(view, NOW)
        assert len(found) == jobs
        assert all(start.latest is not None for start in found.values())
        return Statement.made - before

    assert statements(400) < 5 * statements(100)


@pytest.mark.parametrize("discipline", ["strict", "best-effort"])
@pytest.mark.parametrize("seed", range(examples(20)))
def test_with_several_queues_every_job_starts_when_it_was_expected(seed: int, discipline: str) -> None:
    """What queues deserve follows what their jobs ask for: it is shared out again at every end."""
    random = Random(seed)
    nodes = random.randint(2, 4)
    rig = Rig(nodes, actions=PLAIN, queue_discipline=discipline)
    queues = ["qa", "qb", "qc"][: random.randint(2, 3)]
    for queue in queues:
        rig.queue(queue, weight=random.randint(1, 4))
    lengths: dict[str, int] = {}
    for number in range(random.randint(4, 12)):
        # So short that nothing is reserved for jobs that wait long: that is not played.
        name, length = f"job-{number}", random.randint(1, 30)
        pods, chips = random.choice([(1, 1), (1, 2), (1, 4), (1, 8), (1, 8), (2, 8), (3, 8)])
        queue = random.choice(queues)
        rig.submit(name, pods=min(pods, nodes), chips=chips, expected=f"{length}s", queue=queue)
        lengths[name] = length
    rig.run()
    before = fingerprint(state_of(rig.machine.view))
    found = estimates(rig.machine.view, rig.now)
    assert fingerprint(state_of(rig.machine.view)) == before
    ends: dict[str, int] = {}
    while True:
        for name, length in lengths.items():
            if name not in ends and rig.places(name):
                start = found.get(f"default/{name}")
                assert start is None or (start.earliest, start.latest) == (rig.now, rig.now), name
                ends[name] = rig.now + length * SECOND
        later = [end for end in ends.values() if end > rig.now]
        if not later:
            break
        rig.now = min(later)
        for name, end in ends.items():
            if end == rig.now:
                rig.end(name)
        rig.run()
    assert sorted(ends) == sorted(lengths)


def hopeless(rig: Rig, jobs: int, *, held: bool) -> None:
    """Jobs that each select nodes of their own: those that do not exist, or one that never gets free."""
    for number in range(jobs):
        selector = [("kubernetes.io/hostname", "forever")] if held else [("zone", f"zone-{number}")]
        tolerated = Toleration(f"key-{number}")
        rig.submit(f"hopeless-{number}", chips=8, node_selector=tuple(selector), tolerations=(tolerated,))


@pytest.mark.parametrize("held", [False, True])
def test_jobs_that_never_start_cost_others_nothing(held: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ringwise.scheduler.explain.forecast.STEPS", 3_000)

    def found(jobs: int) -> dict[str, int | None]:
        rig = Rig(20)
        rig.node("forever", labels={"kubernetes.io/hostname": "forever"})
        rig.submit("last", chips=8, node_selector=(("kubernetes.io/hostname", "forever"),))
        for number in range(20):
            rig.submit(f"old-{number}", chips=8, expected=f"{60 + number}s")
        rig.run()
        hopeless(rig, jobs, held=held)
        for number in range(30):
            rig.submit(f"wait-{number}", chips=8, expected=f"{10 + number % 7}s")
        rig.run()
        answers = estimates(rig.machine.view, rig.now)
        return {key: start.latest for key, start in answers.items() if "wait" in key}

    alone = found(0)
    assert None not in alone.values()
    assert found(100) == alone


def noise(number: int) -> Pod:
    """Of another namespace, and it selects no node that exists."""
    selected = pod_class(8, node_selector=(("zone", f"zone-{number}"),))
    name = f"noise-{number}"
    return pod(
        name, uid=f"uid-{name}", cls=selected, namespace="noisy", created=number + 1, chip_containers=1
    )


def test_each_namespace_has_its_part_of_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs that are tried again and again in vain use up the part of their namespace alone."""
    monkeypatch.setattr("ringwise.scheduler.explain.forecast.STEPS", 1_000)
    monkeypatch.setattr("ringwise.scheduler.explain.forecast._is_of_nodes", lambda reason: False)
    view = told(
        *(node(f"n{n}") for n in range(20)),
        *(runs(f"old-{n}", f"n{n}", 60 + n) for n in range(20)),
        *(waiting(f"wait-{n}", 10 + n % 7, created=n + 1) for n in range(10)),
        *(noise(n) for n in range(50)),
    )
    found = estimates(view, NOW)
    assert all(start.latest is not None for key, start in found.items() if key.startswith("default/"))
    late = [start for key, start in found.items() if key.startswith("noisy/")]
    assert {start.why for start in late} == {"the search limit was reached"}


@pytest.mark.parametrize("last", ["a", "b"])
def test_a_node_is_free_when_the_last_of_its_jobs_ends(last: str) -> None:
    """Which nodes are reserved does not depend on the order of their jobs."""
    shared = [
        runs(name, "n1", 900 if name == last else 60, chips=chips)
        for name, chips in (("a", range(4)), ("b", range(4, 8)))
    ]
    view = told(node("n1"), node("n2"), shared, runs("c", "n2", 300))
    assert nodes_free_soonest(view, NOW, NOW, NOW + SECOND, 1) == ("n2",)
