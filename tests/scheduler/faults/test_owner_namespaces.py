"""The uid of an owner counts in its namespace only: anyone may write a foreign one into a PodGroup."""

from __future__ import annotations

import json

from ringwise.scheduler.faults.handler import FaultHandler
from ringwise.scheduler.faults.previous_placements import PreviousPlacements
from ringwise.state.model import Owner
from ringwise.state.vcjob import VcJob
from tests.scheduler.faults.fault_rig import deletions
from tests.scheduler.rig import Rig

OWNER = Owner("Job", "train", "uid-a", "batch.volcano.sh/v1alpha1")
LABELS = {"fault-scheduling": "force", "fault-retry-times": "1"}


def victim(nodes: int, pods: int) -> Rig:
    rig = Rig(nodes)
    rig.tell(VcJob("default", "train", uid="uid-a"))
    rig.submit("train", pods=pods, chips=8, labels=LABELS, owner=OWNER)
    rig.run()
    assert len(rig.nodes_of("train")) == pods
    return rig


def intrude(rig: Rig, pods: int) -> None:
    rig.submit("intruder", namespace="other", pods=pods, chips=8, labels=LABELS, owner=OWNER)
    rig.run()


def test_S9_a_group_of_another_namespace_does_not_get_the_held_nodes() -> None:
    rig = victim(4, 3)
    rig.sick("n3", 4)
    assert len(deletions(rig.step())) == 3
    rig.finish(recreate=False)
    rig.step(1)
    intrude(rig, 2)
    assert [rig.pods[f"intruder-{number}"].node for number in range(2)] == [None, None]


def test_a_group_of_another_namespace_uses_up_its_own_retries() -> None:
    rig = victim(6, 2)
    intrude(rig, 1)
    rig.change("intruder-0", phase="Failed", exit_code=1)
    assert list(deletions(rig.step(1))) == ["intruder-0"]
    rig.change("train-0", phase="Failed", exit_code=1)
    assert {"train-0", "train-1"} == deletions(rig.step(1)).keys()
    remaining = json.loads(rig.written("remain-retry-times"))
    assert remaining == {
        "other/intruder": {"UUID": "uid-a", "Times": 0},
        "default/train": {"UUID": "uid-a", "Times": 0},
    }


def test_F1_owners_are_read_with_the_namespace_of_the_job() -> None:
    rig = victim(4, 3)
    rig.change("train-0", phase="Failed", exit_code=1)
    assert len(deletions(rig.step(1))) == 3
    rig.finish(recreate=False)
    rig.step(1)
    other = rig.successor()
    other.tell(VcJob("default", "train", uid="uid-a"))
    other.step(1)
    components = other.machine._components
    faults = components.of(FaultHandler)
    assert list(faults.retries.owners) == ["default/uid-a"]
    assert [handled.owner for handled in faults.jobs.values()] == ["default/uid-a"]
    assert list(components.of(PreviousPlacements)._rescheduling) == ["default/uid-a"]
