"""What would let a waiting job start. Every cure has been tried on the live state before it is told."""

from __future__ import annotations

from collections.abc import Sequence

from ringwise.framework.job import Job
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.explain.cure_search import Cure
from ringwise.scheduler.explain.job_cures import JobCures
from ringwise.scheduler.explain.near_misses import Refusals
from ringwise.scheduler.explain.room_cures import RoomCures

__all__ = ["Cure", "find_cures"]

#: Waiting jobs served first when a cure is tried under competition.
_MOST_AHEAD = 32


def find_cures(
    scheduler: Scheduler, job: Job, now: int, refusals: Refusals | None, ahead: Sequence[Job]
) -> list[Cure]:
    """Cures that hold, the cheapest for the cluster first."""
    return _Search(scheduler, job, now, refusals, list(ahead)[:_MOST_AHEAD]).run()


class _Search(JobCures, RoomCures):
    """All kinds of cures, one budget."""

    def run(self) -> list[Cure]:
        cures: list[Cure] = []
        for find in (
            self._sizes,
            self._minimum,
            self._labels,
            self._selectors,
            self._queues,
            self._chips,
            self._ended,
            self._nodes,
        ):
            cures.extend(find())
        return cures
