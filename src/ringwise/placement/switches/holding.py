"""How many pods of a job the switches taken so far hold, and which switch holds the rest (S4, S13)."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from ringwise.placement.matching import Matching, PodClasses
from ringwise.placement.switches.view import SwitchRequest, TopologyView


def closest_one_or_two(
    free: Sequence[int], candidates: Iterable[int], needed: int, limit: int
) -> tuple[int, ...] | None:
    """Rule S4: one switch, or with `limit` 2 a pair, closest to `needed`, in the order to fill them.

    Closest is the smallest count that is at least `needed`. Of equal switches the first candidate is taken:
    callers pass them in the order of the ConfigMap.
    Only the first two switches of each count can be chosen, and there are few counts:
    pairs of counts are compared, not pairs of switches.
    """
    first: dict[int, int] = {}
    second: dict[int, int] = {}
    for switch in candidates:
        count = free[switch]
        if count not in first:
            first[count] = switch
        elif count not in second:
            second[count] = switch
    counts = sorted(first)
    place = bisect_left(counts, needed)
    single = counts[place] if place < len(counts) else None
    pair = _closest_pair(counts, first, second, needed) if limit >= 2 else None
    # Rule S4: on equal totals the pair wins.
    if pair is not None and (single is None or free[pair[0]] + free[pair[1]] <= single):
        return pair
    return None if single is None else (first[single],)


def _closest_pair(
    counts: Sequence[int], first: dict[int, int], second: dict[int, int], needed: int
) -> tuple[int, int] | None:
    total: int | None = None
    for index, small in enumerate(counts):
        partner = max(index, bisect_left(counts, needed - small))
        if partner == index and small not in second:
            partner += 1
        if partner < len(counts) and (total is None or small + counts[partner] < total):
            total = small + counts[partner]
    if total is None:
        return None
    pairs: list[tuple[int, int]] = []
    for small in counts:
        large = total - small
        if large < small:
            break
        other = second.get(small) if large == small else first.get(large)
        if other is not None:
            pairs.append((first[small], other))
    # Of equal pairs the one whose first, then second member comes first in the ConfigMap.
    return min(pairs, key=sorted)


class Holding:
    """Of pods that are all alike: a switch holds as many as it has free nodes."""

    def __init__(self, view: TopologyView, pods: int) -> None:
        self.view = view
        #: Pods that the switches taken so far do not hold.
        self.unmet = pods

    def capacity(self, switches: Iterable[int]) -> int:
        """How many more pods these switches could hold, whatever the job needs."""
        return sum(self.view.free[switch] for switch in switches)

    def gain(self, switches: Iterable[int]) -> int:
        """How many of the pods that are left these switches hold together."""
        return min(self.unmet, self.capacity(switches))

    def holds(self, *switches: int) -> bool:
        """Whether these switches hold all pods that are left."""
        return self.gain(switches) == self.unmet

    def take(self, switch: int) -> int:
        """How many pods the switch adds."""
        added = self.gain((switch,))
        self.unmet -= added
        return added

    def closest(self, candidates: Iterable[int]) -> int | None:
        """The first of the candidates with the fewest free nodes that holds what is left."""
        free = self.view.free
        return next((s for s in sorted(candidates, key=lambda s: free[s]) if self.holds(s)), None)

    def closest_one_or_two(self, candidates: Sequence[int], limit: int) -> tuple[int, ...] | None:
        """Rule S4: one switch, or with `limit` 2 a pair, closest to what is left, in the order of filling."""
        return closest_one_or_two(self.view.free, candidates, self.unmet, limit)

    def best(self, candidates: Iterable[int], limit: int = 1) -> tuple[int, ...]:
        """The one or, with `limit` 2, two candidates that hold most; none where there are none."""
        free = self.view.free
        return tuple(sorted(candidates, key=lambda s: (-free[s], s))[:limit])


class MatchedHolding(Holding):
    """Of pods that differ (S13): switches hold the largest matching of pods to all their free nodes."""

    def __init__(self, view: TopologyView, pods: int, classes: PodClasses) -> None:
        super().__init__(view, pods)
        self._classes = classes
        self._matching = Matching(Counter(classes.of_rank.values()), classes.spend)
        self._masks: dict[int, Counter[int]] = {}

    def capacity(self, switches: Iterable[int]) -> int:
        return self._matching.gain(self._nodes_of(switches))

    def gain(self, switches: Iterable[int]) -> int:
        return min(self.unmet, self._matching.gain(self._nodes_of(switches), enough=self.unmet))

    def holds(self, *switches: int) -> bool:
        free = self.view.free
        return sum(free[switch] for switch in switches) >= self.unmet and self.gain(switches) == self.unmet

    def take(self, switch: int) -> int:
        added = 0
        for mask, count in self._masks_of(switch).items():
            added += self._matching.add(mask, count)
        added = min(self.unmet, added)
        self.unmet -= added
        return added

    def node_gain(self, nodes: Iterable[int]) -> int:
        """The same for single nodes."""
        masks = Counter(self._classes.masks(nodes))
        return min(self.unmet, self._matching.gain(masks.items(), enough=self.unmet))

    def take_nodes(self, nodes: Iterable[int]) -> list[int]:
        """The first of these nodes of which each adds a pod; they are taken."""
        useful: list[int] = []
        for node in nodes:
            if self.unmet and self._matching.add(self._classes.of_node.get(node, 0)):
                self.unmet -= 1
                useful.append(node)
        return useful

    def _nodes_of(self, switches: Iterable[int]) -> Iterator[tuple[int, int]]:
        for switch in switches:
            yield from self._masks_of(switch).items()

    def _masks_of(self, switch: int) -> Counter[int]:
        result = self._masks.get(switch)
        if result is None:
            result = self._masks[switch] = Counter(self._classes.masks(self.view.switches[switch].free))
        return result

    def closest_one_or_two(self, candidates: Sequence[int], limit: int) -> tuple[int, ...] | None:
        free = self.view.free
        single = self.closest(candidates)
        most = None if single is None else free[single]
        if limit >= 2:
            gains = self._gains(candidates)
            pairs = sorted(
                (free[one] + free[other], one, other)
                for one, other in self._pairs(candidates)
                # Together they add no more than each alone.
                if gains[one] + gains[other] >= self.unmet
                and (most is None or free[one] + free[other] <= most)
            )
            for _, one, other in pairs:
                if self.holds(one, other):
                    # On equal totals the pair wins; it is filled smaller switch first.
                    first, second = sorted((one, other), key=lambda s: (free[s], s))
                    return first, second
        return None if single is None else (single,)

    def best(self, candidates: Iterable[int], limit: int = 1) -> tuple[int, ...]:
        listed = sorted(candidates)
        gains = self._gains(listed)
        sets: list[tuple[int, ...]] = [(switch,) for switch in self._alike(listed, 1)]
        if limit >= 2:
            sets += self._pairs(listed)
        # Together they add no more than each alone, so those that may add most are tried first.
        bounds = sorted(
            (-sum(gains[s] for s in chosen), len(chosen), number) for number, chosen in enumerate(sets)
        )
        best: tuple[int, int, int] | None = None
        for bound in bounds:
            if best is not None and bound > best:
                break
            _, size, number = bound
            candidate = (-self.capacity(sets[number]), size, number)
            best = candidate if best is None else min(best, candidate)
        return () if best is None else sets[best[2]]

    def _gains(self, candidates: Iterable[int]) -> dict[int, int]:
        return {switch: self.capacity((switch,)) for switch in candidates}

    def _alike(self, candidates: Sequence[int], count: int) -> list[int]:
        """The first `count` switches of each kind: those with the same nodes are alike."""
        seen: Counter[frozenset[tuple[int, int]]] = Counter()
        chosen: list[int] = []
        for switch in candidates:
            kind = frozenset(self._masks_of(switch).items())
            seen[kind] += 1
            if seen[kind] <= count:
                chosen.append(switch)
        return chosen

    def _pairs(self, candidates: Sequence[int]) -> list[tuple[int, int]]:
        pairs = list(combinations(sorted(self._alike(candidates, 2)), 2))
        self._classes.spend(len(pairs))
        return pairs


def holding_of(view: TopologyView, request: SwitchRequest) -> Holding:
    """Nothing is taken yet."""
    if request.classes is None:
        return Holding(view, request.pods)
    return MatchedHolding(view, request.pods, request.classes)
