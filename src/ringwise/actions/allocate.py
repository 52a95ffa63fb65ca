"""Place the pods of admitted jobs: the best queue's best job, then ask again."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from heapq import heapify, heappop, heappush
from typing import Any

from ringwise.framework.filling import fill, pending_pods
from ringwise.framework.job import Job
from ringwise.framework.lending import kept_chips_open, lenders
from ringwise.framework.reasons import INTERNAL_ERROR, QUEUE_OVERUSED
from ringwise.framework.session import Session
from ringwise.framework.statement import Statement
from ringwise.reasons import Reason
from ringwise.state.model import Queue

#: (order, number of the entry, job, is its gang complete)
Entry = tuple[tuple[Any, ...], int, Job, bool]


def allocate(session: Session) -> None:
    lines = _lines(session)
    serial = len(session.pending)
    while lines:
        queue = _next_queue(session, lines)
        line = lines[queue.name]
        if session.overused(queue):
            _tell_overused(session, queue, line)
            del lines[queue.name]
            continue
        _, _, job, complete = heappop(line)
        if not line:
            del lines[queue.name]
        if _serve(session, job, complete):
            # The pods beyond its gang compete again, one at a time.
            serial += 1
            heappush(lines.setdefault(queue.name, []), (session.job_key(job), serial, job, True))


def _next_queue(session: Session, names: Collection[str]) -> Queue:
    queues = [session.queues[name] for name in names]
    return min(queues, key=session.queue_key) if len(queues) > 1 else queues[0]


def _lines(session: Session) -> dict[str, list[Entry]]:
    """The jobs of each queue that may be placed, best first."""
    enqueues = "enqueue" in session.configuration.actions
    lines: dict[str, list[Entry]] = {}
    for serial, job in enumerate(session.pending):
        if job.queue not in session.queues or (enqueues and not job.inqueue):
            continue
        try:
            reason = session.job_valid(job)
            if reason is not None:
                session.observe(session, job)
                job.reason = reason
                continue
            key = session.job_key(job)
        except Exception as error:
            broken(session, job, error, "allocate")
            continue
        lines.setdefault(job.queue, []).append((key, serial, job, False))
    for line in lines.values():
        heapify(line)
    return lines


def _serve(session: Session, job: Job, complete: bool) -> bool:
    """Try one job; True when it runs and has more pods to place."""
    if not complete and session.observed:
        with session.reservations.open_to(job.key):
            session.observe(session, job)
    try:
        statement, reason = _attempt(session, job, complete, ())
        if reason is None and not statement.allocations and pending_pods(session, job):
            # Its gang is complete; a pod beyond it waits, and should know why.
            statement, reason = _attempt(session, job, True, ())
        if reason is not None and (owners := lenders(session, job)):
            statement, reason = _attempt(session, job, complete, owners)
    except Exception as error:
        broken(session, job, error, "allocate")
        return False
    if reason is not None:
        job.reason = reason
        return False
    placed = len(statement.allocations)
    return 0 < placed < len(job.pods) and bool(pending_pods(session, job))


def _attempt(
    session: Session, job: Job, complete: bool, owners: Iterable[str]
) -> tuple[Statement, Reason | None]:
    """Fill the job in, on its own kept chips and on those of `owners`; nothing stays when it does not fit."""
    with kept_chips_open(session, job, owners):
        statement = session.statement()
        try:
            reason = fill(session, job, statement, beyond_gang=complete)
        except Exception:
            statement.discard()
            raise
        if reason is not None:
            statement.discard()
        else:
            statement.commit()
            job.reason = None
            if statement.allocations:
                session.reservations.lift(job.key)
    return statement, reason


def _tell_overused(session: Session, queue: Queue, line: list[Entry]) -> None:
    for _, _, job, complete in line:
        if not complete:
            session.observe(session, job)
        job.reason = QUEUE_OVERUSED(queue=queue.name)


def broken(session: Session, job: Job, error: Exception, action: str) -> None:
    """Whatever went wrong concerns this job alone."""
    incident = session.contain(error, job, action)
    job.reason = INTERNAL_ERROR(where=incident.where, error=incident.error)
