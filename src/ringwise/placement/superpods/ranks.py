"""Which rank stands where: ranks run through the blocks in the order of their logical ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from ringwise.placement.superpods.blocks import Block

LogicalId = TypeVar("LogicalId", int, str)


def slot_of_rank(block_sizes: Mapping[LogicalId, int], rank: int) -> tuple[LogicalId, int] | None:
    """(logical id, place inside the block) of a rank, or None where no block reaches that far.

    With equal blocks this is (rank div size, rank mod size); a soft job's fragments
    are smaller, so the sizes are walked. Ids compare as numbers, also when written as text.
    """
    if rank < 0:
        return None
    start = 0
    for logical in sorted(block_sizes, key=int):
        if rank < start + block_sizes[logical]:
            return logical, rank - start
        start += block_sizes[logical]
    return None


def blocks_by_rank(blocks: Iterable[Block]) -> list[tuple[Block, int]]:
    """(block, place inside it) of every rank, rank 0 first."""
    return [
        (block, place)
        for block in sorted(blocks, key=lambda block: block.logical)
        for place in range(block.size)
    ]
