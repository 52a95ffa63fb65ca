"""Jobs that wait for objects which a controller creates: their PodGroup, or pods of their gang.

A running controller creates them at once, so that the wait is not news. A job without any after a while
gets a reason: no controller may run that serves it, or something keeps it from creating them.

The time counts from when this scheduler saw the job, or the last of its pods come.
"""

from __future__ import annotations

from ringwise.framework.job import Job
from ringwise.framework.reasons import NO_PODS_YET
from ringwise.plugins.gang.reasons import NOT_ENOUGH_PODS, NOT_ENOUGH_PODS_OF_TASK
from ringwise.scheduler.cache.deadlines import Deadlines
from ringwise.scheduler.reasons import POD_GROUP_AWAITED, POD_GROUP_MISSING

#: Nanoseconds after which a job is reported.
TIMEOUT = 30_000_000_000

#: Codes of the reasons of jobs that wait for such objects.
AWAITED = frozenset(
    kind.code
    for kind in (NO_PODS_YET, NOT_ENOUGH_PODS, NOT_ENOUGH_PODS_OF_TASK, POD_GROUP_AWAITED, POD_GROUP_MISSING)
)


class AwaitedObjects:
    def __init__(self) -> None:
        #: Jobs that wait: how many pods they have, and when they are reported; and those that are.
        self._pods: dict[str, int] = {}
        self._due = Deadlines()
        self._overdue: dict[str, int] = {}

    def note(self, job: Job, now: int) -> None:
        """The job has its reason, or none."""
        if not _awaits(job):
            self.forget(job.key)
            return
        pods = len(job.pods)
        if self._overdue.get(job.key) == pods:
            return
        if self._pods.get(job.key) != pods:
            self.forget(job.key)
            self._pods[job.key] = pods
            self._due.put(job.key, now + TIMEOUT)

    def forget(self, key: str) -> None:
        self._pods.pop(key, None)
        self._due.drop(key)
        self._overdue.pop(key, None)

    def is_reported(self, job: Job) -> bool:
        """Whether the reason of the job is reported: its objects are overdue, or it waits for none."""
        return not _awaits(job) or job.key in self._overdue

    def deadline(self) -> int | None:
        return self._due.first()

    def review(self, now: int) -> list[str]:
        """The jobs that are reported from now on."""
        due = self._due.take(now)
        for key in due:
            self._overdue[key] = self._pods.pop(key)
        return due


def _awaits(job: Job) -> bool:
    """Whether only objects are missing that may be on their way; a pod that failed is not."""
    if job.reason is None or job.reason.code not in AWAITED:
        return False
    return not any(pod.phase == "Failed" for pod in job.pods.values())
