"""Jobs that wait for objects which a controller creates: their PodGroup, or pods of their gang.

A controller that runs creates them at once, so that the wait is no news. A job of which none came for a while
is told: no controller may run that serves it, or something keeps it from creating them.

The time counts from when this scheduler saw the job, or the last of its pods come.
"""

from __future__ import annotations

from ringwise.framework.job import Job
from ringwise.framework.reasons import NO_PODS_YET
from ringwise.plugins.gang.reasons import NOT_ENOUGH_PODS, NOT_ENOUGH_PODS_OF_TASK
from ringwise.scheduler.reasons import POD_GROUP_AWAITED, POD_GROUP_MISSING

#: Nanoseconds after which a job is told.
PATIENCE = 30_000_000_000

#: Codes of the reasons of jobs that wait for such objects.
AWAITED = frozenset(
    kind.code
    for kind in (NO_PODS_YET, NOT_ENOUGH_PODS, NOT_ENOUGH_PODS_OF_TASK, POD_GROUP_AWAITED, POD_GROUP_MISSING)
)


class AwaitedObjects:
    def __init__(self) -> None:
        #: Jobs that wait: how many pods they have, and since when, in order of time; and those that are told.
        self._since: dict[str, tuple[int, int]] = {}
        self._overdue: dict[str, int] = {}

    def note(self, job: Job, now: int) -> None:
        """The job has its reason, or none."""
        if not _awaits(job):
            self.forget(job.key)
            return
        pods = len(job.pods)
        if self._overdue.get(job.key) == pods:
            return
        known = self._since.get(job.key)
        if known is None or known[0] != pods:
            self.forget(job.key)
            self._since[job.key] = pods, now

    def forget(self, key: str) -> None:
        self._since.pop(key, None)
        self._overdue.pop(key, None)

    def is_told(self, job: Job) -> bool:
        """Whether the reason of the job is news."""
        return not _awaits(job) or job.key in self._overdue

    def deadline(self) -> int | None:
        return next(iter(self._since.values()))[1] + PATIENCE if self._since else None

    def review(self, now: int) -> list[str]:
        """The jobs that are told from now on."""
        due: list[str] = []
        for key, (_, since) in self._since.items():
            if since + PATIENCE > now:
                break
            due.append(key)
        for key in due:
            self._overdue[key] = self._since.pop(key)[0]
        return due


def _awaits(job: Job) -> bool:
    """Whether only objects are missing that may be on their way; a pod that failed is not."""
    if job.reason is None or job.reason.code not in AWAITED:
        return False
    return not any(pod.phase == "Failed" for pod in job.pods.values())
