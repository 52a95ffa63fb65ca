"""Where the pods of plain jobs sat, for those that come back (`prefer-previous-node`).

Kept by the uid of the pods' owner and by rank, for 72 hours after the owner lost its
last pod, or until all of them sit again. Nothing is held for anybody: it is a wish,
and the node may be taken meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ringwise.framework.job import Job, PreviousNode

KEPT_FOR = 72 * 3600 * 1_000_000_000


@dataclass(slots=True)
class _Seats:
    #: The job has the very same dict as `former`.
    by_rank: dict[int, PreviousNode] = field(default_factory=dict)
    lost: int = 0


class PreviousNodes:
    def __init__(self) -> None:
        #: By owner; the one that lost a pod last stands last.
        self._seats: dict[str, _Seats] = {}

    def __len__(self) -> int:
        return len(self._seats)

    def lost(self, owner: str, job: Job, rank: int, seat: PreviousNode) -> None:
        seats = self._seats.pop(owner, None) or _Seats()
        self._seats[owner] = seats
        seats.by_rank[rank] = seat
        seats.lost = seat.lost
        job.previous_nodes = seats.by_rank

    def attach(self, job: Job) -> None:
        """The job was seen: it gets back what is known about its owner."""
        if self._seats and not job.previous_nodes:
            seats = self._seats.get(_owner_of(job))
            if seats is not None:
                job.previous_nodes = seats.by_rank

    def forget(self, owner: str) -> None:
        seats = self._seats.pop(owner, None)
        if seats is not None:
            seats.by_rank.clear()

    def forget_old(self, now: int) -> None:
        while self._seats:
            owner, seats = next(iter(self._seats.items()))
            if seats.lost + KEPT_FOR > now:
                return
            self.forget(owner)

    def settle(self, job: Job, taken: set[int]) -> None:
        """After a cycle: once all remembered ranks sit again, only where they sit now counts."""
        owner = _owner_of(job)
        seats = self._seats.get(owner)
        if seats is not None and seats.by_rank.keys() <= taken:
            self.forget(owner)


def _owner_of(job: Job) -> str:
    owner = next(iter(job.pods.values())).owner if job.pods else None
    return "" if owner is None else owner.uid
