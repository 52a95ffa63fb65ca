"""`defragment: auto`: moves without a question, for jobs that allow it, and only where they pay.

The plan is found by a copy of the process, and becomes an approved MovePlan; what it does then is the same as
for a plan of `ringwise defrag --apply`. Only the first job of each queue is planned for.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ringwise.apps.forked_queries import ForkedQueries, QuestionFailedError, TooManyQuestionsError
from ringwise.apps.moves import with_saving
from ringwise.durations import SECOND, duration_text
from ringwise.framework.job import Job
from ringwise.kubeclient.tasks import repeat
from ringwise.log import Logger
from ringwise.manifests.objects.move_plans import move_plan_body
from ringwise.messages.move_plan import APPROVED, DEFAULT_TTL, WAITING, MovePlan
from ringwise.reasons import Reason
from ringwise.scheduler.defragment.movable import (
    DisruptionBudget,
    Permit,
    fewest_moved_chips,
    only_willing,
    waits_for_room,
)
from ringwise.scheduler.defragment.moves import moved_as
from ringwise.scheduler.defragment.reasons import MOVED_LATELY, OVER_HOURLY_LIMIT
from ringwise.scheduler.defragment.search import planning
from ringwise.scheduler.defragment.units import Units
from ringwise.scheduler.view import SchedulerView

_LOG = Logger()
_HOUR = 3600 * SECOND
#: Seconds between two searches.
INTERVAL = 60


def chips_left(view: SchedulerView, now: int) -> int:
    """How many chips may still be moved within this hour."""
    used = sum(one.chips for one in view.history.moves.moved.values() if one.at > now - _HOUR)
    return max(0, view.settings.move_chips_per_hour - used)


def is_wanted(view: SchedulerView, now: int) -> bool:
    """Whether it is worth looking for a plan: quick, and asked of the scheduler itself."""
    if view.settings.defragment != "auto" or view.history.moves.plans or not chips_left(view, now):
        return False
    if any(one.state == WAITING for one in view.history.moves.states.values()):
        return False
    return any(map(waits_for_room, view.jobs.values()))


def automatic_plan(
    view: SchedulerView, now: int, budgets: Sequence[DisruptionBudget] = ()
) -> MovePlan | None:
    """The first plan that keeps all limits and pays."""
    for plan in plans_for_heads(view, now, budgets):
        valued = with_saving(view, plan, now)
        if valued.saving is not None and valued.saving >= valued.cost:
            return replace(valued, approval=APPROVED, ttl=DEFAULT_TTL)
    return None


def automatic_permit(view: SchedulerView, now: int) -> Permit:
    """Who is moved without a question: jobs that say so, within the limits."""
    left, again = chips_left(view, now), view.settings.move_again_after * SECOND
    lately = {one.owner for one in view.history.moves.moved.values() if one.at > now - again}

    def permit(job: Job) -> Reason | None:
        if moved_as(job) in lately:
            return MOVED_LATELY(job=job.full_name, span=duration_text(again))
        chips = fewest_moved_chips(view, job)
        if chips > left:
            # Else the cheapest plan is one that is not carried out, and hides another that would be.
            return OVER_HOURLY_LIMIT(job=job.full_name, chips=chips, left=left)
        return only_willing(job)

    return permit


def plans_for_heads(
    view: SchedulerView, now: int, budgets: Sequence[DisruptionBudget] = ()
) -> list[MovePlan]:
    """Plans for the first job of each queue that keep the limits, whether or not they pay.

    All queues share the steps of a search, and one large gang may use them up: each time another queue is
    the first.
    """
    left, permit = chips_left(view, now), automatic_permit(view, now)
    result: list[MovePlan] = []
    with planning(Units(view, now, permit, budgets)) as planner:
        heads: dict[str, Job] = {}
        for job in planner.waiting(waits_for_room):
            heads.setdefault(job.queue, job)
        first = now // (INTERVAL * SECOND) % max(1, len(heads))
        for queue in (*sorted(heads)[first:], *sorted(heads)[:first]):
            plan = planner.find(heads[queue])
            if isinstance(plan, MovePlan) and 0 < plan.moved_chips <= left:
                result.append(plan)
    return result


# -- aside


async def no_budgets() -> Sequence[DisruptionBudget]:
    return ()


async def keep_moving(
    wanted: Callable[[], Awaitable[bool]],
    copy: Callable[..., Awaitable[Any]],
    create: Callable[[Mapping[str, Any]], Awaitable[object]],
    forked_queries: ForkedQueries,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    budgets: Callable[[], Awaitable[Sequence[DisruptionBudget]]] = no_budgets,
) -> None:
    """Look for a plan from time to time, for as long as the task lives. `copy`: see `ForkedQueries.answer`.

    `budgets` reads the disruption budgets of a cluster, and raises QuestionFailedError. The API server keeps
    them in any case; but a plan that fails at one restarts the jobs before it for nothing.
    """

    async def look() -> None:
        if not await wanted():
            return
        plan = json.loads(await forked_queries.answer(copy, _question(await budgets())))
        if plan is not None:
            _LOG.info("a MovePlan is created", plan=plan["metadata"]["name"])
            await create(plan)

    tolerated = (TooManyQuestionsError, QuestionFailedError)
    await repeat(INTERVAL, look, tolerated, "no moves were looked for", sleep)


def _question(budgets: Sequence[DisruptionBudget]) -> Callable[[Any, int], bytes]:
    def encoded(scheduler: Any, now: int) -> bytes:
        plan = automatic_plan(scheduler.view, now, budgets)
        return json.dumps(None if plan is None else move_plan_body(plan)).encode()

    return encoded
