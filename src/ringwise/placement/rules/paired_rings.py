"""910B x16 (N4): up to a ring from one ring, more from both rings in pairs."""

from __future__ import annotations

from typing import NamedTuple

from ringwise.placement.reasons import (
    NOT_ENOUGH_PAIRS,
)
from ringwise.placement.rules.protocol import CachingRule, ScoreTable, surplus_table
from ringwise.reasons import Reason
from ringwise.topology.board import Board
from ringwise.topology.chips import chips_of


class TwoRings(NamedTuple):
    left: int
    right: int
    #: Positions free in both rings.
    pairs: int
    allocatable: int

    @property
    def free(self) -> int:
        return self.left + self.right


class PairedRings(CachingRule[TwoRings]):
    """A faulty chip weighs as much as one chip of misfit: faults do not dominate here."""

    def __init__(self, board: Board) -> None:
        super().__init__(board)
        self._left, self._right = board.rings
        self._size = len(self._left)

    def _signature(self, usable: int, allocatable: int, faulty: int) -> TwoRings:
        left, right = self.free_per_ring(usable)
        return TwoRings(left, right, len(self._same_positions(usable)), allocatable)

    def _same_positions(self, usable: int) -> list[tuple[int, int]]:
        return [
            (left, right)
            for left, right in zip(self._left, self._right, strict=True)
            if usable >> left & 1 and usable >> right & 1
        ]

    def _misfit(self, rings: TwoRings, request: int, multi_pod: bool) -> int | None:
        if request == self.capacity:
            return 0 if rings.left + rings.right == self.capacity else None
        if request <= self._size:
            return min((free - request for free in rings[:2] if free >= request), default=None)
        # A one-pod job needs partners at the same position, a multi-pod job any chip of each ring.
        pairs = min(rings.left, rings.right) if multi_pod else rings.pairs
        return pairs - request // 2 if request % 2 == 0 and 2 * pairs >= request else None

    def _score(self, signature: TwoRings, request: int, multi_pod: bool) -> int | None:
        misfit = self._misfit(signature, request, multi_pod)
        if misfit is None:
            return None
        free = signature.left + signature.right
        return self.capacity * (signature.allocatable - misfit) + self.capacity - free

    def _choose(self, usable: int, request: int, multi_pod: bool) -> tuple[int, ...]:
        rings = self._signature(usable, 0, 0)
        if self._misfit(rings, request, multi_pod) is None:
            return ()
        left, right = (chips_of(usable & mask) for mask in self.ring_masks)
        if request <= self._size:
            fits_left = rings.left >= request and (rings.right < request or rings.left <= rings.right)
            return (left if fits_left else right)[:request]
        pairs = list(zip(left, right, strict=False)) if multi_pod else self._same_positions(usable)
        return tuple(chip for pair in pairs for chip in pair)[:request]

    def _lack(self, usable: int, request: int, multi_pod: bool) -> Reason:
        rings = self._signature(usable, 0, 0)
        if request == self.capacity:
            return self._not_wholly_free(usable, request)
        if request <= self._size:
            return self._no_ring(request, rings[:2])
        if request % 2 or request > self.capacity:
            return self._no_place(request)
        pairs = min(rings.left, rings.right) if multi_pod else rings.pairs
        return NOT_ENOUGH_PAIRS(
            request=request,
            needed=request // 2,
            pairs=pairs,
            missing=request // 2 - pairs,
            positions="at any position" if multi_pod else "at the same position",
            rings=rings[:2],
        )

    def tables(self) -> tuple[ScoreTable, ...]:
        return (
            surplus_table(
                "misfit", "free in the ring; above a ring: free pairs, by pairs asked for", self._size
            ),
        )
