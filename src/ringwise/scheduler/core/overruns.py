"""Jobs that exceed their expected duration on chips that are reserved for others.

The chips of a long-pending job are reserved, and other jobs may use them if their expected duration ends
before it starts (`lending_owners`). A wrong expected duration delays the pending job. Once a job exceeds it,
the job gets a warning event, and no other job of its namespace gets reserved chips until it ends. If the
action preempt is configured, it is evicted after a grace period for the job that needs its chips, if that job
is pending for no other reason. No other job is evicted for this.

The pods are recorded where tenants cannot write (F1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ringwise.durations import SECOND, duration_text, time_text
from ringwise.framework.evictions.eviction import awaited_pods
from ringwise.framework.job import Job
from ringwise.messages.commands import Command, EvictionCause, RecordJobEvent
from ringwise.messages.event_reasons import EventReason
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, on
from ringwise.scheduler.cache.record_tables import RecordTable, RestoredRecord
from ringwise.scheduler.core.reservation import WHY
from ringwise.state.reservations import Borrowed, Reservation

#: Interval of the check whether a pending job needs its chips, and of retries of rejected evictions.
_AGAIN = 60 * SECOND
PREEMPT = frozenset({"preempt", "gangpreempt"})


class Overruns(Component):
    name = "overruns"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        #: By uid of a pod.
        self._due = context.pod_tables.add(context.deadlines.table())
        context.pod_tables.add(context.reservations.borrowed)
        self._followed: set[str] = set()
        self._recorded = context.record.add(
            RecordTable(
                "overruns",
                Borrowed,
                subject=self._book.subject_of,
                forget=self._forget,
                source=lambda: context.reservations.borrowed,
            )
        )

    @on(ie.PodChanged)
    def _pod_changed(self, event: ie.PodChanged, now: int) -> None:
        if event.lost:
            self._forget(event.pod.uid)

    @on(ie.BindingFailed)
    def _binding_failed(self, event: ie.BindingFailed, now: int) -> None:
        self._forget(event.pod.uid)

    def _forget(self, uid: str) -> None:
        if self._reservations.borrowed.pop(uid, None) is not None:
            self._due.pop(uid)

    # -- acting --------------------------------------------------------------------------------

    @property
    def _grace(self) -> int:
        return self._configuration.settings.expected_duration_grace_period * SECOND

    @property
    def _evicts(self) -> bool:
        return not PREEMPT.isdisjoint(self._configuration.current.actions)

    def act(self, now: int) -> Iterator[Command]:
        warned: set[str] = set()
        evicted: set[str] = set()
        for uid in self._due.take(now):
            borrowed, job = self._reservations.borrowed.get(uid), self._book.job_of(uid)
            if borrowed is None or job is None:
                continue
            if borrowed.warned is None:
                self._reservations.borrowed[uid] = borrowed._replace(warned=now)
                self._due.put(uid, now + self._grace)
                if job.key not in warned:
                    warned.add(job.key)
                    yield self._warning(job, borrowed, now)
                continue
            self._due.put(uid, now + _AGAIN)
            if self._evicts and job.key not in evicted and (holder := self._holder(job, now)) is not None:
                evicted.add(job.key)
                why = "it exceeded its expected duration on chips that are reserved for another job"
                for one, pod in list(job.pods.items()):
                    is_placed = self._state.pods[one].node >= 0 and pod.live and not pod.deleting
                    if is_placed and self._book.is_ours(pod):
                        yield self._assumed.evict(job, one, why, EvictionCause.PREEMPT, holder)

    def _warning(self, job: Job, borrowed: Borrowed, now: int) -> Command:
        message = (
            "it was started on chips that are reserved for another job because of its expected duration of "
            f"{duration_text(borrowed.until - borrowed.since)}, and runs longer; until it has ended, no job "
            f"of namespace {job.namespace} is started on reserved chips"
        )
        if self._evicts:
            message = f"{message}; from {time_text(now + self._grace)} on it may be evicted for that job"
        return RecordJobEvent.about(job, EventReason.EXPECTED_DURATION_EXCEEDED, message)

    def _holder(self, job: Job, now: int) -> str | None:
        """Return the pending job that needs only what this job uses."""
        for reservation in self._reservations:
            if reservation.why == WHY and self._uses(job, reservation) and self._is_due(reservation, now):
                return reservation.owner
        return None

    def _uses(self, job: Job, reservation: Reservation) -> bool:
        return any(self._overlaps(uid, reservation) for uid in job.pods)

    def _overlaps(self, uid: str, reservation: Reservation) -> bool:
        record = self._state.pods[uid]
        if record.pod.cls.resource == reservation.resource and reservation.chips:
            return bool(reservation.chips.get(record.node, 0) & record.chips)
        if record.node not in reservation.loads:
            return False
        # Beside reserved chips, only a pod that was started because of its claim uses reserved cpu or memory.
        return not reservation.chips or uid in self._reservations.borrowed

    def _is_due(self, reservation: Reservation, now: int) -> bool:
        """Return whether the owner would start without pods that exceeded their duration and grace period."""
        owner = self._book.jobs.get(reservation.owner)
        if owner is None or owner.waiting_since is None:
            return False
        stays = [uid for uid in awaited_pods(self._state, reservation) if not self._overran(uid, now)]
        holds = (
            uid
            for node in reservation.chips
            for uid in self._state.pods_on[node]
            if self._overlaps(uid, reservation) and not self._overran(uid, now)
        )
        return not stays and next(holds, None) is None

    def _overran(self, uid: str, now: int) -> bool:
        borrowed = self._reservations.borrowed.get(uid)
        return borrowed is not None and borrowed.warned is not None and borrowed.warned + self._grace <= now

    # -- the next leader (F1) ------------------------------------------------------------------

    def publish(self, now: int) -> Sequence[Command]:
        borrowed = self._reservations.borrowed
        # In the order in which they started: that of a set would differ between processes.
        for uid, one in borrowed.items():
            if uid not in self._followed:
                self._due.put(uid, one.until)
        self._followed = set(borrowed)
        return ()

    def restore(self, record: RestoredRecord, now: int) -> None:
        for uid, one in record.of(self._recorded).items():
            placed = self._state.pods.get(uid)
            if placed is not None and placed.node >= 0:
                entry = one if one.warned is None else one._replace(warned=min(one.warned, now))
                self._reservations.borrowed[uid] = entry
                self._followed.add(uid)
                self._due.put(uid, entry.until if entry.warned is None else entry.warned + self._grace)
