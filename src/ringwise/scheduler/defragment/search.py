"""The search for a plan: the least moved chip-hours on small clusters, bounded effort on large ones."""

from __future__ import annotations

from ringwise.framework.job import Job
from ringwise.messages.move_plan import MovePlan
from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.scheduler.defragment.movable import Permit, anyone
from ringwise.scheduler.view import SchedulerView

#: Pods that may be placed or released in one search.
PLAN_STEPS = 20_000


@dataclass(frozen=True, slots=True)
class NoPlan:
    """Why no moves start the job."""

    reason: Reason


class PlanBudget:
    """How much may still be tried, for one job or for all jobs of a command."""

    def __init__(self, steps: int = PLAN_STEPS) -> None:
        self.left = steps

    @property
    def is_over(self) -> bool:
        return self.left <= 0


def find_plan(
    view: SchedulerView, job: Job, now: int, permit: Permit = anyone, budget: PlanBudget | None = None
) -> MovePlan | NoPlan:
    """Which jobs would move where so that the job starts now. The state is the same before and after."""
    raise NotImplementedError
