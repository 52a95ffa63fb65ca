"""The job queue: active jobs are tried in the next cycle; others are in backoff, or unschedulable.

These are the words of kube-scheduler. An unschedulable job is tried when an event can fix its reason, at the
time that a plugin named, and after at most five minutes even if no event came. A job that waits behind others
in its queue is not tried after that time, because it might pass them; they are. A job in backoff is not tried
before its time: its next attempt would most likely fail as the last one did. Whatever refuses a binding (an
admission webhook, a policy) refuses it again, and a job that was too costly to place is so again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, auto
from itertools import takewhile

from ringwise.durations import SECOND
from ringwise.framework.job import Job
from ringwise.framework.reasons import WAITS_BEHIND
from ringwise.reasons import CAPACITY, Trigger
from ringwise.scheduler.cache.deadlines import DeadlineTables

#: The longest time for which an unschedulable job is not tried. Jobs are tried together, every half minute.
_RETRY_AFTER = 300 * SECOND
_RETRY_PERIOD = 30 * SECOND


class BackoffCause(Enum):
    """Why a job is in backoff; what ends the backoff early depends on it."""

    BINDING = auto()
    COST = auto()
    VOLUMES = auto()
    POD_CREATION = auto()


class JobQueue:
    """The jobs that have pods to place or wait for admission, by key."""

    def __init__(self, deadlines: DeadlineTables) -> None:
        #: Jobs to try in the next cycle, in the order in which they were activated.
        self.active: dict[str, None] = {}
        #: The triggers that can fix the reason of each job.
        self._unschedulable: dict[str, frozenset[Trigger]] = {}
        #: When jobs are tried even if no event came, the first of them first.
        self._due: dict[str, int] = {}
        self._by_trigger: dict[Trigger, dict[str, None]] = {trigger: {} for trigger in Trigger}
        #: The times that plugins named for jobs.
        self._retries = deadlines.table()
        self._backoff = {cause: deadlines.table() for cause in BackoffCause}

    def activate(self, *keys: str) -> None:
        """Let the next cycle try the jobs, unless they are in backoff."""
        for key in keys:
            self._remove(key)
            self.active[key] = None

    def _remove(self, key: str) -> None:
        for trigger in self._unschedulable.pop(key, ()):
            self._by_trigger[trigger].pop(key, None)
        self._due.pop(key, None)

    def forget(self, key: str) -> None:
        self._remove(key)
        self._retries.pop(key)
        self.active.pop(key, None)
        self.end_backoff(key, *BackoffCause)

    def wake(self, triggers: Iterable[Trigger]) -> None:
        """Activate every job whose reason one of these triggers can fix."""
        if Trigger.CONFIGURATION_CHANGED in triggers:
            # New actions or plugins may help any job, whatever its reason was under the old ones.
            self.activate(*self._unschedulable)
        for trigger in sorted(triggers, key=lambda trigger: trigger.name):
            self.activate(*self._by_trigger[trigger])

    def pop_active(self) -> list[str]:
        """The jobs to try now. Each must be settled afterwards."""
        keys = list(self.active)
        self.active.clear()
        return keys

    def set_retries(self, times: Mapping[str, int]) -> None:
        """After a cycle: plugins named times for some jobs.

        The time of a job for which none named one stays: plugins are not asked again if nothing changed.
        """
        for key, time in times.items():
            self._retries.put(key, time)

    def settle(self, job: Job, pending: bool, now: int) -> None:
        """After a cycle: a job that is still pending waits for what can fix its reason."""
        if not pending:
            self._retries.pop(job.key)
            job.waiting_since = None
            return
        if job.waiting_since is None:
            job.waiting_since = now
        resolved_by = job.reason.kind.resolved_by if job.reason is not None else CAPACITY
        if any(
            pod.cls.pod_affinity or pod.cls.pod_anti_affinity or pod.cls.spread for pod in job.pods.values()
        ):
            # Whatever the reason: where other pods are, and which of them count, decides where these may be.
            resolved_by |= {Trigger.POD_PLACED, Trigger.NAMESPACE_CHANGED}
        if job.has_claims:
            # Where volumes are, and which of them are free.
            resolved_by |= {Trigger.VOLUME_CHANGED}
        self._remove(job.key)
        self._unschedulable[job.key] = resolved_by
        if job.reason is None or job.reason.code != WAITS_BEHIND.code:
            self._due[job.key] = (now + _RETRY_AFTER) // _RETRY_PERIOD * _RETRY_PERIOD
        for trigger in resolved_by:
            self._by_trigger[trigger][job.key] = None

    # -- backoff --------------------------------------------------------------------------------

    def back_off(self, key: str, cause: BackoffCause, now: int, seconds: int) -> int:
        """Do not try the job for at least so many seconds. Return for how many it is not tried."""
        table = self._backoff[cause]
        until = max(table.of(key) or now, now + seconds * SECOND)
        if until > now:
            table.put(key, until)
        return (until - now) // SECOND

    def end_backoff(self, key: str, *causes: BackoffCause) -> None:
        for cause in causes:
            self._backoff[cause].pop(key)

    def end_all_backoffs(self, *causes: BackoffCause) -> None:
        for cause in causes:
            self._backoff[cause].clear()

    def is_in_backoff(self, key: str) -> bool:
        return any(key in table for table in self._backoff.values())

    # -- time -----------------------------------------------------------------------------------

    def next_retry(self) -> int | None:
        """Return when the first unschedulable job is tried even if no event came."""
        return next(iter(self._due.values()), None)

    def review(self, now: int) -> None:
        """Activate the jobs whose time has come."""
        for table in (*self._backoff.values(), self._retries):
            self.activate(*table.take(now))
        self.activate(*takewhile(lambda key: self._due[key] <= now, self._due))
