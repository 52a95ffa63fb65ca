"""Jobs that were preempted or reclaimed lately: Events warn before, and name the taker and the lost work.

A job that was evicted a short while ago is the last of its priority to be so again (`preempt-again-after`),
also under the next leader: what is remembered is written whenever it changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ringwise.durations import SECOND, ExponentialBackoff, time_text
from ringwise.framework.evictions.lost_work import chip_hours, lost_seconds
from ringwise.framework.job import Job
from ringwise.grammar import counted
from ringwise.messages.commands import AnnotatePod, Command, RecordJobEvent
from ringwise.messages.event_reasons import EventReason
from ringwise.messages.events import EvictFailed, QueueSeen
from ringwise.reasons import Trigger
from ringwise.records import dataclass
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, on, on_job
from ringwise.scheduler.cache.record_tables import RecordTable, RestoredRecord
from ringwise.wellknown import EVICTED, LONGEST_COOLDOWN

#: An eviction that was refused is requested again after this time.
AFTER_REFUSAL = ExponentialBackoff(initial=30, limit=600)
#: Characters of what the API server says about an eviction.
_LONGEST_WHY = 500
#: How long at least, in seconds: so long `why` tells of it.
RETENTION = 86_400


@dataclass(frozen=True, slots=True)
class Preemption:
    """The last time that pods of a job were evicted for another one."""

    #: Nanoseconds.
    at: int
    #: preempt or reclaim
    cause: str
    #: Namespace and name of the other job.
    by: str
    pods: int = 0
    chips: int = 0
    #: The work that was lost, in chip-seconds.
    lost: int = 0
    #: When a pod of the job got a node again; 0: not yet.
    back: int = 0

    @property
    def hours(self) -> str:
        """`3.5 chip-hours`"""
        return chip_hours(self.lost)

    def has(self, one: Preemption) -> bool:
        """Whether the eviction of one pod is part of it."""
        return (self.at, self.by) == (one.at, one.by)

    def without(self, one: Preemption) -> Preemption:
        """Return it without the eviction of one pod, which failed."""
        if not self.has(one):
            return self
        return replace(self, pods=self.pods - 1, chips=self.chips - one.chips, lost=self.lost - one.lost)


@dataclass(frozen=True, slots=True)
class RefusedEviction:
    """Pods of a job were not evicted for another one: a disruption budget, or an API server in trouble."""

    #: When it may be asked for again, in nanoseconds, and how often it was refused in a row.
    until: int
    times: int
    why: str


class Preemptions(Component):
    name = "preemptions"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        #: By namespace and name of the jobs that got room under the leader before: when.
        self._read_takers: dict[str, int] = {}
        #: By key of the job that was not evicted.
        self.refused: dict[str, RefusedEviction] = context.job_tables.add({})
        #: By queue: the longest cooldown, as it is written.
        self._allowed: dict[str, str | None] = {}
        #: By key of the job, the one that was evicted last comes last.
        self.jobs = context.record.add(RecordTable("preemptions", Preemption, droppable=lambda one: True))
        #: Evicted pods that are not gone yet: their job, and what the eviction of the pod adds to its entry.
        self._leaving: dict[str, tuple[str, Preemption]] = {}
        #: By key of the job: its former entries, the latest last, while later evictions may fail.
        self._before: dict[str, list[Preemption]] = context.job_tables.add({})
        self._warnings: dict[str, list[Command]] = {}
        self._evictions: list[Command] = []
        #: Warnings of evictions that failed are removed.
        self._taken_back: list[Command] = []

    # -- evictions ---------------------------------------------------------------------------------

    @on(ie.PodEvicted)
    def _evicted(self, event: ie.PodEvicted, now: int) -> None:
        self._evictions.append(event.command)
        job, taker = self._book.job_of(event.uid), self._book.jobs.get(event.command.by)
        if job is None or taker is None:
            return
        pod = job.pods[event.uid]
        by = taker.full_name
        lost = lost_seconds(job, pod, self._book.queues.get(job.queue), now)
        before = self.jobs.get(job.key)
        if before is None or (before.at, before.by) != (now, by):
            if before is not None:
                self._before.setdefault(job.key, []).append(before)
            before = Preemption(now, event.command.cause.value, by)
        pods, chips = before.pods + 1, before.chips + pod.cls.chips
        self.jobs.renew(job.key, replace(before, pods=pods, chips=chips, lost=before.lost + lost))
        job.preempted = now
        taker.room_made_at = now
        evicted = Preemption(now, event.command.cause.value, by, 1, pod.cls.chips, lost)
        self._leaving[pod.uid] = job.key, evicted
        text = f"{time_text(now)} {event.command.cause.value} for {by}"
        warning = AnnotatePod(pod.uid, pod.namespace, pod.name, {EVICTED: text})
        self._warnings.setdefault(job.key, []).append(warning)
        self._forget(now)

    def after_cycle(self, now: int) -> Iterator[Command]:
        """Yield evictions, after an annotation of each pod and an Event of each job."""
        for key, written in self._warnings.items():
            job, entry = self._book.jobs.get(key), self.jobs.get(key)
            yield from written
            if job is not None and entry is not None:
                pods = counted(entry.pods, "pod is", "pods are")
                word = "preempted" if entry.cause == "preempt" else "reclaimed"
                what = f"{counted(entry.chips, 'chip')}, {entry.hours} are lost"
                message = f"{pods} {word} for {entry.by}: {what}"
                yield RecordJobEvent.about(job, EventReason.PREEMPTED, message)
        yield from self._evictions
        self._evictions.clear()
        self._warnings.clear()

    @on(EvictFailed)
    def _evict_failed(self, event: EvictFailed, now: int) -> None:
        """The pod stays and has lost no work. No job waits for its chips: other victims may be found."""
        if event.uid not in self._leaving:
            return
        key, evicted = self._leaving.pop(event.uid)
        self._give_up(key, event, now)
        entry, job = self.jobs.get(key), self._book.jobs.get(key)
        pod = None if job is None else job.pods.get(event.uid)
        if pod is not None:
            self._taken_back.append(AnnotatePod(pod.uid, pod.namespace, pod.name, {}, (EVICTED,)))
        if entry is None:
            return
        entries = [one.without(evicted) for one in (*self._before.pop(key, ()), entry)]
        *former, last = [one for one in entries if one.pods] or [None]
        if former:
            self._before[key] = former
        if last is None:
            del self.jobs[key]
        else:
            self.jobs[key] = last
        if job is not None:
            job.preempted = None if last is None else last.at

    def _give_up(self, key: str, event: EvictFailed, now: int) -> None:
        before, why = self.refused.get(key), event.why[:_LONGEST_WHY] or "the API server refused it"
        job = self._book.jobs.get(key)
        if job is not None and not event.in_vain and (before is None or before.until <= now):
            times = 1 if before is None else before.times + 1
            seconds = AFTER_REFUSAL.seconds(times)
            self.refused[key] = RefusedEviction(now + seconds * SECOND, times, why)
            job.not_evicted_before = now + seconds * SECOND
        for reservation in list(self._reservations):
            if not reservation.evicting or event.uid not in reservation.awaited:
                continue
            self._reservations.lift(reservation.owner)
            self._triggers.add(Trigger.CHIPS_FREED)
            self._job_queue.activate(reservation.owner)
            taker = self._book.jobs.get(reservation.owner)
            if taker is not None and job is not None:
                message = f"{job.namespace}/{job.name} is not evicted for it: {why}"
                self._taken_back.append(RecordJobEvent.about(taker, EventReason.EVICTION_REFUSED, message))

    @on(ie.PodRemoved)
    def _removed(self, event: ie.PodRemoved, now: int) -> None:
        if event.uid not in self._leaving:
            return
        key, evicted = self._leaving.pop(event.uid)
        self.refused.pop(key, None)
        # This eviction succeeded, so the earlier ones no longer count.
        former = self._before.pop(key, [])
        while former and not former[0].has(evicted):
            del former[0]
        if former:
            self._before[key] = former

    @on_job(ie.PodBound)
    def _bound(self, job: Job, now: int) -> None:
        entry = self.jobs.get(job.key)
        if entry is not None and not entry.back:
            self.jobs[job.key] = replace(entry, back=now)

    @on_job(ie.JobSeen)
    def _job_seen(self, job: Job, now: int) -> None:
        if job.preempted is None and job.key in self.jobs:
            job.preempted = self.jobs[job.key].at
        if job.room_made_at is None:
            job.room_made_at = self._read_takers.get(job.full_name)

    @on(QueueSeen)
    def _queue_seen(self, event: QueueSeen, now: int) -> None:
        """Jobs wait for what queues allow others: when that changes they need not wait until then."""
        allowed = event.queue.annotations.get(LONGEST_COOLDOWN)
        if self._allowed.get(event.queue.name) == allowed:
            return
        self._allowed[event.queue.name] = allowed
        for job in self._book.jobs.values():
            if job.victims_from is not None:
                job.victims_from = now
                self._job_queue.activate(job.key)

    def _forget(self, now: int) -> None:
        period = max(RETENTION, self._configuration.settings.preempt_again_after) * SECOND
        self.jobs.drop_oldest(lambda one: one.at <= now - period)

    # -- across restarts -------------------------------------------------------------------------------

    def publish(self, now: int) -> Sequence[Command]:
        commands, self._taken_back = self._taken_back, []
        return commands

    def restore(self, record: RestoredRecord, now: int) -> None:
        for key, one in record.of(self.jobs).items():
            # No clock runs so far ahead that a job would be spared for ever.
            entry = replace(one, at=min(one.at, now))
            if key not in self.jobs:
                self.jobs[key] = entry
            self._read_takers[one.by] = max(entry.at, self._read_takers.get(one.by, 0))
            job = self._book.jobs.get(key)
            if job is not None:
                job.preempted = self.jobs[key].at
        for job in self._book.jobs.values():
            if job.room_made_at is None:
                job.room_made_at = self._read_takers.get(job.full_name)
        self._forget(now)
