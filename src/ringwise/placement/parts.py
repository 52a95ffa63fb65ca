"""Pods that differ on nodes in parts (switches or rows), every part with its number of pods (S13).

A flow from classes of pods to nodes to parts is kept while pod after pod gets its node.
Nodes of one part with the same mask are alike, so the graph has few vertices. A pod may
have a node if the flow can be led through it without becoming smaller.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Sequence
from typing import TypeAlias

from ringwise.records import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """Nodes in pick order, by the mask of classes each can take, and how many of them get a pod."""

    masks: Sequence[int]
    pods: int


#: Nodes of one part that have the same mask.
_Slot: TypeAlias = tuple[int, int]
_SOURCE, _SINK = "source", "sink"


def assign_in_parts(pods: Sequence[int], parts: Sequence[Part]) -> list[tuple[int, int] | None] | None:
    """(part, position) of each pod's node; None for pods that are left out, where there are fewer places.

    Pod by pod it is the first node in pick order from which the rest can be completed with every
    part keeping its number of pods (S13). None where the parts cannot have their numbers.
    """
    flow = _PartFlow(pods, parts)
    if not flow.complete():
        return None
    nodes: dict[_Slot, deque[int]] = {}
    for number, part in enumerate(parts):
        for position, mask in enumerate(part.masks):
            nodes.setdefault((number, mask), deque()).append(position)
    useless: set[tuple[int, _Slot]] = set()
    chosen: list[tuple[int, int] | None] = []
    for cls in pods:
        found: tuple[int, int] | None = None
        offers = sorted((slot[0], positions[0], slot) for slot, positions in nodes.items() if positions)
        for number, position, slot in offers:
            if not slot[1] >> cls & 1 or (cls, slot) in useless:
                continue
            if flow.lead_through(cls, slot):
                nodes[slot].popleft()
                found = (number, position)
                break
            # Pods that follow leave less freedom, never more.
            useless.add((cls, slot))
        chosen.append(found)
        if found is None:
            flow.leave_out(cls)
    return chosen


class _PartFlow:
    """The residual graph: source, classes, slots, parts, sink."""

    def __init__(self, pods: Sequence[int], parts: Sequence[Part]) -> None:
        self._left: dict[Hashable, dict[Hashable, int]] = {_SOURCE: {}, _SINK: {}}
        self._wanted = sum(part.pods for part in parts)
        demand = Counter(pods)
        for cls, count in demand.items():
            self._edge(_SOURCE, ("class", cls), count)
        for number, part in enumerate(parts):
            self._edge(("part", number), _SINK, part.pods)
            for mask, count in Counter(part.masks).items():
                self._edge((number, mask), ("part", number), count)
                for cls in demand:
                    if mask >> cls & 1:
                        self._edge(("class", cls), (number, mask), len(pods))

    def _edge(self, start: Hashable, end: Hashable, capacity: int) -> None:
        self._left.setdefault(start, {})[end] = capacity
        self._left.setdefault(end, {}).setdefault(start, 0)

    def complete(self) -> bool:
        """Whether every part can have its number of pods."""
        placed = 0
        while placed < self._wanted:
            path = self._path(_SOURCE, _SINK)
            if path is None:
                return False
            amount = min(self._left[start][end] for start, end in path)
            self._push(path, amount)
            placed += amount
        return True

    def lead_through(self, cls: int, slot: _Slot) -> bool:
        """Give one pod of the class a node of the slot for good, if the others can be completed."""
        pod: Hashable = ("class", cls)
        if not self._left[slot][pod]:
            # A cycle through this edge changes who gets what, and not how many get one.
            path = self._path(slot, pod)
            if path is None:
                return False
            self._push([(pod, slot), *path], 1)
        way = ((_SOURCE, pod), (pod, slot), (slot, ("part", slot[0])), (("part", slot[0]), _SINK))
        for start, end in way:
            self._left[end][start] -= 1
        return True

    def leave_out(self, cls: int) -> None:
        """A pod of the class gets no node; no flow goes through the class."""
        self._left[_SOURCE]["class", cls] -= 1

    def _path(self, start: Hashable, end: Hashable) -> list[tuple[Hashable, Hashable]] | None:
        came_from: dict[Hashable, Hashable] = {start: start}
        queue = deque([start])
        while queue:
            current = queue.popleft()
            if current == end:
                path: list[tuple[Hashable, Hashable]] = []
                while current != start:
                    path.append((came_from[current], current))
                    current = came_from[current]
                return path[::-1]
            for following, capacity in self._left[current].items():
                if capacity and following not in came_from:
                    came_from[following] = current
                    queue.append(following)
        return None

    def _push(self, path: Sequence[tuple[Hashable, Hashable]], amount: int) -> None:
        for start, end in path:
            self._left[start][end] -= amount
            self._left[end][start] += amount
