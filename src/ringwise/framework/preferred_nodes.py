"""The extra scores of single nodes for one pod, and the best of many nodes without looking at each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from ringwise.framework.budget import StepBudget
from ringwise.state.node_labels import members_of, node_set
from ringwise.state.node_weights import NodeWeights

#: So many nodes are looked at one by one.
_FEW = 8
#: Nodes are split until that took this part of the steps that a look at each would take: one in so many.
_SHARE = 8


class ScoredNodes(NamedTuple):
    """A number for each node, and the extra score of a number. A higher number never has a lower score."""

    numbers: NodeWeights
    score: Callable[[int], float]


def scored_nodes(scores: Mapping[int, float], nodes: int) -> ScoredNodes:
    """Of few different scores; nodes that are not named have 0."""
    by_score: dict[float, list[int]] = {}
    for node, score in scores.items():
        by_score.setdefault(score, []).append(node)
    values = sorted({0.0, *by_score})
    zero = values.index(0.0)
    numbers = NodeWeights(nodes)
    for place, score in enumerate(values):
        if place != zero:
            numbers.add(place - zero, node_set(by_score[score]))
    return ScoredNodes(numbers, lambda number: values[number + zero])


class PreferredNodes:
    """The extra score of a node is the sum of its scores in all parts."""

    def __init__(self, parts: Sequence[ScoredNodes], nodes: int, budget: StepBudget) -> None:
        self._parts = parts
        self._nodes = nodes
        self._budget = budget
        #: Steps to find the highest score of each part.
        self._steps = sum(part.numbers.digits for part in parts)

    def extra(self, node: int) -> float:
        total = 0.0
        for part in self._parts:
            total += part.score(part.numbers.of(node))
        return total

    def most(self) -> float:
        """No node has a higher extra score."""
        return self._highest(self._nodes)[0] if self._nodes else 0.0

    def best(self, nodes: int, rating: float, limit: float) -> tuple[float, int] | None:
        """Of these nodes with the same rating the lowest sort key, and those that have it.

        The key is the negative sum of the rating and the extra score. None where all are above the limit.
        """
        pushed, chosen = 0, 0
        # Where no node has the highest score of every part, the nodes are split. What promises most is first.
        # Where the parts contradict each other so much that this does not end, each node is looked at.
        splits = nodes.bit_count() // (_SHARE * self._steps + 1)
        left = [self._promise(nodes, rating, pushed)]
        while left and left[0][0] <= limit:
            key, _, together, best = heappop(left)
            if best:
                # Nothing that is left promises more.
                chosen = chosen | best if key == limit else best
                limit = key
            elif pushed < 2 * splits and together.bit_count() > _FEW:
                for half in self._halves(together):
                    pushed += 1
                    heappush(left, self._promise(half, rating, pushed))
            else:
                for node in self._one_by_one(together):
                    key = -rating - self.extra(node)
                    if key <= limit:
                        chosen = chosen | 1 << node if key == limit else 1 << node
                        limit = key
        return (limit, chosen) if chosen else None

    def _one_by_one(self, nodes: int) -> list[int]:
        members = members_of(nodes)
        self._budget.spend(len(members))
        return members

    def _promise(self, nodes: int, rating: float, number: int) -> tuple[float, int, int, int]:
        """The lowest key that one of the nodes can have, and those that have it, for a heap."""
        extra, best = self._highest(nodes)
        return -rating - extra, number, nodes, best

    def _highest(self, nodes: int) -> tuple[float, int]:
        """The sum of the highest score of each part, and the nodes that have all of them."""
        self._budget.spend(self._steps)
        total, best = 0.0, nodes
        for part in self._parts:
            number, having = part.numbers.highest(nodes)
            total += part.score(number)
            best &= having
        return total, best

    def _halves(self, nodes: int) -> tuple[int, int]:
        for part in self._parts:
            halves = part.numbers.split(nodes)
            if halves is not None:
                return halves
        raise ValueError("nodes with equal scores are not sorted")
