"""Boards on which only the number of free chips matters (N4)."""

from __future__ import annotations

from typing import NamedTuple

from ringwise.placement.rules.protocol import CachingRule
from ringwise.topology.board import Board
from ringwise.topology.chips import chips_of

#: One faulty chip outweighs any difference in free chips.
FAULT_WEIGHT = 100


class FreeAndFaulty(NamedTuple):
    free: int
    faulty: int


class FreeCount(CachingRule[FreeAndFaulty]):
    """Fewest faults first, then the fewest free chips; lowest chip ids."""

    def __init__(self, board: Board) -> None:
        super().__init__(board)
        self._faults_count = board.parameter["faults_lower_score"] is True

    def _signature(self, usable: int, allocatable: int, faulty: int) -> FreeAndFaulty:
        return FreeAndFaulty(usable.bit_count(), faulty if self._faults_count else 0)

    def _score(self, signature: FreeAndFaulty, request: int, multi_pod: bool) -> int | None:
        if signature.free < request:
            return None
        return FAULT_WEIGHT * (self.capacity - signature.faulty) - signature.free

    def _choose(self, usable: int, request: int, multi_pod: bool) -> tuple[int, ...]:
        return chips_of(usable)[:request] if usable.bit_count() >= request else ()
