"""Backoff after failed bindings.

Whatever refuses a binding (an admission webhook, a policy) will refuse it again. A job whose
bindings are retried as fast as the API server answers would slow down all others.
"""

from __future__ import annotations

from ringwise.framework.job import Job
from ringwise.scheduler.core.pending_queue import PendingQueue

_SECOND = 1_000_000_000
#: This many failures of one pod in a row are retried at once; then its job waits 1, 2, 4 ... seconds.
AT_ONCE = 2
LONGEST = 10


class BindBackoff:
    def __init__(self, pending: PendingQueue) -> None:
        self._pending = pending
        #: Failures in a row, by pod.
        self._failures: dict[str, int] = {}
        #: Jobs in backoff, and until when.
        self._until: dict[str, int] = {}

    def failed(self, job: Job, uid: str, now: int) -> int:
        """The binding of a pod failed. Returns the seconds until its job is tried again."""
        failures = self._failures[uid] = self._failures.get(uid, 0) + 1
        if failures > AT_ONCE:
            pause = min(1 << (failures - AT_ONCE - 1), LONGEST)
            self._until[job.key] = max(self._until.get(job.key, 0), now + pause * _SECOND)
        return max(0, self._until.get(job.key, now) - now) // _SECOND

    def forget_pod(self, uid: str) -> None:
        """The pod is bound, or it is gone."""
        self._failures.pop(uid, None)

    def forget(self, key: str) -> None:
        self._until.pop(key, None)

    def holds_back(self, key: str) -> bool:
        return key in self._until

    def deadline(self) -> int | None:
        return min(self._until.values(), default=None)

    def wake(self, now: int) -> None:
        """Jobs whose backoff is over are tried again."""
        for key in [key for key, until in self._until.items() if until <= now]:
            del self._until[key]
            self._pending.activate(key)
