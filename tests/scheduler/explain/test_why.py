"""Why a job is pending: numbers, near misses, queue, fixes that work; the question changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.kube.write.tenant_text import problem_text
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind
from ringwise.messages.job_expansion import pod_group_of
from ringwise.reasons import general_form
from ringwise.scheduler.explain.why import Explanation, UnknownJobError, explain, find_job, reasons_now
from ringwise.scheduler.view import SchedulerView
from ringwise.state.model import Owner, PodClass, Queue, Taint
from ringwise.state.vcjob import PodTemplate, Task, VcJob
from tests.builders.values import CHIP, gang, node, pod, pod_class, report
from tests.fingerprint import fingerprint, state_of, usage_of
from tests.scheduler.rig import NOW, scheduler_told, told


def books(view: SchedulerView) -> tuple[object, ...]:
    """All that a question must not change. Empty usage does not count."""
    usage = usage_of(view)
    queues = {name: dict(amounts) for name, amounts in usage.by_queue.items() if amounts}
    jobs = {name: dict(amounts) for name, amounts in usage.by_job.items() if amounts}
    return fingerprint(state_of(view)), queues, jobs, dict(usage.capacity)


def why(view: SchedulerView, name: str) -> Explanation:
    before = books(view)
    job = find_job(view, name)
    remembered = {slot: getattr(job, slot) for slot in ("pods", "policy", "labels", "min_available", "queue")}
    answer = explain(view, job, NOW)
    assert books(view) == before
    assert {slot: getattr(job, slot) for slot in remembered} == remembered
    return answer


def fixes(answer: Explanation) -> list[str]:
    return [fix.text for fix in answer.fixes]


def test_n3_a_partly_used_ring_is_named_with_its_holder_and_its_fixes() -> None:
    view = told(
        node("node-1"),
        node("node-2", unschedulable=True),
        pod("a", 2, on="node-1", holds=[0, 1]),
        pod("b", 4, on="node-1", holds=[4, 5, 6, 7]),
        pod("new", 4),
    )
    answer = why(view, "new")
    assert answer.outcome == "pending"
    assert "0 of 2 nodes can run new " in answer.sentence
    assert answer.refusals is not None
    assert answer.refusals.counts == {"no-ring-holds-request": 1, "node-cordoned": 1}
    assert [(miss.node, miss.missing) for miss in answer.misses] == [("node-2", 0), ("node-1", 2)]
    assert answer.misses[1].text == "ring 0 has 2 of 4 chips free: held by a (2)"
    assert fixes(answer) == [
        "request 2 instead of 4 chips",
        "free 2 chips of ring 0 on node-1",
        "wait for job default/a to end",
        "wait for job default/b to end",
        "uncordon node-2",
    ]


def test_a_gang_that_runs_tells_why_one_more_of_its_pods_waits() -> None:
    view = told(
        node("node-1"),
        node("node-2", unschedulable=True),
        gang("web", 2, 8, min_member=1),
        pod("web-0", 8, group="web", on="node-1", holds=range(8)),
    )
    answer = why(view, "web")
    assert answer.outcome == "running"
    assert "0 of 2 nodes can run web-1 " in answer.sentence
    assert answer.refusals is not None
    assert answer.refusals.counts == {"node-not-wholly-free": 1, "node-cordoned": 1}
    # Not that its own chips were free.
    assert fixes(answer) == ["uncordon node-2"]
    assert answer.start is not None
    assert answer.start.earliest is None


def test_two_jobs_are_named_where_one_is_not_enough() -> None:
    view = told(
        node("node-1"),
        pod("a", 2, on="node-1", holds=[0, 1]),
        pod("b", 4, on="node-1", holds=[4, 5, 6, 7]),
        pod("new", 8),
    )
    assert "wait for job default/a and job default/b to end" in fixes(why(view, "new"))


def test_a_gang_names_the_smaller_gang_that_starts() -> None:
    view = told(
        *(node(f"node-{number}", unschedulable=number == 4) for number in range(1, 5)),
        pod("a", 1, on="node-3", holds=[0]),
        gang("train", 3, 8),
    )
    answer = why(view, "train")
    assert answer.sentence.startswith("2 of 3 pods fit; train-2 ")
    assert fixes(answer) == [
        "free 1 chip of ring 0 on node-3",
        "wait for job default/a to end",
        "uncordon node-4",
        "lower minAvailable from 3 to 2",
    ]


@pytest.mark.parametrize(
    ("wrong", "fix"),
    [
        ({"unschedulable": True}, "uncordon node-1"),
        ({"ready": False}, "make node-1 Ready"),
        ({"taints": (Taint("reserved"),)}, "remove the taint reserved:NoSchedule from node-1"),
    ],
)
def test_a_cordoned_node_is_named_as_a_fix(wrong: dict[str, Any], fix: str) -> None:
    view = told(node("node-1", **wrong), pod("new", 4))
    assert fixes(why(view, "new")) == [fix]


def test_one_of_two_taints_is_not_named_as_a_fix() -> None:
    view = told(node("node-1", taints=(Taint("one"), Taint("other"))), pod("new", 4))
    assert fixes(why(view, "new")) == []


def test_faulty_chips_are_reported_as_faulty() -> None:
    view = told(node("node-1", faulty=1), report("node-1", range(1, 8), unhealthy=1), pod("new", 8))
    answer = why(view, "new")
    assert answer.misses[0].text == "ring 0 has 3 of 4 chips free: faulty (1)"
    assert "free 1 chip of ring 0 on node-1" in fixes(answer)


def test_n2_a_refused_job_gets_valid_sizes_and_no_position_in_its_queue() -> None:
    answer = why(told(node("node-1"), pod("three", 3)), "three")
    assert (answer.outcome, answer.position) == ("rejected", None)
    assert fixes(answer) == ["request 2 instead of 3 chips", "request 4 instead of 3 chips"]


def test_a_selector_that_no_node_has() -> None:
    cls = pod_class(4, node_selector=(("zone", "b"),))
    view = told(node("node-1", labels={"zone": "a"}), pod("new", 4, cls=cls))
    assert fixes(why(view, "new")) == ["remove the nodeSelector zone: b"]


def test_a_full_queue_names_its_capability() -> None:
    view = told(
        node("node-1"),
        Queue("small", capability={CHIP: 4}),
        gang("first", 1, 4, queue="small", created=1),
        gang("second", 1, 2, queue="small", created=2),
    )
    answer = why(view, "second")
    assert f"raise the capability of queue small to 6 of {CHIP} (now 4)" in fixes(answer)
    assert "use queue default" in fixes(answer)


def test_an_unknown_queue_offers_a_known_one() -> None:
    answer = why(told(node("node-1"), gang("lost", 1, 4, queue="nowhere")), "lost")
    assert answer.outcome == "rejected"
    assert fixes(answer) == ["use queue default"]


def test_position_in_the_queue_and_contested_fixes() -> None:
    view = told(
        node("node-1"),
        pod("old", 8, on="node-1", holds=range(8)),
        gang("first", 1, 8, created=1),
        gang("second", 1, 8, created=2),
    )
    answer = why(view, "second")
    assert (answer.position, answer.waiting, answer.ahead) == (2, 2, ("default/first",))
    ended = next(fix for fix in answer.fixes if fix.text == "wait for job default/old to end")
    assert ended.contested == 1
    many = (gang(f"before-{number}", 1, 8, created=number) for number in range(1, 41))
    view = told(
        node("node-1"),
        pod("old", 8, on="node-1", holds=range(8)),
        *many,
        gang("last", 1, 8, created=50),
        gang("first", 1, 8, created=0),
    )
    answer = why(view, "last")
    assert answer.position == 42
    # As many as the position says, though not all of them are tried.
    assert {fix.contested for fix in answer.fixes if fix.kind == "job-ended"} == {41}
    first = why(view, "first")
    assert [fix.contested for fix in first.fixes] == [0] * len(first.fixes)


def test_a_decision_shows_its_node_and_score_and_the_job_stays_pending() -> None:
    view = told(node("node-1"), node("node-2"), pod("a", 2, on="node-1", holds=[0, 1]), pod("new", 2))
    answer = why(view, "new")
    assert (answer.outcome, answer.sentence) == ("pending", "would be placed on node-1 now")
    assert [(seat.node, seat.chips, seat.bound) for seat in answer.locations] == [("node-1", (2, 3), False)]
    assert answer.plan == (
        "node-1: score 258, group A; 2 nodes would fit without it, none of them with a higher score",
    )


def test_a_job_whose_pods_do_not_exist_yet() -> None:
    template = PodTemplate(pod_class(8))
    vcjob = VcJob("default", "train", "uid", (Task("worker", 2, 2, template),), min_available=2)
    view = told(node("node-1"), vcjob, pod_group_of(vcjob))
    answer = why(view, "train")
    assert (answer.outcome, answer.position) == ("pending", 1)
    assert "; the cluster has 8 in total" in answer.sentence
    assert fixes(answer) == ["lower minAvailable from 2 to 1"]


def test_unknown_and_ambiguous_names() -> None:
    twin = pod("new", 1, uid="twin", namespace="other")
    view = told(node("node-1"), pod("new", 1), twin)
    with pytest.raises(UnknownJobError, match='job "nwe" not found; did you mean'):
        find_job(view, "nwe")
    with pytest.raises(UnknownJobError, match="2 jobs are named new"):
        find_job(view, "new")
    assert find_job(view, "other/new").namespace == "other"


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (Owner("Job", "train", "u1", "batch.volcano.sh/v1alpha1"), "train"),
        (Owner("Job", "train", "u1", "batch/v1"), "train-u1"),
        (None, "train-u1"),
    ],
)
def test_a_vcjob_is_found_by_its_name_while_its_pod_group_is_missing(owner: Owner | None, name: str) -> None:
    """As in the list of jobs: it is suspended, and its last pod ends."""
    ending = pod("train-0", 1, on="node-1", holds=(0,), group="train-u1", owner=owner, deleting=True)
    assert find_job(told(node("node-1"), ending), f"default/{name}").name == name


def test_the_vcjob_that_exists_is_found_while_pods_of_a_deleted_one_end() -> None:
    second = VcJob("default", "train", "u2", (Task("worker", 1, 1, PodTemplate(pod_class(1))),))
    owner = Owner("Job", "train", "u1", "batch.volcano.sh/v1alpha1")
    ending = pod("train-0", 1, on="node-1", holds=(0,), group="train-u1", owner=owner, deleting=True)
    view = told(node("node-1"), ending, second, pod_group_of(second))
    assert find_job(view, "default/train").key == pod_group_of(second).key


running = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([1, 2, 4])), max_size=8)


@given(running, st.sampled_from([(1, 1), (1, 2), (1, 4), (1, 8), (2, 8), (3, 8), (4, 8)]), st.integers(0, 15))
def test_a_fix_that_ends_jobs_lets_the_job_start(
    busy: list[tuple[int, int]], asked: tuple[int, int], cordoned: int
) -> None:
    """A printed fix, carried out, starts the job; the question changed nothing."""
    events: list[object] = [node(f"node-{n}", unschedulable=bool(cordoned >> n & 1)) for n in range(4)]
    free = {n: list(range(8)) for n in range(4)}
    for number, (where, chips) in enumerate(busy):
        taken, free[where] = free[where][:chips], free[where][chips:]
        if len(taken) == chips:
            events.append(pod(f"run-{number}", chips, on=f"node-{where}", holds=taken))
    view = told(events, gang("new", *asked))
    answer = why(view, "new")
    for fix in answer.fixes:
        if fix.kind != "job-ended":
            continue
        words = (word.rstrip(",") for word in fix.text.split())
        gone = [word.removeprefix("default/") for word in words if word.startswith("default/")]
        again = scheduler_told(events, gang("new", *asked))
        commands = again.handle([ev.PodGone(name) for name in gone], NOW + 1)
        bound = {command.pod for command in commands if isinstance(command, Bind)}
        assert bound == {f"new-{n}" for n in range(asked[0])}, fix.text


# -- which board ----------------------------------------------------------------------------------


def test_n1_the_boards_of_the_nodes_are_tried_and_an_assumed_board_is_named() -> None:
    """Three chips are not allowed on 910-x8, which is only assumed: no node has it."""
    labels = {"accelerator-type": "module-910b-8"}
    view = told(node("node-1", labels=labels), node("node-2", labels=labels), pod("new", 3))
    answer = why(view, "new")
    assert answer.outcome == "rejected"
    assert fixes(answer)[0] == "set the nodeSelector accelerator-type to module-910b-8 (board 910b-x8)"
    assert answer.board is not None
    assert answer.board.startswith("board 910-x8: assumed, because the job does not select a board")
    assert "910b-x8 (accelerator-type: module-910b-8)" in answer.board


# -- no false fix --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asked",
    [
        pod_class(8, node_selector=(("zone", "nowhere"),)),
        PodClass(extended=(("example.com/none", 1),)),
        PodClass(cpu_milli=1_000_000),
    ],
)
def test_waiting_is_not_named_where_it_cannot_help(asked: PodClass) -> None:
    view = told(
        node("node-1", cpu_milli=64_000),
        pod("old", 8, on="node-1", holds=range(8)),
        pod("new", asked.chips, cls=asked),
    )
    answer = why(view, "new")
    assert answer.reason is not None
    assert [fix for fix in answer.fixes if fix.kind in ("wait", "job-ended", "chips")] == []
    assert not any("wait" in text or "ringwise why" in text for text in answer.reason.fixes)


def test_waiting_is_named_where_only_that_helps() -> None:
    running = [
        pod(f"old-{number}-{chip}", 1, on=f"node-{number}", holds=[chip])
        for number in range(1, 5)
        for chip in range(8)
    ]
    view = told(*(node(f"node-{number}") for number in range(1, 5)), *running, gang("new", 4, 8))
    kinds = [fix.kind for fix in why(view, "new").fixes]
    assert kinds
    assert set(kinds) <= {"chips", "wait"}


def test_what_is_reserved_for_the_job_is_its_own() -> None:
    scheduler = scheduler_told(
        node("node-1"),
        node("node-2"),
        pod("old", 8, on="node-1", holds=range(8)),
        gang("new", 2, 8),
    )
    scheduler.handle([], NOW + 700_000_000_000)
    view = scheduler.view
    reservation = view.reservations.of("default/new")
    assert reservation is not None
    assert reservation.chip_count == 16
    answer = why(view, "new")
    assert answer.sentence.startswith("1 of 2 pods fits; new-1 ")
    assert all("reserved for new" not in miss.text for miss in answer.misses)


# -- the same in every command ----------------------------------------------------------------------


def test_a_reason_of_a_cycle_is_renewed_with_the_fixes_of_why() -> None:
    view = told(node("node-1"), pod("old", 8, on="node-1", holds=range(8)), pod("new", 8))
    job = view.jobs["default/pod:new"]
    found = reasons_now(view, [job], NOW).of[job.key]
    assert found is not None
    assert list(found.fixes) == [fix.sentence for fix in why(view, "new").fixes]
    assert any("old" in text for text in found.fixes)


def test_jobs_of_one_command_share_a_budget_and_all_have_reasons_as_of_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ringwise.scheduler.explain.fix_search.SHARED_BUDGET", 1500)
    waiting = [pod(f"new-{number}", 8) for number in range(40)]
    view = told(node("node-1"), pod("old", 8, on="node-1", holds=range(8)), *waiting)
    jobs = [job for job in view.jobs.values() if job.reason is not None]
    before = books(view)
    found = reasons_now(view, jobs, NOW)
    assert books(view) == before
    assert 0 < found.not_searched < len(jobs) == 40
    searched = 40 - found.not_searched
    for number, job in enumerate(jobs):
        reason = found.of[job.key]
        assert reason is not None
        assert reason.message == why(view, job.name).sentence
        # The search for the last one may end before it finds anything.
        assert bool(reason.fixes) == (number < searched) or number == searched - 1


def test_no_fix_is_named_that_was_not_tried() -> None:
    """A reason has fixes of its kind; they are in the reference, not in an answer."""
    view = told(node("node-1"), pod("new", 8, annotations={"sp-block": "many"}))
    reason = why(view, "new").reason
    assert reason is not None
    assert reason.kind.fixes
    assert all("would" not in text for text in reason.kind.fixes)
    assert not {general_form(text) for text in reason.kind.fixes} & set(reason.fixes)
    assert problem_text(reason.kind(**reason.details)) == reason.message
