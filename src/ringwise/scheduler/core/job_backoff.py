"""Backoff of jobs whose bindings failed or that were too costly to place, and its end if a job changes."""

from __future__ import annotations

from collections import Counter

from ringwise.durations import ExponentialBackoff, seconds_text
from ringwise.framework.job import Job
from ringwise.framework.reasons import NAMESPACE_TOO_COSTLY, TOO_COSTLY
from ringwise.messages.commands import RecordJobEvent
from ringwise.messages.event_reasons import EventReason
from ringwise.messages.events import ConfigurationSeen
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, on, on_job
from ringwise.scheduler.cache.job_queue import BackoffCause
from ringwise.scheduler.reasons import BIND_FAILED

#: This many failures of one pod in a row are retried at once.
AT_ONCE = 2
AFTER_BINDING = ExponentialBackoff(initial=1, limit=10)
AFTER_COST = ExponentialBackoff(initial=2, limit=600)


class JobBackoff(Component):
    name = "backoff"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        #: Failed bindings in a row, by pod; and how often in a row a job was too costly.
        self._failures: dict[str, int] = context.pod_tables.add({})
        self._too_costly: dict[str, int] = context.job_tables.add({})
        #: Jobs that are backed off because their namespace has no steps left.
        self._crowded: dict[str, None] = context.job_tables.add({})
        #: Events about jobs that were backed off, to be sent.
        self._events: list[RecordJobEvent] = []
        #: How often jobs were backed off, by reason, since the start.
        self.backoffs: Counter[str] = Counter()

    @on(ie.JobSpecChanged)
    def _job_changed(self, event: ie.JobSpecChanged, now: int) -> None:
        """It may cost less, or ask for other volumes. The next pause is longer all the same."""
        self._job_queue.end_backoff(event.key, BackoffCause.COST, BackoffCause.VOLUMES)

    @on(ConfigurationSeen)
    def _configuration_seen(self, event: ConfigurationSeen, now: int) -> None:
        self._job_queue.end_all_backoffs(BackoffCause.COST)

    @on(ie.BindingFailed)
    def _binding_failed(self, event: ie.BindingFailed, now: int) -> None:
        key, uid = event.job.key, event.pod.uid
        failures = self._failures[uid] = self._failures.get(uid, 0) + 1
        pause = AFTER_BINDING.seconds(failures - AT_ONCE) if failures > AT_ONCE else 0
        seconds = self._job_queue.back_off(key, BackoffCause.BINDING, now, pause)
        event.job.reason = BIND_FAILED(pod=event.pod.name, node=event.node, why=event.why, seconds=seconds)

    @on_job(ie.JobSettled)
    def _tried(self, job: Job, now: int) -> None:
        """A cycle decided about the job; its reason says how that ended."""
        reason = job.reason
        if reason is not None and reason.code == NAMESPACE_TOO_COSTLY.code:
            self.backoffs[reason.code] += 1
            if job.key not in self._crowded:
                # Once until it is tried: a namespace may have thousands of them.
                self._crowded[job.key] = None
                self._events.append(RecordJobEvent.about(job, EventReason.TOO_COSTLY, reason.message))
            return
        self._crowded.pop(job.key, None)
        if reason is None or reason.code != TOO_COSTLY.code:
            self._too_costly.pop(job.key, None)
            return
        times = self._too_costly[job.key] = self._too_costly.get(job.key, 0) + 1
        pause = self._job_queue.back_off(job.key, BackoffCause.COST, now, AFTER_COST.seconds(times))
        self.backoffs[reason.code] += 1
        again = seconds_text(pause)
        message = f"{reason.message}; it is tried again after {again}, or when it or the settings change"
        self._events.append(RecordJobEvent.about(job, EventReason.TOO_COSTLY, message))

    def after_cycle(self, now: int) -> list[RecordJobEvent]:
        """Return Events about jobs that were backed off since the last call."""
        events, self._events = self._events, []
        return events

    @on(ie.PodConfirmed)
    def _confirmed(self, event: ie.PodConfirmed, now: int) -> None:
        self._failures.pop(event.uid, None)
