"""The position of a pod under its switch, now or before it failed (rule S9)."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

from ringwise.records import dataclass

#: Farther than any rank can be.
_FAR = 1 << 60


@dataclass(frozen=True, slots=True)
class PodPosition:
    """A rank and its switch. `switch` and `position` are None where the node is not in the topology."""

    rank: int
    switch: int | None = None
    position: int | None = None
    #: The pod's `isSharedTor`.
    mark: int = 0


class RanksBySwitch:
    """The ranks under each switch, to place a failed rank near its neighbors."""

    def __init__(self, positions: Iterable[PodPosition]) -> None:
        self._ranks: dict[int, list[int]] = {}
        for position in positions:
            self.add(position)

    def add(self, pod: PodPosition) -> None:
        if pod.switch is not None:
            insort(self._ranks.setdefault(pod.switch, []), pod.rank)

    def distance(self, switch: int, lost: PodPosition) -> int:
        """Distance in ranks to the nearest pod under the switch; 0 for the switch the rank had before."""
        if lost.switch == switch:
            return 0
        ranks = self._ranks.get(switch)
        if not ranks:
            return _FAR
        place = bisect_left(ranks, lost.rank)
        return min(abs(rank - lost.rank) for rank in ranks[max(0, place - 1) : place + 1])
