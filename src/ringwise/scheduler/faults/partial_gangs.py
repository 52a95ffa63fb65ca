"""No gang stays half bound: it is completed soon, or undone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ringwise.framework.job import Job
from ringwise.messages.commands import Evict
from ringwise.state.model import Pod
from ringwise.wellknown import PREDICATE_TIME

if TYPE_CHECKING:
    from ringwise.scheduler.core.machine import Scheduler

WHY = "the gang could not be completed"
_SECOND = 1_000_000_000
#: Seconds that a scheduler has after it found a gang in halves, however old the cut is: its own try to
#: complete the gang has failed by then, and news of bindings that came through meanwhile have arrived.
CHANCE = 2
#: The same while bindings for all that is missing are under way.
UNDER_WAY = 10
#: More digits than any time has; the largest unsigned number, which says "given out", has as many.
_DIGITS = 20


@dataclass(slots=True)
class Halves:
    """A gang of which some pods are bound and others are not."""

    #: The last time it came nearer to being whole.
    since: int
    #: When this scheduler saw it first, and how many pods were bound for sure when it looked last.
    noticed: int
    confirmed: int


class Recovery:
    """Watches gangs that were never whole: some of their bindings are through, and others are not.

    Whatever the others wait for (room, a server that refuses them or does not answer): after the limit
    without any progress the gang is undone. Every binding that comes through is progress. Where the
    bindings were made before this scheduler began, the time counts from the first of them, so schedulers
    that die one after the other do not prolong it.

    A gang that was whole and lost a pod is another matter: its pods go on, and the lost one is replaced.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        #: When this scheduler began to decide about gangs.
        self._began: int | None = None
        self._halves: dict[str, Halves] = {}
        #: Gangs that had all their pods at once.
        self._whole: set[str] = set()

    def look(self, job: Job, now: int) -> None:
        """After a cycle in which the job was decided: what could be done to complete it is done."""
        if self._began is None:
            self._began = now
        confirmed = self._confirmed(job)
        if len(confirmed) >= job.min_available:
            self._whole.add(job.key)
        if not confirmed or job.min_available < 2 or self.was_whole(job):
            self._halves.pop(job.key, None)
            return
        halves = self._halves.get(job.key)
        if halves is None:
            since = self._bound_before_us(job, confirmed)
            self._halves[job.key] = Halves(now if since is None else since, now, len(confirmed))
            return
        if len(confirmed) > halves.confirmed:
            halves.since = now
        halves.confirmed = len(confirmed)

    def forget(self, key: str) -> None:
        self._whole.discard(key)
        self._halves.pop(key, None)

    def deadline(self) -> int | None:
        jobs = self._scheduler.book.jobs
        times = [self._due(jobs[key], halves) for key, halves in self._halves.items() if key in jobs]
        return min(times, default=None)

    def overdue(self, now: int) -> list[Evict]:
        """The bound pods of gangs that were given time enough."""
        commands: list[Evict] = []
        for key, halves in list(self._halves.items()):
            job = self._scheduler.book.jobs.get(key)
            if job is None or not self._confirmed(job) or self.was_whole(job):
                del self._halves[key]
            elif self._due(job, halves) <= now:
                del self._halves[key]
                ours = [uid for uid in self._bound(job) if self._scheduler.book.is_ours(job.pods[uid])]
                commands += [self._scheduler.evict(job, uid, WHY) for uid in ours]
        return commands

    def _due(self, job: Job, halves: Halves) -> int:
        limit = self._scheduler.configuration.settings.gang_recovery_limit
        chance = min(limit, CHANCE)
        if len(self._bound(job)) >= job.min_available:
            # No limit is so short that bindings which are under way have no time to arrive.
            limit, chance = max(limit, UNDER_WAY), UNDER_WAY
        return max(halves.since + limit * _SECOND, halves.noticed + chance * _SECOND)

    def _bound_before_us(self, job: Job, confirmed: list[str]) -> int | None:
        """When the first of its pods was bound, where that was before this scheduler began."""
        times = [bound_at(job.pods[uid]) for uid in confirmed]
        began = self._began or 0
        return min((time for time in times if time is not None and time < began), default=None)

    def _bound(self, job: Job) -> list[str]:
        """Pods with a node, those whose binding is under way as well."""
        placements = self._scheduler.state.pods
        return [
            uid
            for uid, pod in job.pods.items()
            if placements[uid].node >= 0 and pod.live and not pod.deleting
        ]

    def _confirmed(self, job: Job) -> list[str]:
        """Pods whose binding is known to be through."""
        placements = self._scheduler.state.pods
        return [uid for uid in self._bound(job) if not placements[uid].assumed]

    def was_whole(self, job: Job) -> bool:
        """All pods of its gang had a node at once: seen by us, or told by its objects after a restart."""
        if job.key in self._whole:
            return True
        if job.group is not None and job.group.phase in ("Running", "Unknown", "Completed"):
            return True
        return any(pod.phase == "Succeeded" for pod in job.pods.values())


def bound_at(pod: Pod) -> int | None:
    """When a pod with chips was bound, as its binding says; None where that is not to be believed.

    The device plugin writes the largest unsigned number when it has given the chips out. Who reads this
    takes times of the future for none: the clocks of two replicas may differ.
    """
    said = pod.annotations.get(PREDICATE_TIME, "")
    if not pod.cls.chips or not said.isascii() or not said.isdigit() or len(said) > _DIGITS:
        return None
    # No pod is bound before it exists.
    return max(int(said), pod.created) or None
