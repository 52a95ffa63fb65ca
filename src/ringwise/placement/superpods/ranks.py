"""Which rank stands where: ranks run through the blocks in the order of their logical ids."""

from __future__ import annotations

from collections.abc import Iterable

from ringwise.placement.superpods.blocks import Block


def blocks_by_rank(blocks: Iterable[Block]) -> list[tuple[Block, int]]:
    """(block, place inside it) of every rank, rank 0 first; a soft job's fragments are smaller blocks."""
    return [
        (block, place)
        for block in sorted(blocks, key=lambda block: block.logical)
        for place in range(block.size)
    ]
