"""Selects the node for one pod. Answers that hold for its class are computed once a cycle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from ringwise.framework.extension_points import NodeFilter, NodeScore, Predicate, first_reason
from ringwise.framework.policy import ChipPolicy
from ringwise.framework.reasons import RESOURCE_NOT_OFFERED
from ringwise.placement.reasons import NETWORK_KEY_MISSING
from ringwise.reasons import Reason
from ringwise.state.cluster import ClusterState
from ringwise.state.fleet import Fleet
from ringwise.state.index import NO_NODES, Group, View
from ringwise.state.model import PodClass
from ringwise.state.node_shapes import NodeShape

#: N3a: the weight of the board's score where scores are summed.
BOARD_WEIGHT = 100


class SelectedNode(NamedTuple):
    node: int
    score: int


class NodeSelection:
    """The view of the fleet, the predicates and the scores for one class of pods."""

    __slots__ = (
        "_admitted",
        "_fleet",
        "_predicates",
        "_reasons",
        "_refusals",
        "_scored",
        "_scores",
        "_state",
        "_sum_scores",
        "chips",
        "pod_class",
        "policy",
        "view",
    )

    def __init__(
        self,
        state: ClusterState,
        pod_class: PodClass,
        policy: ChipPolicy | None,
        *,
        predicates: Sequence[Predicate],
        scores: Sequence[NodeScore],
        sum_scores: bool,
    ) -> None:
        self._state = state
        self._predicates = predicates
        self._scores = scores
        #: N3a: scores are summed; otherwise the board's order decides first.
        self._sum_scores = sum_scores
        self.pod_class = pod_class
        self.policy = policy
        self.chips = pod_class.chips if policy is not None else 0
        self.view: View = (
            state.view(
                policy.resource,
                policy.board.name,
                policy.rule,
                policy.multi_pod,
                policy.withholds_network,
            )
            if policy is not None
            else state.host_view()
        )
        #: The fleet of its chips; it exists because the view does.
        self._fleet: Fleet | None = state.fleets[policy.resource] if policy is not None else None
        self._admitted: dict[int, bool] = {}
        self._reasons: dict[int, Reason] = {}
        self._scored: dict[int, float] = {}
        #: The last counts of refusals, and the version of the state they are about.
        self._refusals: tuple[int, dict[str, int]] | None = None

    # -- by class ------------------------------------------------------------------------

    def admits(self, shape: NodeShape) -> bool:
        known = self._admitted.get(shape.number)
        if known is None:
            reason = first_reason(self._predicates, self.pod_class, self.policy, shape)
            known = self._admitted[shape.number] = reason is None
            if reason is not None:
                self._reasons[shape.number] = reason
        return known

    def refusal(self, shape: NodeShape) -> Reason | None:
        """Why the predicates refuse nodes of this shape."""
        return None if self.admits(shape) else self._reasons[shape.number]

    def score(self, shape: NodeShape) -> float:
        """The sum of the plugins' scores, without the board's."""
        known = self._scored.get(shape.number)
        if known is None:
            known = 0.0
            for score in self._scores:
                known += score(self.pod_class, shape)
            self._scored[shape.number] = known
        return known

    # -- choosing -------------------------------------------------------------------------

    def choose(
        self,
        hidden: dict[int, Reason],
        filters: Sequence[NodeFilter] = (),
        preferred: Mapping[int, float] = NO_NODES,
        avoided: Collection[int] = (),
    ) -> SelectedNode | None:
        """The best node that is not in `avoided`.

        Nodes that a filter refuses are suspended from the view and added to `hidden`.
        """
        if not filters and not avoided:
            found = self._best(preferred)
            return None if found is None else SelectedNode(*found)
        skipped: list[int] = []
        try:
            while True:
                found = self._best(preferred)
                if found is None:
                    return None
                node, score = found
                if node in avoided:
                    skipped.append(node)
                    self.view.suspend(node)
                    continue
                blocked = first_reason(filters, node)
                if blocked is None:
                    return SelectedNode(node, score)
                hidden[node] = blocked
                self.view.suspend(node)
        finally:
            self._resume(skipped)

    def _best(self, preferred: Mapping[int, float]) -> tuple[int, int] | None:
        if self._sum_scores:
            return self.view.best_sum(self.chips, self.admits, self.score, BOARD_WEIGHT, preferred)
        return self.view.best(self.chips, self.admits, self.score, preferred)

    def unhide(self, hidden: dict[int, Reason]) -> None:
        """Bring hidden nodes back into the view."""
        self._resume(hidden)
        hidden.clear()

    def _resume(self, nodes: Iterable[int]) -> None:
        for node in nodes:
            self.view.resume(node)
            self._state.refresh_node(node)

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
        """Whether the pod fits now: by class, by chips, and the node is not closed."""
        group = self.view.group_of(node)
        return group is not None and self.admits(group.shape) and self._board_score(group) is not None

    def fitting_nodes(self) -> list[int]:
        """All nodes that could take one pod now, in natural order."""
        rank = self._state.rank_of
        nodes = [
            node
            for _, group in self.view.fitting(self.chips)
            if self.admits(group.shape)
            for node in self.view.members(group)
        ]
        nodes.sort(key=rank)
        return nodes

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
        """(score, None) where the pod fits, (None, reason) elsewhere. One node at a time, to explain it."""
        state = self._state
        shape = state.shape_of(node)
        policy = self.policy
        resource = policy.resource if policy is not None else ""
        if shape is not None:
            refused = self.refusal(shape)
            if refused is not None:
                return None, refused
        if policy is not None and state.fleets[resource].allocatable[node] < 0:
            return None, RESOURCE_NOT_OFFERED(node=state.names[node], resource=resource)
        closed = state.closed(node, resource)
        if closed is not None or shape is None or policy is None:
            return (None, closed) if closed is not None else (0, None)
        usable = self.usable(node)
        if usable < 0:
            return None, NETWORK_KEY_MISSING(node=state.names[node], resource=policy.resource)
        score = policy.rule.score(
            policy.rule.signature(usable, *self._health(node)), self.chips, policy.multi_pod
        )
        if score is None:
            return None, policy.rule.lack(usable, self.chips, policy.multi_pod)
        return score, None

    def refusals(self, hidden: Mapping[int, Reason]) -> dict[str, int]:
        """How many nodes are refused, by reason code; the cost grows with the groups, not with the nodes."""
        version = self._state.version
        if not hidden and self._refusals is not None and self._refusals[0] == version:
            return self._refusals[1]
        counts: Counter[str] = Counter(reason.code for reason in hidden.values())
        in_view = len(hidden)
        for group in self.view.groups():
            in_view += group.count
            refused = self.refusal(group.shape)
            if refused is not None:
                counts[refused.code] += group.count
            elif self._board_score(group) is None:
                counts[self._lack(group).code] += group.count
        state = self._state
        if self.policy is not None:
            fleet = state.fleets[self.policy.resource]
            counts.update({code: count for code, count in fleet.closed_counts.items() if count})
            without_network = fleet.size - in_view - sum(fleet.closed_counts.values())
            if without_network > 0:
                counts[NETWORK_KEY_MISSING.code] += without_network
            elsewhere = state.node_count - fleet.size
            if elsewhere > 0:
                counts[RESOURCE_NOT_OFFERED.code] += elsewhere
        found = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
        if not hidden:
            self._refusals = (version, found)
        return found

    def _lack(self, group: Group) -> Reason:
        if self.policy is None:
            raise ValueError("a pod without chips lacks none")
        return self.policy.rule.lack(self.usable(self.view.first(group)), self.chips, self.policy.multi_pod)
