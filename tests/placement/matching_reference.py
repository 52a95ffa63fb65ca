"""Matchings computed from scratch for every pod and every node that is tried (P8, S13)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeAlias

from ringwise.placement.node_groups import PickGroup


def largest_matching(pods: Mapping[int, int], nodes: Mapping[int, int]) -> int:
    """How many pods can have a node of their own: `pods` by class, `nodes` by mask of classes."""
    flow: dict[tuple[int, int], int] = {}
    left = {mask: count for mask, count in nodes.items() if count > 0}
    matched = 0
    for cls, wanted in sorted(pods.items()):
        while wanted > 0:
            amount = _augment(cls, wanted, left, flow)
            if not amount:
                break
            wanted -= amount
            matched += amount
    return matched


def can_match(pods: Sequence[int], nodes: Sequence[int]) -> bool:
    """Whether every pod, given by its class, can have one of these nodes, given by their masks."""
    return len(pods) <= len(nodes) and largest_matching(Counter(pods), Counter(nodes)) == len(pods)


def first_matching(pods: Sequence[int], nodes: Sequence[int]) -> list[int] | None:
    """The position of each pod's node, or None where not all pods can have one.

    Pod by pod it is the first node from which the remaining pods can be completed.
    """
    if not can_match(pods, nodes):
        return None
    demand, supply = Counter(pods), Counter(nodes)
    taken = [False] * len(nodes)
    chosen: list[int] = []
    for cls in pods:
        demand[cls] -= 1
        still_needed = sum(demand.values())
        rejected: set[int] = set()
        for position, mask in enumerate(nodes):
            if taken[position] or mask in rejected or not mask >> cls & 1:
                continue
            supply[mask] -= 1
            if largest_matching(demand, supply) == still_needed:
                taken[position] = True
                chosen.append(position)
                break
            supply[mask] += 1
            rejected.add(mask)
    return chosen


def useful_nodes(pods: Sequence[int], nodes: Sequence[int]) -> list[int]:
    """Positions of the nodes, first ones first, of which each lets one more pod have a node."""
    demand = Counter(pods)
    supply: Counter[int] = Counter()
    useless: set[int] = set()
    chosen: list[int] = []
    for position, mask in enumerate(nodes):
        if len(chosen) == len(pods):
            break
        if mask in useless:
            continue
        supply[mask] += 1
        if largest_matching(demand, supply) > len(chosen):
            chosen.append(position)
        else:
            # More nodes cannot make this mask useful again.
            supply[mask] -= 1
            useless.add(mask)
    return chosen


def _augment(cls: int, wanted: int, left: dict[int, int], flow: dict[tuple[int, int], int]) -> int:
    """Give up to `wanted` pods of a class a node, moving pods of other classes aside; how many got one."""
    came_from: dict[int, tuple[int, int] | None] = {cls: None}
    queue = deque([cls])
    while queue:
        current = queue.popleft()
        for mask, free in left.items():
            if free and mask >> current & 1:
                return _push(current, mask, wanted, left, flow, came_from)
        for (other, mask), amount in flow.items():
            if amount and other not in came_from and mask >> current & 1:
                came_from[other] = (current, mask)
                queue.append(other)
    return 0


def _push(
    last: int,
    free_mask: int,
    wanted: int,
    left: dict[int, int],
    flow: dict[tuple[int, int], int],
    came_from: Mapping[int, tuple[int, int] | None],
) -> int:
    """Send as much as the path carries: each class on it hands its nodes to the class before it."""
    amount = min(wanted, left[free_mask])
    path: list[tuple[int, int, int]] = []
    cls = last
    while (step := came_from[cls]) is not None:
        before, mask = step
        path.append((before, cls, mask))
        amount = min(amount, flow[cls, mask])
        cls = before
    left[free_mask] -= amount
    flow[last, free_mask] = flow.get((last, free_mask), 0) + amount
    for before, after, mask in path:
        flow[after, mask] -= amount
        flow[before, mask] = flow.get((before, mask), 0) + amount
    return amount


#: Nodes of one group that have the same mask.
_Slot: TypeAlias = tuple[int, int]
_SOURCE, _SINK = "source", "sink"


def assign_in_groups(pods: Sequence[int], groups: Sequence[PickGroup]) -> list[tuple[int, int] | None] | None:
    """(group, position) of each pod's node; None for pods that are left out, where there are fewer places.

    Pod by pod it is the first node in pick order from which the rest can be completed with every
    group keeping its number of pods (S13). None where the groups cannot have their numbers.
    """
    flow = _GroupFlow(pods, groups)
    if not flow.complete():
        return None
    nodes: dict[_Slot, deque[int]] = {}
    for number, group in enumerate(groups):
        for position, mask in enumerate(group.masks):
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


class _GroupFlow:
    """The residual graph: source, classes, slots, groups, sink."""

    def __init__(self, pods: Sequence[int], groups: Sequence[PickGroup]) -> None:
        self._left: dict[Hashable, dict[Hashable, int]] = {_SOURCE: {}, _SINK: {}}
        self._wanted = sum(group.pods for group in groups)
        demand = Counter(pods)
        for cls, count in demand.items():
            self._edge(_SOURCE, ("class", cls), count)
        for number, group in enumerate(groups):
            self._edge(("group", number), _SINK, group.pods)
            for mask, count in Counter(group.masks).items():
                self._edge((number, mask), ("group", number), count)
                for cls in demand:
                    if mask >> cls & 1:
                        self._edge(("class", cls), (number, mask), len(pods))

    def _edge(self, start: Hashable, end: Hashable, capacity: int) -> None:
        self._left.setdefault(start, {})[end] = capacity
        self._left.setdefault(end, {}).setdefault(start, 0)

    def complete(self) -> bool:
        """Whether every group can have its number of pods."""
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
        way = ((_SOURCE, pod), (pod, slot), (slot, ("group", slot[0])), (("group", slot[0]), _SINK))
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
