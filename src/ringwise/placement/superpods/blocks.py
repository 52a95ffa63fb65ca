"""Blocks of a job (logical SuperPoDs), and their assignment to SuperPoDs while a job is packed."""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from ringwise.records import dataclass
from ringwise.topology.superpods import NodeId, SuperPodId, order_key

#: Free nodes of one SuperPoD: how many, or which, in the order in which they are to be taken.
Free: TypeAlias = int | Sequence[NodeId]
FreeBySuperPod: TypeAlias = Mapping[int, Free] | Mapping[str, Free] | Mapping[SuperPodId, Free]


class Origin(enum.Enum):
    """Which rule placed a block: the queues of part P, or rescheduling (P7)."""

    QUEUE_1 = "above the reserve"
    QUEUE_2 = "with the reserve"
    QUEUE_3 = "fragment"
    KEPT = "kept"
    REFILLED = "refilled"


@dataclass(frozen=True, slots=True)
class Block:
    """One logical SuperPoD. `nodes` is empty where only counts were given."""

    logical: int
    superpod: SuperPodId
    size: int
    nodes: tuple[NodeId, ...]
    origin: Origin


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """The blocks of a job in the order in which they were placed."""

    blocks: tuple[Block, ...]


class BlockAssignment:
    """The blocks assigned so far, and the free nodes that each SuperPoD has left.

    SuperPoDs are identified by their position in natural order, so that comparing
    positions is the tie-break and no rule depends on the order of the input.
    """

    __slots__ = ("_cursor", "_ids", "_logical", "_nodes", "blocks", "free")

    def __init__(self, free: FreeBySuperPod, logical_ids: Iterable[int] | None = None) -> None:
        entries: dict[SuperPodId, Free] = dict(free.items())
        self._ids: list[SuperPodId] = sorted(entries, key=order_key)
        self._nodes: list[Free] = [entries[superpod] for superpod in self._ids]
        self._cursor = [0] * len(self._ids)
        self._logical: Iterator[int] = iter(itertools.count() if logical_ids is None else logical_ids)
        self.free: list[int] = [nodes if isinstance(nodes, int) else len(nodes) for nodes in self._nodes]
        self.blocks: list[Block] = []

    def take(self, position: int, size: int, origin: Origin) -> bool:
        """Assign the next block: the first `size` free nodes of that SuperPoD. Whether it could be."""
        start = self._cursor[position]
        self._cursor[position] = start + size
        self.free[position] -= size
        nodes = self._nodes[position]
        chosen = () if isinstance(nodes, int) else tuple(nodes[start : start + size])
        self.blocks.append(Block(next(self._logical), self._ids[position], size, chosen, origin))
        return True

    def counts(self) -> list[tuple[SuperPodId, int]]:
        """(id, free nodes) of every SuperPoD, in natural order."""
        return list(zip(self._ids, self.free, strict=True))


def blocks_by_rank(
    blocks: Iterable[Block], first_ranks: Mapping[int, int] | None = None
) -> dict[int, tuple[Block, int]]:
    """Rule P7: (block, position inside it) of every rank that has a place.

    Ranks follow blocks, of which the fragments of a soft job are smaller ones. Where blocks may be
    missing between others, `first_ranks` gives the first rank of each.
    """
    result: dict[int, tuple[Block, int]] = {}
    following = 0
    for block in sorted(blocks, key=lambda block: block.logical):
        first = following if first_ranks is None else first_ranks[block.logical]
        result.update({first + position: (block, position) for position in range(block.size)})
        following = first + block.size
    return result
