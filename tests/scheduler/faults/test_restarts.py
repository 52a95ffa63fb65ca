"""F1: a scheduler that restarts while a job is rescheduled goes on as the old one would, without any pod."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ringwise.messages import events as ev
from ringwise.messages.commands import DeletePod, Publish
from ringwise.scheduler.faults.previous_placements import PreviousPlacements
from ringwise.state.model import Owner
from ringwise.state.vcjob import PodTemplate, Task, VcJob
from ringwise.wellknown import VOLCANO_SCHEDULER
from tests.builders.values import pod_class
from tests.scheduler.rig import Rig

OWNER = Owner("Job", "train", "uid-of-train")
TEMPLATE = PodTemplate(pod_class(8), scheduler=VOLCANO_SCHEDULER)
VCJOB = VcJob("default", "train", OWNER.uid, (Task("train", 4, 4, TEMPLATE),))
FORCE = {"fault-scheduling": "force"}


def plain() -> Rig:
    rig = Rig(8)
    rig.submit("train", pods=4, chips=8, labels=FORCE, owner=OWNER)
    return rig


def switches() -> Rig:
    """Three switches of four nodes."""
    rig = Rig(nslb_version="2.0")
    rig.switches(3, 4)
    labels = {**FORCE, "tor-affinity": "large-model-schema"}
    rig.submit("train", pods=6, chips=8, labels=labels, owner=OWNER)
    return rig


def superpods() -> Rig:
    """Two SuperPoDs of six nodes; blocks of two."""
    rig = Rig(super_pod_size=6, reserve_nodes=1)
    rig.superpods(2, 6)
    notes = {"sp-block": "32", "huawei.com/schedule_policy": "chip2-node16-sp"}
    rig.submit("train", pods=4, chips=16, labels=FORCE, annotations=notes, owner=OWNER)
    return rig


def racks() -> Rig:
    """Two racks of six nodes; blocks of four pods, logical racks of two."""
    rig = Rig()
    rig.racks(2, 6)
    notes = {"huawei.com/schedule_policy": "chip8-node8-ra64-sp", "sp-block": "32", "ra-block": "16"}
    rig.submit("train", pods=8, chips=8, labels=FORCE, annotations=notes, owner=OWNER)
    return rig


def break_chip(rig: Rig, rank: int) -> str:
    """A chip under this rank breaks, and the whole job is deleted; the node."""
    node = rig.by_rank()[rank]
    rig.sick(node, 1)
    rig.step()
    assert all(pod.deleting for pod in rig.pods.values() if pod.group == "train")
    return node


def take_away(rig: Rig) -> Mapping[str, Any]:
    """The pods of the job end and are not created yet."""
    return {name: rig.pods.pop(name) for name, pod in list(rig.pods.items()) if pod.group == "train"}


def gone_before(rig: Rig) -> tuple[Rig, Mapping[str, Any]]:
    """The old leader saw that they are gone."""
    pods = take_away(rig)
    rig.tell(*(ev.PodGone(pod.uid) for pod in pods.values()))
    rig.step()
    return rig.successor(), pods


def gone_between(rig: Rig) -> tuple[Rig, Mapping[str, Any]]:
    """They went while there was no leader."""
    pods = take_away(rig)
    return rig.successor(), pods


def still_there(rig: Rig) -> tuple[Rig, Mapping[str, Any]]:
    """They end under the new leader."""
    new = rig.successor()
    new.step()
    pods = take_away(new)
    new.tell(*(ev.PodGone(pod.uid) for pod in pods.values()))
    new.step()
    return new, pods


@pytest.mark.parametrize("when", [gone_before, gone_between, still_there])
@pytest.mark.parametrize("make", [plain, switches, superpods, racks])
def test_F1_S9_P7_R3_healthy_ranks_return_after_a_restart_without_any_pod(
    make: Callable[[], Rig], when: Callable[[Rig], tuple[Rig, Mapping[str, Any]]]
) -> None:
    rig = make()
    rig.tell(VCJOB)
    rig.run()
    before = rig.by_rank()
    rank = max(before)
    broken = break_chip(rig, rank)
    new, pods = when(rig)
    new.run()
    # Others come while the job has no pods: its healthy nodes are held.
    for number in range(12):
        new.submit(f"other{number}", chips=8)
    new.run()
    healthy = set(before.values()) - {broken}
    assert not healthy & {pod.node for pod in new.pods.values()}
    for number in range(12):
        new.end(f"other{number}")
    new.run()
    new.pods.update(pods)
    for name in pods:
        new.replacement(name)
    new.run()
    after = new.by_rank()
    assert {rank: after[rank] for rank in before if before[rank] != broken} == {
        rank: node for rank, node in before.items() if node != broken
    }
    assert after[rank] != broken


def test_F1_pods_that_went_with_their_job_leave_nothing_behind() -> None:
    rig = switches()
    rig.tell(VCJOB)
    rig.run()
    break_chip(rig, 5)
    take_away(rig)
    rig.groups.clear()
    new = rig.successor()
    new.events = [event for event in new.events if not isinstance(event, ev.VcJobSeen)]
    new.step()
    assert len(list(new.machine.view.reservations)) == 0
    assert new.machine._components.of(PreviousPlacements).rescheduling == 0


def test_F1_the_record_comes_before_the_deletions_of_the_same_turn() -> None:
    rig = plain()
    rig.run()
    rig.sick(rig.by_rank()[3], 1)
    rig.deaf = True
    commands = rig.step()
    kinds = [type(command) for command in commands]
    assert kinds.index(Publish) < kinds.index(DeletePod)


def test_F1_a_deletion_that_failed_is_not_recorded_as_under_way() -> None:
    rig = switches()
    rig.run()
    rig.deaf = True
    rig.sick(rig.by_rank()[5], 1)
    rig.step()
    assert rig.entries("leaving-pods")
    rig.tell(*(ev.EvictFailed(pod.uid) for pod in rig.pods.values()))
    rig.sick(rig.by_rank()[5], 0)
    rig.change_group("train", labels={})
    rig.step()
    assert rig.entries("leaving-pods") == {}
