"""A plan of blocks by SuperPoD, and as the previous blocks of a job."""

from __future__ import annotations

from collections.abc import Iterable

from ringwise.placement.superpods.blocks import Block, BlockPlan
from ringwise.placement.superpods.previous_blocks import PreviousBlock
from ringwise.topology.superpods import SuperPodId


def per_superpod(plan: BlockPlan) -> dict[SuperPodId, int]:
    """Nodes taken from every SuperPoD, first picked first."""
    taken: dict[SuperPodId, int] = {}
    for block in plan.blocks:
        taken[block.superpod] = taken.get(block.superpod, 0) + block.size
    return taken


def map_from_blocks(blocks: Iterable[Block]) -> tuple[PreviousBlock, ...]:
    """The map of a job that was just placed, without a detour over its pods' annotations."""
    return tuple(
        PreviousBlock(block.logical, block.superpod, block.nodes)
        for block in sorted(blocks, key=lambda block: block.logical)
    )
