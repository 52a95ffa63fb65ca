"""Whole-job packing (rules P2 to P4): few SuperPoDs, and those with the least waste.

SuperPoDs with the same number of free nodes differ only in their id, so they
share a bucket. A step looks at the buckets, never at all SuperPoDs.
"""

from __future__ import annotations

import heapq
from typing import TypeAlias

from ringwise.placement.superpods.blocks import BlockAssignment, Origin
from ringwise.placement.superpods.differing import DifferingAssignment, take_fragments

WholeJobKey: TypeAlias = tuple[bool, int, int]


def whole_job_key(free: int, nodes_per_block: int, blocks: int, reserve: int) -> WholeJobKey | None:
    """Rule P2: the order among SuperPoDs that hold all blocks above the reserve; None for one that does not.

    Those with room for fewer than `blocks` further blocks come first, least
    waste first; the larger ones follow, smallest first.
    """
    beyond = free - (blocks * nodes_per_block + reserve)
    if beyond < 0:
        return None
    further_blocks, waste = divmod(beyond, nodes_per_block)
    return (False, waste, further_blocks) if further_blocks < blocks else (True, beyond, 0)


def pack_whole_job(
    assignment: BlockAssignment, nodes_per_block: int, blocks: int, reserve: int, soft: bool
) -> None:
    """Rules P2, P3 and P4: place `blocks` blocks; a soft job takes missing nodes as fragments."""
    if isinstance(assignment, DifferingAssignment):
        _pack_differing(assignment, nodes_per_block, reserve, soft)
        return
    buckets = _Buckets(assignment.free)
    left = blocks
    while left:
        if (count := _best_for_all(buckets, nodes_per_block, left, reserve)) is not None:
            taken, origin = left, Origin.QUEUE_1
        elif (count := _most_blocks(buckets, nodes_per_block, reserve)) is not None:
            taken, origin = (count - reserve) // nodes_per_block, Origin.QUEUE_1
        elif (count := buckets.largest()) >= nodes_per_block:
            taken, origin = 1, Origin.QUEUE_2
        else:
            break
        position = buckets.pop(count)
        for _ in range(taken):
            assignment.take(position, nodes_per_block, origin)
        buckets.put(position, count - taken * nodes_per_block)
        left -= taken
    missing = left * nodes_per_block if soft else 0
    while missing and (count := buckets.largest()):
        size = min(count, missing)
        assignment.take(buckets.pop(count), size, Origin.QUEUE_3)
        missing -= size


def _pack_differing(assignment: DifferingAssignment, nodes_per_block: int, reserve: int, soft: bool) -> None:
    """Rule P8: the same for pods that differ. q is at most the number of blocks that match."""
    free = assignment.free
    while assignment.open:
        free = assignment.free
        if (position := _first_that_matches_all(assignment, nodes_per_block, reserve)) is not None:
            assignment.take_blocks(position, len(assignment.open), Origin.QUEUE_1)
            continue
        most = _most_matching(assignment, nodes_per_block, reserve)
        if most is not None:
            assignment.take_blocks(most[0], most[1], Origin.QUEUE_1)
            continue
        freest = sorted(
            (p for p in range(len(free)) if free[p] >= nodes_per_block), key=lambda p: (-free[p], p)
        )
        if not any(assignment.take(position, nodes_per_block, Origin.QUEUE_2) for position in freest):
            break
    if soft and assignment.open:
        take_fragments(assignment, lambda: sorted(range(len(free)), key=lambda p: (-assignment.free[p], p)))


def _first_that_matches_all(
    assignment: DifferingAssignment, nodes_per_block: int, reserve: int
) -> int | None:
    """Rule P2: the first SuperPoD in the order of preference that holds all blocks above the reserve."""
    blocks = len(assignment.open)
    keyed = [
        (key, position)
        for position, count in enumerate(assignment.free)
        if (key := whole_job_key(count, nodes_per_block, blocks, reserve)) is not None
    ]
    for _, position in sorted(keyed):
        if assignment.offers_all(position) and len(assignment.matching_blocks(position, blocks)) == blocks:
            return position
    return None


def _most_matching(
    assignment: DifferingAssignment, nodes_per_block: int, reserve: int
) -> tuple[int, int] | None:
    """Rule P3: the SuperPoD that takes most blocks above the reserve, and how many."""
    counted = sorted(
        (-((count - reserve) // nodes_per_block), (count - reserve) % nodes_per_block, position)
        for position, count in enumerate(assignment.free)
        if count >= nodes_per_block + reserve
    )
    best: tuple[int, int, int] | None = None
    for bound, waste, position in counted:
        if best is not None and (bound, waste, position) > best:
            break
        candidate = (-len(assignment.matching_blocks(position, -bound)), waste, position)
        best = candidate if best is None else min(best, candidate)
    return None if best is None or not best[0] else (best[2], -best[0])


class _Buckets:
    """SuperPoDs by free count; inside a bucket the first by id is on top."""

    __slots__ = ("by_count",)

    def __init__(self, free: list[int]) -> None:
        self.by_count: dict[int, list[int]] = {}
        for position, count in enumerate(free):
            if count:
                # Positions arrive ascending, and an ascending list is a heap.
                self.by_count.setdefault(count, []).append(position)

    def largest(self) -> int:
        return max(self.by_count, default=0)

    def pop(self, count: int) -> int:
        bucket = self.by_count[count]
        position = heapq.heappop(bucket)
        if not bucket:
            del self.by_count[count]
        return position

    def put(self, position: int, count: int) -> None:
        if count:
            heapq.heappush(self.by_count.setdefault(count, []), position)


def _best_for_all(buckets: _Buckets, nodes_per_block: int, blocks: int, reserve: int) -> int | None:
    best: tuple[WholeJobKey, int] | None = None
    for count in buckets.by_count:
        key = whole_job_key(count, nodes_per_block, blocks, reserve)
        if key is not None and (best is None or (key, count) < best):
            best = (key, count)
    return None if best is None else best[1]


def _most_blocks(buckets: _Buckets, nodes_per_block: int, reserve: int) -> int | None:
    """Rule P3: the count that gives most blocks above the reserve; of equals the one with the least waste."""
    best: tuple[int, int, int] | None = None
    for count in buckets.by_count:
        if count >= nodes_per_block + reserve:
            quotient, waste = divmod(count - reserve, nodes_per_block)
            best = max(best or (0, 0, 0), (quotient, -waste, count))
    return None if best is None else best[2]
