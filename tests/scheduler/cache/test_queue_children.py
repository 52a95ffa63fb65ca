"""Only queues without queues below them take jobs, whatever plugins are in use."""

from __future__ import annotations

from ringwise.messages.events import QueueGone
from tests.scheduler.rig import PLAIN, Rig


def test_a_job_of_a_parent_waits_with_the_leaves_and_starts_when_it_is_a_leaf() -> None:
    rig = Rig(1, actions=PLAIN)
    for name, parent in (("dept", "root"), ("team", "dept"), ("deep", "team"), ("side", "dept")):
        rig.queue(name, parent=parent)
    rig.submit("job", chips=2, queue="dept")
    rig.run()
    reason = rig.machine.view.jobs["default/job"].reason
    assert reason is not None
    assert reason.code == "queue-not-a-leaf"
    assert "queue dept has child queues (side, team)" in reason.message
    assert reason.fixes == ("use one of the queues deep, side",)
    assert rig.groups["default/job"].phase in ("", "Pending")
    rig.queue("side", parent="root")
    rig.queue("team", parent="root")
    rig.run()
    assert rig.groups["default/job"].phase == "Running"


def test_without_enqueue_too_and_jobs_that_run_stay() -> None:
    rig = Rig(1, actions=("allocate",))
    rig.queue("dept", parent="root")
    rig.submit("runs", chips=2, queue="dept")
    rig.run()
    rig.queue("team", parent="dept")
    rig.submit("waits", chips=2, queue="dept")
    rig.run()
    jobs = rig.machine.view.jobs
    assert jobs["default/runs"].reason is None
    waits = jobs["default/waits"].reason
    assert waits is not None
    assert waits.code == "queue-not-a-leaf"
    assert [pod.node for pod in rig.pods.values()].count(None) == 1


def test_the_root_takes_no_jobs() -> None:
    rig = Rig(1, actions=PLAIN)
    rig.queue("root")
    rig.submit("job", chips=2, queue="root")
    rig.run()
    reason = rig.machine.view.jobs["default/job"].reason
    assert reason is not None
    assert (reason.code, reason.fixes) == ("queue-not-a-leaf", ("use one of the queues default",))


def test_many_queues_are_not_all_named() -> None:
    rig = Rig(1, actions=PLAIN)
    for number in range(13):
        rig.queue(f"q{number:02}", parent="dept")
    rig.queue("dept", parent="root")
    rig.submit("job", chips=2, queue="dept")
    rig.run()
    reason = rig.machine.view.jobs["default/job"].reason
    assert reason is not None
    assert reason.message.endswith("q08, q09, 3 more); jobs run only in leaf queues")


def test_circles_end() -> None:
    rig = Rig(1, actions=PLAIN)
    for name, parent in (("a", "b"), ("b", "a"), ("own", "own")):
        rig.queue(name, parent=parent)
    rig.submit("circle", chips=2, queue="a")
    rig.submit("own", chips=2, queue="own")
    rig.run()
    jobs = rig.machine.view.jobs
    reason = jobs["default/circle"].reason
    assert reason is not None
    assert (reason.code, reason.details["leaves"]) == ("queue-not-a-leaf", [])
    assert jobs["default/own"].reason is None or jobs["default/own"].reason.code != "queue-not-a-leaf"
    rig.tell(QueueGone("b"))
    rig.run()
    reason = jobs["default/circle"].reason
    assert reason is None or reason.code != "queue-not-a-leaf"
