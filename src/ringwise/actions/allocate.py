"""allocate: places the best job of the best queue, then chooses again."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from heapq import heappop, heappush
from typing import Any

from ringwise.durations import SECOND
from ringwise.framework.evictions.recently_faulty_chips import chips_excluded, cooling_chips, may_use_all
from ringwise.framework.gangs.gang_placement import FurtherPods, claim_refusal, place_gang
from ringwise.framework.job import Job
from ringwise.framework.queue_discipline import note_attempt, take_turn
from ringwise.framework.reasons import QUEUE_OVERUSED
from ringwise.framework.registry import PREDICATE_ERROR_CACHE, ActionSpec
from ringwise.framework.retry_scope import RetryScope
from ringwise.framework.session import Session
from ringwise.framework.shares.backfill_reservations import borrow, lending_owners, reserved_free
from ringwise.framework.statement import Statement
from ringwise.reasons import Reason
from ringwise.state.model import Queue

#: A job whose reservation is used up may get it back for this long, where its bindings fail.
BINDING_SECONDS = 60

#: (sort key, number of the entry, job, whether its gang is complete)
Entry = tuple[tuple[Any, ...], int, Job, bool]


class PriorityQueue:
    """The jobs of one queue, best first. Most are served once; those that come again are in a heap."""

    __slots__ = ("_again", "_first")

    def __init__(self) -> None:
        self._first: list[Entry] = []
        self._again: list[Entry] = []

    def __bool__(self) -> bool:
        return bool(self._first or self._again)

    def add(self, entry: Entry) -> None:
        self._first.append(entry)

    def sort(self) -> None:
        """Called once after all were added; the best is the last of the list."""
        self._first.sort(reverse=True)

    def push_again(self, entry: Entry) -> None:
        heappush(self._again, entry)

    def pop(self) -> Entry:
        if self._again and not (self._first and self._first[-1] < self._again[0]):
            return heappop(self._again)
        return self._first.pop()


def allocate(session: Session) -> None:
    if not session.enqueues:
        # Controllers create the pods of a job once its PodGroup is Inqueue, and no other action sets it.
        for job in session.pending:
            job.inqueue = True
    waiting = _jobs_by_queue(session)
    session.next_phase()
    serial = len(session.pending)
    further = FurtherPods(session)
    while waiting:
        queue = _next_queue(session, waiting)
        jobs = waiting[queue.name]
        if session.overused(queue):
            _set_overused(session, queue, jobs)
            del waiting[queue.name]
            continue
        _, _, job, complete = jobs.pop()
        if not jobs:
            del waiting[queue.name]
        if not session.may_try(job):
            continue
        if _serve(session, job, complete, further):
            # The pods beyond its gang compete again, one at a time.
            serial += 1
            waiting.setdefault(queue.name, jobs).push_again((session.job_key(job), serial, job, True))


def _next_queue(session: Session, names: Collection[str]) -> Queue:
    if len(names) == 1:
        return session.queues[next(iter(names))]
    return min((session.queues[name] for name in names), key=session.queue_key)


def _jobs_by_queue(session: Session) -> dict[str, PriorityQueue]:
    """The jobs of each queue that may be placed, best first.

    All are validated before any is ordered: an invalid job has no part in the share of its queue.
    """
    waiting: dict[str, PriorityQueue] = {}
    for serial, job in enumerate(session.pending):
        if job.queue not in session.queues or not session.is_admitted(job) or not session.may_try(job):
            continue
        try:
            reason = session.job_valid(job)
            if reason is not None:
                session.observe(session, job)
                job.reason = reason
                continue
            key = session.job_key(job)
        except Exception as error:
            session.fail_job(job, error, "allocate")
            continue
        jobs = waiting.get(job.queue)
        if jobs is None:
            jobs = waiting[job.queue] = PriorityQueue()
        jobs.add((key, serial, job, False))
    for jobs in waiting.values():
        jobs.sort()
    return waiting


def _serve(session: Session, job: Job, complete: bool, further: FurtherPods) -> bool:
    """Try one job; True when it starts and has more pods to place."""
    behind = take_turn(session, job)
    if behind is not None:
        job.reason = behind
        return False
    if not complete and session.observed:
        with session.reservations.open_to(job.key):
            session.observe(session, job)
    try:
        session.budget.begin(job.namespace, len(job.pods))
        more_pods = further if complete else None
        statement, reason = _attempt(session, job, more_pods, ())
        if reason is None and not statement.allocations and further.wait(job):
            # Its gang is complete; a pod beyond it waits and gets its reason.
            statement, reason = _attempt(session, job, further, ())
        if reason is not None and (owners := lending_owners(session, job)):
            statement, reason = _attempt(session, job, more_pods, owners)
            if reason is None:
                borrow(session, job, statement.allocations)
    except Exception as error:
        session.fail_job(job, error, "allocate")
        note_attempt(session, job)
        return False
    if reason is not None:
        job.reason = reason
    note_attempt(session, job)
    if reason is not None:
        return False
    placed = len(statement.allocations)
    more = (job.has_claims or 0 < placed < len(job.pods)) and further.wait(job)
    if job.has_claims and not more:
        # Pods beyond its gang may wait for claims.
        job.reason = claim_refusal(session, job)
    return more and 0 < placed < len(job.pods)


def _attempt(
    session: Session, job: Job, further: FurtherPods | None, owners: Iterable[str]
) -> tuple[Statement, Reason | None]:
    """Place the job, also on what is reserved for it and `owners`; if it does not fit, nothing is kept.

    `further`: its gang is complete, and the next of these pods is placed.
    """
    if not len(session.reservations):
        return _place(session, job, further)
    with reserved_free(session, job, owners):
        answer = _place(session, job, further)
        statement, reason = answer
        if reason is None and statement.allocations:
            session.reservations.use(job.key, session.now + BINDING_SECONDS * SECOND)
    return answer


def _place(session: Session, job: Job, further: FurtherPods | None) -> tuple[Statement, Reason | None]:
    chips = cooling_chips(session, job) if job.cooling else {}
    if not chips:
        return _try_to_place(session, job, further)
    broke_again = cooling_chips(session, job, broke_again=True)
    # F3: each reach without the chips that broke the job, then with them. S9 is stronger: a job keeps its
    # healthy nodes also where it then needs such a chip.
    scopes = (
        tuple(RetryScope)
        if job.policy is not None and job.policy.switch_class is not None
        else (RetryScope.ANY,)
    )
    stages = [(scope, avoided) for scope in scopes for avoided in _without_repeats(chips, broke_again)]
    if broke_again and (len(scopes) == 1 or may_use_all(job)):
        stages.append((RetryScope.ANY, {}))
    for scope, avoided in stages[:-1]:
        answer = _place_within(session, job, further, scope, avoided)
        if answer[1] is None:
            return answer
    return _place_within(session, job, further, *stages[-1])


def _place_within(
    session: Session,
    job: Job,
    further: FurtherPods | None,
    scope: RetryScope,
    avoided: dict[int, int],
) -> tuple[Statement, Reason | None]:
    session.retry_scope = scope
    try:
        with chips_excluded(session, job, avoided):
            return _try_to_place(session, job, further)
    finally:
        session.retry_scope = RetryScope.ANY


def _without_repeats(*avoided: dict[int, int]) -> list[dict[int, int]]:
    return [one for number, one in enumerate(avoided) if one not in avoided[:number]]


def _try_to_place(session: Session, job: Job, further: FurtherPods | None) -> tuple[Statement, Reason | None]:
    statement = session.statement()
    pods = further.of(job) if further is not None else None
    try:
        reason = place_gang(session, job, statement, beyond_gang=further is not None, further=pods)
    except Exception:
        statement.discard()
        raise
    if reason is not None:
        statement.discard()
    else:
        statement.commit()
        job.reason = None
    return statement, reason


def _set_overused(session: Session, queue: Queue, jobs: PriorityQueue) -> None:
    while jobs:
        _, _, job, complete = jobs.pop()
        if not complete:
            session.observe(session, job)
        job.reason = take_turn(session, job) or QUEUE_OVERUSED(queue=queue.name)
        note_attempt(session, job)


SPEC = ActionSpec(
    "allocate", "places the pods of admitted jobs", allocate, arguments=(PREDICATE_ERROR_CACHE,)
)
