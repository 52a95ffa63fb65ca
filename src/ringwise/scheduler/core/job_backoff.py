"""Jobs that are tried again at a certain time, although nothing changes in the cluster.

A backoff is for jobs whose next attempt would most likely end as the last one. Whatever refuses a binding (an
admission webhook, a policy) will refuse it again: a job whose bindings are retried as fast as the API server
answers would slow down all others. A job that was too costly to place will be so again. Other times are named
by plugins: what they say about the job is different then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from ringwise.durations import seconds_text
from ringwise.framework.job import Job
from ringwise.framework.reasons import NAMESPACE_TOO_COSTLY, TOO_COSTLY
from ringwise.messages.commands import RecordJobEvent
from ringwise.messages.event_reasons import EventReason
from ringwise.messages.events import ConfigurationSeen
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, Handlers
from ringwise.scheduler.cache.deadlines import Deadlines
from ringwise.scheduler.reasons import BIND_FAILED

_SECOND = 1_000_000_000
#: This many failures of one pod in a row are retried at once; then its job waits 1, 2, 4 ... seconds.
AT_ONCE = 2
LONGEST = 10
#: The same for a job that was too costly: it waits 2, 4, 8 ... seconds.
MAX_AFTER_COST = 600


class JobBackoff(Component):
    name = "backoff"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        #: Failed bindings in a row, by pod; and how often in a row a job was too costly.
        self._failures: dict[str, int] = {}
        self._too_costly: dict[str, int] = {}
        #: Jobs in backoff after failed bindings and after an attempt that was too costly, and until when.
        self._until = Deadlines()
        self._costly_until = Deadlines()
        #: The times that plugins named.
        self._retries = Deadlines()
        #: Jobs that are set aside because their namespace has no steps left.
        self._crowded: set[str] = set()
        #: Events about jobs that were set aside, to be sent.
        self._told: list[RecordJobEvent] = []
        #: How often jobs were set aside, by reason, since the start.
        self.set_aside: Counter[str] = Counter()

    def hears(self) -> Handlers:
        return {
            ie.BindingFailed: self._binding_failed,
            ie.PodConfirmed: lambda event, now: self._forget_pod(event.uid),
            ie.PodRemoved: lambda event, now: self._forget_pod(event.uid),
            ie.JobSpecChanged: lambda event, now: self._changed(event.key),
            ie.JobSettled: lambda event, now: self._tried(event.job, now),
            ie.JobGone: lambda event, now: self._forget(event.job.key),
            ConfigurationSeen: lambda event, now: self._costly_until.clear(),
        }

    def _binding_failed(self, event: ie.BindingFailed, now: int) -> None:
        seconds = self._failed(event.job, event.pod.uid, now)
        event.job.reason = BIND_FAILED(pod=event.pod.name, node=event.node, why=event.why, seconds=seconds)

    def _failed(self, job: Job, uid: str, now: int) -> int:
        """Returns the seconds until the job is tried again."""
        failures = self._failures[uid] = self._failures.get(uid, 0) + 1
        if failures > AT_ONCE:
            pause = min(1 << (failures - AT_ONCE - 1), LONGEST)
            self._until.put(job.key, max(self._until.of(job.key) or 0, now + pause * _SECOND))
        return max(0, (self._until.of(job.key) or now) - now) // _SECOND

    def _tried(self, job: Job, now: int) -> None:
        """A cycle decided about the job; its reason says how that ended."""
        reason = job.reason
        if reason is not None and reason.code == NAMESPACE_TOO_COSTLY.code:
            self.set_aside[reason.code] += 1
            if job.key not in self._crowded:
                # Once until it is tried: a namespace may have thousands of them.
                self._crowded.add(job.key)
                self._told.append(
                    RecordJobEvent.about(job, EventReason.TOO_COSTLY, reason.message, warning=True)
                )
            return
        self._crowded.discard(job.key)
        if reason is None or reason.code != TOO_COSTLY.code:
            self._too_costly.pop(job.key, None)
            return
        times = self._too_costly[job.key] = min(self._too_costly.get(job.key, 0) + 1, 16)
        pause = min(1 << times, MAX_AFTER_COST)
        self._costly_until.put(job.key, now + pause * _SECOND)
        self.set_aside[reason.code] += 1
        again = seconds_text(pause)
        message = f"{reason.message}; it is tried again after {again}, or when it or the settings change"
        self._told.append(RecordJobEvent.about(job, EventReason.TOO_COSTLY, message, warning=True))

    def events(self) -> list[RecordJobEvent]:
        """About jobs that were set aside since the last call."""
        told, self._told = self._told, []
        return told

    def _changed(self, key: str) -> None:
        """The job itself changed: it may cost less. The next pause is longer all the same."""
        self._costly_until.drop(key)

    def _forget_pod(self, uid: str) -> None:
        """The pod is bound, or it is gone."""
        self._failures.pop(uid, None)

    def corrected(self, key: str) -> None:
        """The job gets a reason of another kind: its bindings are tried at once when that is cured."""
        self._until.drop(key)

    def _forget(self, key: str) -> None:
        """The job is gone."""
        self._until.drop(key)
        self._too_costly.pop(key, None)
        self._costly_until.drop(key)
        self._crowded.discard(key)
        self._retries.drop(key)

    def note_retries(self, jobs: Iterable[Job], times: Mapping[str, int]) -> None:
        """A cycle tried these jobs, and plugins named times for some of them."""
        for job in jobs:
            self._retries.drop(job.key)
        for key, time in times.items():
            self._retries.put(key, time)

    def holds_back(self, key: str) -> bool:
        return key in self._until or key in self._costly_until

    def deadline(self) -> int | None:
        times = (self._until.first(), self._costly_until.first(), self._retries.first())
        return min((time for time in times if time is not None), default=None)

    def review(self, now: int) -> None:
        for table in (self._until, self._costly_until, self._retries):
            for key in table.take(now):
                self._pending.activate(key)
