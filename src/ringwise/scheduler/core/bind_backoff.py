"""A job whose binding is refused is tried again at once, and then less and less often.

Whatever refuses it (an admission webhook, a policy) will refuse it again, and a job that
is bound in vain as fast as the API server answers would be in the way of all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringwise.framework.job import Job

if TYPE_CHECKING:
    from ringwise.scheduler.core.machine import Scheduler

_SECOND = 1_000_000_000
#: So many failures of one pod in a row are forgiven; from then on its job waits 1, 2, 4 ... seconds.
AT_ONCE = 2
LONGEST = 10


class Retries:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        #: Failures in a row, by pod.
        self._failures: dict[str, int] = {}
        #: Jobs that wait, and until when.
        self._until: dict[str, int] = {}

    def failed(self, job: Job, uid: str, now: int) -> int:
        """The binding of a pod failed; the seconds until its job is tried again."""
        failures = self._failures[uid] = self._failures.get(uid, 0) + 1
        if failures > AT_ONCE:
            pause = min(1 << (failures - AT_ONCE - 1), LONGEST)
            self._until[job.key] = max(self._until.get(job.key, 0), now + pause * _SECOND)
        return max(0, self._until.get(job.key, now) - now) // _SECOND

    def forget_pod(self, uid: str) -> None:
        """Its binding came through, or it is gone."""
        self._failures.pop(uid, None)

    def forget(self, key: str) -> None:
        self._until.pop(key, None)

    def waits(self, key: str) -> bool:
        return key in self._until

    def deadline(self) -> int | None:
        return min(self._until.values(), default=None)

    def wake(self, now: int) -> None:
        """Those whose time has come are looked at again."""
        for key in [key for key, until in self._until.items() if until <= now]:
            del self._until[key]
            self._scheduler.waiting.touch(key)
