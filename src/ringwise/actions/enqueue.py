"""Let jobs in: those whose queue and cluster have room for what they need at once."""

from __future__ import annotations

from ringwise.framework.backfill_reservations import kept_chips_open, lenders
from ringwise.framework.job import Job
from ringwise.framework.reasons import INTERNAL_ERROR, QUEUE_NOT_OPEN
from ringwise.framework.session import Session
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
        if queue.state != "Open":
            job.reason = QUEUE_NOT_OPEN(queue=queue.name, state=queue.state)
            continue
        try:
            reason = session.job_valid(job)
            if reason is None:
                job.inqueue, reason = _may_enter(session, job)
            if not job.inqueue:
                session.observe(session, job)
        except Exception as error:
            incident = session.contain(error, job, "enqueue")
            reason = INTERNAL_ERROR(where=incident.where, error=incident.error)
        job.reason = reason


def _may_enter(session: Session, job: Job) -> tuple[bool, Reason | None]:
    """The chips kept for the job count as free for it, and those it may borrow, if it needs them."""
    with kept_chips_open(session, job):
        may, reason = session.job_enqueueable(job)
    if not may and (owners := lenders(session, job)):
        with kept_chips_open(session, job, owners):
            may, reason = session.job_enqueueable(job)
    return may, reason
