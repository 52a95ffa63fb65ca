"""310 and 310P Duo by card (N4): a pod stays on one card."""

from __future__ import annotations

from typing import NamedTuple

from ringwise.placement.reasons import RING_TOO_SMALL
from ringwise.placement.rules.preference import Preference
from ringwise.placement.rules.protocol import CachingRule, ScoreTable
from ringwise.reasons import Reason
from ringwise.topology.board import Board
from ringwise.topology.chips import chips_of

_WEIGHT = 8


class CountsPresent(NamedTuple):
    #: The different free counts among the cards, ascending.
    counts: tuple[int, ...]


class OneCard(CachingRule[CountsPresent]):
    """Only the best card counts: neither the node's other cards nor its faults change the score."""

    def __init__(self, board: Board) -> None:
        super().__init__(board)
        self._preference = Preference(board)

    def _signature(self, usable: int, allocatable: int, faulty: int) -> CountsPresent:
        return CountsPresent(tuple(sorted(set(self.free_per_ring(usable)))))

    def _score(self, signature: CountsPresent, request: int, multi_pod: bool) -> int | None:
        place = self._preference.place(request, signature.counts)
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
