"""The domains that may take pods of a job, by tier, and why none does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from ringwise.framework.amounts import Amount, Amounts, add, amounts_of
from ringwise.framework.extension_points import DomainAttempt, DomainRequest
from ringwise.framework.gangs.previous_node import prefers_previous_node
from ringwise.framework.node_selection import NodeSelection
from ringwise.framework.reasons import GANG_INCOMPLETE, NO_NODE_FITS
from ringwise.framework.session import Session
from ringwise.grammar import listed
from ringwise.reasons import CAPACITY, Reason, ReasonFamily, Stage, Trigger
from ringwise.state.hyper_nodes import Domain, Forest
from ringwise.state.model import Pod, PodClass
from ringwise.state.node_labels import members_of, node_set
from ringwise.state.node_weights import NodeWeights
from ringwise.topology.natural import natural_key

_DOMAINS = frozenset({Trigger.HYPER_NODES_CHANGED, Trigger.JOB_CHANGED, Trigger.CONFIGURATION_CHANGED})


_full = ReasonFamily(Stage.GANG, CAPACITY | _DOMAINS)

NO_HYPER_NODE_FITS = _full(
    "no-hyper-node-fits",
    "no HyperNode {limit} fits {needed:pod}: of {hyper_nodes:HyperNode} the closest is {best} (tier "
    "{tier}) with {fit}",
    "wait until more of {best} is free",
    "set networkTopology.mode to soft: the job then uses the lowest tier that fits",
)

_too_small = ReasonFamily(
    Stage.GANG, _DOMAINS | {Trigger.NODE_ADDED, Trigger.NODE_CHANGED, Trigger.HEALTH_CHANGED}
)

HYPER_NODES_TOO_SMALL = _too_small(
    "hyper-nodes-too-small",
    "no HyperNode {limit} is large enough for {needed:pod}: the largest is {largest} with {nodes:node}",
    "raise networkTopology.highestTierAllowed",
    "set networkTopology.mode to soft: the job then uses the lowest tier that fits",
)

_no_domain = ReasonFamily(Stage.GANG, _DOMAINS | {Trigger.NODE_ADDED, Trigger.NODE_CHANGED})

NO_HYPER_NODE = _no_domain(
    "no-hyper-node",
    "the job must run in a HyperNode {limit}, but none with nodes exists",
    "create HyperNodes of that tier (see `ringwise get hypernodes`)",
    "set networkTopology.mode to soft: the job then uses the lowest tier that fits",
)

_left = ReasonFamily(Stage.GANG, _DOMAINS | {Trigger.NODE_ADDED, Trigger.NODE_CHANGED, Trigger.JOB_ENDED})

HYPER_NODE_LEFT = _left(
    "hyper-node-changed",
    "the running pods are no longer in one HyperNode {limit}: {listing}",
    "set networkTopology.highestTierAllowed to {holding:#}",
    "requeue the job, so that it starts in one HyperNode",
    "put these nodes into one HyperNode",
)


#: Nodes that one reason names.
_NAMED = 5


class DomainSearch:
    """The domains for one request, by tier, and what was found out about them."""

    def __init__(
        self,
        session: Session,
        forest: Forest,
        request: DomainRequest,
        room: Callable[[NodeSelection, int], NodeWeights],
        max_evicting: int,
    ) -> None:
        #: How many pods of a class each node can take at most.
        self._room = room
        self._max_evicting = max_evicting
        self._session = session
        self._forest = forest
        self._request = request
        #: What hard mode allows, by the top of a tree; None: everything.
        self._limits: dict[str, int | None] = {}
        if not request.topology.soft:
            self._limits = {top.name: forest.highest_tier(request.topology, top.name) for top in forest.tops}
        #: What the pods that must start together ask for.
        self._requests = total_requests(request.pods[: request.missing])
        #: How many of the pods fit into each allowed domain, at most.
        self._fits: dict[str, int] = {}
        counts: Counter[NodeSelection] = Counter()
        alike: dict[tuple[PodClass, tuple[str, ...]], list[Pod]] = {}
        for pod in request.pods:
            alike.setdefault((pod.cls, pod.claims), []).append(pod)
        for pods in alike.values():
            counts[session.node_selection(request.job, pods[0])] += len(pods)
        self._classes = counts

    def tiers(self) -> Iterator[Sequence[Domain]]:
        request, left = self._request, self._max_evicting
        previous = self._previous_nodes()
        # Healthy pods return to their nodes, so the domains that hold those come before a lower tier.
        first = [domain for domain in self._holding(previous) if self._takes(domain)] if previous else []
        for domain in first:
            yield [domain]
        tried = {domain.name for domain in first}
        for domains in self._by_tier():
            fitting = [domain for domain in domains if domain.name not in tried and self._takes(domain)]
            if request.evicting:
                fitting = fitting[:left]
                left -= len(fitting)
            if fitting:
                yield fitting
            if request.evicting and not left:
                return
        root = self._root()
        if root is not None:
            yield [root]

    def _by_tier(self) -> Iterator[Sequence[Domain]]:
        """The allowed domains that hold all pods which have a place, inside the given one."""
        if self._request.placed:
            for domain in self._holding(self._request.placed):
                yield [domain]
            return
        for domains in self._forest.by_tier.values():
            self._session.budget.spend(len(domains))
            yield [domain for domain in domains if self._allows(domain)]

    def _holding(self, nodes: int) -> Iterator[Domain]:
        """The allowed domains with all these nodes, the lowest first."""
        lowest = self._forest.holding(nodes | self._request.placed)
        if lowest is not None:
            for domain in (lowest, *self._forest.ancestors(lowest.name)):
                if self._allows(domain):
                    yield domain

    def _allows(self, domain: Domain) -> bool:
        within = self._request.within
        if within is not None and (domain.tier > within.tier or domain.nodes & ~within.nodes):
            return False
        if not domain.nodes:
            return False
        if self._request.topology.soft:
            return True
        limit = self._limits.get(domain.top)
        return limit is None or domain.tier <= limit

    def _takes(self, domain: Domain) -> bool:
        request = self._request
        if request.evicting:
            self._fits[domain.name] = 0
            may_gain = domain.nodes & request.evictable
            return bool(may_gain) and self._could_hold(domain)
        fit = 0
        for selection, count in self._classes.items():
            room = self._room(selection, count)
            self._session.budget.spend(1)
            fit += min(count, room.total(domain.nodes))
        self._fits[domain.name] = fit
        return fit >= request.missing

    def _could_hold(self, domain: Domain) -> bool:
        """Whether the domain would hold the pods if nothing else ran there."""
        return self._session.topology.domain_loads.holds(domain.name, self._requests)

    def _previous_nodes(self) -> int:
        """Nodes to which pods of the job return (S9); 0 where others run, which pin it anyway."""
        request, ids = self._request, self._session.state.node_id
        job = request.job
        if request.placed or not any(
            prefers_previous_node(self._session, job, pod) for pod in request.pods[:1]
        ):
            return 0
        return node_set(
            ids[previous.node]
            for previous in job.previous_nodes.values()
            if not previous.faulty and previous.node in ids
        )

    def _root(self) -> Domain | None:
        """All nodes, one tier above the highest; where a domain is given, that one stands for it."""
        request, state = self._request, self._session.state
        within = request.within
        if within is not None and within.name:
            return None
        highest = max(self._forest.by_tier, default=0)
        limit = request.topology.highest_tier
        if not request.topology.soft and (not self._forest.domains or limit is None or limit <= highest):
            return None
        return Domain("", highest + 1, "", state.labels.existing, "", "")

    # -- why none ------------------------------------------------------------------------

    def refuse(self, tried: Sequence[DomainAttempt]) -> Reason:
        if tried and not tried[-1].domain.name:
            # All nodes were tried: that is what keeps it waiting.
            return tried[-1].reason
        limit = self._limit_text()
        if not self._fits:
            return self._left(limit) if self._request.placed else NO_HYPER_NODE(limit=limit)
        fits = dict(self._fits)
        reasons: dict[str, Reason] = {}
        for attempt in tried:
            fits[attempt.domain.name] = attempt.placed
            reasons[attempt.domain.name] = attempt.reason
        domains = self._forest.domains
        # Of equal ones the first in natural order, as in the forest.
        nearest = domains[min(fits, key=lambda name: (-fits[name], domains[name].tier))]
        why = reasons.get(nearest.name)
        if why is not None and why.kind not in (NO_NODE_FITS, GANG_INCOMPLETE):
            # There are nodes: something else keeps it waiting, such as the share of its queue.
            return why
        missing = self._request.missing
        if not self._request.placed and not any(self._could_hold(domains[name]) for name in fits):
            largest = max(fits, key=lambda name: domains[name].nodes.bit_count())
            nodes = domains[largest].nodes.bit_count()
            reason = HYPER_NODES_TOO_SMALL(limit=limit, needed=missing, largest=largest, nodes=nodes)
        else:
            reason = NO_HYPER_NODE_FITS(
                limit=limit,
                needed=missing,
                hyper_nodes=len(fits),
                best=nearest.name,
                tier=nearest.tier,
                fit=min(fits[nearest.name], missing),
            )
        if self._request.placed:
            reason = reason.with_hints([f"its other pods run in {nearest.name}"])
        higher = self._higher(fits)
        if higher is None:
            return reason
        fix = (
            f"set networkTopology.highestTierAllowed to {higher.tier}: {higher.name} has room for all of them"
        )
        return reason.with_fixes([fix])

    def _higher(self, allowed: Mapping[str, Amount]) -> Domain | None:
        """A domain on a higher tier that has room."""
        request = self._request
        if request.evicting:
            return None
        for domains in self._forest.by_tier.values():
            self._session.budget.spend(len(domains))
            for domain in domains:
                if (
                    domain.name not in allowed
                    and not request.placed & ~domain.nodes
                    and (request.within is None or not domain.nodes & ~request.within.nodes)
                    and self._takes(domain)
                ):
                    return domain
        return None

    def _left(self, limit: str) -> Reason:
        state = self._session.state
        names = sorted((state.names[node] for node in members_of(self._request.placed)), key=natural_key)
        listing = listed(names, _NAMED, word="node")
        holding = self._forest.holding(self._request.placed)
        return HYPER_NODE_LEFT(limit=limit, listing=listing, holding=0 if holding is None else holding.tier)

    def _limit_text(self) -> str:
        topology, within = self._request.topology, self._request.within
        inside = f" inside {within.name}" if within is not None and within.name else ""
        if topology.soft:
            return f"of any tier{inside}"
        if topology.highest_tier is not None:
            return f"up to tier {topology.highest_tier}{inside}"
        return f"up to tier {topology.highest_tier_name}{inside}"


def total_requests(pods: Sequence[Pod]) -> Amounts:
    """What these pods request together."""
    total: Amounts = {}
    for cls, count in Counter(pod.cls for pod in pods).items():
        add(total, amounts_of(cls), count)
    return total
