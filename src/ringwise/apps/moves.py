"""What a plan of moves (M1) saves, and what became of it."""

from __future__ import annotations

from dataclasses import replace

from ringwise.grammar import counted
from ringwise.messages.move_plan import MovePlan
from ringwise.scheduler.defragment.live_plan import LivePlan
from ringwise.scheduler.explain.why import expected_start
from ringwise.scheduler.view import SchedulerView


def with_saving(view: SchedulerView, plan: MovePlan, now: int) -> MovePlan:
    """With what it saves: the waiting job's chips times how much sooner it starts, where that is known."""
    job = view.jobs.get(plan.job)
    start = None if job is None else expected_start(view, job, now)
    if job is None or start is None or start.earliest is None:
        return plan
    chips = sum(len(pod.chips) for pod in plan.room)
    return replace(plan, saving=chips * max(0, start.earliest - now))


def progress_of(live: LivePlan | None) -> str:
    """One line for whoever waits."""
    if live is None:
        return "waiting for the scheduler"
    pods = [pod for _, _, pod in live.moving_pods()]
    return f"{sum(pod.gone for pod in pods)} of {counted(pods, 'pod')} gone"
