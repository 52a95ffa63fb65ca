"""When a job starts: a time only where it is known, else not before, or unknown and why."""

from __future__ import annotations

from typing import Any

import pytest

from ringwise.durations import time_text
from ringwise.messages import events as ev
from ringwise.messages.job_expansion import pod_group_of
from ringwise.scheduler.explain.forecast import MAX_ENDS, MAX_FIRST, ExpectedStart, StartKind
from ringwise.scheduler.explain.why import explain, find_job
from ringwise.scheduler.view import SchedulerView
from ringwise.state.model import Pod, PodClass, Queue
from ringwise.state.vcjob import PodTemplate, Task, VcJob
from ringwise.views.explain import explanation_document
from ringwise.views.version1 import as_version_1
from tests.fingerprint import fingerprint, state_of
from tests.scheduler.clusters import CHIP, NOW, gang, node, pod, told
from tests.tools.schemas import check_document

SECOND = 1_000_000_000


def runs(name: str, on: str, seconds: int | None, **more: Any) -> ev.PodSeen:
    """A job with all chips of a node since 10 s, which says that it takes so long."""
    lasting = {} if seconds is None else {"ringwise.io/expected-duration": f"{seconds}s"}
    chips = more.pop("chips", range(8))
    created = NOW - 10 * SECOND
    return pod(name, len(chips), on=on, holds=chips, created=created, annotations=lasting, **more)


def expected(view: SchedulerView, name: str) -> ExpectedStart:
    """And every view says the same."""
    before = fingerprint(state_of(view))
    answer = explain(view, find_job(view, name), NOW)
    assert fingerprint(state_of(view)) == before
    assert answer.start is not None
    document = explanation_document(answer, NOW)
    assert check_document(document) == "ringwise.io/why/v2"
    start = document["expected_start"]
    assert start is not None
    assert start["text"] == answer.start.text(NOW)
    old = as_version_1(document)
    assert check_document(old) == "ringwise.io/why/v1"
    # Version 1 has nothing but one time.
    one_time = answer.start.latest is not None and answer.start.earliest == answer.start.latest
    assert (old["expected_start"] is not None) is (one_time and bool(answer.start.after))
    return answer.start


def test_a_time_follows_from_the_ends_of_running_jobs() -> None:
    view = told(node("n1"), runs("old", "n1", 60), gang("first", 1, 8, created=1))
    start = expected(view, "first")
    time = NOW + 50 * SECOND
    assert start == ExpectedStart(StartKind.KNOWN, time, time, ("default/old",))
    assert start.text(NOW) == f"{time_text(time)}, in 50 s, after the end of default/old"


def test_behind_a_job_that_does_not_say_how_long_it_will_run_there_is_only_a_bound() -> None:
    view = told(
        node("n1"), runs("old", "n1", 60), gang("first", 1, 8, created=1), gang("second", 1, 8, created=2)
    )
    start = expected(view, "second")
    assert (start.kind, start.earliest, start.latest) == (StartKind.NOT_BEFORE, NOW + 50 * SECOND, None)
    assert start.text(NOW).startswith(f"not before {time_text(NOW + 50 * SECOND)}, in 50 s: ")


def test_jobs_whose_pods_do_not_exist_yet_are_in_the_queue() -> None:
    """The pods of a vcjob are created when it is admitted: both were the first of one, with the same time."""
    waiting: list[ev.Event] = []
    for number, name in enumerate(("first", "second"), 1):
        tasks = (Task("worker", 1, 1, PodTemplate(PodClass(CHIP, 8))),)
        vcjob = VcJob("default", name, name, tasks, min_available=1, created=number)
        waiting += [ev.VcJobSeen(vcjob), ev.PodGroupSeen(pod_group_of(vcjob))]
    view = told(node("n1"), runs("old", "n1", 60), waiting)
    assert (expected(view, "first").kind, expected(view, "second").kind) == (
        StartKind.KNOWN,
        StartKind.NOT_BEFORE,
    )
    answer = explain(view, find_job(view, "second"), NOW)
    assert (answer.position, answer.waiting, answer.ahead) == (2, 2, ("default/first",))
    ended = next(cure for cure in answer.cures if cure.text == "if job default/old ended")
    assert ended.contested == 1


def test_many_jobs_ahead_leave_no_time() -> None:
    """At most 16 were counted, and a time was printed all the same."""
    ahead = MAX_FIRST + 1
    view = told(
        *(node(f"n{n}") for n in range(MAX_FIRST + 1)),
        *(runs(f"old-{n}", f"n{n}", 60 + n) for n in range(MAX_FIRST + 1)),
        *(gang(f"wait-{n}", 1, 8, created=n + 1) for n in range(ahead)),
        gang("last", 1, 8, created=1000),
    )
    start = expected(view, "last")
    assert (start.kind, start.earliest) == (StartKind.NOT_BEFORE, NOW + 50 * SECOND)
    assert start.why == f"{ahead} jobs are ahead of it"
    assert expected(view, "wait-0").kind is StartKind.KNOWN


def test_jobs_of_other_queues_may_be_first() -> None:
    view = told(
        node("n1"),
        ev.QueueSeen(Queue("other")),
        runs("old", "n1", 60),
        gang("here", 1, 8, created=1),
        gang("there", 1, 8, created=2, queue="other"),
    )
    start = expected(view, "here")
    assert (start.kind, start.why) == (StartKind.NOT_BEFORE, "1 job of other queues may take the chips first")
    # With room for both it does not matter.
    view = told(
        node("n1"),
        node("n2"),
        ev.QueueSeen(Queue("other")),
        runs("one", "n1", 60),
        runs("two", "n2", 90),
        gang("here", 1, 8, created=1),
        gang("there", 1, 8, created=2, queue="other"),
    )
    start = expected(view, "here")
    assert (start.kind, start.latest) == (StartKind.KNOWN, NOW + 80 * SECOND)


@pytest.mark.parametrize(
    ("seconds", "why"),
    [
        (None, "no running job says how long it runs"),
        # It runs since 10 s: when it ends is not known any more.
        (5, "no running job says how long it runs"),
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
    assert start.text(NOW).startswith(f"at the latest {time_text(NOW + 50 * SECOND)}, in 50 s")


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
    few = PodClass(CHIP, 8, node_selector=(("kubernetes.io/hostname", "n2"),))
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
        f"between {time_text(NOW + 50 * SECOND)} and {time_text(NOW + 80 * SECOND)}, in 50 s to 1 min 20 s, "
        "after the end of default/one, default/two"
    )


def test_no_end_that_was_looked_at_is_a_bound() -> None:
    nodes = MAX_ENDS + 2
    view = told(
        *(node(f"n{n}") for n in range(nodes)),
        *(runs(f"old-{n}", f"n{n}", 60 + n) for n in range(nodes)),
        gang("new", nodes, 8),
    )
    start = expected(view, "new")
    assert (start.kind, start.earliest) == (StartKind.NOT_BEFORE, NOW + (50 + MAX_ENDS - 1) * SECOND)


def test_a_refused_job_has_no_start_and_a_gated_one_an_unknown_start() -> None:
    gated = ev.PodSeen(Pod("g", "default", "g", PodClass(CHIP, 8), phase="Pending", gated=True))
    view = told(node("n1"), runs("old", "n1", 60), pod("three", 3), gated)
    assert explain(view, find_job(view, "three"), NOW).start is None
    assert expected(view, "g").why == "its pods are gated"
