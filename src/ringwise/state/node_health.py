"""The health of nodes beside their chips, as NodeD and the device plugins report it."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping

from ringwise.state.model import NodeReport
from ringwise.state.nested import discard


class NodeStatus(enum.IntEnum):
    """Worst last."""

    HEALTHY = 0
    SUB_HEALTHY = 1
    #: Its pods stay; it takes no new ones.
    PRE_SEPARATE = 2
    UNHEALTHY = 3


#: The spelling in ConfigMaps; anything else counts as healthy, as Huawei's plugin reads it.
STATUSES = {
    "Healthy": NodeStatus.HEALTHY,
    "SubHealthy": NodeStatus.SUB_HEALTHY,
    "PreSeparate": NodeStatus.PRE_SEPARATE,
    "UnHealthy": NodeStatus.UNHEALTHY,
}


#: The source of reports of a node's own switches.
SWITCH = "switch"


def unhealthy_because(reports: Iterable[NodeReport]) -> str:
    """Return the cause to append to the message that a node is unhealthy, if only its switches are."""
    sources = {one.source for one in reports if STATUSES.get(one.status) is NodeStatus.UNHEALTHY}
    return ", because of its switches" if sources == {SWITCH} else ""


#: Level of fault codes of chips that jobs react to by their own strategy.
SUB_HEALTH_LEVEL = "SubHealthFault"


class NodeHealth:
    """By node; of one source the aggregated report counts where it is to be used, as with chips (N7)."""

    def __init__(self) -> None:
        self._reports: dict[str, dict[tuple[str, bool], NodeReport]] = {}
        self.use_aggregated = True

    @property
    def reports(self) -> list[NodeReport]:
        return [report for of_node in self._reports.values() for report in of_node.values()]

    def of(self, node: str) -> list[NodeReport]:
        """The reports of a node that count."""
        reports = self._reports.get(node, {})
        return [
            report
            for (source, aggregated), report in reports.items()
            if (self.use_aggregated if aggregated else not self._is_beaten(reports, source))
        ]

    def put(self, report: NodeReport) -> bool:
        """Whether the status of the node changed."""
        before = self.status(report.node)
        self._reports.setdefault(report.node, {})[report.source, report.aggregated] = report
        return self.status(report.node) is not before

    def drop(self, node: str, source: str, aggregated: bool) -> bool:
        """The same for a report that is gone: NodeD's exists only while the node has a fault."""
        before = self.status(node)
        discard(self._reports, node, (source, aggregated))
        return self.status(node) is not before

    def status(self, node: str) -> NodeStatus:
        if node not in self._reports:
            return NodeStatus.HEALTHY
        statuses = (STATUSES.get(report.status, NodeStatus.HEALTHY) for report in self.of(node))
        return max(statuses, default=NodeStatus.HEALTHY)

    def _is_beaten(self, reports: Mapping[tuple[str, bool], NodeReport], source: str) -> bool:
        return self.use_aggregated and (source, True) in reports
