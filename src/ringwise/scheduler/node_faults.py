"""The faults that nodes report now: of themselves, of their switches, of their chips and of their ports."""

from __future__ import annotations

from collections.abc import Iterator

from ringwise.records import dataclass
from ringwise.scheduler.node_states import offered
from ringwise.state.cluster import ClusterState
from ringwise.state.model import DeviceReport
from ringwise.state.node_health import NodeStatus
from ringwise.topology.chips import chip_names, chips_of

NODE, SWITCH, CHIP, NETWORK = "node", "switch", "chip", "network"
NOT_READY, DELETED, UNHEALTHY = "not-ready", "deleted", "UnHealthy"
#: The level of a chip that is reported as unhealthy without a code.
_SEPARATE = "SeparateNPU"
_HEALTHY = ("", "Healthy")


@dataclass(frozen=True, slots=True)
class NodeFault:
    node: str
    #: node, switch (of the node), chip or network (the port of a chip).
    kind: str
    #: Name of the chip; empty for the node and its switches.
    chip: str
    #: Level of a chip's fault, status of a node or of its switches.
    level: str
    code: str = ""

    @property
    def text(self) -> str:
        """`network of Ascend910-3 of node-1: SeparateNPU, code 110001024`"""
        words = f"{self.level}, code {self.code}" if self.code else self.level
        what = {CHIP: f"{self.chip} of", NETWORK: f"network of {self.chip} of", SWITCH: "switches of"}
        return f"{what.get(self.kind, 'node')} {self.node}: {words}"


def node_faults(cluster: ClusterState, number: int) -> tuple[NodeFault, ...]:
    """Those of the node first. Cheap for a healthy node: every report of every node asks."""
    node, name = cluster.nodes[number], cluster.names[number]
    if node is None:
        return (NodeFault(name, NODE, "", DELETED),)
    faults = [] if node.ready else [NodeFault(name, NODE, "", NOT_READY)]
    if number in cluster.node_status:
        faults += _reported(cluster, name, cluster.node_status[number])
    for resource, _ in offered(cluster, number):
        report = cluster.report_of(name, resource)
        if report is not None and (report.faults or report.unhealthy or report.network_unhealthy):
            faults += _of_chips(name, resource, report)
    return tuple(faults)


def _reported(cluster: ClusterState, name: str, status: NodeStatus) -> Iterator[NodeFault]:
    reports = [one for one in cluster.node_reports(name) if one.status not in _HEALTHY]
    for kind in (NODE, SWITCH):
        for report in reports:
            if report.source == kind:
                yield NodeFault(name, kind, "", report.status)
    if not reports and status is NodeStatus.UNHEALTHY:
        # An annotation of the node says so.
        yield NodeFault(name, NODE, "", UNHEALTHY)


def _of_chips(name: str, resource: str, report: DeviceReport) -> Iterator[NodeFault]:
    for kind, bad in ((CHIP, report.unhealthy), (NETWORK, report.network_unhealthy or 0)):
        coded = 0
        for fault in report.faults:
            # An isolated chip is listed without a code, and is not broken.
            if fault.network is (kind == NETWORK) and fault.chip >= 0 and fault.code:
                coded |= 1 << fault.chip
                yield NodeFault(name, kind, chip_names(resource, (fault.chip,)), fault.level, fault.code)
        for chip in chips_of(bad & ~coded):
            yield NodeFault(name, kind, chip_names(resource, (chip,)), _SEPARATE)
