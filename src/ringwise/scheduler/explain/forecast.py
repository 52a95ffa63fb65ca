"""When a pending job can be expected to start, from the expected durations of running jobs.

What is not known is not a time: an answer is a range of times, a time before which the job does not start,
or the reason why neither is known.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from contextlib import ExitStack

from ringwise.durations import duration_text, time_text
from ringwise.framework.gangs.gang_placement import place_gang
from ringwise.framework.job import Job
from ringwise.framework.session import Session
from ringwise.framework.statement import Statement
from ringwise.grammar import counted
from ringwise.reasons import Stage
from ringwise.records import dataclass
from ringwise.scheduler.explain.what_if import WhatIf
from ringwise.scheduler.view import SchedulerView

#: Ends of running jobs that are looked at.
MAX_ENDS = 64
#: With more jobs that may come first nobody knows who takes which chips.
MAX_FIRST = 16
#: Pods of jobs that do not say how long they run; with more of them nothing is tried.
_MAX_PODS = 8_000

#: Jobs that the text names.
_NAMED = 5


class StartKind(enum.StrEnum):
    #: Between `earliest` and `latest`, which are the same where it is one time.
    KNOWN = "known"
    #: Not before `earliest`.
    NOT_BEFORE = "not-before"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ExpectedStart:
    """When a waiting job starts, if running jobs end as they say and no other job comes."""

    kind: StartKind
    #: Nanoseconds since 1970.
    earliest: int | None = None
    latest: int | None = None
    #: Jobs that will have ended by then, in the order in which they end.
    after: tuple[str, ...] = ()
    #: Why no time, or no latest time, is known; a part of a sentence.
    why: str = ""

    def text(self, now: int) -> str:
        """What every view shows."""
        if self.earliest is None:
            return f"unknown, {self.why}"
        first, wait = time_text(self.earliest), duration_text(self.earliest - now)
        if self.latest is None:
            return f"not before {first}, in {wait}: {self.why}"
        if self.latest <= now:
            return "in the next cycle"
        more = f" and {len(self.after) - _NAMED} more" if len(self.after) > _NAMED else ""
        ends = f", after the end of {', '.join(self.after[:_NAMED])}{more}" if self.after else ""
        if self.earliest == self.latest:
            return f"{first}, in {wait}{ends}"
        last, longest = time_text(self.latest), duration_text(self.latest - now)
        if self.earliest <= now:
            return f"at the latest {last}, in {longest}{ends}; sooner if a job ends that does not say when"
        return f"between {first} and {last}, in {wait} to {longest}{ends}"


def unknown_start(why: str) -> ExpectedStart:
    return ExpectedStart(StartKind.UNKNOWN, why=why)


def next_cycle(now: int) -> ExpectedStart:
    return ExpectedStart(StartKind.KNOWN, now, now)


def forecast(view: SchedulerView, job: Job, now: int, ahead: Sequence[Job]) -> ExpectedStart:
    """Let the running jobs end one after the other, and try after each whether the job starts.

    The earliest time is that of the job alone in its queue, with all jobs ended that do not say how long they
    run. For the latest they go on, and all jobs that may come first do: those ahead of it, and those of other
    queues that wait for the same chips. Jobs that start are taken not to end.
    """
    ends = known_ends(view, job, now)
    if not ends:
        return unknown_start("no running job says how long it runs")
    endless = _endless_pods(view, job, {key for _, key in ends})
    earliest = None if len(endless) > _MAX_PODS else _earliest(view, job, now, ends, endless)
    others = _of_other_queues(view, job)
    before = len(ahead) + len(others)
    found = None if before > MAX_FIRST else _start(view, now, ends[:MAX_ENDS], [*others, *ahead, job])
    if found is not None:
        latest, ended = found
        after = tuple(_name(view, key) for _, key in ends[:ended])
        return ExpectedStart(StartKind.KNOWN, min(latest, earliest or now), latest, after)
    why = "it would not start after the running jobs that say how long they run"
    if others:
        why = f"{counted(others, 'job')} of other queues may take the chips first"
    elif before > MAX_FIRST:
        why = f"{counted(before, 'job is', 'jobs are')} ahead of it"
    if earliest is None or earliest <= now:
        return unknown_start(why)
    return ExpectedStart(StartKind.NOT_BEFORE, earliest, why=why)


def known_ends(view: SchedulerView, job: Job, now: int) -> list[tuple[int, str]]:
    """When the other running jobs that say how long they run end, and their keys; the first end first.

    When a job ends that runs longer than it said is not known.
    """
    placements = view.cluster.pods
    return sorted(
        (end, other.key)
        for other in view.jobs.values()
        if other is not job
        and other.expected is not None
        and (end := _started_at(other) + other.expected) > now
        and any(placements[uid].node >= 0 for uid in other.pods)
    )


def _started_at(job: Job) -> int:
    """When it was placed; for a job that another scheduler placed, when it was created."""
    return job.created if job.started is None else job.started


def _name(view: SchedulerView, key: str) -> str:
    job = view.jobs[key]
    return f"{job.namespace}/{job.name}"


def _endless_pods(view: SchedulerView, job: Job, ending: set[str]) -> list[str]:
    """Pods that run, and whose job does not say for how long."""
    found = []
    for uid, placement in view.cluster.pods.items():
        if placement.node >= 0 and uid not in job.pods:
            owner = view.job_of(uid)
            if owner is None or owner.key not in ending:
                found.append(uid)
    return found


def _of_other_queues(view: SchedulerView, job: Job) -> list[Job]:
    """Jobs that wait for the same chips: whether they come first depends on the shares of the queues."""
    resources = {pod.cls.resource for pod in job.chip_pods}
    return [
        other
        for other in view.jobs.values()
        if other.queue != job.queue
        and other.reason is not None
        and other.reason.kind.stage is not Stage.VALIDATE
        and any(pod.cls.resource in resources for pod in other.chip_pods)
        and waits(view, other)
    ]


def waits(view: SchedulerView, job: Job) -> bool:
    """Whether it waits for nodes. The pods of a vcjob are created when it is admitted to its queue."""
    return view.has_pending_pods(job) or (not job.pods and bool(job.prospective) and job.reason is not None)


def _earliest(
    view: SchedulerView, job: Job, now: int, ends: Sequence[tuple[int, str]], endless: Iterable[str]
) -> int | None:
    """It does not start before; None where it would not start after all of them either."""
    session = view.what_if.open_session(now, [job])
    with view.what_if.ended(session, endless, job):
        statement = _started(view.what_if, session, job)
        if statement is not None:
            statement.discard()
            return now
        found = _start(view, now, ends[:MAX_ENDS], [job], session)
    if found is not None:
        return found[0]
    return ends[MAX_ENDS - 1][0] if len(ends) > MAX_ENDS else None


def _start(
    view: SchedulerView,
    now: int,
    ends: Sequence[tuple[int, str]],
    line: Sequence[Job],
    session: Session | None = None,
) -> tuple[int, int] | None:
    """When the last of the line starts, and after how many ends; after each the line is served in order."""
    what_if, job = view.what_if, line[-1]
    waiting = list(line)
    with ExitStack() as supposed:
        for one in line:
            supposed.enter_context(what_if.with_pods(one))
        session = session or what_if.open_session(now, line)
        for place, (time, key) in enumerate(ends):
            supposed.enter_context(what_if.ended(session, view.jobs[key].pods, job))
            for one in list(waiting):
                statement = _started(what_if, session, one)
                if statement is None:
                    continue
                supposed.callback(statement.discard)
                if one is job:
                    return time, place + 1
                waiting.remove(one)
    return None


def _started(what_if: WhatIf, session: Session, job: Job) -> Statement | None:
    statement = session.statement()
    with session.reservations.open_to(job.key):
        reason = what_if.obstacle(session, job) or place_gang(session, job, statement)
    if reason is None:
        return statement
    statement.discard()
    return None
