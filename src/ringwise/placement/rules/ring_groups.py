"""910 x8 (N3): nodes in groups A to D by the free chips of their rings."""

from __future__ import annotations

from typing import NamedTuple

from ringwise.placement.rules.preference import Preference
from ringwise.placement.rules.protocol import CachingRule, ScoreTable
from ringwise.reasons import Reason
from ringwise.topology.board import Board
from ringwise.topology.chips import chips_of

_LETTERS = "ABCDEFGH"


class RingsAndHealth(NamedTuple):
    free_per_ring: tuple[int, ...]
    free: int
    allocatable: int


class RingGroups(CachingRule[RingsAndHealth]):
    """Rule N3: healthy capacity first, then the group, then the fewest free chips.

    `tight-node` (K): the fewest free chips before the group. Either way the two lower terms together stay
    below one step of the term above, so the score orders nodes exactly as the three terms do one after the
    other.
    """

    def __init__(self, board: Board, packing: str = "document") -> None:
        super().__init__(board)
        self._tight_node = packing == "tight-node"
        if self._tight_node:
            self.name = f"{board.name} {packing}"
        self._preference = Preference(board)
        self._groups = self._preference.unfit

    def _signature(self, usable: int, allocatable: int, faulty: int) -> RingsAndHealth:
        return RingsAndHealth(self.free_per_ring(usable), usable.bit_count(), allocatable)

    def _preference_of(self, rings: RingsAndHealth, request: int) -> int | None:
        if request == self.capacity:
            return 0 if rings.free == self.capacity else None
        return self._preference.place(request, rings.free_per_ring)

    def _score(self, signature: RingsAndHealth, request: int, multi_pod: bool) -> int | None:
        place = self._preference_of(signature, request)
        if place is None:
            return None
        if self._tight_node:
            fuller = self.capacity - signature.free
            health = (self.capacity + 1) * signature.allocatable + fuller
            return self._groups * health + self._groups - 1 - place
        health = self._groups * signature.allocatable - place
        return self.capacity * health + self.capacity - signature.free

    def _group(self, signature: RingsAndHealth, request: int) -> str | None:
        place = self._preference_of(signature, request)
        return None if place is None else _LETTERS[place]

    def _choose(self, usable: int, request: int, multi_pod: bool) -> tuple[int, ...]:
        if request == self.capacity:
            return chips_of(usable) if usable.bit_count() == self.capacity else ()
        ring = self._preference.best_ring(request, self.free_per_ring(usable))
        return chips_of(usable & self.ring_masks[ring])[:request] if ring is not None else ()

    def _lack(self, usable: int, request: int, multi_pod: bool) -> Reason:
        if request == self.capacity:
            return self._not_wholly_free(usable, request)
        if not self._preference.fits_some_ring(request):
            return self._no_place(request)
        return self._no_ring(request, self.free_per_ring(usable))

    def tables(self) -> tuple[ScoreTable, ...]:
        return (self._preference.table("group, A = 0", f"free in the {self.board.ring_kind}"),)
