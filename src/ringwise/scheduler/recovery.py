"""No gang stays half bound: it is completed soon, or undone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringwise.framework.job import Job
from ringwise.scheduler.commands import Evict

if TYPE_CHECKING:
    from ringwise.scheduler.machine import Scheduler

WHY = "the gang could not be completed"
_SECOND = 1_000_000_000


class Recovery:
    """Watches gangs that were never whole: some pods have a node, and the others find no place.

    A gang that was whole and lost a pod is another matter: its pods go on, and the lost one is replaced.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._since: dict[str, int] = {}
        #: Gangs that had all their pods at once.
        self._whole: set[str] = set()

    def look(self, job: Job, now: int) -> None:
        """After a cycle in which the job was decided."""
        placements = self._scheduler.state.pods
        if sum(not placements[uid].assumed for uid in self._bound(job)) >= job.min_available:
            self._whole.add(job.key)
        if self._half_bound(job):
            self._since.setdefault(job.key, now)
        else:
            self._since.pop(job.key, None)

    def forget(self, key: str) -> None:
        self._whole.discard(key)
        self._since.pop(key, None)

    def deadline(self) -> int | None:
        return min((since + self._limit for since in self._since.values()), default=None)

    def overdue(self, now: int) -> list[Evict]:
        """The bound pods of gangs that were given time enough."""
        commands: list[Evict] = []
        for key, since in list(self._since.items()):
            job = self._scheduler.book.jobs.get(key)
            if job is None or not self._half_bound(job):
                del self._since[key]
            elif since + self._limit <= now:
                del self._since[key]
                commands += [self._scheduler.evict(job, uid, WHY) for uid in self._bound(job)]
        return commands

    @property
    def _limit(self) -> int:
        return self._scheduler.configuration.settings.gang_recovery_limit * _SECOND

    def _bound(self, job: Job) -> list[str]:
        placements = self._scheduler.state.pods
        return [
            uid
            for uid, pod in job.pods.items()
            if placements[uid].node >= 0 and pod.live and not pod.deleting
        ]

    def _half_bound(self, job: Job) -> bool:
        if job.min_available < 2:
            return False
        return 0 < len(self._bound(job)) < job.min_available and not self.was_whole(job)

    def was_whole(self, job: Job) -> bool:
        """All pods of its gang had a node at once: seen by us, or told by its objects after a restart."""
        if job.key in self._whole:
            return True
        if job.group is not None and job.group.phase in ("Running", "Unknown", "Completed"):
            return True
        return any(pod.phase == "Succeeded" for pod in job.pods.values())
