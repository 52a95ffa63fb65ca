"""When a pending job can be expected to start, from the expected durations of running jobs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from ringwise.framework.gang_placement import place_gang
from ringwise.framework.job import Job
from ringwise.framework.session import Session
from ringwise.framework.statement import Statement
from ringwise.records import dataclass
from ringwise.scheduler.explain.what_if import WhatIf
from ringwise.scheduler.view import SchedulerView

#: Ends of running jobs that are looked at.
MOST_ENDS = 64
_MOST_AHEAD = 16


@dataclass(frozen=True, slots=True)
class Forecast:
    #: Nanoseconds since 1970.
    starts: int
    #: Jobs that will have ended by then, in the order in which they end.
    after: tuple[str, ...]


def forecast(view: SchedulerView, job: Job, now: int, ahead: Sequence[Job]) -> Forecast | None:
    """Let the running jobs end one after the other and serve the queue after each, until the job starts.

    None when the jobs with a known end do not suffice. Jobs that start ahead of it are taken not to end.
    """
    what_if = view.what_if
    ends = known_ends(view, job, now)[:MOST_ENDS]
    if not ends:
        return None
    line = [*ahead[:_MOST_AHEAD], job]
    session = what_if.open_session(now, line)
    after: list[str] = []
    with ExitStack() as supposed:
        for time, key in ends:
            ending = view.jobs[key]
            supposed.enter_context(what_if.ended(session, ending.pods, job))
            after.append(f"{ending.namespace}/{ending.name}")
            for waiting in list(line):
                statement = _started(what_if, session, waiting)
                if statement is None:
                    continue
                supposed.callback(statement.discard)
                if waiting is job:
                    return Forecast(time, tuple(after))
                line.remove(waiting)
    return None


def known_ends(view: SchedulerView, job: Job, now: int) -> list[tuple[int, str]]:
    """When the other running jobs that say how long they run end, and their keys; the first end first."""
    placements = view.cluster.pods
    return sorted(
        (max(now, _started_at(other) + other.expected), other.key)
        for other in view.jobs.values()
        if other is not job
        and other.expected is not None
        and any(placements[uid].node >= 0 for uid in other.pods)
    )


def _started_at(job: Job) -> int:
    """When it was placed; for a job that another scheduler placed, when it was created."""
    return job.created if job.started is None else job.started


def _started(what_if: WhatIf, session: Session, job: Job) -> Statement | None:
    statement = session.statement()
    with session.reservations.open_to(job.key):
        reason = what_if.obstacle(session, job) or place_gang(session, job, statement)
    if reason is None:
        return statement
    statement.discard()
    return None
