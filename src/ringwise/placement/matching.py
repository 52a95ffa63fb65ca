"""Pods that differ: which of them can have which nodes, one node each (P8, S13).

Pods of equal needs are one class; a node is known by the set of classes it can take, as a bit mask. A
matching is kept while nodes are added: a node that is added gets a pod at once, or pods change their nodes
along a path until one that has none gets one (an augmenting path). Where no path is found, none will be
found later on from the classes that were reached, so they are never searched again. So one class a pod
costs little more than a few classes.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from ringwise.records import dataclass
from ringwise.topology.chips import mask_of, union_of
from ringwise.topology.superpods import NodeId

#: Counts the steps that a search takes; it may end the search with an exception.
Spend: TypeAlias = Callable[[int], None]


def uncounted(_steps: int) -> None:
    """Do not count steps: the search has no budget."""


@dataclass(frozen=True, slots=True)
class PodClasses:
    """Pods that differ: the class of each rank, and the classes each node can take as a bit mask."""

    of_rank: Mapping[int, int]
    of_node: Mapping[NodeId, int]
    spend: Spend = uncounted

    def of_ranks(self, ranks: Iterable[int]) -> list[int]:
        return [self.of_rank[rank] for rank in ranks]

    def masks(self, nodes: Iterable[NodeId]) -> list[int]:
        return [self.of_node.get(node, 0) for node in nodes]


class Matching:
    """The largest matching of pods, by class, to the nodes that were added, by mask."""

    __slots__ = ("_closed", "_held", "_log", "_open", "_spend", "_unmet", "matched")

    def __init__(self, pods: Mapping[int, int], spend: Spend = uncounted) -> None:
        self._spend = spend
        self.matched = 0
        #: Pods of each class without a node, and the classes that have such pods.
        self._unmet = dict(pods)
        self._open = mask_of(cls for cls, count in pods.items() if count > 0)
        #: By class: how many nodes of each mask its pods have.
        self._held: dict[int, dict[int, int]] = {}
        #: Classes from which no path leads to a pod without a node, now and with more nodes.
        self._closed = 0
        #: What a trial changed.
        self._log: list[tuple[int, int, int]] | None = None

    def add(self, mask: int, count: int = 1) -> int:
        """Add so many nodes. Returns how many more pods have a node."""
        gained = 0
        while gained < count:
            amount = self._augment(mask, count - gained)
            if not amount:
                break
            gained += amount
        self.matched += gained
        return gained

    def gain(self, nodes: Iterable[tuple[int, int]], enough: int | None = None) -> int:
        """How many more pods could have a node with these, (mask, count); nothing is added.

        It is not counted further than `enough`.
        """
        closed, matched = self._closed, self.matched
        log: list[tuple[int, int, int]] = []
        self._log = log
        try:
            for mask, count in nodes:
                self.add(mask, count)
                if enough is not None and self.matched - matched >= enough:
                    break
            return self.matched - matched
        finally:
            self._log = None
            for cls, mask, amount in reversed(log):
                self._give(cls, mask, -amount)
            self._closed, self.matched = closed, matched

    def _augment(self, mask: int, wanted: int) -> int:
        """Let nodes of one mask hold up to `wanted` more pods, moving pods aside; how many got a node."""
        reached = mask & ~self._closed
        if not reached:
            self._spend(1)
            return 0
        steps = 1
        #: Classes that can have a node of `mask`, or one that a class before them gives up for it.
        waiting: deque[tuple[int, int, int]] = deque([(reached, -1, mask)])
        #: By class: the class that gives up a node for it, and the mask of that node.
        came_from: dict[int, tuple[int, int]] = {}
        while waiting:
            classes, before, node_mask = waiting.popleft()
            unmet = classes & self._open
            if unmet:
                last = first_class(unmet)
                came_from[last] = (before, node_mask)
                self._spend(steps)
                return self._push(last, wanted, came_from)
            while classes:
                cls = first_class(classes)
                classes &= classes - 1
                came_from[cls] = (before, node_mask)
                for held in self._held.get(cls, ()):
                    steps += 1
                    new = held & ~reached & ~self._closed
                    if new:
                        reached |= new
                        if new & self._open:
                            waiting.appendleft((new, cls, held))
                            classes = 0
                            break
                        waiting.append((new, cls, held))
        self._spend(steps)
        self._closed |= reached
        return 0

    def _push(self, last: int, wanted: int, came_from: Mapping[int, tuple[int, int]]) -> int:
        """Send as much as the path carries: each class on it hands nodes to the class after it."""
        amount = min(wanted, self._unmet[last])
        path: list[tuple[int, int]] = []
        cls = last
        while cls >= 0:
            before, mask = came_from[cls]
            path.append((cls, mask))
            if before >= 0:
                amount = min(amount, self._held[before][mask])
            cls = before
        for position, (cls, mask) in enumerate(path):
            self._give(cls, mask, amount)
            if position + 1 < len(path):
                self._give(path[position + 1][0], mask, -amount)
        return amount

    def _give(self, cls: int, mask: int, amount: int) -> None:
        """Pods of a class get so many nodes of a mask, or give them back."""
        held = self._held.setdefault(cls, {})
        now = held.get(mask, 0) + amount
        if now:
            held[mask] = now
        else:
            del held[mask]
        left = self._unmet[cls] = self._unmet[cls] - amount
        self._open = self._open | 1 << cls if left > 0 else self._open & ~(1 << cls)
        if self._log is not None:
            self._log.append((cls, mask, amount))

    def spared(self, nodes: Mapping[int, int]) -> set[int]:
        """Masks of which one node less would hold no pod less, or where every node has a pod, all.

        `nodes` are all nodes that were added.
        """
        used: Counter[int] = Counter()
        for masks in self._held.values():
            used.update(masks)
        result = {mask for mask, count in nodes.items() if count > used[mask]}
        if not result:
            return set(nodes)
        # A pod may have a node that is left over instead of its own, which is left over then.
        waiting = reached = union_of(result)
        steps = len(nodes)
        while waiting:
            cls = first_class(waiting)
            waiting &= waiting - 1
            for mask in self._held.get(cls, ()):
                steps += 1
                result.add(mask)
                waiting |= mask & ~reached
                reached |= mask
        self._spend(steps)
        return result


def first_class(classes: int) -> int:
    return (classes & -classes).bit_length() - 1


def largest_matching(pods: Mapping[int, int], nodes: Mapping[int, int], spend: Spend = uncounted) -> int:
    """How many pods can have a node of their own: `pods` by class, `nodes` by mask of classes."""
    matching = Matching(pods, spend)
    for mask, count in nodes.items():
        matching.add(mask, count)
    return matching.matched


def can_match(pods: Sequence[int], nodes: Sequence[int], spend: Spend = uncounted) -> bool:
    """Whether every pod, given by its class, can have one of these nodes, given by their masks."""
    if len(pods) > len(nodes):
        return False
    if mask_of(pods) & ~union_of(nodes):
        return False
    return largest_matching(Counter(pods), Counter(nodes), spend) == len(pods)


def useful_nodes(pods: Sequence[int], nodes: Sequence[int], spend: Spend = uncounted) -> list[int]:
    """Positions of the nodes, first ones first, of which each lets one more pod have a node."""
    matching = Matching(Counter(pods), spend)
    chosen: list[int] = []
    for position, mask in enumerate(nodes):
        if len(chosen) == len(pods):
            break
        if matching.add(mask):
            chosen.append(position)
    return chosen
