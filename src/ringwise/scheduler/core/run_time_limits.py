"""The maximum run time of UsageLimits: jobs are warned, and then ended or requeued.

A job runs from when its first pod got a node until none of them has one. No job is ended without a warning
that is as old as `max-run-time-warning`: if a limit is new or was lowered, or no scheduler ran for a time,
running jobs get that time. When each job began and when it was warned is written where tenants cannot
write (F1), so that the next leader uses it. If a job has been in several queues since it began, the earliest
end applies: a tenant may name another queue at any time.

The same record says for which queue the pods of such jobs count (`ResourceUsage.bound_in`), and which pods
a burst let in (`ResourceUsage.lent`), and since when admission names the users of jobs.

A vcjob is ended (TerminateJob) or requeued (RestartJob) with a Command, which its controller carries out:
Volcano's or ours. Pods of others are evicted: their owner, where they have one, creates them again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from types import NoneType

from ringwise.durations import SECOND, duration_text, time_text
from ringwise.framework.job import Job
from ringwise.framework.limits import at_run_time_end
from ringwise.messages.commands import AnnotatePod, AskJob, Command, EvictionCause, RecordJobEvent
from ringwise.messages.event_reasons import EventReason
from ringwise.messages.events import AccountsRead, ConfigurationSeen
from ringwise.records import NOT_RECORDED, dataclass
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, on, on_job
from ringwise.scheduler.cache.record_tables import RecordTable, RestoredRecord
from ringwise.state.limits import REQUEUE, TERMINATE, UsageLimit
from ringwise.state.model import Pod
from ringwise.state.vcjob import VcJob
from ringwise.wellknown import RUN_TIME_ENDS

#: A job that still runs after this time is asked for again: its controller was away, or a budget forbade it.
_AGAIN = 60 * SECOND


@dataclass(slots=True, eq=False)
class LimitedRun:
    """A job that runs and has a maximum run time. Nanoseconds."""

    #: Uid of its PodGroup, or of its only pod: another job may have its name later.
    uid: str
    started: int
    #: The UsageLimit that ends it first, of those that hold in the queues in which it was.
    limited_by: str
    limit: int
    queues: tuple[str, ...]
    warned: int | None = None
    #: When its end was last asked for.
    end_requested: int | None = field(default=None, metadata=NOT_RECORDED)


class RunTimeLimits(Component):
    name = "run time limits"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._table = context.book.limits
        add, usage, subject = context.record.add, context.usage, context.book.subject_of
        self._runs = context.job_tables.add(add(RecordTable("run-times", LimitedRun)))
        #: By uid: the queues for which pods count, and pods that a burst let in; the objects do not say it.
        self._bound_in = add(RecordTable("pod-queues", str, subject=subject, source=lambda: usage.bound_in))
        self._borrowing = add(
            RecordTable("borrowing-pods", NoneType, subject=subject, source=lambda: usage.borrowing)
        )
        #: Since when admission names the users of jobs.
        self._users = add(RecordTable("users", int, subject=lambda key, since: "", source=self._users_since))
        #: When something is due for a job.
        self._due = context.job_tables.add(context.deadlines.table())
        self._commands: list[Command] = []
        #: Jobs to look at.
        self._touched: dict[str, None] = {}
        self._table.end_of, self._table.longest, self._table.ended_by = (
            self.end_of,
            self.longest,
            self.ended_by,
        )

    @on_job(ie.JobSeen, ie.JobChanged, ie.PodBound)
    def _job_seen(self, job: Job, now: int) -> None:
        """It is looked at when it was read: which queue it is in may be another part of the same batch."""
        if self._table.has_run_times or self._runs:
            self._touched[job.key] = None

    def review(self, now: int) -> None:
        touched, self._touched = self._touched, {}
        for job in self._book.existing(touched):
            self._see(job, now)

    # -- who runs since when -------------------------------------------------------------------

    @on(ie.LimitsChanged, ConfigurationSeen)
    def _see_all(self, event: object, now: int) -> None:
        self._touched.update(dict.fromkeys(self._book.jobs))

    def _see(self, job: Job, now: int) -> None:
        run = self._runs.get(job.key)
        runs = self._book.usage.holdings.runs(job.key) and self._book.serves(job)
        limits = self._limits_of(job, run) if runs else {}
        if not limits:
            if run is not None:
                self._withdraw(run, job)
                self._runs.pop(job.key)
            self._due.pop(job.key)
            return
        limit, name = min((one.max_run_time or 0, one.name) for one in limits.values())
        uid, queues = _uid(job), tuple(limits)
        if run is None or (run.uid != uid and _started(job, self._placed(job), now) > run.started):
            started = _started(job, self._placed(job), now)
            run = self._runs[job.key] = LimitedRun(uid, started, name, limit, queues)
        elif (run.uid, run.limited_by, run.limit, run.queues) != (uid, name, limit, queues):
            # A PodGroup that was created again is the same job: its pods went on.
            is_moved, sooner = not set(run.queues).issuperset(queues), limit < run.limit
            if not is_moved and (sooner or run.started + limit > now + self._warning):
                # The announced end does not hold.
                self._withdraw(run, job)
            run.uid, run.limited_by, run.limit, run.queues = uid, name, limit, queues
            if is_moved and sooner and run.warned is not None and run.end_requested is None:
                # A move alone causes no second warning, but the first warning announced a later time.
                self._warn(job, run, now)
            self._runs.touch(job.key)
        elif run.warned is not None and run.end_requested is None:
            self._annotate(run, [pod for pod in self._placed(job) if RUN_TIME_ENDS not in pod.annotations])
        self._due.put(job.key, self._next(run))

    def _limits_of(self, job: Job, run: LimitedRun | None) -> dict[str, UsageLimit]:
        """By queue, of those in which the job was since it began, as its pods and objects say."""
        queues = dict.fromkeys(run.queues) if run is not None else {}
        bound_in = self._book.usage.bound_in
        queues.update((bound_in[uid], None) for uid in job.pods if uid in bound_in)
        queues[job.queue] = None
        limits = ((queue, self._table.run_limit(job, queue)) for queue in queues)
        return {queue: limit for queue, limit in limits if limit is not None}

    def _withdraw(self, run: LimitedRun, job: Job) -> None:
        if run.warned is not None:
            run.warned = run.end_requested = None
            self._commands += [
                AnnotatePod(pod.uid, pod.namespace, pod.name, {}, (RUN_TIME_ENDS,))
                for pod in self._placed(job)
                if RUN_TIME_ENDS in pod.annotations
            ]

    def _placed(self, job: Job) -> list[Pod]:
        return [
            pod
            for uid, pod in job.pods.items()
            if self._state.pods[uid].node >= 0 and pod.live and not pod.deleting
        ]

    # -- when ----------------------------------------------------------------------------------

    @property
    def _warning(self) -> int:
        return self._configuration.settings.max_run_time_warning * SECOND

    def _next(self, run: LimitedRun) -> int:
        if run.warned is None:
            return run.started + run.limit - self._warning
        return self._end(run) if run.end_requested is None else run.end_requested + _AGAIN

    def _end(self, run: LimitedRun) -> int:
        return max(run.started + run.limit, (run.warned or 0) + self._warning)

    def end_of(self, job: Job, now: int) -> int | None:
        """When a running job ends at the latest; None: no limit."""
        run = self._runs.get(job.key)
        if run is None:
            return None
        return self._end(run) if run.warned is not None else max(run.started + run.limit, now + self._warning)

    def longest(self, job: Job) -> int | None:
        """How long the job runs at most if it starts now, in nanoseconds."""
        limit = self._table.run_limit(job)
        return None if limit is None else max(limit.max_run_time or 0, self._warning)

    def ended_by(self, job: Job) -> UsageLimit | None:
        """The limit that ends a running job."""
        run = self._runs.get(job.key)
        return None if run is None else self._table.limits.get(run.limited_by)

    # -- acting --------------------------------------------------------------------------------

    def act(self, now: int) -> list[Command]:
        for key in self._due.take(now):
            job, run = self._book.jobs.get(key), self._runs.get(key)
            if job is None or run is None:
                continue
            placed = self._placed(job)
            if not placed:
                # All of them terminate.
                self._due.put(key, now + _AGAIN)
                continue
            if run.warned is None:
                run.warned = now
                self._warn(job, run, now)
            elif now >= self._end(run):
                first, run.end_requested = run.end_requested is None, now
                self._commands += self._end_job(job, run, placed, first)
            self._runs.touch(key)
            self._due.put(key, self._next(run))
        commands, self._commands = self._commands, []
        return commands

    def _warn(self, job: Job, run: LimitedRun, now: int) -> None:
        end = self._end(run)
        message = (
            f"it is {self._verb(job, run)} at {time_text(end)}, in {duration_text(end - now)}: "
            f"maxRunTime of UsageLimit {run.limited_by} is {duration_text(run.limit)}"
        )
        self._commands.append(RecordJobEvent.about(job, EventReason.RUN_TIME_ENDS, message))
        self._annotate(run, self._placed(job))

    def _annotate(self, run: LimitedRun, pods: list[Pod]) -> None:
        end = time_text(self._end(run))
        self._commands += [
            AnnotatePod(pod.uid, pod.namespace, pod.name, {RUN_TIME_ENDS: end})
            for pod in pods
            if self._book.is_ours(pod)
        ]

    def _verb(self, job: Job, run: LimitedRun) -> str:
        return at_run_time_end(job, self._on_timeout(run), is_vcjob=self._book.vcjob_of(job) is not None)

    def _on_timeout(self, run: LimitedRun) -> str:
        limit = self._table.limits.get(run.limited_by)
        return TERMINATE if limit is None else limit.on_timeout

    def _end_job(self, job: Job, run: LimitedRun, placed: list[Pod], first: bool) -> Iterator[Command]:
        why = f"maxRunTime of UsageLimit {run.limited_by}, {duration_text(run.limit)}, is over"
        if first:
            text = f"it is {self._verb(job, run)}: {why}"
            yield RecordJobEvent.about(job, EventReason.RUN_TIME_OVER, text)
        vcjob = self._book.vcjob_of(job)
        if vcjob is not None:
            requeue = self._on_timeout(run) == REQUEUE
            action = "RestartJob" if requeue else "TerminateJob"
            yield AskJob(vcjob.key, vcjob.uid, action, why)
            # The controller ends only the pods of the vcjob, and users can add other pods to its PodGroup.
            placed = [pod for pod in placed if not _is_of(pod, vcjob)]
        for pod in placed:
            if self._book.is_ours(pod):
                yield self._assumed.evict(job, pod.uid, why, EvictionCause.LIMIT)

    # -- the next leader (F1) ------------------------------------------------------------------

    def _users_since(self) -> dict[str, int]:
        since = self._book.users_since
        return {} if since is None else {"since": since}

    def restore(self, record: RestoredRecord, now: int) -> None:
        """A job whose entry cannot be read is warned again."""
        for uid, queue in record.of(self._bound_in).items():
            self._book.bind_in(uid, queue)
        since, current = record.of(self._users).get("since"), self._book.users_since
        if since is not None and since <= now and (current is None or since < current):
            self._book.users_since = since
            self._book.read_users()
        for uid in record.of(self._borrowing):
            if uid in self._state.pods and self._state.pods[uid].node >= 0:
                self._usage.borrowing[uid] = None
        for key, run in record.of(self._runs).items():
            run.started = min(run.started, now)
            job = self._book.jobs.get(key)
            if job is None or _uid(job) != run.uid or run.limit <= 0:
                continue
            if run.warned is not None and not 0 <= run.warned <= now:
                run.warned = None
            placed = self._placed(job)
            if run.warned is not None and placed and all(pod.bound > run.warned for pod in placed):
                # It was requeued, and the leader before could no longer write that.
                continue
            self._runs[job.key] = run
            self._touched[job.key] = None

    @on(AccountsRead)
    def _accounts_read(self, event: AccountsRead, now: int) -> None:
        """A queue may have been changed while no scheduler ran."""
        records, counts_for = self._state.pods, self._book.counts_for
        for held in event.held:
            job = self._book.job_of(held.pod)
            if job is not None and held.pod in records and counts_for(held.pod, job)[1] != held.queue:
                self._book.bind_in(held.pod, held.queue)
                self._touched[job.key] = None


def _is_of(pod: Pod, vcjob: VcJob) -> bool:
    owner = pod.owner
    return owner is not None and owner.is_vcjob and owner.name == vcjob.name and owner.uid in ("", vcjob.uid)


def _uid(job: Job) -> str:
    if job.group is not None:
        return job.group.uid or job.key
    return next(iter(job.pods), "")


def _started(job: Job, placed: list[Pod], now: int) -> int:
    """Return when the first pod of the job got its node; now if that is not known."""
    times = [pod.bound for pod in placed if 0 < pod.bound <= now]
    if job.started is not None:
        times.append(job.started)
    return min(times, default=now)
