"""When a waiting job can be expected to start, where running jobs say how long they take."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from ringwise.framework.gang_placement import fill
from ringwise.framework.job import Job
from ringwise.framework.session import Session
from ringwise.framework.statement import Statement
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.explain.what_if import gone, obstacle

#: Ends of running jobs that are looked at.
_MOST_ENDS = 64
_MOST_AHEAD = 16


@dataclass(frozen=True, slots=True)
class Forecast:
    #: Nanoseconds since 1970.
    starts: int
    #: Jobs that will have ended by then, in the order in which they end.
    after: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        return {"starts": self.starts, "after": list(self.after)}


def forecast(scheduler: Scheduler, job: Job, now: int, ahead: Sequence[Job]) -> Forecast | None:
    """Let the running jobs end one after the other, serve the queue after each, and see when it is our turn.

    None when the known ends do not suffice. Jobs that start ahead are taken to run beyond the horizon.
    """
    ends = sorted(
        (max(now, _begun(other) + other.expected), other.key)
        for other in scheduler.book.jobs.values()
        if other is not job
        and other.expected is not None
        and any(scheduler.state.pods[uid].node >= 0 for uid in other.pods)
    )[:_MOST_ENDS]
    if not ends:
        return None
    line = [*ahead[:_MOST_AHEAD], job]
    session = scheduler.open_session(now, line)
    after: list[str] = []
    with ExitStack() as supposed:
        for time, key in ends:
            ending = scheduler.book.jobs[key]
            supposed.enter_context(gone(scheduler, session, ending.pods, job))
            after.append(f"{ending.namespace}/{ending.name}")
            for waiting in list(line):
                statement = _started(scheduler, session, waiting)
                if statement is None:
                    continue
                supposed.callback(statement.discard)
                if waiting is job:
                    return Forecast(time, tuple(after))
                line.remove(waiting)
    return None


def _begun(job: Job) -> int:
    """When it was placed; for a job placed by somebody else, when it was made."""
    return job.created if job.started is None else job.started


def _started(scheduler: Scheduler, session: Session, job: Job) -> Statement | None:
    statement = session.statement()
    with session.reservations.open_to(job.key):
        reason = obstacle(scheduler, session, job) or fill(session, job, statement)
    if reason is None:
        return statement
    statement.discard()
    return None
