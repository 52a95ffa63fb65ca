"""When the admission of a job ends before the job does.

A job that ran and has lost all its pods is Pending again, as in Volcano: a job that was let in meanwhile may
take its share. So the admitted jobs are tried first, and then it is voted on with all others, in their order.
It keeps its admission while its place is kept for it: a fault moves it, or its nodes are reserved.

The other case is a job whose pods never come. A controller creates the pods of a PodGroup once it is
Inqueue. Until they exist, `minResources` is promised to the job, and other jobs wait for it. A job that has
no pod when the limit (`pod-creation-timeout`) has passed is put back to Pending, with the reason; it is
tried again after the same time, so that jobs which can use the resources come first. The limit counts from
when this scheduler saw the job admitted and without pods.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from ringwise.durations import SECOND
from ringwise.framework.job import Job, is_awaiting_pods
from ringwise.messages.commands import Command
from ringwise.messages.events import ConfigurationSeen
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, on, on_job
from ringwise.scheduler.cache.deadlines import Deadlines
from ringwise.scheduler.cache.job_queue import BackoffCause
from ringwise.scheduler.reasons import PODS_NEVER_CREATED


class AdmissionLimits(Component):
    name = "admission limits"

    def __init__(
        self, context: Context, has_lost_all: Callable[[Job], bool], fault_jobs: Container[str]
    ) -> None:
        super().__init__(context)
        #: Whether the PodGroup was reported as started, and too few of its pods have a node or have ended.
        self._has_lost_all = has_lost_all
        self._fault_jobs = fault_jobs
        #: Admitted jobs whose objects changed.
        self._touched: dict[str, None] = {}
        #: Jobs that lost their admission in this turn, and those that are voted on with them.
        self._to_vote: dict[str, None] = {}
        #: Admitted jobs without pods, and since when. The limit is added when it is asked for: it may change.
        self._since = context.job_tables.add(Deadlines())
        self._last_limit = self._limit

    @on_job(ie.JobSettled)
    def _check(self, job: Job, now: int) -> None:
        if job.pods or job.group is None:
            self._since.pop(job.key)
            self._job_queue.end_backoff(job.key, BackoffCause.POD_CREATION)
        elif is_awaiting_pods(job):
            if job.key not in self._since:
                self._since.put(job.key, now)
            self._job_queue.end_backoff(job.key, BackoffCause.POD_CREATION)
        else:
            self._since.pop(job.key)

    @on_job(ie.JobRefreshed)
    def _refreshed(self, job: Job, now: int) -> None:
        if job.inqueue and job.group is not None:
            self._touched[job.key] = None

    @on(ConfigurationSeen)
    def _configuration_seen(self, event: ConfigurationSeen, now: int) -> None:
        if self._limit != self._last_limit:
            self._last_limit = self._limit
            self._job_queue.end_all_backoffs(BackoffCause.POD_CREATION)

    def act(self, now: int) -> Sequence[Command]:
        """End the admission of jobs that ran and no longer have pods."""
        touched, self._touched = self._touched, {}
        for job in self._book.existing(touched):
            rescheduled = job.clock is not None or job.key in self._fault_jobs
            keeps_place = rescheduled or self._reservations.of(job.key) is not None
            if job.inqueue and self._has_lost_all(job) and not keeps_place:
                job.inqueue = False
                self._to_vote[job.key] = None
                self._notify(ie.AdmissionEnded(job), now)
        return ()

    def may_decide(self, job: Job, now: int) -> bool:
        """Return False if the admitted jobs come first, because another lost its admission."""
        if self._to_vote and not job.inqueue:
            self._to_vote[job.key] = None
            return False
        if job.pods or self._book.serves(job):
            self._check(job, now)
        return True

    def wake(self) -> bool:
        """Activate the jobs to vote on if the admitted ones were tried."""
        return not self._job_queue.active and self._activate()

    def report(self, now: int) -> Sequence[Command]:
        """Activate the jobs to vote on: they must not wait until no admitted job is left."""
        self._activate()
        return ()

    def _activate(self) -> bool:
        waiting, self._to_vote = self._to_vote, {}
        self._job_queue.activate(*waiting)
        return bool(waiting)

    def deadline(self) -> int | None:
        limit, first = self._limit, self._since.first()
        return first + limit if limit and first is not None else None

    def review(self, now: int) -> None:
        """Put jobs back whose limit has passed."""
        limit = self._limit
        for job in self._book.existing(self._since.take(now - limit) if limit else ()):
            if not is_awaiting_pods(job):
                continue
            job.inqueue = False
            job.reason = PODS_NEVER_CREATED(needed=job.min_available, seconds=limit // SECOND)
            job.waiting_since = now
            self._job_queue.back_off(job.key, BackoffCause.POD_CREATION, now, limit // SECOND)
            self._job_queue.activate(job.key)
            self._notify(ie.AdmissionEnded(job), now)

    @property
    def _limit(self) -> int:
        return self._configuration.settings.pod_creation_timeout * SECOND
