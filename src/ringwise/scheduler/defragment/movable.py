"""Which running jobs may be moved, and why the others may not."""

from __future__ import annotations

from collections.abc import Callable

from ringwise.framework.job import Job
from ringwise.reasons import Reason
from ringwise.scheduler.view import SchedulerView

#: What the caller knows besides: disruption budgets, an operator's limits, that only jobs that ask for it are
#: moved. None: the job may be moved.
Permit = Callable[[Job], Reason | None]


def anyone(job: Job) -> Reason | None:
    """The permit of a caller that knows nothing besides."""
    return None


def not_movable(view: SchedulerView, job: Job, now: int, permit: Permit = anyone) -> Reason | None:
    """Why the job must not be moved; None: it may be."""
    raise NotImplementedError
