"""What events about the objects of the cluster besides pods change in the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ringwise.messages import events as ev
from ringwise.reasons import Trigger
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, Handler, on
from ringwise.state.allocation_modes import NodeMode
from ringwise.state.model import PriorityClass
from ringwise.state.volume_table import drop, put
from ringwise.state.volumes import ClaimReference, PersistentVolume


class NodeEvents(Component):
    """What events about nodes, their chips and the topology change."""

    def current_events(self) -> Iterator[ev.Event]:
        state, topology = self._state, self._topology
        yield from (ev.NodeSeen(node) for node in state.nodes if node is not None)
        yield from (ev.ReportSeen(report) for table in state.reports.values() for report in table.values())
        yield from map(ev.NodeReportSeen, state.health.reports)
        if topology.switch_topology is not None or topology.topology_problem is not None:
            yield ev.TopologySeen(topology.switch_topology, topology.topology_problem)

    @on(ev.NodeSeen)
    def _node_seen(self, event: ev.NodeSeen, now: int) -> None:
        existed = event.node.name in self._state.node_id
        before = self._sharing(event.node.name)
        self._state.put_node(event.node)
        self._count_shares(event.node.name, before)
        self._notify(event, now)
        self._health_changed(event.node.name, Trigger.NODE_CHANGED if existed else Trigger.NODE_ADDED, now)

    @on(ev.NodeGone)
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

    @on(ev.ReportSeen)
    def _report_seen(self, event: ev.ReportSeen, now: int) -> None:
        before = self._sharing(event.report.node)
        self._state.put_report(event.report)
        self._count_shares(event.report.node, before)
        self._notify(event, now)
        self._health_changed(event.report.node, Trigger.HEALTH_CHANGED, now)

    @on(ev.ReportGone)
    def _report_gone(self, event: ev.ReportGone, now: int) -> None:
        self._state.drop_report(event.node, event.aggregated)
        self._notify(event, now)
        self._health_changed(event.node, Trigger.HEALTH_CHANGED, now)

    @on(ev.NodeReportSeen)
    def _node_report_seen(self, event: ev.NodeReportSeen, now: int) -> None:
        if self._state.put_node_report(event.report):
            self._health_changed(event.report.node, Trigger.HEALTH_CHANGED, now)

    @on(ev.NodeReportGone)
    def _node_report_gone(self, event: ev.NodeReportGone, now: int) -> None:
        if self._state.drop_node_report(event.node, event.source, event.aggregated):
            self._health_changed(event.node, Trigger.HEALTH_CHANGED, now)

    def _health_changed(self, node: str, trigger: Trigger, now: int) -> None:
        self._notify(ie.NodeChanged(node), now)
        self._announce_nodes(trigger, now)

    @on(ev.TopologySeen)
    def _topology_seen(self, event: ev.TopologySeen, now: int) -> None:
        self._topology.set_topology(event.topology, event.problem)
        switches = event.topology.switches if event.topology is not None else ()
        self._state.put_switches({server.server_ip: one.ip for one in switches for server in one.servers})
        self._state.changes.the_topology()
        self._book.revalidate()
        self._notify(ie.ClusterChanged(), now)
        self._triggers.add(Trigger.TOPOLOGY_CHANGED)


class QueueEvents(Component):
    """What events about queues, namespaces, quotas, priority classes and the configuration change."""

    def current_events(self) -> Iterator[ev.Event]:
        yield from map(ev.QueueSeen, self._book.queues.values())
        yield from map(ev.NamespaceSeen, self._state.namespaces)
        yield from map(ev.PriorityClassSeen, self._book.priority_classes)
        yield from (ev.QuotaSeen(quota) for table in self._book.quotas.values() for quota in table.values())

    @on(ev.QueueSeen)
    def _queue_seen(self, event: ev.QueueSeen, now: int) -> None:
        self._book.put_queue(event.queue)
        self._notify(event, now)
        self._triggers.add(Trigger.QUEUE_CHANGED)

    @on(ev.QueueGone)
    def _queue_gone(self, event: ev.QueueGone, now: int) -> None:
        self._book.drop_queue(event.name)
        self._notify(event, now)
        self._triggers.add(Trigger.QUEUE_CHANGED)

    @on(ev.NamespaceSeen)
    def _namespace_seen(self, event: ev.NamespaceSeen, now: int) -> None:
        if self._state.namespaces.put(event.namespace):
            self._triggers.add(Trigger.NAMESPACE_CHANGED)
        self._notify(event, now)

    @on(ev.NamespaceGone)
    def _namespace_gone(self, event: ev.NamespaceGone, now: int) -> None:
        self._state.namespaces.drop(event.name)
        self._notify(event, now)

    @on(ev.QuotaSeen)
    def _quota_seen(self, event: ev.QuotaSeen, now: int) -> None:
        if self._book.put_quota(event.quota):
            self._triggers.add(Trigger.QUOTA_CHANGED)

    @on(ev.QuotaGone)
    def _quota_gone(self, event: ev.QuotaGone, now: int) -> None:
        self._book.drop_quota(event.namespace, event.name)
        self._triggers.add(Trigger.QUOTA_CHANGED)

    @on(ev.PriorityClassSeen)
    def _priority_seen(self, event: ev.PriorityClassSeen, now: int) -> None:
        self._put_class(event.priority_class, event.priority_class.name)

    @on(ev.PriorityClassGone)
    def _priority_gone(self, event: ev.PriorityClassGone, now: int) -> None:
        self._put_class(None, event.name)

    def _put_class(self, priority_class: PriorityClass | None, name: str) -> None:
        changed = self._book.put_priority_class(priority_class, name)
        # They may be served first now, or preempt others.
        self._job_queue.activate(*(job.key for job in changed))

    @on(ev.ConfigurationSeen)
    def _configuration_seen(self, event: ev.ConfigurationSeen, now: int) -> None:
        self._configuration.current = event.configuration
        settings = event.configuration.settings
        self._state.prefer_aggregated(settings.use_cluster_info_manager)
        self._state.guarded_annotations = settings.owned_annotations == "guarded"
        self._book.read_users()
        self._state.maintain_free_chips(settings.self_maintain_available_card)
        for name in self._state.node_id:
            # Other reports may count now.
            self._notify(ie.NodeChanged(name), now)
        self._notify(event, now)
        self._book.revalidate()
        self._notify(ie.ClusterChanged(), now)
        self._triggers.add(Trigger.CONFIGURATION_CHANGED)


class VolumeEvents(Component):
    """What events about claims, volumes, their classes, CSI drivers and what these have room for change."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._table = context.state.volumes

        #: Kinds of which nothing but the objects is stored: the events about them, and the table.
        self._plain: tuple[tuple[type[Any], type[Any], dict[str, Any]], ...] = (
            (ev.StorageClassSeen, ev.StorageClassGone, self._table.classes),
            (ev.CsiNodeSeen, ev.CsiNodeGone, self._table.csi_nodes),
            (ev.CsiDriverSeen, ev.CsiDriverGone, self._table.drivers),
        )

    def handlers(self) -> Iterator[tuple[type, Handler]]:
        yield from super().handlers()
        for seen, gone, table in self._plain:
            yield seen, partial(self._seen, table)
            yield gone, partial(self._gone, table)

    def current_events(self) -> Iterator[ev.Event]:
        for seen, _, table in self._plain:
            yield from map(seen, table.values())
        yield from map(ev.StorageCapacitySeen, self._table.capacities.values())
        for volume in self._table.volumes.values():
            claim = self._table.claims.get(self._table.holders.get(volume.name, ""))
            if claim is not None and volume.claim is None:
                # The volume is assigned to this claim, and no other claim may use it.
                reference = ClaimReference(claim.namespace, claim.name, claim.uid)
                yield ev.VolumeSeen(replace(volume, claim=reference))
            else:
                yield ev.VolumeSeen(volume)
        yield from map(ev.ClaimSeen, self._table.claims.values())

    def _seen(self, table: dict[str, Any], event: ev.Event, now: int) -> None:
        if put(table, event.subject):
            self._triggers.add(Trigger.VOLUME_CHANGED)

    def _gone(self, table: dict[str, Any], event: ev.NamedObjectGone, now: int) -> None:
        if drop(table, event.name):
            self._triggers.add(Trigger.VOLUME_CHANGED)

    @on(ev.StorageCapacitySeen)
    def _capacity_seen(self, event: ev.StorageCapacitySeen, now: int) -> None:
        if not self._table.capacities:
            # From now on they count.
            self._triggers.add(Trigger.VOLUME_CHANGED)
        growth = self._table.put_capacity(event.capacity)
        if growth is not None:
            self._notify(ie.StorageGrew(event.capacity.storage_class, growth), now)

    @on(ev.StorageCapacityGone)
    def _capacity_gone(self, event: ev.StorageCapacityGone, now: int) -> None:
        self._table.drop_capacity(f"{event.namespace}/{event.name}")
        if not self._table.capacities:
            # Checking has ended.
            self._triggers.add(Trigger.VOLUME_CHANGED)

    @on(ev.VolumeSeen)
    def _volume_seen(self, event: ev.VolumeSeen, now: int) -> None:
        before = self._table.volumes.get(event.volume.name)
        if self._table.put_volume(event.volume):
            if event.volume.is_free:
                # Only a free volume can help other jobs; a bound one concerns only the pods of its claim.
                self._triggers.add(Trigger.VOLUME_CHANGED)
            self._volume_changed(before, event.volume, now)

    @on(ev.VolumeGone)
    def _volume_gone(self, event: ev.VolumeGone, now: int) -> None:
        before = self._table.volumes.get(event.name)
        self._table.drop_volume(event.name)
        self._volume_changed(before, None, now)

    def _volume_changed(
        self, before: PersistentVolume | None, after: PersistentVolume | None, now: int
    ) -> None:
        both = [volume for volume in (before, after) if volume is not None]
        claims = [volume.claim.key for volume in both if volume.claim is not None]
        claims += [self._table.holders[volume.name] for volume in both if volume.name in self._table.holders]
        for key in dict.fromkeys(claims):
            self._notify(ie.ClaimChanged(key), now)

    @on(ev.ClaimSeen)
    def _claim_seen(self, event: ev.ClaimSeen, now: int) -> None:
        if self._table.put_claim(event.claim):
            self._notify(ie.ClaimChanged(event.claim.key), now)

    @on(ev.ClaimGone)
    def _claim_gone(self, event: ev.ClaimGone, now: int) -> None:
        self._table.drop_claim(event.key)
        self._notify(ie.ClaimChanged(event.key), now)
