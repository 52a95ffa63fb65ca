"""A job that runs, faults that hit it, and the next leader: for tests of fault handling."""

from __future__ import annotations

from typing import Any

from ringwise.messages import events as ev
from ringwise.messages.commands import Command, DeletePod
from ringwise.scheduler.faults.states import State
from ringwise.state.model import DeviceReport, NodeReport, ReportedFault
from tests.scheduler.rig import CHIP, Rig

POD_LEVEL = {"fault-scheduling": "force", "pod-rescheduling": "on"}


def running(labels: dict[str, str], *, nodes: int = 6, pods: int = 4, **more: Any) -> Rig:
    rig = Rig(nodes)
    rig.submit("train", pods=pods, chips=8, labels=labels, **more)
    rig.run()
    assert len(rig.nodes_of("train")) == pods
    return rig


def state_of(rig: Rig) -> State | None:
    handled = rig.machine._faults.jobs.get("default/train")
    return None if handled is None else handled.state


def pod_on(rig: Rig, node: str) -> str:
    return next(name for name, pod in rig.pods.items() if pod.node == node)


def finish(rig: Rig, *, recreate: bool = True) -> None:
    """Terminating pods end, and their owner creates them again."""
    for name in [name for name, pod in rig.pods.items() if pod.deleting]:
        rig.tell(ev.PodGone(rig.pods[name].uid))
        if recreate:
            rig.replacement(name)
        else:
            del rig.pods[name]


def deletions(commands: list[Command]) -> dict[str, int | None]:
    return {one.pod: one.grace for one in commands if isinstance(one, DeletePod)}


def sick_chip(rig: Rig, node: str) -> None:
    rig.sick(node, 0b100)


def node_down(rig: Rig, node: str) -> None:
    rig.node(node, ready=False)


def node_removed(rig: Rig, node: str) -> None:
    rig.tell(ev.NodeGone(node))


def node_unhealthy(rig: Rig, node: str) -> None:
    rig.tell(ev.NodeReportSeen(NodeReport(node, "node", "UnHealthy")))


def switch_unhealthy(rig: Rig, node: str) -> None:
    rig.tell(ev.NodeReportSeen(NodeReport(node, "switch", "UnHealthy", aggregated=True)))


def chips_vanish(rig: Rig, node: str) -> None:
    rig.node(node, chips=4)


def separated(rig: Rig, node: str) -> None:
    rig.change(pod_on(rig, node), labels={**POD_LEVEL, "fault-type": "Separate"})


def sub_healthy(rig: Rig, node: str) -> None:
    fault = ReportedFault(2, "1", "SubHealthFault")
    rig.tell(ev.ReportSeen(DeviceReport(node, CHIP, network_unhealthy=0, faults=(fault,), aggregated=True)))


def published(rig: Rig, name: str) -> dict[str, str]:
    found = [one for one in rig.published() if one.name == name]
    return dict(found[-1].data)


def successor(rig: Rig) -> Rig:
    """Another leader that reads the objects and what the first one wrote."""
    other = Rig()
    other.now, other.pods, other.groups = rig.now, dict(rig.pods), dict(rig.groups)
    other._serial = rig._serial  # a uid is never used again
    nodes = rig.machine._state.nodes
    other.tell(*[ev.NodeSeen(node) for node in nodes if node is not None])
    reports = [one for found in rig.machine._state.reports.values() for one in found.values()]
    other.tell(*map(ev.ReportSeen, reports))
    other.tell(*map(ev.PodGroupSeen, rig.groups.values()), *map(ev.PodSeen, rig.pods.values()))
    other.tell(ev.ReschedulingRead(published(rig, "ringwise-rescheduling")["rescheduling.json"]))
    return other


def pod_node(rig: Rig, name: str) -> str:
    node = rig.pods[name].node
    assert node is not None
    return node
