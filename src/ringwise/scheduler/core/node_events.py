"""What events about nodes, their chips and the topology change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ringwise.messages import events as ev
from ringwise.reasons import Trigger
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import ContextUser, Handlers
from ringwise.state.allocation_modes import NodeMode


class NodeEvents(ContextUser):
    def handlers(self) -> Handlers:
        return {
            ev.NodeSeen: self._node_seen,
            ev.NodeGone: self._node_gone,
            ev.ReportSeen: self._report_seen,
            ev.ReportGone: self._report_gone,
            ev.NodeReportSeen: self._node_report_seen,
            ev.NodeReportGone: self._node_report_gone,
            ev.TopologySeen: self._topology_seen,
        }

    def current_events(self) -> Iterator[ev.Event]:
        state, topology = self._state, self._topology
        yield from (ev.NodeSeen(node) for node in state.nodes if node is not None)
        yield from (ev.ReportSeen(report) for table in state.reports.values() for report in table.values())
        yield from map(ev.NodeReportSeen, state.health.reports)
        if topology.switch_topology is not None or topology.topology_problem is not None:
            yield ev.TopologySeen(topology.switch_topology, topology.topology_problem)

    def _node_seen(self, event: ev.NodeSeen, now: int) -> None:
        existed = event.node.name in self._state.node_id
        before = self._sharing(event.node.name)
        self._state.put_node(event.node)
        self._count_shares(event.node.name, before)
        self._notify(event, now)
        self._health_changed(event.node.name, Trigger.NODE_CHANGED if existed else Trigger.NODE_ADDED, now)

    def _node_gone(self, event: ev.NodeGone, now: int) -> None:
        before = self._sharing(event.name)
        self._state.drop_node(event.name)
        self._count_shares(event.name, before)
        self._notify(event, now)
        self._health_changed(event.name, Trigger.NODE_CHANGED, now)

    def _sharing(self, name: str) -> tuple[Mapping[str, int], NodeMode | None]:
        """What decides how shares on the node count: the smallest chip memories, and the mode (V3, V18)."""
        state = self._state
        return state.chip_memories, state.modes.get(state.node_id.get(name, -1))

    def _count_shares(self, name: str, before: tuple[Mapping[str, int], NodeMode | None]) -> None:
        """Count the shares of all pods again if another chip memory or mode decides about them now."""
        if before != self._sharing(name):
            for pod in self._book.outdated():
                self._book.put_pod(pod)

    def _report_seen(self, event: ev.ReportSeen, now: int) -> None:
        before = self._sharing(event.report.node)
        self._state.put_report(event.report)
        self._count_shares(event.report.node, before)
        self._notify(event, now)
        self._health_changed(event.report.node, Trigger.HEALTH_CHANGED, now)

    def _report_gone(self, event: ev.ReportGone, now: int) -> None:
        self._state.drop_report(event.node, event.aggregated)
        self._notify(event, now)
        self._health_changed(event.node, Trigger.HEALTH_CHANGED, now)

    def _node_report_seen(self, event: ev.NodeReportSeen, now: int) -> None:
        if self._state.put_node_report(event.report):
            self._health_changed(event.report.node, Trigger.HEALTH_CHANGED, now)

    def _node_report_gone(self, event: ev.NodeReportGone, now: int) -> None:
        if self._state.drop_node_report(event.node, event.source, event.aggregated):
            self._health_changed(event.node, Trigger.HEALTH_CHANGED, now)

    def _health_changed(self, node: str, trigger: Trigger, now: int) -> None:
        self._notify(ie.NodeChanged(node), now)
        self._cluster_changed(trigger, now)

    def _cluster_changed(self, trigger: Trigger, now: int) -> None:
        self._topology.nodes_changed()
        self._notify(ie.ClusterChanged(), now)
        self._triggers.add(trigger)

    def _topology_seen(self, event: ev.TopologySeen, now: int) -> None:
        self._topology.set_topology(event.topology, event.problem)
        switches = event.topology.switches if event.topology is not None else ()
        self._state.put_switches({server.server_ip: one.ip for one in switches for server in one.servers})
        self._state.changes.the_topology()
        self._book.revalidate()
        self._notify(ie.ClusterChanged(), now)
        self._triggers.add(Trigger.TOPOLOGY_CHANGED)
