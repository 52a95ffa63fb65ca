"""310 and 310P Duo by chip (N4): any chips, those of partly used cards first."""

from __future__ import annotations

from typing import NamedTuple

from ringwise.placement.rules.free_count import FAULT_WEIGHT
from ringwise.placement.rules.protocol import CachingRule
from ringwise.topology.board import Board
from ringwise.topology.chips import chips_of


class FreeChips(NamedTuple):
    free: int


class BrokenCardsFirst(CachingRule[FreeChips]):
    def __init__(self, board: Board) -> None:
        super().__init__(board)
        self._scored = board.parameter["scored"] is True
        self._all_cards = sum(self.ring_masks)

    def _signature(self, usable: int, allocatable: int, faulty: int) -> FreeChips:
        return FreeChips(self._in_cards(usable).bit_count())

    def _in_cards(self, usable: int) -> int:
        return usable & self._all_cards

    def _score(self, signature: FreeChips, request: int, multi_pod: bool) -> int | None:
        if signature.free < request:
            return None
        return FAULT_WEIGHT * self.capacity - signature.free if self._scored else 0

    def _choose(self, usable: int, request: int, multi_pod: bool) -> tuple[int, ...]:
        if self._in_cards(usable).bit_count() < request:
            return ()
        cards = sorted((free, card) for card, free in enumerate(self.free_per_ring(usable)) if free)
        chips = [chip for _, card in cards for chip in chips_of(usable & self.ring_masks[card])]
        return tuple(chips[:request])
