"""What a node and its chips are, in one place: every table, document, picture and metric shows this.

A node has a list of states. A chip is shown in the first that applies of used, faulty, isolated, reserved,
closed and free; one that is in use and faulty or isolated counts as both. Free means that a new pod may have
it now. On a node that is drained later, or reserved for a queue or a namespace, that is one of a job
that ends before (F4): these chips are counted as free and named beside them. While a reservation of a node
lasts, its free chips count as reserved.

Outside the scheduler nothing reads the tables of chips: `chips_of_node` gives what is shown of them.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from ringwise.durations import SECOND, time_text
from ringwise.framework.configuration import Settings
from ringwise.framework.selectors import FORBIDDING
from ringwise.records import dataclass
from ringwise.state.allocation_modes import NO_CHIPS
from ringwise.state.cluster import ClusterState
from ringwise.state.fleet import HOSTS, Fleet
from ringwise.state.model import DYNAMIC, SOFT, DeviceReport, Node, NodeReservation, Pod, ReportedFault
from ringwise.state.node_health import SUB_HEALTH_LEVEL, NodeStatus, unhealthy_because
from ringwise.state.node_labels import members_of
from ringwise.state.node_windows import drain_of, reservations_of
from ringwise.state.reasons import (
    IDLE_ABOVE_CAPACITY,
    NODE_ISOLATED,
    NODE_NOT_READY,
    NODE_PRE_SEPARATED,
    NODE_UNHEALTHY,
    SHARES_WITHOUT_SOFT_LABEL,
    UNKNOWN_HOLDER,
    UNKNOWN_PART,
    UNREADABLE_POD,
    UNSTABLE_NODE,
)
from ringwise.topology.chips import chips_of, mask_of
from ringwise.topology.natural import natural_key
from ringwise.topology.policy import is_part_of_a_chip
from ringwise.wellknown import NODE_TAINT_PREFIX

#: A report older than this is stale: device plugins write one at least every five minutes. Nanoseconds.
STALE_AFTER = 10 * 60 * SECOND
#: The reason of the isolation that a drain makes.
DRAIN = "drain"


class NodeState(enum.StrEnum):
    """Worst first: tables show the first of a node's states."""

    NOT_READY = "not ready"
    UNHEALTHY = "unhealthy"
    INVALID = "invalid"
    UNSTABLE = "unstable"
    DRAINING = "draining"
    ISOLATED = "isolated"
    CORDONED = "cordoned"
    RESERVED = "reserved"
    SUB_HEALTHY = "sub-healthy"
    AWAITING_REPORT = "awaiting report"
    READY = "ready"


#: If these states begin at a later time, they withhold the node from jobs that end after it.
_AHEAD = (NodeState.DRAINING, NodeState.RESERVED)
_SEVERITY = {state: place for place, state in enumerate(NodeState)}
#: Why no new pod gets chips of a resource -> the state of the node.
_CLOSED = {
    UNKNOWN_HOLDER.code: NodeState.UNSTABLE,
    UNSTABLE_NODE.code: NodeState.UNSTABLE,
    IDLE_ABOVE_CAPACITY.code: NodeState.UNSTABLE,
    SHARES_WITHOUT_SOFT_LABEL.code: NodeState.UNSTABLE,
    UNREADABLE_POD.code: NodeState.INVALID,
}


@dataclass(frozen=True, slots=True)
class StateOfNode:
    state: NodeState
    #: A sentence; empty for a node that is ready.
    why: str = ""
    #: Whether new pods are kept away from all of its chips.
    closes: bool = True
    #: Of a drain or a reservation: when it begins or began, in nanoseconds; None: when an operator ran it.
    start: int | None = None
    #: Of a reservation: whose jobs may use the node, and whether it lasts now: they alone get its chips.
    holder: str = ""
    keeps: bool = False


READY = (StateOfNode(NodeState.READY, closes=False),)


@dataclass(frozen=True, slots=True)
class ChipStates:
    """The chips of one resource of a node as masks; together they are `listed`.

    A chip in use may be faulty or isolated, too. Apart from that no chip is in two of them, so the unusable
    chips are the sum of faulty, isolated and unschedulable ones.
    """

    listed: int
    used: int
    faulty: int
    isolated: int
    reserved: int
    unschedulable: int
    free: int

    def by_state(self) -> Iterator[tuple[str, int]]:
        """Yield each state and the chips that are shown in it: every chip in one."""
        left = self.listed
        for name in CHIP_STATES:
            mask = getattr(self, name) & left
            left &= ~mask
            yield name, mask

    def counts(self) -> Iterator[tuple[str, int]]:
        """Yield each state and how many chips are in it."""
        for name in CHIP_STATES:
            yield name, getattr(self, name).bit_count()


#: A chip is shown in the first that applies.
CHIP_STATES = ("used", "faulty", "isolated", "reserved", "unschedulable", "free")


def node_states(cluster: ClusterState, number: int, now: int) -> tuple[StateOfNode, ...]:
    """Worst first; never empty."""
    node = cluster.nodes[number]
    if node is None:
        return (StateOfNode(NodeState.NOT_READY, NODE_NOT_READY(node=cluster.names[number]).message),)
    states = [*_of_object(node), *_of_chips(cluster, number)]
    if number in cluster.node_status or number in cluster.sub_healthy:
        states += _of_health(cluster, number)
    if number in cluster.isolated_nodes or number in cluster.node_windows:
        states += _of_operators(cluster, number, node, now)
    return tuple(sorted(states, key=_severity)) or READY


def _severity(one: StateOfNode) -> float:
    # A scheduled drain does not close the node before it starts.
    ahead = one.state is NodeState.DRAINING and not one.closes
    if one.state is NodeState.RESERVED and not one.keeps:
        # Of several the next comes first.
        return _SEVERITY[NodeState.RESERVED] + 0.5
    return _SEVERITY[NodeState.CORDONED] + 0.5 if ahead else _SEVERITY[one.state]


def is_open(states: Sequence[StateOfNode]) -> bool:
    """Whether the node takes new pods with chips now."""
    return not any(one.closes for one in states)


def has_shared_chips(cluster: ClusterState, number: int) -> bool:
    """Whether several pods may have one chip of the node."""
    return cluster.modes.get(number, NO_CHIPS).mode in (SOFT, DYNAMIC)


def chip_states(
    cluster: ClusterState, number: int, fleet: Fleet, states: Sequence[StateOfNode]
) -> ChipStates:
    """`states`: those of the node."""
    listed = fleet.listed[number] if fleet.allocatable[number] >= 0 else 0
    shared = has_shared_chips(cluster, number)
    used = listed & (mask_of(cluster.amounts(number).chips) if shared else fleet.taken(number))
    faulty = listed & (fleet.broken(number) | fleet.pre_separated[number])
    isolated = (listed if number in cluster.isolated_nodes else listed & fleet.isolated[number]) & ~faulty
    left = listed & ~(used | faulty | isolated)
    reserved = left & fleet.reserved[number]
    left &= ~reserved
    # The node's own report may list fewer chips than the scheduler would give out (N7).
    if shared:
        is_closed = cluster.modes[number].closed is not None or bool(cluster.amounts(number).unknown)
        free = left & (fleet.reported[number] or 0) & ~fleet.doubtful[number]
    else:
        is_closed, free = fleet.closed[number] is not None, left & fleet.free_mask[number]
    if is_closed or not is_open(states):
        free = 0
    if free and any(one.keeps for one in states):
        reserved, left, free = reserved | free, left & ~free, 0
    return ChipStates(listed, used, faulty, isolated, reserved, left & ~free, free)


def offered(cluster: ClusterState, number: int) -> Iterator[tuple[str, Fleet]]:
    """The kinds of chips that the node has, by resource."""
    for resource, fleet in cluster.fleets.items():
        if is_part_of_a_chip(resource):
            # It counts vNPUs, whose chips the node reports under another resource.
            continue
        if resource != HOSTS and number < len(fleet.allocatable) and fleet.allocatable[number] >= 0:
            yield resource, fleet


@dataclass(frozen=True, slots=True)
class BeforeDrain:
    """Free chips of one resource of a node that is drained, or reserved, later."""

    node: int
    name: str
    resource: str
    #: When the drain or the reservation begins, in nanoseconds.
    start: int
    chips: int
    #: `drained` or `reserved`: what happens to the node then.
    event: str


def states_for(cluster: ClusterState, number: int, now: int, holder: str = "") -> tuple[StateOfNode, ...]:
    """The states of a node as a job of this holder finds it: a reservation for it keeps nothing from it."""
    states = node_states(cluster, number, now)
    if not holder:
        return states
    return tuple(one for one in states if one.holder != holder) or READY


def before_drains(
    cluster: ClusterState, settings: Settings, now: int, holder: str = ""
) -> Iterator[BeforeDrain]:
    """The free chips that only a job which says that it ends before a drain or a reservation gets.

    Not those before a reservation of `holder`.
    """
    for number in cluster.node_windows:
        states = states_for(cluster, number, now, holder)
        ahead = drain_ahead(states, settings)
        if ahead is not None:
            what = "drained" if ahead.state is NodeState.DRAINING else "reserved"
            name, start = cluster.names[number], ahead.start or 0
            for chips in chips_of_node(cluster, number, states):
                if chips.states.free:
                    free = chips.states.free.bit_count()
                    yield BeforeDrain(number, name, chips.resource, start, free, what)


def before_drain_counts(
    cluster: ClusterState, settings: Settings, now: int, within: int | None = None
) -> dict[str, int]:
    """Resource -> how many of its free chips are for jobs that end before a drain or a reservation.

    `within`: only those of these nodes, as bits by node id.
    """
    result = Counter[str]()
    for one in before_drains(cluster, settings, now):
        if within is None or within >> one.node & 1:
            result[one.resource] += one.chips
    return result


def drain_ahead(states: Iterable[StateOfNode], settings: Settings) -> StateOfNode | None:
    """Return the state before whose start a job must end to get chips of the node (F4), or None.

    A reservation that has not started counts like a scheduled drain.
    """
    if not settings.reserved_nodes_require_duration:
        return None
    ahead = (
        one
        for one in states
        if one.state in _AHEAD and one.start is not None and not (one.closes or one.keeps)
    )
    return min(ahead, key=lambda one: one.start or 0, default=None)


def chip_counts(cluster: ClusterState, now: int, within: int | None = None) -> dict[str, dict[str, int]]:
    """Resource -> state -> how many chips of the cluster, or of these nodes, are in it; `chips` are all."""
    result: dict[str, dict[str, int]] = {}
    for number in cluster.existing_nodes() if within is None else members_of(within):
        for chips in chips_of_node(cluster, number, node_states(cluster, number, now)):
            counts = result.setdefault(chips.resource, dict.fromkeys(("chips", *CHIP_STATES), 0))
            counts["chips"] += chips.states.listed.bit_count()
            for name, count in chips.states.counts():
                counts[name] += count
    return result


def stale_reports(cluster: ClusterState, now: int) -> Iterator[tuple[Node, DeviceReport]]:
    """Yield nodes whose report is too old, with the report; that of ClusterD only if there is no other."""
    for (name, _), reports in cluster.reports.items():
        report = reports.get(False) or reports[True]
        number = cluster.node_id.get(name)
        node = None if number is None else cluster.nodes[number]
        if node is not None and report.update_time and now - report.update_time > STALE_AFTER:
            yield node, report


def nodes_with_stale_reports(cluster: ClusterState, now: int) -> set[str]:
    """Return the ready nodes whose device plugin does not report."""
    return {node.name for node, _ in stale_reports(cluster, now) if node.ready}


def listed_chips(cluster: ClusterState) -> dict[str, int]:
    """Resource -> chips of the cluster, whatever state they are in."""
    counts = Counter[str]()
    for number in cluster.existing_nodes():
        for resource, fleet in offered(cluster, number):
            counts[resource] += fleet.listed[number].bit_count()
    return dict(sorted((+counts).items()))


def is_idle(cluster: ClusterState, number: int, now: int) -> bool:
    """Whether the node has chips and all of them are free: a pod may have the whole node."""
    chips = [one.states for one in chips_of_node(cluster, number, node_states(cluster, number, now))]
    return any(one.listed for one in chips) and all(one.free == one.listed for one in chips)


def dedicating_taints(cluster: ClusterState, numbers: Iterable[int]) -> set[str]:
    """Keys of taints that keep pods away and are not a condition of the node."""
    return {
        taint.key
        for node in map(cluster.nodes.__getitem__, numbers)
        if node is not None
        for taint in node.taints
        if taint.effect in FORBIDDING and not taint.key.startswith(NODE_TAINT_PREFIX)
    }


def _of_object(node: Node) -> Iterator[StateOfNode]:
    if not node.ready:
        yield StateOfNode(NodeState.NOT_READY, NODE_NOT_READY(node=node.name).message)
    if node.unschedulable:
        yield StateOfNode(NodeState.CORDONED, f"{node.name} is cordoned")
        return
    for taint in node.taints:
        if taint.effect in FORBIDDING and taint.key.startswith(NODE_TAINT_PREFIX) and node.ready:
            yield StateOfNode(NodeState.UNHEALTHY, f"{node.name} has the taint {taint.key}")


def _of_health(cluster: ClusterState, number: int) -> Iterator[StateOfNode]:
    name, status = cluster.names[number], cluster.node_status.get(number)
    if status is NodeStatus.UNHEALTHY:
        because = unhealthy_because(cluster.node_reports(name))
        yield StateOfNode(NodeState.UNHEALTHY, f"{NODE_UNHEALTHY(node=name).message}{because}")
    elif status is NodeStatus.PRE_SEPARATE:
        yield StateOfNode(NodeState.UNHEALTHY, NODE_PRE_SEPARATED(node=name).message)
    weak = cluster.sub_healthy.get(number)
    if weak is not None:
        yield StateOfNode(NodeState.SUB_HEALTHY, f"{weak} is sub-healthy", closes=False)


def _of_operators(cluster: ClusterState, number: int, node: Node, now: int) -> Iterator[StateOfNode]:
    isolation, windows = cluster.isolated_nodes.get(number), cluster.node_windows.get(number, ())
    drain = drain_of(windows)
    if isolation is not None:
        why = NODE_ISOLATED(node=node.name, **isolation.details).message
        yield StateOfNode(NodeState.ISOLATED, why)
        if isolation.reason == DRAIN and any(
            cluster.pods[uid].pod.cls.chips for uid in cluster.pods_on[number]
        ):
            yield StateOfNode(NodeState.DRAINING, f"{node.name} is drained, and pods with chips are left")
    if drain is not None and drain.start is not None:
        begun = drain.start <= now
        time = time_text(drain.start)
        why = f"{node.name} is drained " + (
            f"since {time}" if begun else f"at {time}, and takes only jobs that end before then"
        )
        yield StateOfNode(NodeState.DRAINING, why, begun, drain.start)
    for one in reservations_of(windows):
        if one.end > now:
            yield _of_reservation(node.name, one, now)


def _of_reservation(node: str, one: NodeReservation, now: int) -> StateOfNode:
    start, end = time_text(one.start), time_text(one.end)
    if one.start <= now:
        why = f"{node} is reserved for {one.holder} until {end} ({one.name})"
    else:
        why = f"{node} is reserved for {one.holder} from {start} to {end} ({one.name})"
        why += ", and takes only jobs that end before then"
    return StateOfNode(NodeState.RESERVED, why, False, one.start, one.holder, one.start <= now)


def _of_chips(cluster: ClusterState, number: int) -> Iterator[StateOfNode]:
    """What keeps pods from the chips of one resource; those of another resource may be free."""
    name, pending = cluster.names[number], []
    mode = cluster.modes.get(number, NO_CHIPS)
    if mode.closed is not None and mode.closed.code not in _CLOSED:
        yield StateOfNode(NodeState.UNSTABLE, mode.closed.message, closes=False)
    elif has_shared_chips(cluster, number) and (unknown := cluster.amounts(number).unknown):
        why = UNKNOWN_PART(node=name, pod=min(unknown, key=natural_key)).message
        yield StateOfNode(NodeState.UNSTABLE, why, closes=False)
    for resource, fleet in offered(cluster, number):
        closed = fleet.closed[number]
        if closed is not None and closed.code in _CLOSED:
            yield StateOfNode(_CLOSED[closed.code], closed.message, closes=False)
        if fleet.assumed[number] and fleet.listed[number]:
            pending.append(resource)
    if pending:
        why = f"no device plugin of {name} has reported its chips of {', '.join(sorted(pending))} yet"
        yield StateOfNode(NodeState.AWAITING_REPORT, why, closes=False)


# -- chips ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class NodeChips:
    """The chips of one resource of a node: the state in which each counts, and what else is true of it.

    Masks beside `states` are of chips in whatever state they count. They are read when they are asked for:
    many ask for the states alone.
    """

    resource: str
    states: ChipStates
    _cluster: ClusterState
    _number: int
    _fleet: Fleet

    @property
    def faulty(self) -> int:
        return self.states.listed & self._fleet.broken(self._number)

    @property
    def pre_separated(self) -> int:
        return self._fleet.pre_separated[self._number]

    @property
    def network_faulty(self) -> int:
        return max(0, self._fleet.network[self._number])

    @property
    def isolated(self) -> int:
        """Chips that an operator isolated, by themselves or with their node."""
        if self._number in self._cluster.isolated_nodes:
            return self.states.listed
        return self._fleet.isolated[self._number]

    @property
    def reserved(self) -> int:
        return self._fleet.reserved[self._number]

    @property
    def sub_healthy(self) -> int:
        if self._number not in self._cluster.sub_healthy:
            return 0
        return mask_of(fault.chip for fault in self.faults if fault.level == SUB_HEALTH_LEVEL)

    @property
    def is_reported(self) -> bool:
        """Whether a device plugin listed them; else they are assumed from their number."""
        return not self._fleet.assumed[self._number]

    @property
    def faults(self) -> Sequence[ReportedFault]:
        report = self._cluster.report_of(self._cluster.names[self._number], self.resource)
        return () if report is None else report.faults

    @property
    def are_well(self) -> bool:
        """Whether no chip has any of `by_health`; those of most nodes."""
        number, fleet = self._number, self._fleet
        return not (
            fleet.broken(number)
            or fleet.pre_separated[number]
            or fleet.network[number] > 0
            or fleet.isolated[number]
            or number in self._cluster.isolated_nodes
            or number in self._cluster.sub_healthy
        )

    def by_health(self) -> Iterator[tuple[str, int]]:
        """What the chips report of themselves and operators of them; a chip has the first that applies."""
        yield "faulty", self.states.faulty
        yield "isolated", self.states.isolated
        yield "network fault", self.network_faulty
        yield "sub-healthy", self.sub_healthy

    def holders(self) -> dict[int, tuple[Pod, bool]]:
        """Return by chip the pod that holds it, and whether it is doubtful that it does (N8).

        If several pods claim a chip, it is the first of them by name (N6); if no pod holds it, it is a pod
        that may have it.
        """
        if not self.states.used:
            return {}
        result: dict[int, tuple[Pod, bool]] = {}
        pods_here = [self._cluster.pods[uid] for uid in self._cluster.pods_on[self._number]]
        own = sorted(
            (one for one in pods_here if one.part_chips or one.pod.cls.resource == self.resource),
            key=lambda one: one.pod.key,
        )
        for placement in own:
            for chip in chips_of(placement.chips or placement.part_chips):
                result.setdefault(chip, (placement.pod, False))
        for placement in own:
            for chip in chips_of(placement.doubtful):
                result.setdefault(chip, (placement.pod, True))
        return result


def chips_of_node(cluster: ClusterState, number: int, states: Sequence[StateOfNode]) -> Iterator[NodeChips]:
    """The chips of each resource that the node has. `states` are those of the node."""
    for resource, fleet in offered(cluster, number):
        yield NodeChips(resource, chip_states(cluster, number, fleet, states), cluster, number, fleet)
