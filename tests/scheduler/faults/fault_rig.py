"""A job that runs, faults that hit it, and the next leader: for tests of fault handling."""

from __future__ import annotations

from typing import Any

from ringwise.messages import events as ev
from ringwise.messages.commands import Command, DeletePod
from ringwise.scheduler.faults.handler import FaultHandler
from ringwise.scheduler.faults.states import State
from ringwise.state.model import NodeReport, ReportedFault
from tests.builders.values import report
from tests.scheduler.rig import Rig

POD_LEVEL = {"fault-scheduling": "force", "pod-rescheduling": "on"}


def running(labels: dict[str, str], *, nodes: int = 6, pods: int = 4, **more: Any) -> Rig:
    rig = Rig(nodes)
    rig.submit("train", pods=pods, chips=8, labels=labels, **more)
    rig.run()
    assert len(rig.nodes_of("train")) == pods
    return rig


def state_of(rig: Rig) -> State | None:
    handled = rig.machine._components.of(FaultHandler).jobs.get("default/train")
    return None if handled is None else handled.state


def deletions(commands: list[Command]) -> dict[str, int | None]:
    return {one.pod: one.grace for one in commands if isinstance(one, DeletePod)}


def sick_chip(rig: Rig, node: str) -> None:
    rig.sick(node, 0b100)


def node_down(rig: Rig, node: str) -> None:
    rig.node(node, ready=False)


def node_removed(rig: Rig, node: str) -> None:
    rig.tell(ev.NodeGone(node))


def node_unhealthy(rig: Rig, node: str) -> None:
    rig.tell(NodeReport(node, "node", "UnHealthy"))


def switch_unhealthy(rig: Rig, node: str) -> None:
    rig.tell(NodeReport(node, "switch", "UnHealthy", aggregated=True))


def chips_vanish(rig: Rig, node: str) -> None:
    rig.node(node, chips=4)


def separated(rig: Rig, node: str) -> None:
    rig.change(rig.pod_on(node), labels={**POD_LEVEL, "fault-type": "Separate"})


def sub_healthy(rig: Rig, node: str) -> None:
    fault = ReportedFault(2, "1", "SubHealthFault")
    rig.tell(report(node, faults=(fault,), aggregated=True))
