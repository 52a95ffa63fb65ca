"""The state of the cluster: nodes, pods, and which pod holds which chips (rules N6, N7).

There are two kinds of changes. *Facts* (a node, a pod, a report was observed) come from
outside, between cycles. *Decisions* (a pod is placed or released) come from a cycle
and are written to a log, so that a gang that does not fit is rolled back completely.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.state.allocation_modes import NO_CHIPS, NodeMode, mode_of
from ringwise.state.changes import Changes, RecentChanges
from ringwise.state.chip_amounts import ChipAmounts, amounts_on, counted_chips, is_settled
from ringwise.state.fleet import HOSTS, Fleet, HostRule
from ringwise.state.hyper_nodes import CompileExpressions, Forest, HyperNodes
from ringwise.state.index import Scorer, View
from ringwise.state.loads import NO_LOAD, Load, ReservedLoad, ReservedLoads, load_of
from ringwise.state.model import (
    DYNAMIC,
    SOFT,
    STATIC,
    WHOLE,
    DeviceReport,
    Isolation,
    Node,
    NodeReport,
    NodeReservations,
    Pod,
    PodClass,
)
from ringwise.state.namespaces import Namespaces
from ringwise.state.nested import discard
from ringwise.state.node_addresses import NodeAddresses
from ringwise.state.node_health import STATUSES, SUB_HEALTH_LEVEL, NodeHealth, NodeStatus
from ringwise.state.node_labels import NodeLabels
from ringwise.state.node_shapes import NodeClass, NodeShape, ShapeTable, add_extended, label_keys
from ringwise.state.node_windows import (
    IsolationTable,
    NodeReservationTable,
    NodeWindow,
    WindowSets,
    whole_now,
    windows_of,
)
from ringwise.state.part_requests import PartBinding, binding_of, requested
from ringwise.state.ranges import out_of_range
from ringwise.state.reasons import NODE_NOT_READY, OTHER_MODE
from ringwise.state.volume_table import ClaimChoice, VolumeTable
from ringwise.topology.chips import chip_names, chips_of, mask_of
from ringwise.topology.natural import natural_key
from ringwise.topology.policy import is_chip_resource, is_part_of_a_chip
from ringwise.wellknown import NODE_HEALTHY_STATUS

#: Shapes that no node has and labels that no pod selects, which may be kept a while.
_SPARE_SHAPES, _SPARE_LABELS = 64, 64
#: A label with more values does not take part in classes, nor do labels with more combinations of values.
_MAX_LABEL_VALUES, _MAX_LABEL_COMBINATIONS = 64, 256
#: Fleets of resources that nothing offers and no pod has, likewise.
_SPARE_FLEETS = 32


@dataclass(slots=True)
class PodRecord:
    """A pod with its node and its chips."""

    pod: Pod
    node: int = -1
    chips: int = 0
    #: True between a decision and the fact that confirms it.
    assumed: bool = False
    #: Chips that it may have besides, for its device plugin has no record of its mount (N8).
    doubtful: int = 0
    #: What its claims without a volume get here.
    volumes: tuple[ClaimChoice, ...] = ()
    #: It has its node, and is bound when the claims of its gang are.
    reserved: bool = False
    #: What it was bound with, of a share or a vNPU; and whether its device plugin has served it.
    binding: PartBinding | None = None
    settled: bool = False
    #: V4: the chips on which its share or vNPU counts; and of which resources it holds them entirely, because
    #: its node had another allocation mode before.
    part_chips: int = 0
    entire: tuple[str, ...] = ()


class NodePosition(NamedTuple):
    superpod: int | None
    server_index: int | None
    rack: int | None
    #: Whether the node offers chips.
    offers: bool


class _Decision(NamedTuple):
    """A pod, and the node, chips and flag it had before the decision. Node -1: it had none."""

    uid: str
    node: int = -1
    chips: int = 0
    assumed: bool = False
    #: The keys of the tables that name it, in their order.
    orders: tuple[tuple[Any, ...], ...] = ()
    volumes: tuple[ClaimChoice, ...] = ()
    reserved: bool = False
    binding: PartBinding | None = None


class ChipInUse(Exception):
    """A decision assigned a chip that is held already (N6): a defect, never an outcome."""


class ClusterState:
    def __init__(
        self, *, self_maintain: bool = True, compile_expressions: CompileExpressions | None = None
    ) -> None:
        self.names: list[str] = []
        #: The sort keys of the names.
        self._natural: list[tuple[object, ...]] = []
        #: Ids of deleted nodes. One without pods and reservations is given to the next new node.
        self._deleted: dict[int, None] = {}
        #: Labels that always take part in classes; those that selectors of pods name, and how many of them
        #: may be kept before they are counted again.
        self._always_watched: frozenset[str] = frozenset()
        self._selected_labels: set[str] = set()
        self._most_selected = _SPARE_LABELS
        self._most_fleets = _SPARE_FLEETS
        self.fleets: dict[str, Fleet] = {}
        self.pods: dict[str, PodRecord] = {}
        #: Decisions of the open transactions.
        self._log: list[_Decision] = []
        self.open_marks = 0
        self.self_maintain = self_maintain
        self.nodes: list[Node | None] = []
        self.labels = NodeLabels(self.nodes)
        #: The version of the labels for which those that take part in classes were chosen.
        self._watched_version = 0
        self.node_id: dict[str, int] = {}
        #: Live pods that may hold any chips of their node, for they cannot be read: node -> uid -> key (N7).
        self.unreadable_pods: dict[int, dict[str, str]] = {}
        #: What operators isolated and reserved: all entries; by number nodes that are isolated as a whole,
        #: and nodes that are kept from jobs at some time.
        self._isolations = IsolationTable()
        #: By name, of isolations whose target does not exist: what is missing.
        self.isolation_problems: dict[str, str] = {}
        self.isolated_nodes: dict[int, Isolation] = {}
        #: Kinds of custom resources that the API server does not serve.
        self.not_served: set[str] = set()
        #: Those that are in force, also of nodes that do not exist, and these by node.
        self.node_reservations = NodeReservations()
        self._reservation_table = NodeReservationTable()
        self.node_windows: dict[int, tuple[NodeWindow, ...]] = {}
        self._window_sets: WindowSets | None = None
        #: What is reported about nodes beside their chips; by number what is not healthy, and why jobs that
        #: avoid sub-healthy nodes avoid it.
        self.health = NodeHealth()
        self.addresses = NodeAddresses()
        self.node_status: dict[int, NodeStatus] = {}
        self.sub_healthy: dict[int, str] = {}
        #: Allocation modes of nodes that exist; nodes with soft shares or vNPUs by mode; and why nodes take
        #: no pods with whole chips whatever is free.
        self.modes: dict[int, NodeMode] = {}
        self.nodes_in_mode: dict[str, dict[int, None]] = {SOFT: {}, STATIC: {}, DYNAMIC: {}}
        self.shared_nodes: dict[int, Reason] = {}
        self._amounts: dict[int, ChipAmounts] = {}
        self._chip_memories: Mapping[str, int] | None = None
        #: V16: chips on which a vNPU could not be created: node -> (chip, template or "*") -> when, in ns.
        self.failed_vnpus: dict[str, dict[tuple[int, str], int]] = {}
        self.fleets[HOSTS] = self._new_fleet(HOSTS)
        self.pods_on: list[dict[str, None]] = []
        #: Placed pods with anti-affinity terms: few, and every new pod is checked against them.
        self.anti_affinity_pods: dict[str, None] = {}
        self.namespaces = Namespaces()
        self.hyper_nodes = HyperNodes(compile_expressions)
        self.volumes = VolumeTable()
        self.anti_affinity_changes: RecentChanges[str] = RecentChanges()
        #: Pods that were placed or removed, or whose labels changed while they were placed.
        self.placed_changes: RecentChanges[str] = RecentChanges()
        #: Ids of nodes of which anything changed, what is used on them first of all.
        self.node_changes: RecentChanges[int] = RecentChanges()
        self.shapes = ShapeTable()
        #: cpu, memory, pods and other resources that are reserved for jobs; they count as used.
        self._reserved_loads = ReservedLoads()
        self.reports: dict[tuple[str, str], dict[bool, DeviceReport]] = {}
        self.use_aggregated = True
        #: N8, setting `owned-annotations: guarded`: only scheduler and device plugin can write them.
        self.guarded_annotations = False
        self._shape_of: list[NodeShape | None] = []
        self._class_of: list[NodeClass | None] = []
        self._rank_of: list[int] = []
        self._node_at: list[int] = []
        self._order_stale = False
        #: Grows with every change of usage: results computed at the same version are still valid.
        self.version = 0
        #: Nodes and jobs that changed.
        self.changes = Changes(recording=False)

    def hyper_forest(self) -> Forest:
        """The HyperNodes as trees of domains, over the nodes that exist."""
        return self.hyper_nodes.forest(self.node_id, self.labels)

    # -- facts: nodes ---------------------------------------------------------------

    def put_node(self, node: Node) -> int:
        _check_range(node)
        number = self.node_id.get(node.name)
        new = number is None
        if number is None:
            number = self._new_id(node.name)
        self._deleted.pop(number, None)
        self._set_node(number, node)
        for resource in node.chips_allocatable:
            self._fleet(resource)
        for fleet in self.fleets.values():
            fleet.grow(len(self.names))
            if new:
                # Its report may be older than the node is here.
                self._withhold(fleet, number)
        self._describe(number)
        self._reshape(number)
        return number

    def _set_node(self, number: int, node: Node | None) -> None:
        old = self.nodes[number]
        self.nodes[number] = node
        self.addresses.change(old, node)
        self.labels.change(number, None if old is None else old.labels, None if node is None else node.labels)

    def _new_id(self, name: str) -> int:
        """An id for a new node: that of a deleted one, or the next."""
        number = self._reusable_id()
        if number is None:
            number = len(self.names)
            self.names.append(name)
            self._natural.append(natural_key(name))
            self.nodes.append(None)
            self.pods_on.append({})
            self._shape_of.append(None)
            self._class_of.append(None)
        else:
            del self.node_id[self.names[number]]
            self.names[number] = name
            self._natural[number] = natural_key(name)
            # It may have grown with its pods, and a dict never shrinks.
            self.pods_on[number] = {}
        self.node_id[name] = number
        # Views know nodes by their place in the order: they are filled again before the next decision.
        self._order_stale = True
        return number

    def _reusable_id(self) -> int | None:
        """The id of a deleted node that nothing refers to. New nodes are facts, so no cycle runs now."""
        if self.open_marks:
            return None
        for number in self._deleted:
            reserved = self._reserved_loads.on(number) or any(
                fleet.reserved[number] for fleet in self.fleets.values()
            )
            if not self.pods_on[number] and not reserved:
                del self._deleted[number]
                return number
        return None

    def drop_node(self, name: str) -> None:
        """The node is gone; its id stays in use for pods still bound to it."""
        number = self.node_id.get(name)
        if number is None:
            return
        # First: what follows may fail for a node that could not be put, and that node must not count.
        self._deleted[number] = None
        self._set_node(number, None)
        self._class_of[number] = None
        self._shape_of[number] = None
        self._set_mode(number, None)
        for fleet in self.fleets.values():
            fleet.forget(number)
        # A node that is added and deleted before a cycle has no rank in the views yet.
        self._refresh(number)

    def put_report(self, report: DeviceReport) -> None:
        """A device report arrived; the aggregated one wins where it is to be used (N7)."""
        _check_range(report)
        self.reports.setdefault((report.node, report.resource), {})[report.aggregated] = report
        self._fleet(report.resource)
        self._redescribe(report.node)
        self._take_mounted(report)
        number = self.node_id.get(report.node)
        if number is not None and self._has_parts(number):
            # V4: what the device plugin mounted stands for the chips of pods with shares and vNPUs.
            self._hold_again(number)

    def _take_mounted(self, report: DeviceReport) -> None:
        """N8: what the device plugin mounted stands for the chips of its pods; what is doubtful is added."""
        number = self.node_id.get(report.node)
        for uid in {**report.doubtful, **report.mounted}:
            record = self.pods.get(uid)
            if (
                record is None
                or number is None
                or record.node != number
                or record.pod.cls.resource != report.resource
                or not record.pod.cls.chips
            ):
                continue
            chips, doubtful = report.mounted.get(uid, record.chips), self._doubtful_of(record.pod, record)
            if (record.chips, record.doubtful) != (chips, doubtful):
                assumed = record.assumed
                self._unhold(record)
                record.doubtful = doubtful
                self._hold(record, number, chips, assumed)
        self._withhold_left(report.node, report.resource)

    def _observe(self, record: PodRecord, number: int) -> None:
        """What a bound pod was bound with, as first read, and whether its device plugin has served it."""
        node = self.nodes[number]
        if record.binding is None:
            record.binding = binding_of(record.pod)
        if not record.settled and node is not None:
            mode = self.modes.get(number, NO_CHIPS)
            record.settled = is_settled(record, mode, self._reports_of(node))

    def _has_parts(self, number: int) -> bool:
        """Whether the chips of the node are shared, or divided on request."""
        return self.modes.get(number, NO_CHIPS).mode in (SOFT, DYNAMIC)

    def left_chips(self, node: str, resource: str) -> dict[str, int]:
        """N8: pods that the device plugin reports with chips and that are gone, by uid: their containers may
        still run. A pod that was seen to end no longer has chips, whatever an older report says.
        """
        return {
            uid: mask
            for report in self.reports.get((node, resource), {}).values()
            if report.mounted
            for uid, mask in report.mounted.items()
            if uid not in self.pods
        }

    def _withhold_left(self, node: str, resource: str | None) -> None:
        """After a report, or a pod that came or went: only a report that names pods can change something."""
        number = self.node_id.get(node)
        if number is None or resource is None:
            return
        fleet = self.fleets.get(resource)
        if fleet is not None and (fleet.doubtful[number] or self.left_chips(node, resource)):
            before = fleet.doubtful[number]
            self._withhold(fleet, number)
            if fleet.doubtful[number] != before:
                self._refresh(number)

    def put_links_down(self, name: str, resource: str, mask: int) -> None:
        """These chips count as network-unhealthy, whatever the node's report says."""
        number = self.node_id.get(name)
        if number is not None and self.fleets[resource].links_down.get(number, 0) != mask:
            self.fleets[resource].links_down[number] = mask
            self._redescribe(name)

    def put_isolation(self, name: str, one: Isolation | None) -> bool:
        """Put or remove what an operator isolated; whether it changed. Pods that run keep their chips."""
        changed = self._isolations.put(name, one)
        for target in changed:
            # Which nodes a leaf switch or a SuperPoD has is looked up from the nodes.
            for node in sorted(self.node_id) if "/" in target else (target,):
                self._redescribe(node)
        return bool(changed)

    def put_node_reservations(self, reservations: NodeReservations) -> None:
        """Nodes that are kept for queues and namespaces, as a whole. Pods that run there stay."""
        before, after = self._reservation_table.of_node, NodeReservationTable(reservations.entries)
        self.node_reservations, self._reservation_table = reservations, after
        for name in sorted(before.keys() | after.of_node.keys()):
            if before.get(name) != after.of_node.get(name):
                self._redescribe(name)

    @property
    def window_sets(self) -> WindowSets:
        """The windows of all nodes, with their nodes."""
        if self._window_sets is None:
            self._window_sets = WindowSets(self.node_windows)
        return self._window_sets

    def put_switches(self, switch_at: Mapping[str, str]) -> None:
        """The leaf switch of each server, by the server's address."""
        self._isolations.put_switches(switch_at)
        if self._isolations.has_groups:
            for name in sorted(self.node_id):
                self._redescribe(name)

    @property
    def isolations(self) -> Mapping[str, Isolation]:
        """What operators isolated, by name, also of nodes that do not exist."""
        return self._isolations.objects

    def isolations_of(self, number: int) -> tuple[Isolation, ...]:
        """All entries that concern a node."""
        node = self.nodes[number]
        if node is None or not self._isolations.objects:
            return ()
        return self._isolations.of(node, self.position_of(number).superpod)

    def position_of(self, number: int) -> NodePosition:
        """Where a node is according to reports, annotations and labels; reports count for what it offers."""
        node = self.nodes[number]
        if node is None:
            return NodePosition(None, None, None, False)
        superpod, index, rack, offers = node.superpod, None, node.rack, False
        for resource, fleet in self.fleets.items():
            if resource == HOSTS or fleet.allocatable[number] < 0:
                continue
            offers = True
            report = self.report_of(node.name, resource)
            if report is not None and report.superpod is not None:
                superpod, index = report.superpod, report.server_index
            if report is not None and report.rack is not None:
                rack = report.rack
        return NodePosition(superpod, index, rack, offers)

    def _isolate(self, number: int) -> None:
        entries = self.isolations_of(number)
        whole = whole_now(entries)
        if whole is not None:
            self.isolated_nodes[number] = whole
        else:
            self.isolated_nodes.pop(number, None)
        node = self.nodes[number]
        reserved = () if node is None else self._reservation_table.of_node.get(node.name, ())
        windows = windows_of(entries, reserved)
        if windows != self.node_windows.get(number, ()):
            self._window_sets = None
        if windows:
            self.node_windows[number] = windows
        else:
            self.node_windows.pop(number, None)
        for resource, fleet in self.fleets.items():
            fleet.isolated[number] = mask_of(
                one.number
                for one in entries
                if one.number is not None and one.chip == chip_names(resource, (one.number,))
            )

    def prefer_aggregated(self, preferred: bool) -> None:
        """N7: of two reports about the same, take ClusterD's. The caller describes the nodes again."""
        self.use_aggregated = self.health.use_aggregated = preferred

    def put_node_report(self, report: NodeReport) -> bool:
        """Whether the health of the node changed."""
        changed = self.health.put(report)
        if changed:
            self._redescribe(report.node)
        return changed

    def drop_node_report(self, node: str, source: str, aggregated: bool) -> bool:
        changed = self.health.drop(node, source, aggregated)
        if changed:
            self._redescribe(node)
        return changed

    def _assess(self, number: int, name: str) -> None:
        status = self.health.status(name)
        node = self.nodes[number]
        written = "" if node is None else node.annotations.get(NODE_HEALTHY_STATUS, "")
        if STATUSES.get(written) is NodeStatus.UNHEALTHY:
            status = NodeStatus.UNHEALTHY
        self.node_status.pop(number, None)
        self.sub_healthy.pop(number, None)
        if status is not NodeStatus.HEALTHY:
            self.node_status[number] = status
        bad = [
            chip_names(resource, (fault.chip,))
            for resource in self.fleets
            if (report := self.report_of(name, resource)) is not None
            for fault in report.faults
            if fault.level == SUB_HEALTH_LEVEL
        ]
        if bad:
            self.sub_healthy[number] = f"{bad[0]} of {name}"
        elif status is NodeStatus.SUB_HEALTHY:
            self.sub_healthy[number] = f"node {name}"

    def drop_report(self, node: str, aggregated: bool) -> None:
        # By resource: an aggregate that goes takes the reports of all nodes with it.
        for resource in self.fleets:
            report = self.reports.get((node, resource))
            if report is not None and report.pop(aggregated, None) is not None and not report:
                del self.reports[node, resource]
            self._withhold_left(node, resource)
        self._redescribe(node)

    def report_of(self, node: str, resource: str) -> DeviceReport | None:
        report = self.reports.get((node, resource))
        if not report:
            return None
        if self.use_aggregated and True in report:
            return report[True]
        return report.get(False)

    def utilization_of(self, node: str, resource: str) -> dict[int, tuple[float, int]]:
        """Mean use in percent and the seconds that it is about, of chips that the node itself tells it of."""
        # ClusterD's aggregate has no such figures.
        report = self.reports.get((node, resource), {}).get(False)
        return {} if report is None else {chip: (mean, span) for chip, mean, span in report.utilization}

    def node_reports(self, node: str) -> list[NodeReport]:
        """What NodeD and the device plugin say about the health of a node, beside its chips."""
        return self.health.of(node)

    def watch_labels(self, keys: Iterable[str], *, always: bool = False) -> None:
        """Let these labels decide about classes, where they tell few groups of nodes apart.

        With `always` they do in any case, otherwise for as long as a pod asks for them.
        """
        new = frozenset(keys)
        if always:
            self._always_watched |= new
        new -= self._selected_labels
        if not new:
            return
        self._selected_labels |= new
        if len(self._selected_labels) > self._most_selected:
            classes = {record.pod.cls for record in self.pods.values()}
            self._selected_labels = set(new).union(*(label_keys(cls) for cls in classes))
            self._most_selected = 2 * len(self._selected_labels) + _SPARE_LABELS
        if always or any(self.labels.has(key) for key in new):
            self._choose_watched()

    def _choose_watched(self) -> None:
        """Choose the labels of the classes again; another choice costs one walk over the nodes."""
        self._watched_version = self.labels.version
        values = {
            key: len(self.labels.values(key))
            for key in self.labels.present()
            if key in self._selected_labels and key not in self._always_watched
        }
        watched = set(self._always_watched)
        combinations = 1
        for key, count in sorted(values.items(), key=lambda entry: (entry[1], entry[0])):
            # A node may also lack the label.
            combinations *= count + 1
            if count > _MAX_LABEL_VALUES:
                break
            if combinations > _MAX_LABEL_COMBINATIONS:
                combinations = self.labels.combinations((*watched, key))
                if combinations > _MAX_LABEL_COMBINATIONS:
                    break
            watched.add(key)
        shapes = self.shapes
        changed = shapes.watched ^ watched
        shapes.watched = frozenset(watched)
        if any(self.labels.has(key) for key in changed):
            shapes.clear()
            self._reclass()

    @contextmanager
    def watching_labels(self, keys: Iterable[str]) -> Iterator[None]:
        """Inside, these labels belong to the node classes too; at the end the classes are as before.

        A label that tells no nodes apart changes no class, and a class for each node is made long.
        """
        new = frozenset(keys) - self.shapes.watched
        wanted = frozenset(key for key in new if self.labels.combinations((key,)) > 1)
        if not wanted:
            yield
            return
        shapes, classes_of, shapes_of = self.shapes, list(self._class_of), list(self._shape_of)
        self.shapes = shapes.with_labels(wanted)
        self._reclass()
        try:
            yield
        finally:
            self.shapes, self._class_of, self._shape_of = shapes, classes_of, shapes_of
            self._refill()

    def _reclass(self) -> None:
        for number, node in enumerate(self.nodes):
            if node is not None:
                self._reshape(number)

    def _fleet(self, resource: str) -> Fleet:
        fleet = self.fleets.get(resource)
        if fleet is None:
            fleet = self.fleets[resource] = self._new_fleet(resource)
        fleet.grow(len(self.names))
        return fleet

    def _new_fleet(self, resource: str) -> Fleet:
        return Fleet(
            resource,
            self.self_maintain,
            self.unreadable_pods,
            self.isolated_nodes,
            self.node_status,
            self.shared_nodes,
            self.nodes_in_mode[STATIC],
        )

    def _redescribe(self, name: str) -> None:
        number = self.node_id.get(name)
        if number is not None and self.nodes[number] is not None:
            self._describe(number)
            self._refresh(number)

    def _describe(self, number: int) -> None:
        node = self.nodes[number]
        if node is None:
            return
        changed = self._set_mode(number, node)
        devices = None if node.devices is None else mask_of(device.chip for device in node.devices)
        for resource, fleet in self.fleets.items():
            if resource == HOSTS:
                fleet.set_allocatable(number, 0)
                continue
            report = self.report_of(node.name, resource)
            allocatable = node.chips_allocatable.get(resource, -1)
            if allocatable < 0 and report is None:
                fleet.forget(number)
                continue
            if is_part_of_a_chip(resource):
                # It counts parts of chips: only how many are idle matters.
                fleet.set_allocatable(number, allocatable)
                fleet.capacity[number] = node.chips_capacity.get(resource, allocatable)
                continue
            if allocatable < 0:
                # Kubernetes does not offer the resource here (yet): nothing may be placed.
                allocatable = 0
            fleet.describe(number, devices, allocatable, report, node.chips_capacity.get(resource))
        self._isolate(number)
        self._assess(number, node.name)
        if changed and self.pods_on[number]:
            self._hold_again(number)

    def _set_mode(self, number: int, node: Node | None) -> bool:
        """Set the allocation mode of a node (V1). Returns whether pods on it hold other chips now."""
        mode = NO_CHIPS if node is None else mode_of(node, self._reports_of(node).values())
        # They follow from the capacity of the nodes, too.
        self._chip_memories = None
        if mode == self.modes.get(number, NO_CHIPS):
            # Also of a node that a question changes and changes back: the order of the nodes stays.
            return False
        self.modes.pop(number, None)
        self.shared_nodes.pop(number, None)
        for nodes in self.nodes_in_mode.values():
            nodes.pop(number, None)
        if node is None or mode == NO_CHIPS:
            return node is not None
        self.modes[number] = mode
        if mode.mode in self.nodes_in_mode:
            self.nodes_in_mode[mode.mode][number] = None
        if mode.closed is not None:
            self.shared_nodes[number] = mode.closed
        elif mode.mode in (SOFT, DYNAMIC):
            self.shared_nodes[number] = OTHER_MODE(node=node.name, mode=mode.mode, requested=WHOLE)
        return True

    def _reports_of(self, node: Node) -> dict[str, DeviceReport]:
        """The device reports of a node by resource."""
        result = {}
        for resource in self.fleets:
            report = self.report_of(node.name, resource)
            if report is not None:
                result[resource] = report
        return result

    def _hold_again(self, number: int) -> None:
        """What pods hold depends on the allocation mode of their node and on what its plugin has mounted."""
        if self._has_parts(number):
            for uid in self.pods_on[number]:
                self._observe(self.pods[uid], number)
        for uid in list(self.pods_on[number]):
            record = self.pods[uid]
            if record.pod.cls.part is None:
                continue
            assumed, reserved, volumes = record.assumed, record.reserved, record.volumes
            binding, settled = record.binding, record.settled
            self._unhold(record)
            record.binding, record.settled, record.volumes = binding, settled, volumes
            self._hold(record, number, self._part_chips(record, number), assumed)
            record.reserved = reserved

    def _part_chips(self, record: PodRecord, number: int) -> int:
        """V4: the chips on which a pod with a share or a vNPU counts."""
        node = self.nodes[number]
        if node is None:
            return mask_of(record.binding.chips) if record.binding is not None else 0
        mode, reports = self.modes.get(number, NO_CHIPS), self._reports_of(node)
        return mask_of(counted_chips(record, mode, reports, self.guarded_annotations))

    @property
    def chip_memories(self) -> Mapping[str, int]:
        """V18: resource -> the smallest chip memory in MB of the nodes with soft shares that offer it."""
        if self._chip_memories is None:
            sizes: dict[str, int] = {}
            for number in self.nodes_in_mode[SOFT]:
                node, size = self.nodes[number], self.modes[number].chip_memory
                for resource, count in node.chips_capacity.items() if node is not None and size else ():
                    if count:
                        sizes[resource] = min(size, sizes.get(resource, size))
            self._chip_memories = sizes
        return self._chip_memories

    def amounts(self, number: int) -> ChipAmounts:
        """What pods hold on the chips of a node with soft shares or dynamic vNPUs."""
        result = self._amounts.get(number)
        if result is None:
            node = self.nodes[number]
            reports = {} if node is None else self._reports_of(node)
            records = [self.pods[uid] for uid in self.pods_on[number]]
            result = self._amounts[number] = amounts_on(
                self.modes.get(number, NO_CHIPS), iter(records), reports, self.guarded_annotations
            )
        return result

    def available_chips(self, number: int, resource: str) -> int:
        """The published chips of a node that are neither faulty, isolated nor doubtful, as a mask."""
        fleet = self.fleets.get(resource)
        if fleet is None:
            return 0
        blocked = fleet.unhealthy[number] | fleet.recovering[number] | fleet.isolated[number]
        blocked |= fleet.pre_separated[number] | fleet.doubtful[number] | fleet.reserved[number]
        for report in self.reports.get((self.names[number], resource), {}).values():
            # Pods that are gone may still run, and of others it is not known what they have (N8).
            for uid, chips in report.doubtful.items():
                if uid in self.pods_on[number]:
                    blocked |= chips
            for uid, share in report.mounted_shares.items():
                if uid not in self.pods:
                    blocked |= 1 << share.chip
        return (fleet.reported[number] or 0) & ~blocked

    def _reshape(self, number: int) -> None:
        node = self.nodes[number]
        if node is None:
            return
        node_class = self.shapes.class_of(node)
        self._class_of[number] = node_class
        self._set_load(number, node_class)
        self._refresh(number)

    def _set_load(self, number: int, node_class: NodeClass) -> None:
        load = load_of(self.pods[uid].pod.cls for uid in self.pods_on[number]) + self.reserved_load(number)
        self._shape_of[number] = self.shapes.shape(
            node_class, load.cpu_milli, load.memory, load.pods, load.extended
        )

    def _refresh(self, number: int, resource: str | None = None) -> None:
        self.version += 1
        if self._amounts:
            self._amounts.pop(number, None)
        self.changes.node(number)
        self.node_changes.add(number)
        if self._order_stale:
            return
        node = self.nodes[number]
        shape = self._shape_of[number] if node is not None and node.ready else None
        name = self.names[number]
        if resource is not None:
            self.fleets[resource].refresh(number, name, shape)
            return
        for fleet in self.fleets.values():
            fleet.refresh(number, name, shape)

    def maintain_free_chips(self, ourselves: bool) -> None:
        """Rule N7: count free chips from pods (True), or take them from the nodes' reports."""
        if ourselves != self.self_maintain:
            self.self_maintain = ourselves
            for fleet in self.fleets.values():
                fleet.self_maintain = ourselves
        for number in range(len(self.names)):
            self._describe(number)
            self._refresh(number)

    def refresh_node(self, number: int) -> None:
        """Something other than a pod changed what is free on this node."""
        self._refresh(number)

    def settle(self) -> None:
        """Number the nodes in natural order after new ones came. Called before deciding."""
        if len(self.shapes) > len(self.names) + len(self.names) // 4 + _SPARE_SHAPES:
            # Loads that no node carries.
            self.shapes.sweep(self._shape_of)
        if len(self.fleets) > self._most_fleets and not self.open_marks:
            self._drop_unused_fleets()
        if self._watched_version != self.labels.version:
            self._choose_watched()
        if not self._order_stale:
            return
        self._order_stale = False
        self._node_at = sorted(range(len(self.names)), key=self._natural.__getitem__)
        self._rank_of = [0] * len(self.names)
        for rank, number in enumerate(self._node_at):
            self._rank_of[number] = rank
        for fleet in self.fleets.values():
            for view in fleet.views.values():
                view.renumber(self._rank_of, self._node_at)
        self._refill()

    def _refill(self, resource: str | None = None) -> None:
        """Fill the views again: nothing of the nodes themselves changes."""
        changes, self.changes = self.changes, Changes(recording=False)
        try:
            for number in range(len(self.names)):
                self._refresh(number, resource)
        finally:
            self.changes = changes

    def _drop_unused_fleets(self) -> None:
        """A bound pod may name any resource; its fleet is kept while something offers, has or reserves it."""
        reported = {resource for _, resource in self.reports}
        self.fleets = {
            resource: fleet
            for resource, fleet in self.fleets.items()
            if resource == HOSTS
            or resource in reported
            or fleet.views
            or fleet.size
            or any(fleet.requested)
            or any(fleet.reserved)
        }
        self._most_fleets = 2 * len(self.fleets) + _SPARE_FLEETS

    # -- reserved amounts -----------------------------------------------------------------

    def reserve_load(self, number: int, reservation: int, reserved: ReservedLoad) -> None:
        """Keep cpu, memory and the like of a node for the owner of a reservation: they count as used."""
        self._reserved_loads.put(number, reservation, reserved)
        self._reload(number)

    def unreserve_load(self, number: int, reservation: int) -> None:
        self._reserved_loads.drop(number, reservation)
        self._reload(number)

    def reserved_load(self, number: int) -> Load:
        """What counts as used on the node although no pod uses it."""
        if not self._reserved_loads.on(number):
            return NO_LOAD

        def class_there(uid: str) -> PodClass | None:
            record = self.pods.get(uid)
            return record.pod.cls if record is not None and record.node == number else None

        return self._reserved_loads.counted(number, class_there)

    def _reload(self, number: int) -> None:
        shape = self._shape_of[number]
        if shape is not None:
            self._set_load(number, shape.node_class)
        self._refresh(number)

    # -- facts: pods --------------------------------------------------------------------

    def put_pod(self, pod: Pod) -> None:
        """A pod was observed. What it holds follows from its node, its phase and N8 (N6)."""
        if pod.holds or pod.mounted:
            _check_range(pod)
        existing = self.pods.get(pod.uid)
        chips = 0
        bound: tuple[PartBinding | None, bool] = (None, False)
        before: PodRecord | None = None
        if existing is not None:
            if existing.assumed and pod.node is None and pod.live and not pod.deleting:
                # Our own decision is on its way; an older observation does not undo it.
                return
            if self.stays(pod):
                return
            if existing.node >= 0:
                if pod.node == self.names[existing.node] and _same_limit(existing.pod, pod):
                    chips, before, bound = existing.chips, existing, (existing.binding, existing.settled)
                self._unhold(existing)
        placement = PodRecord(pod)
        self.pods[pod.uid] = placement
        if pod.node is not None and existing is None:
            # A report may have named it before it was seen.
            self._withhold_left(pod.node, self.reported_resource(pod))
        if pod.node is None or not pod.live:
            return
        number = self.node_id.get(pod.node)
        if number is None:
            number = self._unknown_node(pod.node)
        placement.doubtful = self._doubtful_of(pod, before)
        if pod.cls.part is not None or self._has_parts(number):
            placement.binding, placement.settled = bound
            self._observe(placement, number)
            if pod.cls.part is not None:
                chips = self._part_chips(placement, number)
                self._hold(placement, number, chips, assumed=False)
                return
        self._hold(placement, number, self._chips_of(pod, chips), assumed=False)

    def _doubtful_of(self, pod: Pod, before: PodRecord | None) -> int:
        """N8: what a live bound pod may have besides its chips. Until its mount is reported or it ends, no
        report takes back what an earlier one said.
        """
        resource = pod.cls.resource
        if not pod.cls.chips or resource is None or pod.node is None:
            return 0
        doubtful = before.doubtful if before is not None else 0
        for report in self.reports.get((pod.node, resource), {}).values():
            if pod.uid in report.mounted:
                return 0
            if report.doubtful:
                doubtful |= report.doubtful.get(pod.uid, 0)
        return doubtful

    def _chips_of(self, pod: Pod, bound_with: int) -> int:
        """N8: the chips of a live bound pod; `bound_with` are those it has held on this node so far.

        While these are fewer than it uses, its annotation may still name the others (N7).
        """
        resource = pod.cls.resource
        if not pod.cls.chips or resource is None or pod.node is None:
            return 0
        for report in self.reports.get((pod.node, resource), {}).values():
            if pod.uid in report.mounted:
                return report.mounted[pod.uid]
        mounted = mask_of(pod.mounted)
        if bound_with.bit_count() < pod.cls.chips:
            bound_with |= mask_of(pod.holds)
        if self.guarded_annotations:
            return mounted or bound_with
        return bound_with | mounted

    def stays(self, pod: Pod) -> bool:
        """Whether an observation of a placed pod changes nothing that the state counts; it is stored then.

        Most do, the event that follows our own binding first of all.
        """
        existing = self.pods.get(pod.uid)
        if (
            existing is None
            or existing.node < 0
            or not pod.live
            or pod.node != self.names[existing.node]
            or existing.chips != self._chips_of(pod, existing.chips)
            or (self.shared_nodes and existing.node in self.shared_nodes)
            or existing.pod.name != pod.name
            or existing.pod.namespace != pod.namespace
            or existing.pod.cls != pod.cls
            or existing.pod.unreadable != pod.unreadable
            or existing.pod.claims != pod.claims
        ):
            return False
        if existing.pod.labels != pod.labels:
            self.placed_changes.add(pod.uid)
        existing.pod = pod
        existing.assumed = False
        return True

    def drop_pod(self, uid: str) -> None:
        existing = self.pods.pop(uid, None)
        if existing is None:
            return
        if existing.node >= 0:
            self._unhold(existing)
        pod = existing.pod
        resource = self.reported_resource(pod)
        if pod.node is not None and resource is not None:
            if not pod.live:
                self._forget_mounted(uid, pod.node, resource)
            self._withhold_left(pod.node, resource)

    def reported_resource(self, pod: Pod) -> str | None:
        """The resource under which the device plugin of its node reports the chips of a pod."""
        resource, count = requested(pod.cls)
        if pod.node is not None and count and (pod.node, resource) not in self.reports:
            # A vNPU, or a pod from before its node had another allocation mode.
            chips = self.modes.get(self.node_id.get(pod.node, -1), NO_CHIPS).resource or resource
            resource = next((one for one in self.fleets if (pod.node, one) in self.reports), chips)
        return resource if count else None

    def _forget_mounted(self, uid: str, node: str, resource: str) -> None:
        """The pod was seen to end: what an older report says of it does not count."""
        reports = self.reports.get((node, resource), {})
        for kind, report in reports.items():
            if uid in report.mounted:
                mounted = {one: mask for one, mask in report.mounted.items() if one != uid}
                reports[kind] = replace(report, mounted=mounted)
            if uid in report.mounted_shares:
                shares = {one: share for one, share in report.mounted_shares.items() if one != uid}
                reports[kind] = replace(reports[kind], mounted_shares=shares)

    def _unknown_node(self, name: str) -> int:
        """A pod may be observed before its node: count it on a node that offers nothing."""
        number = self.put_node(Node(name=name, ready=False))
        self.drop_node(name)
        return number

    # -- decisions --------------------------------------------------------------------

    def place(
        self,
        uid: str,
        number: int,
        chips: int,
        volumes: tuple[ClaimChoice, ...] = (),
        binding: PartBinding | None = None,
    ) -> None:
        """Decide: this pod takes these chips (a mask) of this node, at once (N6). Undone by `rollback`.

        `volumes` is what its claims get that have none.
        """
        placement = self.pods[uid]
        if placement.node >= 0:
            raise ChipInUse(f"{placement.pod.key} already has a node")
        resource = placement.pod.cls.resource
        if resource is not None and chips and self.fleets[resource].held[number] & chips:
            raise ChipInUse(f"{placement.pod.key}: chips {chips_of(chips)} of {self.names[number]} are held")
        placement.volumes, placement.binding = volumes, binding
        self._hold(placement, number, chips, assumed=True)
        if self.open_marks:
            self._log.append(_Decision(uid))

    def release(self, uid: str) -> None:
        """Decide: this pod releases its node and chips. Undone by `rollback`."""
        placement = self.pods[uid]
        number, chips, assumed = placement.node, placement.chips or placement.part_chips, placement.assumed
        if number < 0:
            return
        if self.open_marks:
            # The node's report still lists these chips as used: mark them as free for this transaction.
            self._suppose(placement.pod.cls.resource, number, chips, True)
            orders, volumes = self._orders(placement), placement.volumes
            reserved, binding = placement.reserved, placement.binding
            self._log.append(_Decision(uid, number, chips, assumed, orders, volumes, reserved, binding))
        self._unhold(placement)

    def checkpoint(self) -> int:
        """Open a transaction. Transactions nest."""
        self.open_marks += 1
        return len(self._log)

    @property
    def decided(self) -> int:
        """How many decisions the open transactions have."""
        return len(self._log)

    def rollback(self, mark: int) -> None:
        """Undo every decision since the mark, last first, and close it."""
        self.undo(mark)
        self._close()

    def undo(self, decided: int) -> None:
        """Undo all but so many decisions, last first; the transactions stay open."""
        while len(self._log) > decided:
            before = self._log.pop()
            placement = self.pods[before.uid]
            if before.node < 0:
                self._unhold(placement)
                continue
            self._suppose(placement.pod.cls.resource, before.node, before.chips, False)
            placement.volumes, placement.reserved = before.volumes, before.reserved
            placement.binding = before.binding
            self._hold(placement, before.node, before.chips, before.assumed)
            for now, order in zip(self._ordered_tables(placement), before.orders, strict=True):
                _reorder(now, order)

    def _orders(self, placement: PodRecord) -> tuple[tuple[Any, ...], ...]:
        return tuple(tuple(table) for table in self._ordered_tables(placement))

    def _ordered_tables(self, placement: PodRecord) -> list[dict[Any, Any]]:
        """Tables in which a placed pod has an entry: a rollback puts it back to where it was."""
        cls, number = placement.pod.cls, placement.node
        tables: list[dict[Any, Any]] = [self.pods_on[number]]
        if cls.pod_anti_affinity:
            tables.append(self.anti_affinity_pods)
        if placement.pod.unreadable:
            tables += [self.unreadable_pods, self.unreadable_pods[number]]
        if cls.resource is not None and cls.chips:
            fleet = self.fleets[cls.resource]
            tables.append(fleet.extra_claims)
            if cls.chips > placement.chips.bit_count():
                tables += [fleet.unknown_holders, fleet.unknown_holders[number]]
        return tables

    def _suppose(self, resource: str | None, number: int, chips: int, free: bool) -> None:
        if resource is not None and chips:
            supposed = self.fleets[resource].supposed_free
            supposed[number] = supposed[number] | chips if free else supposed[number] & ~chips

    def commit(self, mark: int) -> None:
        """Keep the decisions since the mark. An outer transaction may still undo them."""
        if self.open_marks == 1:
            for before in self._log:
                if before.node >= 0:
                    self._suppose(self.pods[before.uid].pod.cls.resource, before.node, before.chips, False)
                    self._refresh(before.node)
        self._close()

    def undo_open(self) -> bool:
        """Roll back the transactions that an interrupted caller left open; False when there were none."""
        was_open = self.open_marks > 0
        while self.open_marks:
            self.rollback(0)
        return was_open

    def _close(self) -> None:
        self.open_marks -= 1
        if self.open_marks == 0:
            self._log.clear()

    # -- usage ---------------------------------------------------------------------------

    def _hold(self, placement: PodRecord, number: int, mask: int, assumed: bool) -> None:
        pod = placement.pod
        cls = pod.cls
        placement.node = number
        if cls.part is None:
            placement.chips = mask
        else:
            placement.part_chips = mask
        placement.assumed = assumed
        self.pods_on[number][pod.uid] = None
        self.placed_changes.add(pod.uid)
        if cls.pod_anti_affinity:
            self.anti_affinity_pods[pod.uid] = None
            self.anti_affinity_changes.add(pod.uid)
        if pod.unreadable:
            self.unreadable_pods.setdefault(number, {})[pod.uid] = pod.key
        if pod.claims:
            self.volumes.hold(pod, number, placement.volumes)
        # N8: a pod that asks for no chips holds none and closes no node.
        if cls.resource is not None and cls.chips:
            fleet = self.fleets.get(cls.resource) or self._fleet(cls.resource)
            fleet.requested[number] += cls.chips
            if mask:
                fleet.claim(number, mask)
                node = self.nodes[number]
                if node is not None and node.devices is None and fleet.reported[number] is not None:
                    # A report lists free chips only; this one is held, so it exists.
                    fleet.listed[number] |= mask
            unnamed = cls.chips - mask.bit_count()
            if unnamed > 0:
                fleet.unknown_holders.setdefault(number, {})[pod.key] = unnamed
            if placement.doubtful:
                self._withhold(fleet, number)
        elif cls.part is not None:
            self._fleet(cls.part.resource).requested[number] += cls.part.count
            self._hold_entirely(placement, number)
        self._load(number, cls, 1)

    def _unhold(self, placement: PodRecord) -> None:
        pod, number = placement.pod, placement.node
        cls = pod.cls
        del self.pods_on[number][pod.uid]
        self.placed_changes.add(pod.uid)
        if pod.uid in self.anti_affinity_pods:
            del self.anti_affinity_pods[pod.uid]
            self.anti_affinity_changes.add(pod.uid)
        if pod.unreadable:
            discard(self.unreadable_pods, number, pod.uid)
        if cls.resource is not None and cls.chips:
            fleet = self._fleet(cls.resource)
            fleet.requested[number] -= cls.chips
            if placement.chips:
                fleet.unclaim(number, placement.chips)
            if cls.chips > placement.chips.bit_count():
                discard(fleet.unknown_holders, number, pod.key)
            if placement.doubtful:
                self._withhold(fleet, number)
        elif cls.part is not None:
            self._fleet(cls.part.resource).requested[number] -= cls.part.count
            self._release_entirely(placement)
            placement.binding = None
        if pod.claims:
            self.volumes.unhold(pod, number, placement.volumes)
            placement.volumes = ()
        placement.reserved = False
        placement.node = -1
        placement.chips = placement.part_chips = 0
        placement.assumed = False
        self._load(number, cls, -1)

    def _hold_entirely(self, placement: PodRecord, number: int) -> None:
        """V3: on a node with whole chips, a share or a vNPU from before holds its chips entirely."""
        part = placement.pod.cls.part
        if (
            part is None
            or part.mode == STATIC
            or self.modes.get(number, NO_CHIPS).mode not in (WHOLE, STATIC)
        ):
            return
        placement.entire = self._chip_resources(number)
        for fleet in map(self._fleet, placement.entire):
            fleet.claim(number, placement.part_chips)
            if not placement.part_chips:
                fleet.unknown_holders.setdefault(number, {})[placement.pod.key] = 1

    def _release_entirely(self, placement: PodRecord) -> None:
        number, chips = placement.node, placement.part_chips
        if not placement.entire:
            return
        for fleet in map(self._fleet, placement.entire):
            fleet.unclaim(number, chips)
            discard(fleet.unknown_holders, number, placement.pod.key)
        placement.entire = ()

    def _chip_resources(self, number: int) -> tuple[str, ...]:
        node = self.nodes[number]
        return () if node is None else tuple(filter(is_chip_resource, node.chips_capacity))

    def _withhold(self, fleet: Fleet, number: int) -> None:
        """Count again what pods on a node may have; few nodes have such pods."""
        doubtful = 0
        for uid in self.pods_on[number]:
            record = self.pods[uid]
            # A pod that a decision moves has them where it is.
            if record.pod.cls.resource == fleet.resource and record.pod.node == self.names[number]:
                doubtful |= record.doubtful
        for left in self.left_chips(self.names[number], fleet.resource).values():
            doubtful |= left
        fleet.doubtful[number] = doubtful

    def _load(self, number: int, cls: PodClass, sign: int) -> None:
        if self._reserved_loads.on(number):
            # What is reserved counts more or less when a pod that a reservation waits for comes or goes.
            self._reload(number)
            return
        shape = self._shape_of[number]
        if shape is not None:
            self._shape_of[number] = self.shapes.shape(
                shape.node_class,
                shape.cpu_used + sign * cls.cpu_milli,
                shape.memory_used + sign * cls.memory,
                len(self.pods_on[number]),
                add_extended(shape.extended_used, cls.extended, sign)
                if cls.extended
                else shape.extended_used,
            )
        self._refresh(number)

    def rebuild(self) -> None:
        """Compute what follows from nodes and pods again, after a change failed in its middle."""
        self._log.clear()
        self.open_marks = 0
        for fleet in self.fleets.values():
            fleet.grow(len(self.names))
            fleet.drop_claims()
        for uids in self.pods_on:
            uids.clear()
        for uid in self.anti_affinity_pods:
            self.anti_affinity_changes.add(uid)
        self.anti_affinity_pods.clear()
        self.volumes.forget_uses()
        self.unreadable_pods.clear()
        for number in range(len(self.names)):
            self._describe(number)
            self._reshape(number)
        for record in self.pods.values():
            if record.node >= 0:
                self._hold(record, record.node, record.chips or record.part_chips, record.assumed)
        for node, resource in self.reports:
            self._withhold_left(node, resource)

    def restore_pod(self, record: PodRecord) -> None:
        """Put a pod back as it was before a change that failed; `rebuild` must follow."""
        self.pods[record.pod.uid] = record

    # -- reading ----------------------------------------------------------------------------------

    def view(self, resource: str, name: str, rule: Scorer, multi_pod: bool, withholds_network: bool) -> View:
        """The fleet ordered by a board's rule; built at the first request, kept from then on."""
        fleet = self._fleet(resource)
        view, fresh = fleet.view(name, rule, multi_pod, withholds_network)
        if fresh:
            self.settle()
            view.renumber(self._rank_of, self._node_at)
            if resource == HOSTS:
                # Without a view this fleet is not kept up to date, see `Fleet.refresh`.
                self._refill(resource)
            else:
                fleet.fill(view, withholds_network, self._shape_of)
        return view

    def host_view(self) -> View:
        return self.view(HOSTS, "hosts", HostRule(), False, False)

    def shape_of(self, number: int) -> NodeShape | None:
        return self._shape_of[number]

    def closed(self, number: int, resource: str) -> Reason | None:
        """Why the node takes no pod with this resource at all, if so."""
        node = self.nodes[number]
        if node is None or not node.ready:
            return NODE_NOT_READY(node=self.names[number])
        fleet = self.fleets.get(resource)
        closed = None if fleet is None else fleet.closed[number]
        return closed or (self.shared_nodes.get(number) if resource != HOSTS else None)

    def rank_of(self, number: int) -> int:
        return self._rank_of[number]

    @property
    def node_count(self) -> int:
        return len(self.nodes) - len(self._deleted)

    def existing_nodes(self) -> Iterator[int]:
        """Ids of the nodes that exist, in natural order."""
        self.settle()
        for number in self._node_at:
            if self.nodes[number] is not None:
                yield number


def _same_limit(existing: Pod, pod: Pod) -> bool:
    """Chips are part of a limit that cannot change. Its owner can change other parts of a bound pod's spec:
    add tolerations, resize processor and memory.
    """
    return requested(existing.cls) == requested(pod.cls)


def _check_range(value: object) -> None:
    """A fact that cannot be taken in raises before anything is changed."""
    problem = out_of_range(value)
    if problem is not None:
        raise ValueError(problem)


def _reorder(table: dict[Any, Any], keys: tuple[Any, ...]) -> None:
    if tuple(table) != keys:
        entries = {key: table[key] for key in keys}
        table.clear()
        table.update(entries)


def double_claims(state: ClusterState) -> list[tuple[str, str, int, tuple[str, ...]]]:
    """Chips that two live pods name: (node, resource, chip, pods). Empty in a consistent cluster (N6)."""
    result = []
    for resource, fleet in state.fleets.items():
        for number, chip in sorted(fleet.extra_claims):
            bit = 1 << chip
            pods = tuple(
                state.pods[uid].pod.key
                for uid in sorted(state.pods_on[number])
                if state.pods[uid].chips & bit and state.pods[uid].pod.cls.resource == resource
            )
            result.append((state.names[number], resource, chip, pods))
    return result
