"""What the nodes of each domain have and use together: kept from cycle to cycle, and following what changes.

Nodes are looked at when they changed only: the sums of a domain are never stale, also inside a cycle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import exp, inf, log

from ringwise.framework.amounts import Amount
from ringwise.state.changes import RecentChanges
from ringwise.state.cluster import ClusterState
from ringwise.state.hyper_nodes import Domain, Forest
from ringwise.state.node_labels import members_of
from ringwise.state.node_weights import NodeWeights
from ringwise.topology.chips import union_of

CPU, MEMORY = "cpu", "memory"


class DomainLoads:
    """Used and allocatable amounts, in the order of `names`, by domain."""

    def __init__(self) -> None:
        self.names: tuple[str, ...] = ()
        self.forest: Forest | None = None
        #: By node: what it adds to the sums of its domains, used and allocatable amounts in turn.
        self._rows: dict[int, tuple[int, ...]] = {}
        self._sums: dict[str, list[int]] = {}
        #: By node: the domains that it is in, the lowest first.
        self._chains: dict[int, tuple[Domain, ...]] = {}
        self._read = -1
        #: Names of domains whose sums changed.
        self.changes: RecentChanges[str] = RecentChanges()

    def follow(self, state: ClusterState, forest: Forest, names: Sequence[str]) -> int:
        """Be up to date for these domains and resources; returns how many nodes had to be looked at."""
        changed: Sequence[int] | None = None
        if forest is self.forest and self.names == tuple(names):
            if self._read == state.node_changes.end:
                return 0
            changed = state.node_changes.since(self._read)
        self._read = state.node_changes.end
        if changed is None:
            self.forest, self.names = forest, tuple(names)
            self._rows.clear()
            self._chains.clear()
            self._sums = {name: [0] * (2 * len(self.names)) for name in forest.domains}
            self.changes = RecentChanges()
            changed = members_of(union_of(top.nodes for top in forest.tops))
        looked_at = dict.fromkeys(changed)
        for node in looked_at:
            self._recount(state, forest, node)
        return len(looked_at)

    def _recount(self, state: ClusterState, forest: Forest, node: int) -> None:
        chain = self.chain(forest, node)
        if not chain:
            return
        row = self._row(state, node)
        before = self._rows.get(node)
        if row == before:
            return
        self._rows[node] = row
        added = row if before is None else tuple(map(int.__sub__, row, before))
        for domain in chain:
            self._sums[domain.name] = list(map(int.__add__, self._sums[domain.name], added))
            self.changes.add(domain.name)

    def chain(self, forest: Forest, node: int) -> tuple[Domain, ...]:
        """The domains that a node is in, the lowest first."""
        result = self._chains.get(node)
        if result is None:
            leaf = forest.leaf_of(node)
            result = () if leaf is None else (leaf, *forest.ancestors(leaf.name))
            self._chains[node] = result
        return result

    def _row(self, state: ClusterState, node: int) -> tuple[int, ...]:
        shape = state.shape_of(node)
        if shape is None:
            return (0,) * (2 * len(self.names))
        row: list[int] = []
        extended = dict(shape.extended_used)
        for name in self.names:
            if name == CPU:
                row += (shape.cpu_used, shape.node_class.cpu_milli)
            elif name == MEMORY:
                row += (shape.memory_used, shape.node_class.memory)
            elif (fleet := state.fleets.get(name)) is not None:
                row += (fleet.requested[node], max(0, fleet.allocatable[node]))
            else:
                row += (extended.get(name, 0), shape.node_class.extended.get(name, 0))
        return tuple(row)

    def fill(self, domain: str, requests: Mapping[str, Amount], weights: Mapping[str, int]) -> float:
        """How full the domain gets, 0 to 1: the mean over the requests, by weight; 0 where it overflows."""
        sums, total, weighed = self._sums[domain], 0.0, 0
        for position, name in enumerate(self.names):
            amount, weight = requests.get(name, 0), weights.get(name, 0)
            if not amount or not weight:
                continue
            used, allocatable = sums[2 * position], sums[2 * position + 1]
            if used + amount > allocatable:
                return 0.0
            total += weight * float(used + amount) / allocatable
            weighed += weight
        return total / weighed if weighed else 0.0

    def holds(self, domain: str, requests: Mapping[str, Amount]) -> bool:
        """Whether the domain, if it were empty, would hold this."""
        sums = self._sums[domain]
        return all(requests.get(name, 0) <= sums[2 * at + 1] for at, name in enumerate(self.names))


# -- scores of nodes by how full their domains get -------------------------------------------------------

#: The highest number of a node.
FULL = 1_000
#: Different requests that are remembered; the one that was used last is last.
_MOST = 32

#: Amounts that pods ask for, sorted by name.
PodAmounts = tuple[tuple[str, Amount], ...]


class FilledDomains:
    """Numbers of nodes, by what a pod asks for. Kept from cycle to cycle.

    The score of a node is the mean, over the tiers, of how full its domain gets; a higher tier counts less.
    It is kept as one number for each node, to which every domain adds its part: what a pod changes is the
    part of the few domains that its node is in.
    """

    def __init__(self) -> None:
        #: Of the domains whose sums the cached numbers follow: others replace it when all is counted again.
        self._changes: RecentChanges[str] | None = None
        self._existing = 0
        self._weights: tuple[object, ...] = ()
        self._cache: dict[PodAmounts, _Numbers] = {}

    def numbers(
        self, loads: DomainLoads, existing: int, needs: PodAmounts, weights: Mapping[str, int], fading: float
    ) -> NodeWeights:
        """`loads` are up to date; `existing`: all nodes."""
        key = (tuple(sorted(weights.items())), fading)
        if self._changes is not loads.changes or self._existing != existing or self._weights != key:
            self._changes, self._existing, self._weights = loads.changes, existing, key
            self._cache.clear()
        numbers = self._cache.pop(needs, None)
        if numbers is None:
            numbers = _Numbers(loads, existing, needs, weights, fading)
        self._cache[needs] = numbers
        while len(self._cache) > _MOST:
            del self._cache[next(iter(self._cache))]
        return numbers.follow(loads)


class _Numbers:
    def __init__(
        self, loads: DomainLoads, existing: int, needs: PodAmounts, weights: Mapping[str, int], fading: float
    ) -> None:
        assert loads.forest is not None
        self._requests = dict(needs)
        self._resource_weights = weights
        self._domains = loads.forest.domains
        self._shares = tier_shares(loads.forest.by_tier, fading)
        self._numbers = NodeWeights(existing)
        self._parts: Counter[str] = Counter()
        self._read = -1
        for tier, domains in loads.forest.by_tier.items():
            outside = existing
            for domain in domains:
                outside &= ~domain.nodes
            self._numbers.add(round(FULL * self._shares[tier]), outside)

    def follow(self, loads: DomainLoads) -> NodeWeights:
        changed = loads.changes.since(self._read) if self._read >= 0 else None
        self._read = loads.changes.end
        for name in dict.fromkeys(changed) if changed is not None else self._domains:
            domain = self._domains[name]
            filled = loads.fill(name, self._requests, self._resource_weights)
            part = round(FULL * self._shares[domain.tier] * filled)
            if part != self._parts[name]:
                self._numbers.add(part - self._parts[name], domain.nodes)
                self._parts[name] = part
        return self._numbers


def tier_shares(tiers: Mapping[int, object], fading: float) -> dict[int, float]:
    """How much each tier counts: `fading` times what the tier below it does; 1 in all."""
    # By logarithms: a tier may have any number.
    steps = {tier: max(0, tier - 1) for tier in tiers}
    each = log(fading) if fading > 0 else -inf
    logs = {tier: each * step if step else 0.0 for tier, step in steps.items()}
    most = max(logs.values(), default=0.0)
    if most == -inf:
        return dict.fromkeys(tiers, 0.0)
    weights = {tier: exp(value - most) for tier, value in logs.items()}
    total = sum(weights.values())
    return {tier: weight / total for tier, weight in weights.items()}
