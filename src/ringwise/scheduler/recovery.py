"""No gang stays half bound: it is completed soon, or undone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringwise.framework.job import Job
from ringwise.scheduler.annotations import PREDICATE_TIME
from ringwise.scheduler.commands import Evict
from ringwise.state.model import Pod

if TYPE_CHECKING:
    from ringwise.scheduler.machine import Scheduler

WHY = "the gang could not be completed"
_SECOND = 1_000_000_000
#: Seconds that a scheduler waits after it found a gang in halves, however old the cut is: its own try to
#: complete the gang has failed by then, and news of bindings that came through meanwhile have arrived.
CHANCE = 2
#: More digits than any time has; the largest unsigned number, which says "given out", has as many.
_DIGITS = 20


class Recovery:
    """Watches gangs that were never whole: some pods have a node, and the others find no place.

    A gang that was whole and lost a pod is another matter: its pods go on, and the lost one is replaced.

    Bindings that are on their way count as made. A gang that stays in halves even when all of them come
    through is cut: under the scheduler that bound it since that was noticed, and where the bindings were
    made before this scheduler began, since the first of them. So schedulers that die one after the other
    do not prolong it. A gang whose missing bindings fail and are made anew, again and again, is cut, too:
    since the last of its bindings came through.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        #: When this scheduler began to decide about gangs.
        self._began: int | None = None
        #: Gangs that are not whole yet, with the time of the first binding that was made before us.
        self._inherited: dict[str, int | None] = {}
        #: Gangs that what is on its way does not complete, and when that was noticed first and last.
        self._since: dict[str, int] = {}
        self._noticed: dict[str, int] = {}
        #: Gangs of which a binding failed, with the time of their last progress and how far they had come.
        self._failing: dict[str, tuple[int, int]] = {}
        #: Gangs that had all their pods at once.
        self._whole: set[str] = set()

    def failed(self, job: Job, now: int) -> None:
        """A binding of the job failed."""
        # Of a large gang thousands may fail at once: it is looked through once.
        if job.min_available > 1 and job.key not in self._failing and not self.was_whole(job):
            self._failing[job.key] = (now, self._confirmed(job))

    def look(self, job: Job, now: int) -> None:
        """After a cycle in which the job was decided: what could be done to complete it is done."""
        if self._began is None:
            self._began = now
        bound, confirmed = self._bound(job), self._confirmed(job)
        if confirmed >= job.min_available:
            self._whole.add(job.key)
        if job.key in self._failing and confirmed > self._failing[job.key][1]:
            self._failing[job.key] = (now, confirmed)
        if not bound or job.min_available < 2 or self.was_whole(job):
            self._over(job.key)
            return
        if job.key not in self._inherited:
            self._inherited[job.key] = self._bound_before_us(job, bound)
        if len(bound) < job.min_available:
            inherited = self._inherited[job.key]
            self._since.setdefault(job.key, now if inherited is None else inherited)
            self._noticed.setdefault(job.key, now)
        else:
            self._noticed.pop(job.key, None)

    def forget(self, key: str) -> None:
        self._whole.discard(key)
        self._over(key)

    def _over(self, key: str) -> None:
        """The gang is whole, or nobody of it has a node."""
        self._inherited.pop(key, None)
        self._since.pop(key, None)
        self._noticed.pop(key, None)
        self._failing.pop(key, None)

    def deadline(self) -> int | None:
        return min((self._due(key) for key in {**self._noticed, **self._failing}), default=None)

    def overdue(self, now: int) -> list[Evict]:
        """The bound pods of gangs that were given time enough."""
        commands: list[Evict] = []
        for key in {**self._noticed, **self._failing}:
            job = self._scheduler.book.jobs.get(key)
            if job is None or not self._in_halves(job):
                self._noticed.pop(key, None)
                self._failing.pop(key, None)
            elif self._due(key) <= now:
                self._over(key)
                commands += [self._scheduler.evict(job, uid, WHY) for uid in self._bound(job)]
        return commands

    def _due(self, key: str) -> int:
        limit = self._scheduler.configuration.settings.gang_recovery_limit
        times = []
        if key in self._noticed:
            chance = self._noticed[key] + min(limit, CHANCE) * _SECOND
            times.append(max(self._since[key] + limit * _SECOND, chance))
        if key in self._failing:
            times.append(self._failing[key][0] + limit * _SECOND)
        return min(times)

    def _bound_before_us(self, job: Job, bound: list[str]) -> int | None:
        """When the first of its pods was bound, where that was before this scheduler began."""
        placements = self._scheduler.state.pods
        times = [bound_at(job.pods[uid]) for uid in bound if not placements[uid].assumed]
        began = self._began or 0
        return min((time for time in times if time is not None and time < began), default=None)

    def _bound(self, job: Job) -> list[str]:
        placements = self._scheduler.state.pods
        return [
            uid
            for uid, pod in job.pods.items()
            if placements[uid].node >= 0 and pod.live and not pod.deleting
        ]

    def _confirmed(self, job: Job) -> int:
        """How many of its bindings are known to be through."""
        placements = self._scheduler.state.pods
        return sum(not placements[uid].assumed for uid in self._bound(job))

    def _in_halves(self, job: Job) -> bool:
        if job.min_available < 2 or self.was_whole(job):
            return False
        if job.key in self._failing:
            return 0 < self._confirmed(job) < job.min_available
        return 0 < len(self._bound(job)) < job.min_available

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
