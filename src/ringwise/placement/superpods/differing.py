"""Blocks of pods that differ in selectors or sizes (rule P8)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ringwise.placement.matching import can_match, first_matching, largest_matching
from ringwise.placement.superpods.blocks import Block, BlockAssignment, FreeBySuperPod, Origin
from ringwise.records import dataclass
from ringwise.topology.superpods import NodeId


@dataclass(frozen=True, slots=True)
class BlockPods:
    """The classes of the pods of each block by its logical id, and the mask of classes of each node."""

    of_block: Mapping[int, Sequence[int]]
    of_node: Mapping[NodeId, int]


class DifferingAssignment(BlockAssignment):
    """A SuperPoD takes blocks in rank order, each if all its pods can be matched to nodes not taken yet.

    `free` counts the nodes that some pod of a block still to be placed can take.
    """

    __slots__ = ("_left", "_pods", "open")

    def __init__(self, free: FreeBySuperPod, logical_ids: Iterable[int], pods: BlockPods) -> None:
        super().__init__(free)
        self._pods = pods
        self.open: list[int] = list(logical_ids)
        #: Nodes of each SuperPoD that are not taken.
        self._left: list[list[NodeId]] = [
            [] if isinstance(nodes, int) else list(nodes) for nodes in self._nodes
        ]
        self._count(self.open_pods())

    def _count(self, pods: Iterable[tuple[int, int]]) -> None:
        wanted = 0
        for _, cls in pods:
            wanted |= 1 << cls
        of_node = self._pods.of_node
        self.free = [sum(1 for node in nodes if of_node.get(node, 0) & wanted) for nodes in self._left]

    def matching_blocks(self, position: int, most: int) -> list[tuple[int, list[NodeId]]]:
        """The first blocks, at most so many, that the SuperPoD can take together, with their nodes."""
        found: list[tuple[int, list[NodeId]]] = []
        left = self._left[position]
        useless: set[tuple[int, ...]] = set()
        for logical in self.open:
            if len(found) == most:
                break
            classes = tuple(self._pods.of_block[logical])
            if classes in useless:
                continue
            chosen = first_matching(classes, self._masks(left))
            if chosen is None:
                # Fewer nodes later on will not hold such a block either.
                useless.add(classes)
                continue
            nodes = [left[place] for place in chosen]
            found.append((logical, nodes))
            taken = set(chosen)
            left = [node for place, node in enumerate(left) if place not in taken]
        return found

    def take(self, position: int, size: int, origin: Origin) -> bool:
        return self.take_blocks(position, 1, origin) == 1

    def take_blocks(self, position: int, most: int, origin: Origin) -> int:
        """Take the first blocks that match, at most so many."""
        found = self.matching_blocks(position, most)
        for logical, nodes in found:
            self.open.remove(logical)
            self._take(position, logical, nodes, origin)
        if found:
            self._count(self.open_pods())
        return len(found)

    def _take(self, position: int, logical: int, nodes: Sequence[NodeId], origin: Origin) -> None:
        self.blocks.append(Block(logical, self._ids[position], len(nodes), tuple(nodes), origin))
        taken = set(nodes)
        self._left[position] = [node for node in self._left[position] if node not in taken]

    def take_run(self, position: int, pods: Sequence[tuple[int, int]]) -> int:
        """Queue 3: take as many of the first of these pods, (block, class), as leave a node for the others.

        The ranks of a run are consecutive.
        """
        left = self._left[position]
        others = Counter(
            self._pods.of_node.get(node, 0)
            for number, nodes in enumerate(self._left)
            for node in nodes
            if number != position
        )
        consecutive = next(
            (place for place in range(1, len(pods)) if pods[place][0] > pods[place - 1][0] + 1), len(pods)
        )
        for size in range(min(consecutive, len(left)), 0, -1):
            classes = [cls for _, cls in pods[:size]]
            if not can_match(classes, self._masks(left)):
                continue
            nodes = [left[place] for place in first_matching(classes, self._masks(left)) or ()]
            taken = set(nodes)
            rest = others + Counter(self._masks(node for node in left if node not in taken))
            if largest_matching(Counter(cls for _, cls in pods[size:]), rest) == len(pods) - size:
                self._take(position, pods[0][0], nodes, Origin.QUEUE_3)
                self._count(pods[size:])
                return size
        return 0

    def open_pods(self) -> list[tuple[int, int]]:
        """(block, class) of the pods that are still to be placed, in rank order."""
        return [(logical, cls) for logical in self.open for cls in self._pods.of_block[logical]]

    def number_by_rank(self) -> None:
        """Fragments are blocks of their own: all blocks are numbered in the order of their ranks."""
        order = sorted(range(len(self.blocks)), key=lambda place: (self.blocks[place].logical, place))
        for logical, place in enumerate(order):
            self.blocks[place] = replace(self.blocks[place], logical=logical)

    def _masks(self, nodes: Iterable[NodeId]) -> list[int]:
        return [self._pods.of_node.get(node, 0) for node in nodes]


def take_fragments(assignment: DifferingAssignment, order: Callable[[], Sequence[int]]) -> None:
    """Rule P4, queue 3: runs of ranks, each in one SuperPoD; `order` gives the SuperPoDs to try."""
    pods = assignment.open_pods()
    placed = len(assignment.blocks)
    while pods:
        for position in order():
            size = assignment.take_run(position, pods)
            if size:
                pods = pods[size:]
                break
        else:
            # Nothing of a job is placed in fragments where not all of it can be.
            del assignment.blocks[placed:]
            return
    assignment.open.clear()
    assignment.number_by_rank()
