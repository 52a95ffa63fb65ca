"""F1: a scheduler that restarts while a job is rescheduled goes on as the old one would, without any pod."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.messages import events as ev
from ringwise.messages.commands import DeletePod, Publish
from ringwise.state.model import DeviceReport, Owner, PodClass
from ringwise.state.vcjob import PodTemplate, Task, VcJob
from ringwise.topology.switches import LeafSwitch, Server, SwitchTopology
from ringwise.wellknown import VOLCANO_SCHEDULER
from tests.scheduler.rig import CHIP, Rig

OWNER = Owner("Job", "train", "uid-of-train")
TEMPLATE = PodTemplate(PodClass(CHIP, 8), scheduler=VOLCANO_SCHEDULER)
VCJOB = VcJob("default", "train", OWNER.uid, (Task("train", 4, 4, TEMPLATE),))
FORCE = {"fault-scheduling": "force"}


def plain() -> Rig:
    rig = Rig(8)
    rig.submit("train", pods=4, chips=8, labels=FORCE, owner=OWNER)
    return rig


def switches() -> Rig:
    """Three switches of four nodes."""
    rig = Rig(nslb_version="2.0")
    leaves: list[LeafSwitch] = []
    for first in (1, 5, 9):
        servers = tuple(Server(f"10.0.0.{first + index}", 0, index) for index in range(4))
        leaves.append(LeafSwitch(f"leaf-{first}", len(leaves), servers))
    for number in range(1, 13):
        rig.node(f"n{number}", internal_ip=f"10.0.0.{number}")
    rig.topology(SwitchTopology(tuple(leaves), 4))
    labels = {**FORCE, "tor-affinity": "large-model-schema"}
    rig.submit("train", pods=6, chips=8, labels=labels, owner=OWNER)
    return rig


def superpods() -> Rig:
    """Two SuperPoDs of six nodes; blocks of two."""
    rig = Rig(super_pod_size=6, reserve_nodes=1)
    for number in range(1, 13):
        rig.node(f"n{number}", chips=16, superpod=0 if number <= 6 else 1)
    notes = {"sp-block": "32", "huawei.com/schedule_policy": "chip2-node16-sp"}
    rig.submit("train", pods=4, chips=16, labels=FORCE, annotations=notes, owner=OWNER)
    return rig


def racks() -> Rig:
    """Two racks of six nodes; blocks of four pods, logical racks of two."""
    rig = Rig()
    for number in range(1, 13):
        rack = 0 if number <= 6 else 1
        rig.node(f"n{number}", superpod=0, rack=rack)
        rig.tell(ev.ReportSeen(DeviceReport(f"n{number}", CHIP, network_unhealthy=0, superpod=0, rack=rack)))
    notes = {"huawei.com/schedule_policy": "chip8-node8-ra64-sp", "sp-block": "32", "ra-block": "16"}
    rig.submit("train", pods=8, chips=8, labels=FORCE, annotations=notes, owner=OWNER)
    return rig


def successor(rig: Rig) -> Rig:
    """Another leader: it knows the objects that are there now, and what the old one wrote."""
    new = Rig()
    new.machine = new_scheduler(rig.machine.view.configuration)
    new.now, new._serial = rig.now, rig._serial
    new.pods, new.groups = dict(rig.pods), dict(rig.groups)
    newest: dict[Any, ev.Event] = {}
    for event in [event for batch, _, _ in rig.history for event in batch] + rig.events:
        match event:
            case ev.NodeSeen():
                newest["node", event.node.name] = event
            case ev.ReportSeen():
                newest["report", event.report.node] = event
            case ev.TopologySeen():
                newest["topology"] = event
    new.tell(*newest.values(), ev.VcJobSeen(VCJOB))
    new.tell(*map(ev.PodGroupSeen, rig.groups.values()), *map(ev.PodSeen, rig.pods.values()))
    new.tell(ev.ReschedulingRead(written(rig), cool_downs=written(rig, "cool-downs.json")))
    return new


def written(rig: Rig, key: str = "rescheduling.json") -> str:
    return next((one.data[key] for one in reversed(rig.published()) if key in one.data), "")


def by_rank(rig: Rig) -> dict[int, str | None]:
    return {
        int(pod.annotations["hccl/rankIndex"]): pod.node for pod in rig.pods.values() if pod.group == "train"
    }


def report_of(rig: Rig, node: str, unhealthy: int) -> DeviceReport:
    cluster = rig.machine.view.cluster
    seen = cluster.nodes[cluster.node_id[node]]
    assert seen is not None
    return DeviceReport(
        node, CHIP, unhealthy=unhealthy, network_unhealthy=0, superpod=seen.superpod, rack=seen.rack
    )


def break_chip(rig: Rig, rank: int) -> str:
    """A chip under this rank breaks, and the whole job is deleted; the node."""
    node = by_rank(rig)[rank] or ""
    rig.tell(ev.ReportSeen(report_of(rig, node, 1)))
    rig.step()
    assert all(pod.deleting for pod in rig.pods.values() if pod.group == "train")
    return node


def take_away(rig: Rig) -> Mapping[str, Any]:
    """The pods of the job end and are not created yet."""
    return {name: rig.pods.pop(name) for name, pod in list(rig.pods.items()) if pod.group == "train"}


def come_back(rig: Rig, pods: Mapping[str, Any]) -> None:
    rig.pods.update(pods)
    for name in pods:
        rig.replacement(name)


def gone_before(rig: Rig) -> tuple[Rig, Mapping[str, Any]]:
    """The old leader saw that they are gone."""
    pods = take_away(rig)
    rig.tell(*(ev.PodGone(pod.uid) for pod in pods.values()))
    rig.step()
    return successor(rig), pods


def gone_between(rig: Rig) -> tuple[Rig, Mapping[str, Any]]:
    """They went while there was no leader."""
    pods = take_away(rig)
    return successor(rig), pods


def still_there(rig: Rig) -> tuple[Rig, Mapping[str, Any]]:
    """They end under the new leader."""
    new = successor(rig)
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
    rig.tell(ev.VcJobSeen(VCJOB))
    rig.run()
    before = by_rank(rig)
    assert None not in before.values()
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
    come_back(new, pods)
    new.run()
    after = by_rank(new)
    assert {rank: after[rank] for rank in before if before[rank] != broken} == {
        rank: node for rank, node in before.items() if node != broken
    }
    assert after[rank] not in (None, broken)


def test_F1_pods_that_went_with_their_job_leave_nothing_behind() -> None:
    rig = switches()
    rig.tell(ev.VcJobSeen(VCJOB))
    rig.run()
    break_chip(rig, 5)
    take_away(rig)
    rig.groups.clear()
    new = successor(rig)
    new.events = [event for event in new.events if not isinstance(event, ev.VcJobSeen)]
    new.step()
    assert len(list(new.machine.view.reservations)) == 0
    assert new.machine.view.rescheduling == 0


def test_F1_the_record_comes_before_the_deletions_of_the_same_turn() -> None:
    rig = plain()
    rig.run()
    rig.sick(str(by_rank(rig)[3]), 1)
    rig.deaf = True
    commands = rig.step()
    kinds = [type(command) for command in commands]
    assert kinds.index(Publish) < kinds.index(DeletePod)


def test_F1_a_deletion_that_failed_is_not_recorded_as_under_way() -> None:
    rig = switches()
    rig.run()
    rig.deaf = True
    rig.sick(str(by_rank(rig)[5]), 1)
    rig.step()
    assert '"leaving":{"train' in written(rig)
    rig.tell(*(ev.EvictFailed(pod.uid) for pod in rig.pods.values()))
    rig.sick(str(by_rank(rig)[5]), 0)
    rig.tell(ev.PodGroupSeen(replace(rig.groups["default/train"], labels={})))
    rig.step()
    assert '"leaving":{"train' not in written(rig)
