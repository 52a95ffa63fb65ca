"""Where a pod of a running job sits, or sat before it failed."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass

#: Farther than any rank can be.
_FAR = 1 << 60


@dataclass(frozen=True, slots=True)
class Seat:
    """`switch` and `position` are None for a node outside the topology or not known."""

    rank: int
    switch: int | None = None
    position: int | None = None
    #: The pod's `isSharedTor`.
    mark: int = 0


class Neighbourhood:
    """Which ranks sit under which switch, to keep neighbours in rank together."""

    def __init__(self, seats: Iterable[Seat]) -> None:
        self._ranks: dict[int, list[int]] = {}
        for seat in seats:
            self.add(seat)

    def add(self, seat: Seat) -> None:
        if seat.switch is not None:
            insort(self._ranks.setdefault(seat.switch, []), seat.rank)

    def distance(self, switch: int, lost: Seat) -> int:
        """How far a failed rank is from the nearest pod under the switch; its own former place is nearest."""
        if lost.switch == switch:
            return 0
        ranks = self._ranks.get(switch)
        if not ranks:
            return _FAR
        place = bisect_left(ranks, lost.rank)
        return min(abs(rank - lost.rank) for rank in ranks[max(0, place - 1) : place + 1])
