"""One kind of pod asks for a node. What holds for its class is found out once a cycle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ringwise.framework.extension_points import Point, first_reason
from ringwise.framework.policy import ChipPolicy
from ringwise.framework.reasons import RESOURCE_NOT_OFFERED
from ringwise.placement.reasons import NETWORK_KEY_MISSING
from ringwise.reasons import Reason
from ringwise.state.fleet import Fleet
from ringwise.state.index import NOBODY, Group, View
from ringwise.state.model import PodClass
from ringwise.state.node_shapes import NodeShape

if TYPE_CHECKING:
    from ringwise.framework.session import Session

#: The board's score counts this much beside the other plugins' where scores are added up.
BOARD_WEIGHT = 100

#: A plugin's word on one node: None, or why the pod may not run there now.
NodeFilter = Callable[[int], Reason | None]


class Choice(NamedTuple):
    node: int
    score: int


class NodeSelection:
    """The view of the fleet, the predicates and the scores for one class of pods."""

    __slots__ = (
        "_admitted",
        "_fleet",
        "_rated",
        "_reasons",
        "_refusals",
        "_session",
        "_sums",
        "chips",
        "pod_class",
        "policy",
        "view",
    )

    def __init__(self, session: Session, pod_class: PodClass, policy: ChipPolicy | None) -> None:
        self._session = session
        self.pod_class = pod_class
        self.policy = policy
        self.chips = pod_class.chips if policy is not None else 0
        self.view: View = (
            session.state.view(
                policy.resource,
                policy.board.name,
                policy.rule,
                policy.multi_pod,
                policy.withholds_network,
            )
            if policy is not None
            else session.state.host_view()
        )
        #: The fleet of its chips: there since the view is.
        self._fleet: Fleet | None = session.state.fleets[policy.resource] if policy is not None else None
        self._sums = session.settings.score_combination == "sum"
        self._admitted: dict[int, bool] = {}
        self._reasons: dict[int, Reason] = {}
        self._rated: dict[int, float] = {}
        #: The last answer to "who refuses and why", and the version of the state it is about.
        self._refusals: tuple[int, dict[str, int]] | None = None

    # -- by class ------------------------------------------------------------------------

    def admits(self, shape: NodeShape) -> bool:
        known = self._admitted.get(shape.number)
        if known is None:
            reason = self._object(shape)
            known = self._admitted[shape.number] = reason is None
            if reason is not None:
                self._reasons[shape.number] = reason
        return known

    def objection(self, shape: NodeShape) -> Reason | None:
        return None if self.admits(shape) else self._reasons[shape.number]

    def _object(self, shape: NodeShape) -> Reason | None:
        for predicate in self._session.registered(Point.PREDICATE):
            reason: Reason | None = predicate(self.pod_class, self.policy, shape)
            if reason is not None:
                return reason
        return None

    def rate(self, shape: NodeShape) -> float:
        """The other plugins' scores, added up."""
        known = self._rated.get(shape.number)
        if known is None:
            known = 0.0
            for score in self._session.registered(Point.NODE_SCORE):
                known += score(self.pod_class, shape)
            self._rated[shape.number] = known
        return known

    # -- choosing -------------------------------------------------------------------------

    def choose(
        self,
        hidden: dict[int, Reason],
        filters: Sequence[NodeFilter] = (),
        favoured: Mapping[int, float] = NOBODY,
        avoided: Collection[int] = (),
    ) -> Choice | None:
        """The best node that is not to be avoided.

        Nodes that a filter refuses are hidden from the view and noted in `hidden`.
        """
        if not filters and not avoided:
            found = self._best(favoured)
            return None if found is None else Choice(*found)
        passed_by: list[int] = []
        try:
            while True:
                found = self._best(favoured)
                if found is None:
                    return None
                node, score = found
                if node in avoided:
                    passed_by.append(node)
                    self.view.suspend(node)
                    continue
                blocked = first_reason(filters, node)
                if blocked is None:
                    return Choice(node, score)
                hidden[node] = blocked
                self.view.suspend(node)
        finally:
            self._resume(passed_by)

    def _best(self, favoured: Mapping[int, float]) -> tuple[int, int] | None:
        if self._sums:
            return self.view.best_sum(self.chips, self.admits, self.rate, BOARD_WEIGHT, favoured)
        return self.view.best(self.chips, self.admits, self.rate, favoured)

    def show(self, hidden: dict[int, Reason]) -> None:
        """Bring hidden nodes back into the view."""
        self._resume(hidden)
        hidden.clear()

    def _resume(self, nodes: Iterable[int]) -> None:
        for node in nodes:
            self.view.resume(node)
            self._session.state.refresh_node(node)

    def chips_on(self, node: int) -> tuple[int, ...]:
        """The chips the board chooses on this node, in written order; empty when they do not fit."""
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
        """The same for a node that was just chosen: that they fit there is known."""
        policy, fleet = self.policy, self._fleet
        if policy is None or fleet is None:
            return ()
        usable = fleet.usable(node, policy.withholds_network)
        return policy.rule.chips(usable, self.chips, policy.multi_pod)

    def fits(self, node: int) -> bool:
        """Fits now: by class, by chips, and not closed."""
        group = self.view.group_of(node)
        return group is not None and self.admits(group.shape) and self._score(group) is not None

    def fitting_nodes(self) -> list[int]:
        """All nodes that could take one pod now, in natural order."""
        rank = self._session.state.rank_of
        nodes = [
            node
            for _, group in self.view.fitting(self.chips)
            if self.admits(group.shape)
            for node in self.view.members(group)
        ]
        nodes.sort(key=rank)
        return nodes

    def _score(self, group: Group) -> int | None:
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
        """(score, None) where the pod fits, (None, why not) elsewhere. One node at a time: for people."""
        state = self._session.state
        shape = state.shape_of(node)
        policy = self.policy
        resource = policy.resource if policy is not None else ""
        if shape is not None:
            objection = self.objection(shape)
            if objection is not None:
                return None, objection
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
        """Why nodes refuse, by reason code; costs as much as there are groups, not nodes."""
        version = self._session.state.version
        if not hidden and self._refusals is not None and self._refusals[0] == version:
            return self._refusals[1]
        counts: Counter[str] = Counter(reason.code for reason in hidden.values())
        in_view = len(hidden)
        for group in self.view.groups():
            in_view += group.count
            objection = self.objection(group.shape)
            if objection is not None:
                counts[objection.code] += group.count
            elif self._score(group) is None:
                counts[self._lack(group).code] += group.count
        state = self._session.state
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
