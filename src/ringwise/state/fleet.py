"""All chips of one resource in the cluster: flat arrays, indexed by node id.

Rule N7: a chip is free when the node lists it, no live pod holds it, and it is healthy.
This is computed in one place, `free`; everything else follows from it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, fields

from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.state.index import Scorer, View
from ringwise.state.model import DeviceReport, Isolation
from ringwise.state.node_health import NodeStatus
from ringwise.state.node_shapes import NodeShape
from ringwise.state.reasons import (
    IDLE_ABOVE_CAPACITY,
    NODE_ISOLATED,
    NODE_NOT_READY,
    NODE_PRE_SEPARATED,
    NODE_UNHEALTHY,
    UNKNOWN_HOLDER,
    UNREADABLE_POD,
    UNSTABLE_NODE,
)
from ringwise.topology.chips import chip_names, chips_of
from ringwise.topology.natural import natural_key

#: The fleet for pods that request no chips: it has nodes, not chips.
HOSTS = ""

#: The node publishes no network health at all.
NO_NETWORK_KEY = -1


def health_refusal(status: NodeStatus | None, node: str) -> Reason | None:
    """Why a node of this status takes no new pods with chips, or shares and vNPUs of them."""
    if status is NodeStatus.UNHEALTHY:
        return NODE_UNHEALTHY(node=node)
    return NODE_PRE_SEPARATED(node=node) if status is NodeStatus.PRE_SEPARATE else None


class HostRule:
    """For pods without chips every node scores the same."""

    def signature(self, usable: int, allocatable: int, faulty: int) -> int:
        return 0

    def score(self, signature: object, request: int, multi_pod: bool) -> int:
        return 0


@dataclass(slots=True, eq=False)
class Fleet:
    """The chips of one resource, and the views that rules read."""

    resource: str
    self_maintain: bool
    #: node -> live pods, by uid, that cannot be read and may use chips of any resource; of the cluster.
    unreadable_pods: Mapping[int, Mapping[str, str]]
    #: Nodes that an operator isolated as a whole; of the cluster.
    isolated_nodes: Mapping[int, Isolation]
    #: Nodes that are not healthy; of the cluster.
    node_status: Mapping[int, NodeStatus]
    #: Nodes whose chips are shared, with the reason (V1); of the cluster.
    shared_nodes: Mapping[int, Reason]
    #: Nodes with static vNPUs: the chips of these are not in the lists of their reports (V2).
    static_nodes: Collection[int] = ()
    listed: list[int] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    unhealthy: list[int] = field(default_factory=list)
    recovering: list[int] = field(default_factory=list)
    #: Chips with a fault of level `PreSeparateNPU`. Pods that hold them keep them.
    pre_separated: list[int] = field(default_factory=list)
    #: Chips that pods may have besides those that they hold (N8): no other pod gets them.
    doubtful: list[int] = field(default_factory=list)
    #: Chips that an operator isolated. Pods that hold them keep them.
    isolated: list[int] = field(default_factory=list)
    network: list[int] = field(default_factory=list)
    #: Of those, chips that the report does not name; by node.
    links_down: dict[int, int] = field(default_factory=dict)
    #: The free list of the node's report, or None without a report.
    reported: list[int | None] = field(default_factory=list)
    #: What Kubernetes counts: allocatable chips (-1: none here), and those requested by live pods.
    allocatable: list[int] = field(default_factory=list)
    #: How many nodes offer this resource.
    size: int = 0
    requested: list[int] = field(default_factory=list)
    #: Chips of the node as Kubernetes counts them, faulty ones too.
    capacity: list[int] = field(default_factory=list)
    faulty: list[int] = field(default_factory=list)
    #: Chips that pods released inside an open transaction: free for the decision at hand.
    supposed_free: list[int] = field(default_factory=list)
    #: Chips reserved for one job: free for that job only.
    reserved: list[int] = field(default_factory=list)
    free_mask: list[int] = field(default_factory=list)
    #: Free chips of all nodes that are not closed, and each node's part of that sum.
    free_total: int = 0
    _counted: list[int] = field(default_factory=list)
    #: Chips of all nodes, free or not, without the unhealthy ones; and how many of each node.
    healthy_total: int = 0
    _healthy: list[int] = field(default_factory=list)
    #: Why a node takes no pod with this resource at all.
    closed: list[Reason | None] = field(default_factory=list)
    #: How many nodes are closed, by the code of the reason.
    closed_counts: dict[str, int] = field(default_factory=dict)
    #: True where chips 0..n-1 are only assumed.
    assumed: list[bool] = field(default_factory=list)
    #: Claims beyond the first on one chip: (node, chip) -> how many. Empty in a consistent cluster (N6).
    extra_claims: dict[tuple[int, int], int] = field(default_factory=dict)
    #: node -> pods that use chips without naming all of them (N7), with the number of unnamed chips.
    unknown_holders: dict[int, dict[str, int]] = field(default_factory=dict)
    #: By board, one-pod or multi-pod, and whether network-unhealthy chips are withheld.
    views: dict[tuple[str, bool, bool], View] = field(default_factory=dict)

    def grow(self, size: int) -> None:
        """Every list has an entry for each node."""
        missing = size - len(self.listed)
        if missing > 0:
            for name in _LISTS:
                getattr(self, name).extend([_FIRST_ENTRIES.get(name, 0)] * missing)

    # -- inventory -----------------------------------------------------------------

    def describe(
        self,
        node: int,
        devices: int | None,
        allocatable: int,
        report: DeviceReport | None,
        capacity: int | None = None,
    ) -> None:
        """Set the chips of a node from its own list and its report (N7).

        `devices` is the mask of the node's own list, None where it has none.
        """
        self.set_allocatable(node, allocatable)
        self.capacity[node] = allocatable if capacity is None else capacity
        self.assumed[node] = False
        if report is None:
            self.unhealthy[node] = self.recovering[node] = self.network[node] = 0
            self.pre_separated[node] = 0
            self.reported[node] = None
            if devices is None:
                self.assumed[node] = True
                devices = (1 << max(allocatable, 0)) - 1
        else:
            self.unhealthy[node] = report.unhealthy
            self.recovering[node] = report.recovering
            self.pre_separated[node] = report.pre_separated if report.faults else 0
            network = report.network_unhealthy
            links_down = self.links_down.get(node, 0)
            self.network[node] = NO_NETWORK_KEY if network is None else network | links_down
            self.reported[node] = report.free
            if devices is None:
                # The report lists free chips only; a chip that a pod holds exists, too.
                devices = report.free | report.unhealthy | report.recovering | (network or 0)
                devices |= self.held[node]
        self.listed[node] = devices
        self.faulty[node] = self.unhealthy[node].bit_count()

    def set_allocatable(self, node: int, allocatable: int) -> None:
        """-1 where the node does not offer the resource."""
        self.size += (allocatable >= 0) - (self.allocatable[node] >= 0)
        self.allocatable[node] = allocatable

    def forget(self, node: int) -> None:
        self.listed[node] = self.unhealthy[node] = self.recovering[node] = self.network[node] = 0
        self.reported[node] = None
        self.pre_separated[node] = self.isolated[node] = 0
        self.links_down.pop(node, None)
        self.set_allocatable(node, -1)
        self.faulty[node] = 0
        self.assumed[node] = False

    # -- claims ----------------------------------------------------------------------

    def claim(self, node: int, mask: int) -> int:
        """Hold chips; returns those that were held already (none inside a cycle, N6)."""
        twice = self.held[node] & mask
        if twice:
            for chip in chips_of(twice):
                key = (node, chip)
                self.extra_claims[key] = self.extra_claims.get(key, 0) + 1
        self.held[node] |= mask
        return twice

    def unclaim(self, node: int, mask: int) -> None:
        if self.extra_claims:
            for chip in chips_of(mask):
                extra = self.extra_claims.get((node, chip), 0)
                if extra:
                    mask &= ~(1 << chip)
                    if extra == 1:
                        del self.extra_claims[node, chip]
                    else:
                        self.extra_claims[node, chip] = extra - 1
        self.held[node] &= ~mask

    def drop_claims(self) -> None:
        """No pod holds anything: the claims are counted again from the pods."""
        self.extra_claims.clear()
        self.unknown_holders.clear()
        for node in range(len(self.held)):
            self.held[node] = self.requested[node] = self.supposed_free[node] = self.doubtful[node] = 0

    # -- what is free ------------------------------------------------------------------

    def free(self, node: int) -> int:
        """Rule N7: the mask of free chips, from pods or from the node's report."""
        blocked = self.held[node] | self.unhealthy[node] | self.recovering[node] | self.reserved[node]
        blocked |= self.isolated[node] | self.pre_separated[node] | self.doubtful[node]
        if self.self_maintain and node not in self.static_nodes:
            return self.listed[node] & ~blocked
        reported = self.reported[node]
        base = self.listed[node] if reported is None else reported | self.supposed_free[node]
        return base & ~blocked

    def free_if_empty(self, node: int) -> int:
        """The chips that would be free if no pod had any and none were reserved."""
        blocked = self.unhealthy[node] | self.recovering[node] | self.isolated[node]
        return self.listed[node] & ~(blocked | self.pre_separated[node] | self.doubtful[node])

    def taken(self, node: int) -> int:
        """Chips that pods hold or may have."""
        return self.held[node] | self.doubtful[node]

    def broken(self, node: int) -> int:
        """Faulty chips; of the pre-separated ones those that no pod uses."""
        leaving = self.pre_separated[node] & ~self.held[node]
        return self.unhealthy[node] | self.recovering[node] | leaving

    def usable(self, node: int, withhold_network: bool) -> int:
        """Free chips for a job; -1 when the node's network health is unknown but needed."""
        free = self.free_mask[node]
        if not withhold_network:
            return free
        network = self.network[node]
        return -1 if network == NO_NETWORK_KEY else free & ~network

    def idle(self, node: int) -> int:
        """Free chips as Kubernetes counts them."""
        return self.allocatable[node] - self.requested[node]

    def refresh(self, node: int, name: str, shape: NodeShape | None) -> None:
        """Recompute what follows from the node's masks and update every view. No shape: not ready."""
        if not self.resource and not self.views:
            return
        free = self.free(node)
        self.free_mask[node] = free
        closed = self._closed(node, name, free, shape is not None)
        before = self.closed[node]
        if closed is not before:
            if before is not None:
                self.closed_counts[before.code] -= 1
                if not self.closed_counts[before.code]:
                    del self.closed_counts[before.code]
            if closed is not None:
                self.closed_counts[closed.code] = self.closed_counts.get(closed.code, 0) + 1
            self.closed[node] = closed
        allocatable = self.allocatable[node]
        counted = free.bit_count() if closed is None and allocatable >= 0 else 0
        self.free_total += counted - self._counted[node]
        self._counted[node] = counted
        counts = allocatable >= 0 and node not in self.shared_nodes
        healthy = (self.listed[node] & ~self.unhealthy[node]).bit_count() if counts else 0
        self.healthy_total += healthy - self._healthy[node]
        self._healthy[node] = healthy
        for (_, _, withholds_network), view in self.views.items():
            if shape is None or closed is not None or allocatable < 0:
                view.drop(node)
                continue
            usable = self.usable(node, True) if withholds_network else free
            if usable < 0:
                view.drop(node)
            else:
                view.put(node, usable, allocatable, self.faulty[node], shape)

    def fill(self, view: View, withholds_network: bool, shapes: Sequence[NodeShape | None]) -> None:
        """Put all nodes into a new view. What follows from their masks is up to date and only read."""
        closed, allocatable, faulty, put = self.closed, self.allocatable, self.faulty, view.put
        for node, shape in enumerate(shapes):
            # A node that is not ready is closed.
            if shape is None or closed[node] is not None or allocatable[node] < 0:
                continue
            usable = self.usable(node, withholds_network)
            if usable >= 0:
                put(node, usable, allocatable[node], faulty[node], shape)

    def _closed(self, node: int, name: str, free: int, ready: bool) -> Reason | None:
        """Rule N7: why the node takes no new pod, for example because more chips look free than are idle."""
        allocatable = self.allocatable[node]
        if allocatable < 0:
            return None
        if not ready:
            return NODE_NOT_READY(node=name)
        isolation = self.isolated_nodes.get(node) if self.resource else None
        if isolation is not None:
            return NODE_ISOLATED(node=name, **isolation.details)
        if self.resource and self.node_status:
            refused = health_refusal(self.node_status.get(node), name)
            if refused is not None:
                return refused
        if self.resource and node in self.shared_nodes:
            return self.shared_nodes[node]
        holders = self.unknown_holders.get(node)
        if holders:
            # The first by name, not by arrival: equal states give equal reasons.
            pod = min(holders, key=natural_key)
            return UNKNOWN_HOLDER(node=name, pod=pod, chips=holders[pod], resource=self.resource)
        if self.resource and node in self.unreadable_pods:
            unreadable = self.unreadable_pods[node].values()
            return UNREADABLE_POD(node=name, pod=min(unreadable, key=natural_key))
        # A chip that broke while a pod holds it is missing from allocatable and counted as used:
        # Kubernetes subtracts it twice.
        broken_in_use = (self.held[node] & self.unhealthy[node]).bit_count()
        idle = max(0, allocatable - self.requested[node] + broken_in_use)
        if idle > self.capacity[node]:
            return IDLE_ABOVE_CAPACITY(
                node=name, resource=self.resource, idle=idle, capacity=self.capacity[node]
            )
        if free.bit_count() > idle:
            return UNSTABLE_NODE(
                node=name,
                resource=self.resource,
                listed=free.bit_count(),
                idle=idle,
                allocatable=allocatable,
                free=chip_names(self.resource, chips_of(free)),
            )
        return None

    # -- views --------------------------------------------------------------------------

    def view(self, name: str, rule: Scorer, multi_pod: bool, withholds_network: bool) -> tuple[View, bool]:
        """The view of a rule, and whether it is new and must be filled by the caller."""
        key = (name, multi_pod, withholds_network)
        view = self.views.get(key)
        if view is not None:
            return view, False
        made = self.views[key] = View(rule, multi_pod)
        return made, True

    def drop_views(self, used: Collection[tuple[str, bool, bool]]) -> None:
        """Drop all views but these."""
        for key in [key for key in self.views if key not in used]:
            del self.views[key]
        if not self.resource and not self.views:
            # Without a view this fleet is not kept up to date at all, see `refresh`.
            self.closed = [None] * len(self.closed)
            self.closed_counts.clear()


_LISTS = tuple(one.name for one in fields(Fleet) if one.default_factory is list)
#: Where a new node does not begin with 0.
_FIRST_ENTRIES = {"reported": None, "allocatable": -1, "closed": None, "assumed": False}
