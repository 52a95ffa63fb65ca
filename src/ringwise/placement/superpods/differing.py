"""Blocks of pods that differ in selectors or sizes (rule P8)."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ringwise.placement.matching import Spend, can_match, uncounted
from ringwise.placement.node_groups import Completion, first_matching
from ringwise.placement.superpods.blocks import Block, BlockAssignment, FreeBySuperPod, Origin
from ringwise.records import dataclass
from ringwise.topology.chips import mask_of, union_of
from ringwise.topology.superpods import NodeId

#: So many nodes are counted in the time of a step.
_NODES_A_STEP = 8


@dataclass(frozen=True, slots=True)
class BlockPods:
    """The classes of the pods of each block by its logical id, and the mask of classes of each node."""

    of_block: Mapping[int, Sequence[int]]
    of_node: Mapping[NodeId, int]
    spend: Spend = uncounted


@dataclass(frozen=True, slots=True)
class _FittingBlocks:
    """The first blocks that a SuperPoD can take together, at most so many, with their nodes."""

    most: int
    blocks: Mapping[int, list[NodeId]]

    def first(self, most: int) -> list[tuple[int, list[NodeId]]] | None:
        """The first of them; None where more were not looked for."""
        complete = most <= self.most or len(self.blocks) < self.most
        return list(self.blocks.items())[:most] if complete else None


class DifferingAssignment(BlockAssignment):
    """A SuperPoD takes blocks in rank order, each if all its pods can be matched to nodes not taken yet.

    `free` counts the nodes that some pod of a block still to be placed can take. What was found for a
    SuperPoD is kept until nodes of it, or blocks that it could take, are taken.
    """

    __slots__ = ("_fits", "_left", "_needs", "_offers", "_pods", "_possible", "_waiting", "_wanted", "open")

    def __init__(self, free: FreeBySuperPod, logical_ids: Iterable[int], pods: BlockPods) -> None:
        super().__init__(free)
        self._pods = pods
        #: Blocks that are to be placed, in rank order.
        self.open: dict[int, None] = dict.fromkeys(logical_ids)
        #: The pods of each class that are to be placed, and the classes that have such pods.
        self._waiting = Counter(cls for logical in self.open for cls in pods.of_block[logical])
        self._wanted = mask_of(self._waiting)
        self._needs = {logical: mask_of(pods.of_block[logical]) for logical in self.open}
        #: Nodes of each SuperPoD that are not taken, and the union of their masks.
        self._left: list[list[NodeId]] = [
            [] if isinstance(nodes, int) else list(nodes) for nodes in self._nodes
        ]
        self._offers = [union_of(self._masks(left)) for left in self._left]
        #: By SuperPoD: the blocks that it may be able to take; fewer nodes later on will not hold more.
        self._possible: dict[int, list[int]] = {}
        self._fits: dict[int, _FittingBlocks] = {}
        for position in range(len(self._left)):
            self._count(position)

    def _count(self, position: int) -> None:
        left = self._left[position]
        self._pods.spend(1 + len(left) // _NODES_A_STEP)
        self.free[position] = sum(1 for mask in self._masks(left) if mask & self._wanted)

    def offers_all(self, position: int) -> bool:
        """Whether the SuperPoD has a node for each class of pods that are to be placed."""
        return not self._wanted & ~self._offers[position]

    def matching_blocks(self, position: int, most: int) -> list[tuple[int, list[NodeId]]]:
        """The first blocks, at most so many, that the SuperPoD can take together, with their nodes."""
        fitting = self._fits.get(position)
        first = None if fitting is None else fitting.first(most)
        if first is not None:
            return first
        offer = self._offers[position]
        possible = self._possible.get(position)
        if possible is None:
            self._pods.spend(len(self.open))
            possible = [logical for logical in self.open if not self._needs[logical] & ~offer]
        left = self._left[position]
        remaining: list[int] = []
        nodes_of: dict[int, list[NodeId]] = {}
        useless: set[tuple[int, ...]] = set()
        for logical in possible:
            if logical not in self.open or self._needs[logical] & ~offer:
                continue
            classes = tuple(self._pods.of_block[logical])
            if len(nodes_of) < most and classes not in useless:
                chosen = first_matching(classes, self._masks(left), self._pods.spend)
                if chosen is None:
                    # Fewer nodes later on will not hold such a block either.
                    useless.add(classes)
                else:
                    nodes_of[logical] = [left[place] for place in chosen]
                    taken = set(chosen)
                    left = [node for place, node in enumerate(left) if place not in taken]
            # It failed for good only where no other block was in its way.
            if nodes_of or classes not in useless:
                remaining.append(logical)
        self._possible[position] = remaining
        self._fits[position] = _FittingBlocks(most, nodes_of)
        return list(nodes_of.items())

    def take(self, position: int, size: int, origin: Origin) -> bool:
        return self.take_blocks(position, 1, origin) == 1

    def take_blocks(self, position: int, most: int, origin: Origin) -> int:
        """Take the first blocks that match, at most so many."""
        blocks = self.matching_blocks(position, most)
        for logical, nodes in blocks:
            del self.open[logical]
            self._take(position, logical, nodes, origin)
        if blocks:
            taken = {logical for logical, _ in blocks}
            for other in [one for one, fits in self._fits.items() if not taken.isdisjoint(fits.blocks)]:
                del self._fits[other]
            self._placed(position, [cls for logical in taken for cls in self._pods.of_block[logical]])
        return len(blocks)

    def _take(self, position: int, logical: int, nodes: Sequence[NodeId], origin: Origin) -> None:
        self.blocks.append(Block(logical, self._ids[position], len(nodes), tuple(nodes), origin))
        taken = set(nodes)
        self._left[position] = [node for node in self._left[position] if node not in taken]

    def _placed(self, position: int, classes: Sequence[int]) -> None:
        """Pods of these classes are placed in a SuperPoD: some nodes may be of no use now."""
        self._fits.pop(position, None)
        self._offers[position] = union_of(self._masks(self._left[position]))
        self._waiting.subtract(classes)
        gone = mask_of(cls for cls in set(classes) if not self._waiting[cls])
        self._wanted &= ~gone
        for other, offer in enumerate(self._offers):
            if other == position or offer & gone:
                self._count(other)

    def take_run(self, position: int, pods: Sequence[tuple[int, int]], completion: Completion) -> int:
        """Queue 3: take as many of the first of these pods, (block, class), as leave a node for the others.

        The ranks of a run are consecutive. `completion` has a node for each of the pods.
        """
        left, offer = self._left[position], self._offers[position]
        most = 0
        for place in range(min(len(pods), len(left))):
            if not offer >> pods[place][1] & 1 or (place and pods[place][0] > pods[place - 1][0] + 1):
                break
            most = place + 1
        masks, spend = self._masks(left), self._pods.spend
        classes = [cls for _, cls in pods[:most]]
        sizes = range(1, most + 1)
        most = bisect_left(sizes, True, key=lambda size: not can_match(classes[:size], masks, spend))
        for size in range(most, 0, -1):
            chosen = first_matching(classes[:size], masks, spend) or []
            if completion.give(classes[:size], [masks[place] for place in chosen]):
                self._take(position, pods[0][0], [left[place] for place in chosen], Origin.QUEUE_3)
                self._placed(position, classes[:size])
                return size
        return 0

    def open_pods(self) -> list[tuple[int, int]]:
        """(block, class) of the pods that are still to be placed, in rank order."""
        return [(logical, cls) for logical in self.open for cls in self._pods.of_block[logical]]

    def completion(self) -> Completion:
        """A node for each of these pods, wherever it is."""
        nodes = [mask for left in self._left for mask in self._masks(left)]
        return Completion([cls for _, cls in self.open_pods()], nodes, self._pods.spend)

    def number_by_rank(self) -> None:
        """Fragments are blocks of their own: all blocks are numbered in the order of their ranks."""
        order = sorted(range(len(self.blocks)), key=lambda place: (self.blocks[place].logical, place))
        for logical, place in enumerate(order):
            self.blocks[place] = replace(self.blocks[place], logical=logical)

    def _masks(self, nodes: Iterable[NodeId]) -> list[int]:
        return [self._pods.of_node.get(node, 0) for node in nodes]


def take_fragments(assignment: DifferingAssignment, order: Callable[[], Sequence[int]]) -> None:
    """Rule P4, queue 3: runs of ranks, each in one SuperPoD; `order` gives the SuperPoDs to try.

    Nothing of a job is placed in fragments where not all of it can be.
    """
    pods = assignment.open_pods()
    placed = len(assignment.blocks)
    completion = assignment.completion()
    if not completion.possible:
        return
    while pods:
        for position in order():
            size = assignment.take_run(position, pods, completion)
            if size:
                pods = pods[size:]
                break
        else:
            del assignment.blocks[placed:]
            return
    assignment.open.clear()
    assignment.number_by_rank()
