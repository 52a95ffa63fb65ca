"""A3 (N4): two-chip cards. One chip may come from any card, more only as whole cards."""

from __future__ import annotations

from typing import NamedTuple

from ringwise.placement.rules.protocol import CachingRule, ScoreTable, surplus_table
from ringwise.reasons import Reason
from ringwise.topology.board import Board
from ringwise.topology.chips import chips_of

_WEIGHT = 16
_BEST = 32


class Cards(NamedTuple):
    free: int
    #: Cards with both chips free.
    whole: int


class TwoChipCards(CachingRule[Cards]):
    def __init__(self, board: Board) -> None:
        super().__init__(board)
        penalty = board.parameter["whole_card_penalty"]
        assert isinstance(penalty, int)
        self._whole_card_penalty = penalty

    def _signature(self, usable: int, allocatable: int, faulty: int) -> Cards:
        return Cards(usable.bit_count(), self.free_per_ring(usable).count(2))

    def _score(self, signature: Cards, request: int, multi_pod: bool) -> int | None:
        free, whole = signature
        if free < request or (request > 1 and (request % 2 or 2 * whole < request)):
            return None
        misfit = free - request
        if request == 1 and free == 2 * whole:
            misfit += self._whole_card_penalty
        return _WEIGHT * (_BEST - misfit)

    def _choose(self, usable: int, request: int, multi_pod: bool) -> tuple[int, ...]:
        free_per_card = self.free_per_ring(usable)
        masks = self.ring_masks
        if request == 1:
            cards = [(free, card) for card, free in enumerate(free_per_card) if free]
            return chips_of(usable & masks[min(cards)[1]])[:1] if cards else ()
        whole = [card for card, free in enumerate(free_per_card) if free == 2]
        if request % 2 or 2 * len(whole) < request:
            return ()
        return tuple(chip for card in whole[: request // 2] for chip in chips_of(masks[card]))

    def _lack(self, usable: int, request: int, multi_pod: bool) -> Reason:
        if request > self.capacity or (request > 1 and request % 2):
            return self._no_place(request)
        if usable.bit_count() < request:
            return self._too_few_chips(usable, request)
        return self._too_few_rings(usable, request, request // 2, self.free_per_ring(usable).count(2))

    def tables(self) -> tuple[ScoreTable, ...]:
        return (surplus_table("misfit", "free on the node", self.capacity),)
