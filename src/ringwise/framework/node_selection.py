"""Selects the node for one pod. Answers that hold for its class are computed once a cycle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import field
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from ringwise.framework.budget import StepBudget
from ringwise.framework.extension_points import (
    NodeFilter,
    NodeScore,
    NodeSet,
    Predicate,
    SetFilter,
    first_reason,
)
from ringwise.framework.policy import ChipPolicy
from ringwise.framework.preferred_nodes import PreferredNodes
from ringwise.framework.reasons import RESOURCE_NOT_OFFERED
from ringwise.placement.reasons import NETWORK_KEY_MISSING
from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.state.cluster import ClusterState
from ringwise.state.fleet import HOSTS, Fleet
from ringwise.state.index import Group, View
from ringwise.state.model import PodClass
from ringwise.state.node_labels import members_of, node_set
from ringwise.state.node_shapes import NodeShape
from ringwise.state.node_weights import NodeWeights
from ringwise.state.node_windows import WithheldNodes
from ringwise.state.reasons import NODE_DRAINS, NODE_RESERVED

#: N3a: the weight of the board's score where scores are summed.
BOARD_WEIGHT = 100
#: A node that is hidden also comes back.
_STEPS_TO_HIDE = 4
#: To hide a node costs more than to rank one, and is done again for every job: of so many nodes one at most.
_HIDDEN = 8
#: All plugins score a shape for a class of pods: of everything that a step stands for, it takes the longest.
_STEPS_TO_SCORE = 3


class SelectedNode(NamedTuple):
    node: int
    score: int


@dataclass(slots=True, eq=False)
class NodeSelection:
    """The view of the fleet, the predicates and the scores for one class of pods."""

    state: ClusterState
    pod_class: PodClass
    policy: ChipPolicy | None
    predicates: Sequence[Predicate]
    scores: Sequence[NodeScore]
    #: N3a: scores are summed; otherwise the board's order decides first.
    sum_scores: bool
    #: Only work that grows with the nodes or with the selectors is counted.
    budget: StepBudget
    sets: Sequence[NodeSet] = ()
    #: Nodes that are withheld from jobs which end so late. A filter gives the reason for a single node; it is
    #: not called for all of them.
    withheld: Sequence[WithheldNodes] = ()
    chips: int = field(init=False)
    view: View = field(init=False)
    #: The fleet of its chips; it exists because the view does.
    _fleet: Fleet | None = field(init=False)
    _admitted: dict[int, bool] = field(default_factory=dict)
    _reasons: dict[int, Reason] = field(default_factory=dict)
    _scored: dict[int, float] = field(default_factory=dict)
    #: The last counts of refusals, and the version of the state they are about.
    _refusals: tuple[int, dict[str, int]] | None = None
    #: The nodes in all sets; None where there are no sets.
    _allowed: int | None = None
    #: Whichever are fewer: the nodes in all sets, best first, or those outside.
    _members: RankedNodes | None = None
    _excluded: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        state, policy = self.state, self.policy
        if policy is None:
            self.chips, self.view, self._fleet = 0, state.host_view(), None
        else:
            rule, resource = policy.rule, policy.resource
            self.chips = self.pod_class.chips
            self.view = state.view(resource, rule.name, rule, policy.multi_pod, policy.withholds_network)
            self._fleet = state.fleets[resource]
        if self.sets or self.withheld:
            self._resolve_sets()

    def narrowed(self, nodes: int) -> NodeSelection:
        """The same for some of the nodes. What is known of shapes is shared; the others are not counted."""
        result = copy(self)
        result._refusals = None
        result._allowed = nodes & (self.state.labels.existing if self._allowed is None else self._allowed)
        result._members = RankedNodes(result, members_of(result._allowed))
        result._excluded = frozenset()
        return result

    def _resolve_sets(self) -> None:
        existing = self.state.labels.existing
        allowed = existing
        for part in self.sets:
            allowed &= part.nodes
        for withheld in self.withheld:
            allowed &= ~withheld.nodes
        self._allowed = allowed
        few = existing.bit_count() // (_HIDDEN if self.withheld else 2)
        if (existing & ~allowed).bit_count() >= few:
            self._members = RankedNodes(self, members_of(allowed))
        else:
            self._excluded = frozenset(members_of(existing & ~allowed))

    @property
    def version(self) -> int:
        """The version of the state that answers are about."""
        return self.state.version

    # -- by class ------------------------------------------------------------------------

    def admits(self, shape: NodeShape) -> bool:
        admitted = self._admitted.get(shape.number)
        if admitted is None:
            self.budget.spend(1)
            reason = first_reason(self.predicates, self.pod_class, self.policy, shape)
            admitted = self._admitted[shape.number] = reason is None
            if reason is not None:
                self._reasons[shape.number] = reason
        return admitted

    def refusal(self, shape: NodeShape) -> Reason | None:
        """Why the predicates refuse nodes of this shape."""
        return None if self.admits(shape) else self._reasons[shape.number]

    def score(self, shape: NodeShape) -> float:
        """The sum of the plugins' scores, without the board's."""
        total = self._scored.get(shape.number)
        if total is None:
            total = 0.0
            self.budget.spend(_STEPS_TO_SCORE)
            for score in self.scores:
                total += score(self.pod_class, shape)
            self._scored[shape.number] = total
        return total

    # -- choosing -------------------------------------------------------------------------

    def choose(
        self,
        hidden: dict[int, Reason],
        filters: Sequence[NodeFilter] = (),
        preferred: PreferredNodes | None = None,
        avoided: Collection[int] = (),
    ) -> SelectedNode | None:
        """The best node that is not in `avoided`.

        Nodes that a filter refuses are suspended from the view and added to `hidden`. Those of a `SetFilter`
        are not: they may be open to the next pod.
        """
        if filters and preferred is None and any(isinstance(one, SetFilter) for one in filters):
            preferred = PreferredNodes((), self.state.labels.existing, self.budget)
        if preferred is not None:
            return self._choose_preferred(hidden, filters, preferred, avoided)
        if self._members is not None:
            return self._members.choose(hidden, filters, avoided)
        if self._excluded:
            filters = (self._outside, *filters)
        if not filters and not avoided:
            best = self._best()
            return None if best is None else SelectedNode(*best)
        skipped: list[int] = []
        try:
            while True:
                best = self._best()
                if best is None:
                    return None
                node, score = best
                if node in avoided:
                    skipped.append(node)
                    self.view.suspend(node)
                    continue
                if self._takes(node, filters, hidden):
                    return SelectedNode(node, score)
        finally:
            self._resume(skipped)

    def _choose_preferred(
        self,
        hidden: dict[int, Reason],
        filters: Sequence[NodeFilter],
        preferred: PreferredNodes,
        avoided: Collection[int],
    ) -> SelectedNode | None:
        nodes = self.state.labels.existing
        within = self._allowed
        if avoided:
            within = (nodes if within is None else within) & ~node_set(node for node in avoided if node >= 0)
        for one in filters:
            if isinstance(one, SetFilter):
                within = (nodes if within is None else within) & one.nodes()
        while True:
            best = self.view.best_preferred(
                self.chips,
                self.admits,
                self.score,
                preferred,
                weight=BOARD_WEIGHT if self.sum_scores else None,
                within=within,
            )
            if best is None:
                return None
            node, score = best
            if self._takes(node, filters, hidden):
                return SelectedNode(node, score)

    def _takes(self, node: int, filters: Sequence[NodeFilter], hidden: dict[int, Reason]) -> bool:
        """Whether all filters let the pod go there; else the node is hidden, with the reason."""
        blocked = first_reason(filters, node)
        if blocked is None:
            return True
        hidden[node] = blocked
        self.budget.spend(_STEPS_TO_HIDE)
        self.view.suspend(node)
        return False

    def hide_refused(self, hidden: dict[int, Reason], filters: Sequence[NodeFilter]) -> None:
        """Hide all nodes that fit and that a filter refuses now, each with the first reason."""
        for node in hidden:
            hidden[node] = first_reason(filters, node) or hidden[node]
        if any(isinstance(one, SetFilter) for one in filters):
            for node in members_of(self.fitting_set({})):
                self._takes(node, filters, hidden)

    def _outside(self, node: int) -> Reason | None:
        """Why the node is in not all of the sets."""
        if self._allowed is None or self._allowed >> node & 1:
            return None
        return next((part.refuse(node) for part in self.sets if not part.nodes >> node & 1), None)

    def is_withheld(self, node: int) -> bool:
        return any(part.nodes >> node & 1 for part in self.withheld)

    def rank(self, node: int) -> tuple[tuple[float, float, int], int] | None:
        """The sort key of a single node among those that fit (N3a), best first, and its score."""
        group = self.view.group_of(node)
        if group is None or not self.admits(group.shape):
            return None
        score = self._board_score(group)
        if score is None:
            return None
        rating = self.score(group.shape)
        order = self.state.rank_of(node)
        if self.sum_scores:
            return (-(BOARD_WEIGHT * score + rating), 0.0, order), score
        return (-score, -rating, order), score

    def _best(self) -> tuple[int, int] | None:
        if self.sum_scores:
            return self.view.best_sum(self.chips, self.admits, self.score, BOARD_WEIGHT)
        return self.view.best(self.chips, self.admits, self.score)

    def unhide(self, hidden: dict[int, Reason]) -> None:
        """Bring hidden nodes back into the view."""
        self._resume(hidden)
        hidden.clear()

    def _resume(self, nodes: Iterable[int]) -> None:
        for node in nodes:
            self.view.resume(node)
            self.state.refresh_node(node)

    def chips_on(self, node: int) -> tuple[int, ...]:
        """N5: the chips the board chooses on this node, in written order; empty if they do not fit."""
        policy = self.policy
        if policy is None:
            return ()
        usable = self.usable(node)
        if usable < 0:
            return ()
        signature = policy.rule.signature(usable, *self._health(node))
        if policy.rule.score(signature, self.chips, policy.multi_pod) is None:
            return ()
        return policy.rule.chips(usable, self.chips, policy.multi_pod)

    def chips_of_chosen(self, node: int) -> tuple[int, ...]:
        """The same for a node that was just chosen, so that it is known to fit."""
        policy, fleet = self.policy, self._fleet
        if policy is None or fleet is None:
            return ()
        usable = fleet.usable(node, policy.withholds_network)
        return policy.rule.chips(usable, self.chips, policy.multi_pod)

    def fits(self, node: int) -> bool:
        """Whether the pod fits now: by name, by class, by chips, and the node is not closed."""
        group = self.view.group_of(node)
        return (
            group is not None
            and self.admits(group.shape)
            and self._board_score(group) is not None
            and (self._allowed is None or bool(self._allowed >> node & 1))
            and not self.is_withheld(node)
        )

    def fitting_nodes(self) -> list[int]:
        """All nodes that could take one pod now, in natural order."""
        return sorted(members_of(self.fitting_set({})), key=self.state.rank_of)

    def fitting_set(self, cache: dict[tuple[int, ...], int]) -> int:
        """The same as a set. `cache` holds the results of other classes while nothing is placed."""
        if self._members is not None:
            self.budget.spend(1 + len(self._members.nodes))
            return node_set(node for node in self._members.nodes if self.rank(node) is not None)
        groups = [group for _, group in self.view.fitting(self.chips) if self.admits(group.shape)]
        self.budget.spend(1 + len(groups))
        key = tuple(map(id, groups))
        nodes = cache.get(key)
        if nodes is None:
            members = [node for group in groups for node in self.view.members(group)]
            self.budget.spend(len(members))
            nodes = cache[key] = node_set(members)
        return nodes if self._allowed is None else nodes & self._allowed

    def room(self, most: int) -> NodeWeights:
        """How many pods of this class each node can take now, at most; `most` stands for more.

        No look at single nodes: some may take fewer, where pods or chips keep each other away.
        """
        by_count: dict[int, list[Group]] = {}
        for _, group in self.view.fitting(self.chips):
            self.budget.spend(1)
            if self.admits(group.shape):
                by_count.setdefault(min(most, self._copies(group)), []).append(group)
        result = NodeWeights(self.state.labels.existing)
        for count, groups in by_count.items():
            nodes = self.view.nodes_of(groups)
            result.add(count, nodes if self._allowed is None else nodes & self._allowed)
        return result

    def _copies(self, group: Group) -> int:
        """How often the request fits on a node of this group; 0 is not a limit (`predicates`)."""
        cls, shape, node = self.pod_class, group.shape, group.shape.node_class
        limits = [
            (node.cpu_milli, shape.cpu_used, cls.cpu_milli),
            (node.most_memory, shape.memory_used, cls.memory),
            (node.max_pods, shape.pods, 1),
        ]
        if cls.extended:
            used = dict(shape.extended_used)
            limits += [
                (node.most_extended.get(name, 0), used.get(name, 0), amount) for name, amount in cls.extended
            ]
        counts = [(has - taken) // amount for has, taken, amount in limits if has and amount]
        if self.policy is not None:
            counts.append(self.policy.rule.most_free(group.bucket.signature) // self.chips)
        return max(1, min(counts, default=1 << 30))

    def _board_score(self, group: Group) -> int | None:
        if self.policy is None:
            return 0
        return self.policy.rule.score(group.bucket.signature, self.chips, self.policy.multi_pod)

    def usable(self, node: int) -> int:
        if self.policy is None or self._fleet is None:
            return 0
        return self._fleet.usable(node, self.policy.withholds_network)

    def _health(self, node: int) -> tuple[int, int]:
        fleet = self._fleet
        if fleet is None:
            return 0, 0
        return fleet.allocatable[node], fleet.faulty[node]

    # -- explaining --------------------------------------------------------------------------

    def verdict(self, node: int) -> tuple[int | None, Reason | None]:
        """(score, None) where the pod fits, (None, reason) elsewhere. One node at a time, to explain it.

        In the order in which `refusals` counts: the resource, the state of the node, the selectors, the room.
        """
        state, policy = self.state, self.policy
        resource = policy.resource if policy is not None else HOSTS
        if policy is not None and state.fleets[resource].allocatable[node] < 0:
            return None, RESOURCE_NOT_OFFERED(node=state.names[node], resource=resource)
        closed = state.closed(node, resource)
        if closed is not None:
            return None, closed
        usable = self.usable(node)
        if usable < 0:
            return None, NETWORK_KEY_MISSING(node=state.names[node], resource=resource)
        refused = self.unselected(node)
        if refused is not None or policy is None:
            return (None, refused) if refused is not None else (0, None)
        score = policy.rule.score(
            policy.rule.signature(usable, *self._health(node)), self.chips, policy.multi_pod
        )
        if score is None:
            return None, policy.rule.lack(usable, self.chips, policy.multi_pod)
        return score, None

    def unselected(self, node: int) -> Reason | None:
        """Why the sets or the predicates refuse the node, whatever its state and its chips are."""
        outside = self._outside(node)
        shape = self.state.shape_of(node)
        return outside if outside is not None or shape is None else self.refusal(shape)

    def selects(self, node: int) -> bool:
        """Whether neither the sets nor the predicates refuse the node."""
        if self._allowed is not None and not self._allowed >> node & 1:
            return False
        shape = self.state.shape_of(node)
        return shape is None or self.admits(shape)

    def selects_none(self) -> bool:
        """Whether the sets and the predicates refuse every node that is open."""
        groups = [group for group in self.view.groups() if self.admits(group.shape)]
        if self._allowed is None or not groups:
            return not groups
        return not self.view.nodes_of(groups) & self._allowed

    def refusals(self, hidden: Mapping[int, Reason]) -> dict[str, int]:
        """How many nodes are refused, by reason code; the cost grows with the groups, not with the nodes.

        Every node counts once, with the reason of its `verdict` or of the filter that hid it.
        """
        version = self.state.version
        if not hidden and self._refusals is not None and self._refusals[0] == version:
            return self._refusals[1]
        counts: Counter[str] = Counter(reason.code for reason in hidden.values())
        in_view = len(hidden)
        outside = self._outside_by_group(counts)
        for group in self.view.groups():
            in_view += group.count
            inside = group.count - outside.get(id(group), 0)
            if not inside:
                continue
            refused = self.refusal(group.shape)
            if refused is not None:
                counts[refused.code] += inside
            elif self._board_score(group) is None:
                counts[self._lack(group).code] += inside
        state = self.state
        fleet = state.fleets[HOSTS if self.policy is None else self.policy.resource]
        counts.update({code: count for code, count in fleet.closed_counts.items() if count})
        if self.policy is not None:
            without_network = fleet.size - in_view - sum(fleet.closed_counts.values())
            if without_network > 0:
                counts[NETWORK_KEY_MISSING.code] += without_network
            elsewhere = state.node_count - fleet.size
            if elsewhere > 0:
                counts[RESOURCE_NOT_OFFERED.code] += elsewhere
        result = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
        if not hidden:
            self._refusals = (version, result)
        return result

    def _outside_by_group(self, counts: Counter[str]) -> dict[int, int]:
        """Count the nodes of the view that are not in all sets by the reason; and how many each group has."""
        result: Counter[int] = Counter()
        if self._allowed is None:
            return result
        left = self.state.labels.existing
        for part in self.sets:
            refused = left & ~part.nodes
            left &= part.nodes
            for node in members_of(refused):
                group = self.view.group_of(node)
                if group is not None:
                    result[id(group)] += 1
                    counts[part.kind.code] += 1
        for withheld in self.withheld:
            code = NODE_RESERVED.code if withheld.is_reservation else NODE_DRAINS.code
            for node in members_of(left & withheld.nodes):
                group = self.view.group_of(node)
                # The reason of a filter: only nodes count that would do otherwise.
                if group is None or not self.admits(group.shape) or self._board_score(group) is None:
                    continue
                result[id(group)] += 1
                counts[code] += 1
        return result

    def _lack(self, group: Group) -> Reason:
        if self.policy is None:
            raise ValueError("a pod without chips cannot lack chips")
        return self.policy.rule.lack(self.usable(self.view.first(group)), self.chips, self.policy.multi_pod)


class RankedNodes:
    """The few nodes that a class of pods may use, best first.

    The order is kept from one pod of a gang to the next: only the node that the last one took moves in it.
    """

    __slots__ = ("_heap", "_last", "_last_group", "_selection", "_version", "nodes")

    def __init__(self, selection: NodeSelection, nodes: list[int]) -> None:
        self._selection = selection
        self.nodes = nodes
        self._heap: list[tuple[tuple[float, float, int], int, int]] = []
        self._version = -1
        self._last = -1
        self._last_group: Group | None = None

    def choose(
        self,
        hidden: dict[int, Reason],
        filters: Sequence[NodeFilter],
        avoided: Collection[int],
    ) -> SelectedNode | None:
        """As `NodeSelection.choose`."""
        view = self._selection.view
        current = not avoided
        heap = self._current() if current else self._ranked(avoided)
        while heap:
            _, score, node = heap[0]
            if view.group_of(node) is None:
                heappop(heap)
                continue
            blocked = first_reason(filters, node)
            if blocked is None:
                if current:
                    self._last, self._last_group = node, view.group_of(node)
                return SelectedNode(node, score)
            hidden[node] = blocked
            self._selection.budget.spend(_STEPS_TO_HIDE)
            view.suspend(node)
            heappop(heap)
        return None

    def _ranked(self, avoided: Collection[int]) -> list[tuple[tuple[float, float, int], int, int]]:
        self._selection.budget.spend(len(self.nodes))
        heap = [
            (rank[0], rank[1], node)
            for node in self.nodes
            if node not in avoided and (rank := self._selection.rank(node)) is not None
        ]
        heapify(heap)
        return heap

    def _current(self) -> list[tuple[tuple[float, float, int], int, int]]:
        """The order now. A placed pod changes its node, and nothing else."""
        version, last = self._selection.version, self._last
        moved = last >= 0 and self._selection.view.group_of(last) is not self._last_group
        if self._version >= 0 and version == self._version + moved:
            if moved:
                heappop(self._heap)
                rank = self._selection.rank(last)
                if rank is not None:
                    heappush(self._heap, (rank[0], rank[1], last))
        else:
            self._heap = self._ranked(())
        self._version, self._last = version, -1
        return self._heap
