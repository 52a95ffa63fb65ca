"""Searches by trial: what the session would decide if some pods were gone. Nothing of a trial stays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from ringwise.framework.job import Job
from ringwise.framework.session import Session
from ringwise.framework.statement import Eviction, Statement
from ringwise.framework.victim_queues import JobPod

Value = TypeVar("Value")
Item = TypeVar("Item")


@contextmanager
def trial(session: Session, job: Job | None = None, gone: Iterable[JobPod] = ()) -> Iterator[Statement]:
    """Discard the statement at the end, and restore the job's plan. Inside, the pods `gone` have left."""
    plan = None if job is None else session.plans.get(job.key)
    statement = session.statement()
    try:
        for owner, pod in gone:
            statement.evict(Eviction(owner, pod, "", job))
        yield statement
    finally:
        statement.discard()
        if job is not None:
            session.plans.pop(job.key, None)
            if plan is not None:
                session.plans[job.key] = plan


def fewest(
    available: Callable[[int], int], attempt: Callable[[int], Value | None]
) -> tuple[int, Value] | None:
    """Return the smallest number with which an attempt succeeds, or None: by doubling, then by bisection.

    `available` returns how many there are: at least as many as it is asked for, if there are so many.
    """
    high = 0
    while True:
        wanted = 2 * high or 1
        low, high = high, min(wanted, available(wanted))
        if high == low:
            return None
        result = attempt(high)
        if result is not None:
            return nearest(high, low, attempt, result)


def nearest(good: int, bad: int, attempt: Callable[[int], Value | None], result: Value) -> tuple[int, Value]:
    """Return the number nearest to `bad` with which an attempt succeeds; `result` is that of `good`."""
    while abs(good - bad) > 1:
        middle = (good + bad) // 2
        again = attempt(middle)
        if again is None:
            bad = middle
        else:
            good, result = middle, again
    return good, result


def reduced(
    items: Sequence[Item], attempt: Callable[[list[Item]], Value | None], result: Value
) -> tuple[list[Item], Value]:
    """Leave out each item without which the attempt still succeeds, the last one first."""
    needed = list(items)
    for item in reversed(items):
        fewer = [other for other in needed if other is not item]
        again = attempt(fewer)
        if again is not None:
            needed, result = fewer, again
    return needed, result
