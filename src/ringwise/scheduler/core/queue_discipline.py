"""`queue-discipline: strict` between the cycles: which jobs still block others, and which wake up.

An unschedulable job blocks jobs that come later all the same. Jobs behind it are not tried when chips become
free: that could only help the first. They are tried when it starts, changes or is gone, a few in each cycle:
mostly the first or the second of them does not fit, and hundreds may wait.

Whether a job would fit into the empty cluster is tried at the end of a cycle, once for all jobs of the same
shape until the cluster offers something else. To let all running jobs end, as a supposition, costs as much as
there are pods: so there is some time between two such attempts, whatever jobs come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ringwise.framework.job import Job
from ringwise.framework.queue_discipline import (
    fits_empty_cluster,
    lines_to_test,
    note_attempt,
    shape_of,
    waiting_in_line,
)
from ringwise.framework.session import Session
from ringwise.framework.trials import trial
from ringwise.messages.events import ConfigurationSeen
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, on, on_job
from ringwise.scheduler.core.reservation import INVENTORY

#: Time between two attempts with the empty cluster, in nanoseconds.
_PAUSE = 30_000_000_000


class QueueDiscipline(Component):
    name = "queue discipline"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._heads = context.book.heads
        #: The next attempt with the empty cluster is not before; or it is due in this turn.
        self._not_before = 0
        self._due = False

    @on_job(ie.JobGone, ie.JobSkipped)
    def _drop(self, job: Job, now: int) -> None:
        """A job that is not tried in the next cycle blocks no other job."""
        self._heads.to_test.pop(job.key, None)
        self._heads.unpark(job.key)
        self._heads.drop(job.key)

    @on(ConfigurationSeen)
    def _configuration_seen(self, event: ConfigurationSeen, now: int) -> None:
        self._heads.clear()

    def deadline(self) -> int | None:
        return self._not_before if self._heads.to_test else None

    def review(self, now: int) -> None:
        heads = self._heads
        if self._triggers & INVENTORY:
            heads.epoch += 1
        if heads.to_test and now >= self._not_before:
            # Jobs are tested at the end of a cycle.
            self._due, self._not_before = True, now + _PAUSE
            self._job_queue.activate(*heads.to_test)

    def end_cycle(self, session: Session) -> None:
        if not session.is_strict:
            return
        for job in session.pending:
            note_attempt(session, job)
        if self._heads.to_test and (self._due or session.now >= self._not_before):
            self._due = False
            self._test(session)

    def wake(self) -> bool:
        """Activate the next jobs behind one that started or is gone; False if there are none."""
        woken = [key for line in list(self._heads.moved) for key in self._heads.to_try(line)]
        self._job_queue.activate(*woken)
        return bool(woken)

    def _test(self, session: Session) -> None:
        lines = [waiting_in_line(session, line) for line in lines_to_test(session)]
        self._heads.to_test.clear()
        if not lines:
            return
        self._not_before = session.now + _PAUSE
        placements = session.state.pods
        running = (
            (job, pod)
            for job in session.jobs.values()
            for uid, pod in job.pods.items()
            if placements[uid].node >= 0
        )
        with trial(session, gone=running):
            tested = [job for line in lines for job in self._test_line(session, line)]
        for job in tested:
            note_attempt(session, job)

    def _test_line(self, session: Session, line: Sequence[Job]) -> Iterator[Job]:
        """All jobs up to the first that fits: that one blocks the others."""
        for job in line:
            shape = shape_of(session, job)
            if not self._heads.is_tested(shape):
                self._heads.judge(shape, fits_empty_cluster(session, job))
            yield job
            if not self._heads.is_too_large(shape):
                return
