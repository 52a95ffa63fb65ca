"""Scores of nodes by how full their domains get.

The score of a node is the mean, over the tiers, of how full its domain gets; a higher tier counts less. It is
kept as one number for each node, to which every domain adds its part: what a pod changes is the part of the
few domains that its node is in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import exp, inf, log

from ringwise.framework.amounts import Amount
from ringwise.framework.domains.loads import DomainLoads
from ringwise.state.hyper_nodes import Forest
from ringwise.state.node_weights import NodeWeights

#: The highest number of a node.
FULL = 1_000
#: Different requests that are remembered; the one that was asked for last is last.
_MOST = 32

#: Amounts that pods ask for, sorted by name.
PodAmounts = tuple[tuple[str, Amount], ...]


class FilledDomains:
    """Numbers of nodes, by what a pod asks for. Kept from cycle to cycle."""

    def __init__(self) -> None:
        self._forest: Forest | None = None
        self._existing = 0
        self._weights: tuple[object, ...] = ()
        self._cache: dict[PodAmounts, _Numbers] = {}

    def numbers(
        self, loads: DomainLoads, existing: int, needs: PodAmounts, weights: Mapping[str, int], fading: float
    ) -> NodeWeights:
        """`loads` are up to date; `existing`: all nodes."""
        key = (tuple(sorted(weights.items())), fading)
        if self._forest is not loads.forest or self._existing != existing or self._weights != key:
            self._forest, self._existing, self._weights = loads.forest, existing, key
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
