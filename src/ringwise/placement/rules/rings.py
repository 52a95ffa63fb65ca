"""Boards whose chips are in rings or meshes (N3, N4): 910 and 910B."""

from __future__ import annotations

from typing import NamedTuple

from ringwise.placement.reasons import NOT_ENOUGH_PAIRS
from ringwise.placement.rules.preference import Preference
from ringwise.placement.rules.protocol import CachingRule, ScoreTable, surplus_table
from ringwise.reasons import Reason
from ringwise.topology.board import Board
from ringwise.topology.chips import chips_of

# -- 910 x8 (N3): nodes in groups A to D by the free chips of their rings

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


# -- 910B x16 (N4): up to a ring from one ring, more from both rings in pairs


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


# -- Meshes of chips (N4): small requests stay in one mesh, multiples of a mesh take whole meshes


class MeshCounts(NamedTuple):
    free: int
    #: Free chips of each mesh, ascending: which mesh is which does not matter.
    free_per_mesh: tuple[int, ...]


class Meshes(CachingRule[MeshCounts]):
    def __init__(self, board: Board) -> None:
        super().__init__(board)
        self._size = len(board.rings[0])
        #: Larger than any misfit of an aligned request.
        self._best_aligned = self.capacity * len(board.rings)

    def _aligned(self, request: int) -> bool:
        """Up to one mesh, or a number of whole meshes."""
        return request <= self._size or request % self._size == 0

    def _signature(self, usable: int, allocatable: int, faulty: int) -> MeshCounts:
        return MeshCounts(usable.bit_count(), tuple(sorted(self.free_per_ring(usable))))

    def _score(self, signature: MeshCounts, request: int, multi_pod: bool) -> int | None:
        free, free_per_mesh = signature
        misfit = free - request
        if misfit < 0:
            return None
        if not self._aligned(request):
            return self.capacity * (self.capacity - misfit)
        per_mesh = min(request, self._size)
        suitable = sum(1 for count in free_per_mesh if count >= per_mesh)
        spare = suitable - request // per_mesh
        if spare < 0:
            return None
        return self._best_aligned * (self._best_aligned - self.capacity * spare - misfit)

    def _choose(self, usable: int, request: int, multi_pod: bool) -> tuple[int, ...]:
        if usable.bit_count() < request:
            return ()
        if not self._aligned(request):
            return chips_of(usable)[:request]
        per_mesh = min(request, self._size)
        fitting = [(free, mesh) for mesh, free in enumerate(self.free_per_ring(usable)) if free >= per_mesh]
        needed = request // per_mesh
        if len(fitting) < needed:
            return ()
        # Whole meshes all have the same count, so this is their id order too.
        taken = [self.ring_masks[mesh] for _, mesh in sorted(fitting)[:needed]]
        return tuple(chip for mask in taken for chip in chips_of(usable & mask)[:per_mesh])

    def _lack(self, usable: int, request: int, multi_pod: bool) -> Reason:
        if usable.bit_count() < request or not self._aligned(request):
            return self._too_few_chips(usable, request)
        free_per_mesh = self.free_per_ring(usable)
        if request < self._size:
            return self._no_ring(request, free_per_mesh)
        return self._too_few_rings(usable, request, request // self._size, free_per_mesh.count(self._size))

    def tables(self) -> tuple[ScoreTable, ...]:
        return (surplus_table("misfit", "free on the node", self.capacity),)
