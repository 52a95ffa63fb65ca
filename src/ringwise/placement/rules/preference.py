"""Profile tables (N3, N4): the order of preference of free counts of a ring, for each request."""

from __future__ import annotations

from ringwise.placement.rules.protocol import ScoreTable
from ringwise.topology.board import Board


class Preference:
    """The `table` of a profile, turned into lookups.

    Row `request - 1`, column `free - 1` holds the preference of a ring with so many free
    chips, 0 first; a value as large as a ring means unfit.
    """

    def __init__(self, board: Board) -> None:
        table = board.parameter["table"]
        assert isinstance(table, tuple)
        self.unfit = max(len(ring) for ring in board.rings)
        self._places = {
            (request, free): place
            for request, row in enumerate(table, start=1)
            for free, place in enumerate(row, start=1)
            if place < self.unfit
        }

    def place(self, request: int, free_per_ring: tuple[int, ...]) -> int | None:
        """The best preference of any ring, or None if no ring fits."""
        return min(
            (self._places[request, free] for free in free_per_ring if (request, free) in self._places),
            default=None,
        )

    def best_ring(self, request: int, free_per_ring: tuple[int, ...]) -> int | None:
        """Rule N5: the ring with the best preference, left before right."""
        best: tuple[int, int] | None = None
        for ring, free in enumerate(free_per_ring):
            place = self._places.get((request, free))
            if place is not None and (best is None or place < best[0]):
                best = (place, ring)
        return best[1] if best else None

    def largest_request(self) -> int:
        return max((request for request, _ in self._places), default=0)

    def fits_some_ring(self, request: int) -> bool:
        return any(size == request for size, _ in self._places)

    def table(self, title: str, columns: str) -> ScoreTable:
        rows: dict[int, dict[int, int]] = {}
        for (request, free), place in self._places.items():
            rows.setdefault(request, {})[free] = place
        return ScoreTable(title, columns, self.unfit, rows)
