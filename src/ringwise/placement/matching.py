"""Pods that differ: which of them can have which nodes, one node each (P8, S13).

Pods of equal needs are one class; a node is known by the set of classes it can take,
as a bit mask. Many nodes have the same mask, so the maximum matching is a flow
between a few classes and a few masks, however many pods and nodes there are.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence

from ringwise.records import dataclass
from ringwise.topology.superpods import NodeId


@dataclass(frozen=True, slots=True)
class PodClasses:
    """Pods that differ: the class of each rank, and the classes each node can take as a bit mask."""

    of_rank: Mapping[int, int]
    of_node: Mapping[NodeId, int]

    def of_ranks(self, ranks: Iterable[int]) -> list[int]:
        return [self.of_rank[rank] for rank in ranks]

    def masks(self, nodes: Iterable[NodeId]) -> list[int]:
        return [self.of_node.get(node, 0) for node in nodes]


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
