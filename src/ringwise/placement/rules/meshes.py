"""Meshes of chips (N4): small requests stay in one mesh, multiples of a mesh take whole meshes."""

from __future__ import annotations

from typing import NamedTuple

from ringwise.placement.rules.protocol import CachingRule, ScoreTable, surplus_table
from ringwise.reasons import Reason
from ringwise.topology.board import Board
from ringwise.topology.chips import chips_of


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
