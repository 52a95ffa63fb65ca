"""310P Duo by chip, distributed (N4): whole cards, and one chip more for an odd request."""

from __future__ import annotations

from typing import NamedTuple

from ringwise.placement.rules.protocol import CachingRule, ScoreTable
from ringwise.reasons import Reason
from ringwise.topology.board import Board
from ringwise.topology.chips import chips_of

_WEIGHT = 8
_UNFIT = 16
#: Misfit of an odd request that breaks a whole card on the smallest node that holds it.
_BREAKING = 9


class DuoCards(NamedTuple):
    free: int
    whole: int

    @property
    def broken(self) -> int:
        return self.free - 2 * self.whole


class WholeCards(CachingRule[DuoCards]):
    def __init__(self, board: Board) -> None:
        super().__init__(board)
        table_chips = board.parameter["table_chips"]
        assert isinstance(table_chips, int)
        self._table_chips = table_chips

    def _signature(self, usable: int, allocatable: int, faulty: int) -> DuoCards:
        return DuoCards(usable.bit_count(), self.free_per_ring(usable).count(2))

    @staticmethod
    def _fits(cards: DuoCards, request: int) -> bool:
        return cards.free >= request and 2 * cards.whole >= request - request % 2

    def _misfit(self, free: int, broken: bool, request: int) -> int:
        odd = request % 2 == 1
        # With a chip of a partly used card free, an odd request is beyond the tables one chip earlier.
        if free > self._table_chips - (1 if odd and broken else 0):
            return _UNFIT
        if odd and not broken:
            return _BREAKING + (free - request - 1) // 2
        return free - request + 1

    def _score(self, signature: DuoCards, request: int, multi_pod: bool) -> int | None:
        if not self._fits(signature, request):
            return None
        return _WEIGHT * (_UNFIT - self._misfit(signature.free, signature.broken > 0, request))

    def _choose(self, usable: int, request: int, multi_pod: bool) -> tuple[int, ...]:
        if not self._fits(self._signature(usable, 0, 0), request):
            return ()
        broken: list[int] = []
        whole: list[int] = []
        for mask in self.ring_masks:
            chips = chips_of(usable & mask)
            (whole if len(chips) == 2 else broken).extend(chips)
        return tuple((broken[: request % 2] + whole)[:request])

    def _lack(self, usable: int, request: int, multi_pod: bool) -> Reason:
        cards = self._signature(usable, 0, 0)
        if cards.free < request:
            return self._too_few_chips(usable, request)
        return self._too_few_rings(usable, request, request // 2, cards.whole)

    def tables(self) -> tuple[ScoreTable, ...]:
        largest = self._table_chips
        odd, even = range(1, largest, 2), range(2, largest + 1, 2)
        return (
            ScoreTable(
                "misfit of odd requests, with a broken card free",
                "free on the node",
                _UNFIT,
                {ask: {free: self._misfit(free, True, ask) for free in range(ask, largest)} for ask in odd},
            ),
            ScoreTable(
                "misfit of odd requests, without a broken card",
                "free on the node",
                _UNFIT,
                {
                    ask: {free: self._misfit(free, False, ask) for free in range(ask + 1, largest + 1, 2)}
                    for ask in odd
                },
            ),
            ScoreTable(
                "misfit of even requests",
                "free on the node",
                _UNFIT,
                {
                    ask: {free: self._misfit(free, False, ask) for free in range(ask, largest + 1)}
                    for ask in even
                },
            ),
        )
