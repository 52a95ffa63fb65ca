"""Place the pods of admitted jobs: the best queue's best job, then ask again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from heapq import heappop, heappush
from itertools import chain
from typing import Any

from ringwise.framework.backfill_reservations import kept_chips_open, lenders
from ringwise.framework.gang_placement import fill, pending_pods
from ringwise.framework.job import Job
from ringwise.framework.reasons import INTERNAL_ERROR, QUEUE_OVERUSED
from ringwise.framework.session import Session
from ringwise.framework.statement import Statement
from ringwise.reasons import Reason
from ringwise.state.model import Queue

#: (order, number of the entry, job, is its gang complete)
Entry = tuple[tuple[Any, ...], int, Job, bool]


class Line:
    """The jobs of one queue, best first. Most come once; those that come back have a heap of their own."""

    __slots__ = ("_back", "_first")

    def __init__(self) -> None:
        self._first: list[Entry] = []
        self._back: list[Entry] = []

    def __bool__(self) -> bool:
        return bool(self._first or self._back)

    def join(self, entry: Entry) -> None:
        self._first.append(entry)

    def order(self) -> None:
        """All have joined; the best is the last of the list."""
        self._first.sort(reverse=True)

    def come_back(self, entry: Entry) -> None:
        heappush(self._back, entry)

    def pop(self) -> Entry:
        if self._back and not (self._first and self._first[-1] < self._back[0]):
            return heappop(self._back)
        return self._first.pop()

    def __iter__(self) -> Iterator[Entry]:
        return chain(self._first, self._back)


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
        _, _, job, complete = line.pop()
        if not line:
            del lines[queue.name]
        if _serve(session, job, complete):
            # The pods beyond its gang compete again, one at a time.
            serial += 1
            lines.setdefault(queue.name, line).come_back((session.job_key(job), serial, job, True))


def _next_queue(session: Session, names: Collection[str]) -> Queue:
    if len(names) == 1:
        return session.queues[next(iter(names))]
    return min((session.queues[name] for name in names), key=session.queue_key)


def _lines(session: Session) -> dict[str, Line]:
    """The jobs of each queue that may be placed, best first.

    Whether they can be placed at all is asked first: a job that cannot asks for no share of its queue.
    """
    enqueues = "enqueue" in session.configuration.actions
    lines: dict[str, Line] = {}
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
        line = lines.get(job.queue)
        if line is None:
            line = lines[job.queue] = Line()
        line.join((key, serial, job, False))
    for line in lines.values():
        line.order()
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
    if not len(session.reservations):
        return _fill_in(session, job, complete)
    with kept_chips_open(session, job, owners):
        answer = _fill_in(session, job, complete)
        statement, reason = answer
        if reason is None and statement.allocations:
            session.reservations.lift(job.key)
    return answer


def _fill_in(session: Session, job: Job, complete: bool) -> tuple[Statement, Reason | None]:
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
    return statement, reason


def _tell_overused(session: Session, queue: Queue, line: Line) -> None:
    for _, _, job, complete in line:
        if not complete:
            session.observe(session, job)
        job.reason = QUEUE_OVERUSED(queue=queue.name)


def broken(session: Session, job: Job, error: Exception, action: str) -> None:
    """Whatever went wrong concerns this job alone."""
    incident = session.contain(error, job, action)
    job.reason = INTERNAL_ERROR(where=incident.where, error=incident.error)
