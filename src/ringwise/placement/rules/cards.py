"""Boards whose chips are on cards (N4), A3, 310 and 310P Duo, and those whose chips are all alike."""

from __future__ import annotations

from typing import NamedTuple

from ringwise.placement.reasons import RING_TOO_SMALL
from ringwise.placement.rules.preference import Preference
from ringwise.placement.rules.protocol import CachingRule, ScoreTable, surplus_table
from ringwise.reasons import Reason
from ringwise.topology.board import Board
from ringwise.topology.chips import chips_of

# -- Boards on which only the number of free chips matters (N4)

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


# -- A3 (N4): two-chip cards. One chip may come from any card, more only as whole cards

_A3_WEIGHT = 16
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
        return _A3_WEIGHT * (_BEST - misfit)

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


# -- 310P Duo by chip, distributed (N4): whole cards, and one chip more for an odd request

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


# -- 310 and 310P Duo by card (N4): a pod stays on one card


#: The different free counts among the cards, ascending.
CountsPresent = tuple[int, ...]


class OneCard(CachingRule[CountsPresent]):
    """Only the best card counts: neither the node's other cards nor its faults change the score."""

    def __init__(self, board: Board) -> None:
        super().__init__(board)
        self._preference = Preference(board)

    def _signature(self, usable: int, allocatable: int, faulty: int) -> CountsPresent:
        return tuple(sorted(set(self.free_per_ring(usable))))

    def _score(self, signature: CountsPresent, request: int, multi_pod: bool) -> int | None:
        place = self._preference.place(request, signature)
        return None if place is None else _WEIGHT * (self._preference.unfit - place)

    def _choose(self, usable: int, request: int, multi_pod: bool) -> tuple[int, ...]:
        card = self._preference.best_ring(request, self.free_per_ring(usable))
        return chips_of(usable & self.ring_masks[card])[:request] if card is not None else ()

    def _lack(self, usable: int, request: int, multi_pod: bool) -> Reason:
        largest = self._preference.largest_request()
        if request > largest:
            return RING_TOO_SMALL(
                request=request, ring=self.board.ring_kind, board=self.board.name, size=largest
            )
        if usable.bit_count() < request:
            return self._too_few_chips(usable, request)
        # A node may have sixteen cards: those without a free chip are left out of the message.
        return self._no_ring(request, tuple(count for count in self.free_per_ring(usable) if count))

    def tables(self) -> tuple[ScoreTable, ...]:
        return (self._preference.table("misfit of a card", f"free on the {self.board.ring_kind}"),)


# -- 310 and 310P Duo by chip (N4): any chips, those of partly used cards first


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
