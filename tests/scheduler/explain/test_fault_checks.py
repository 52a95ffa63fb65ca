"""Doctor names jobs that wait after a fault, and values that act otherwise than written."""

from __future__ import annotations

from ringwise.messages.job_expansion import pod_group_of
from ringwise.scheduler.explain.doctor import diagnose
from ringwise.scheduler.faults.states import State
from ringwise.state.model import NodeReport
from ringwise.state.vcjob import VcJob
from tests.scheduler.faults.fault_rig import state_of
from tests.scheduler.rig import Rig


def codes(rig: Rig) -> set[tuple[str, str]]:
    found = diagnose(rig.machine.view).findings
    return {(one.code, one.object) for one in found if one.object == "job default/train"}


def running(labels: dict[str, str]) -> Rig:
    rig = Rig(2, grace_over_time=20)
    rig.submit("train", chips=8, labels=labels)
    rig.run()
    return rig


def test_a_value_that_cannot_be_read_is_a_note() -> None:
    rig = running({"fault-scheduling": "grace", "fault-retry-times": "often"})
    assert ("fault-policy", "job default/train") in codes(rig)


def test_a_job_without_retries_left_is_named() -> None:
    rig = running({"fault-scheduling": "force", "fault-retry-times": "1"})
    for _ in range(2):
        rig.change("train-0", phase="Failed", exit_code=1)
        rig.step()
        if rig.pods["train-0"].deleting:
            rig.recreate("train-0")
            rig.change("train-0", exit_code=None)
        rig.run()
    assert ("rescheduling-blocked", "job default/train") in codes(rig)


def test_a_pod_that_does_not_end_is_named() -> None:
    rig = running({"fault-scheduling": "grace"})
    (node,) = rig.nodes_of("train")
    rig.tell(NodeReport(node, "node", "UnHealthy"))
    rig.step()
    assert codes(rig) == set()
    rig.step(21)
    assert ("pod-does-not-end", "job default/train") in codes(rig)
    # Nothing waits for it any more; that it is there is still told.
    rig.step(100)
    assert ("pod-does-not-end", "job default/train") in codes(rig)
    assert state_of(rig) is State.WAITING
    rig.gone("train-0")
    rig.step()
    assert codes(rig) == set()


def test_a_job_is_named_as_its_owner_named_it() -> None:
    """The PodGroup of a vcjob has the uid in its name; every other finding, and why, have the vcjob's."""
    vcjob = VcJob(
        "default", "train", "uid-1", labels={"fault-scheduling": "grace", "fault-retry-times": "often"}
    )
    rig = Rig(2)
    rig.tell(vcjob, pod_group_of(vcjob))
    rig.step()
    assert codes(rig) >= {("fault-policy", "job default/train")}
