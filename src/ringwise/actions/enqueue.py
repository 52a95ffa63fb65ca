"""enqueue: admits jobs whose queue and cluster have what they need at once."""

from __future__ import annotations

from ringwise.framework.configuration import ENQUEUE
from ringwise.framework.job import Job
from ringwise.framework.queue_discipline import note_attempt, take_turn
from ringwise.framework.reasons import QUEUE_NOT_OPEN
from ringwise.framework.registry import ActionSpec
from ringwise.framework.session import Session
from ringwise.framework.shares.backfill_reservations import lending_owners, reserved_free
from ringwise.reasons import Reason


def enqueue(session: Session) -> None:
    waiting: dict[str, list[Job]] = {}
    for job in session.pending:
        if not job.inqueue and job.queue in session.queues:
            waiting.setdefault(job.queue, []).append(job)
    for jobs in waiting.values():
        jobs.sort(key=session.job_key, reverse=True)
    while waiting:
        queue = min((session.queues[name] for name in waiting), key=session.queue_key)
        jobs = waiting[queue.name]
        job = jobs.pop()
        if not jobs:
            del waiting[queue.name]
        if not session.may_try(job):
            continue
        if queue.state != "Open":
            job.reason = QUEUE_NOT_OPEN(queue=queue.name, state=queue.state)
            continue
        try:
            reason = session.job_valid(job)
            if reason is None:
                reason = take_turn(session, job)
            if reason is None:
                job.inqueue, reason = _is_enqueueable(session, job)
                if job.inqueue:
                    session.job_enqueued(job)
            if not job.inqueue:
                session.observe(session, job)
            job.reason = reason
            if not job.inqueue:
                # One that is admitted stays ahead of others until it was tried.
                note_attempt(session, job)
        except Exception as error:
            session.fail_job(job, error, "enqueue")


def _is_enqueueable(session: Session, job: Job) -> tuple[bool, Reason | None]:
    """What is reserved for the job counts as free; what it may borrow is tried second."""
    with reserved_free(session, job):
        may, reason = session.job_enqueueable(job)
    if not may and (owners := lending_owners(session, job)):
        with reserved_free(session, job, owners):
            may, reason = session.job_enqueueable(job)
    return may, reason


SPEC = ActionSpec(
    ENQUEUE, "admits jobs if their queue and the cluster have the resources for their start", enqueue
)
