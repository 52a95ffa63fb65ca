"""How many pods of a job the switches taken so far hold, and which switch holds the rest (S4, S13)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from ringwise.placement.matching import PodClasses, largest_matching
from ringwise.placement.switches.search import closest_one_or_two
from ringwise.placement.switches.view import SwitchRequest, TopologyView


class Holding:
    """Of pods that are all alike: a switch holds as many as it has free nodes."""

    def __init__(self, view: TopologyView, pods: int) -> None:
        self.view = view
        #: Pods that the switches taken so far do not hold.
        self.left = pods

    def capacity(self, switches: Iterable[int]) -> int:
        """How many more pods these switches could hold, whatever the job needs."""
        return sum(self.view.free[switch] for switch in switches)

    def gain(self, switches: Iterable[int]) -> int:
        """How many of the pods that are left these switches hold together."""
        return min(self.left, self.capacity(switches))

    def holds(self, *switches: int) -> bool:
        """Whether these switches hold all pods that are left."""
        return self.gain(switches) == self.left

    def take(self, switch: int) -> int:
        """How many pods the switch adds."""
        added = self.gain((switch,))
        self.left -= added
        return added

    def closest(self, candidates: Iterable[int]) -> int | None:
        """The first of the candidates with the fewest free nodes that holds what is left."""
        free = self.view.free
        return min((s for s in candidates if self.holds(s)), key=lambda s: free[s], default=None)

    def closest_one_or_two(self, candidates: Sequence[int], limit: int) -> tuple[int, ...] | None:
        """Rule S4: one switch, or with `limit` 2 a pair, closest to what is left, in the order of filling."""
        return closest_one_or_two(self.view.free, candidates, self.left, limit)

    def best(self, candidates: Iterable[int], limit: int = 1) -> tuple[int, ...]:
        """The one or, with `limit` 2, two candidates that hold most; none where there are none."""
        free = self.view.free
        return tuple(sorted(candidates, key=lambda s: (-free[s], s))[:limit])


class MatchedHolding(Holding):
    """Of pods that differ (S13): switches hold the largest matching of pods to all their free nodes."""

    def __init__(self, view: TopologyView, pods: int, classes: PodClasses) -> None:
        super().__init__(view, pods)
        self._pods = pods
        self._classes = classes
        self._demand = Counter(classes.of_rank.values())
        self._taken: Counter[int] = Counter()
        self._masks: dict[int, Counter[int]] = {}

    def capacity(self, switches: Iterable[int]) -> int:
        supply = self._taken.copy()
        for switch in switches:
            supply.update(self._masks_of(switch))
        return self._matched(supply) - self._matched(self._taken)

    def take(self, switch: int) -> int:
        added = super().take(switch)
        self._taken.update(self._masks_of(switch))
        return added

    def node_gain(self, nodes: Iterable[int]) -> int:
        """The same for single nodes."""
        held = self._matched(self._taken)
        return min(self.left, self._matched(self._taken + Counter(self._classes.masks(nodes))) - held)

    def take_nodes(self, nodes: Iterable[int]) -> list[int]:
        """The first of these nodes of which each adds a pod; they are taken."""
        useful: list[int] = []
        for node in nodes:
            if self.left and self.node_gain((node,)):
                self._taken[self._classes.of_node.get(node, 0)] += 1
                self.left -= 1
                useful.append(node)
        return useful

    def _matched(self, nodes: Mapping[int, int]) -> int:
        return largest_matching(self._demand, nodes)

    def _masks_of(self, switch: int) -> Counter[int]:
        found = self._masks.get(switch)
        if found is None:
            found = self._masks[switch] = Counter(self._classes.masks(self.view.switches[switch].free))
        return found

    def closest_one_or_two(self, candidates: Sequence[int], limit: int) -> tuple[int, ...] | None:
        free = self.view.free
        single = self.closest(candidates)
        best: tuple[int, list[int]] | None = None
        most = None if single is None else free[single]
        if limit >= 2:
            for pair in self._pairs(candidates):
                total = free[pair[0]] + free[pair[1]]
                if total < self.left or (most is not None and total > most):
                    continue
                if (best is None or (total, list(pair)) < best) and self.holds(*pair):
                    best, most = (total, list(pair)), total
        if best is not None:
            # On equal totals the pair wins; it is filled smaller switch first.
            first, second = sorted(best[1], key=lambda s: (free[s], s))
            return first, second
        return None if single is None else (single,)

    def best(self, candidates: Iterable[int], limit: int = 1) -> tuple[int, ...]:
        listed = sorted(candidates)
        sets: list[tuple[int, ...]] = [(switch,) for switch in self._alike(listed, 1)]
        if limit >= 2:
            sets += self._pairs(listed)
        return max(sets, key=lambda chosen: (self.capacity(chosen), -len(chosen)), default=())

    def _alike(self, candidates: Sequence[int], count: int) -> list[int]:
        """The first `count` switches of each kind: those with the same nodes are alike."""
        seen: Counter[frozenset[tuple[int, int]]] = Counter()
        kept: list[int] = []
        for switch in candidates:
            kind = frozenset(self._masks_of(switch).items())
            seen[kind] += 1
            if seen[kind] <= count:
                kept.append(switch)
        return kept

    def _pairs(self, candidates: Sequence[int]) -> list[tuple[int, int]]:
        return list(combinations(sorted(self._alike(candidates, 2)), 2))


def holding_of(view: TopologyView, request: SwitchRequest) -> Holding:
    """Nothing is taken yet."""
    if request.classes is None:
        return Holding(view, request.pods)
    return MatchedHolding(view, request.pods, request.classes)
