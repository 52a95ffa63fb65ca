"""Moves on demand (M1): plans for jobs that wait for holes, sent to the scheduler, and what became of them.

A cluster gets a plan as it gets isolations: in a ConfigMap of kube-system that the leading scheduler watches.
What became of it stands in the record that the scheduler keeps for the next leader (F1).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace

from ringwise.kubeclient.client import ApiError, Client
from ringwise.kubeclient.clock import Clock, RealClock
from ringwise.kubeclient.config import Access
from ringwise.kubeclient.resources import CONFIG_MAPS
from ringwise.manifests.config_maps.move_plan import move_plan_data
from ringwise.manifests.text.wire import ConfigMapWire
from ringwise.messages.move_plan import MovePlan
from ringwise.scheduler.defragment.live_plan import EndedPlan, LivePlan, read_ended, read_live
from ringwise.scheduler.explain.why import expected_start
from ringwise.scheduler.view import SchedulerView
from ringwise.views.documents.changes import AppliedPlanFields
from ringwise.wellknown import (
    KUBE_SYSTEM,
    MOVE_PLAN_CONFIG_MAP,
    MOVES_KEY,
    RESCHEDULING_CONFIG_MAP,
    VOLCANO_SYSTEM,
)

#: Seconds between two looks at a plan, and how long a scheduler may take to accept it.
POLL_SECONDS, ACCEPT_SECONDS = 2.0, 120.0
NOT_TAKEN = "no scheduler has taken the plan: does one of this version run?"


# -- plans


def with_saving(view: SchedulerView, plan: MovePlan, now: int) -> MovePlan:
    """With what it saves: the waiting job's chips times how much sooner it starts, where that is known."""
    job = view.jobs.get(plan.job)
    start = None if job is None else expected_start(view, job, now)
    if job is None or start is None or start.earliest is None:
        return plan
    chips = sum(len(pod.chips) for pod in plan.room)
    return replace(plan, saving=chips * max(0, start.earliest - now))


# -- what became of them


def result_of(ended: EndedPlan) -> AppliedPlanFields:
    return {
        "id": ended.id,
        "job": ended.job,
        "moved": list(ended.moved),
        "outcome": ended.outcome,
        "why": ended.why,
    }


def progress_of(live: LivePlan | None) -> str:
    """One line for whoever waits."""
    if live is None:
        return "waiting for the scheduler"
    pods = [pod for _, _, pod in live.moving_pods()]
    return f"{sum(pod.gone for pod in pods)} of {len(pods)} pods are gone"


# -- a cluster


class SchedulerIsDeafError(Exception):
    """Nobody takes the plan, or says what becomes of it; one line."""


def carry_out(
    access: Access, plan: MovePlan, now: int, tell: Callable[[str], object] = lambda line: None
) -> AppliedPlanFields:
    """Have the leading scheduler carry a plan out, to its end. Raises SchedulerIsDeafError and ApiError."""

    async def connected() -> AppliedPlanFields:
        async with Client(access, component="cli") as client:
            await send(client, replace(plan, made=now))
            return await follow(client, plan, tell=tell)

    return asyncio.run(connected())


async def send(client: Client, plan: MovePlan) -> None:
    data = move_plan_data(plan)
    try:
        await client.patch(CONFIG_MAPS, KUBE_SYSTEM, MOVE_PLAN_CONFIG_MAP, {"data": data})
    except ApiError as error:
        if error.status != 404:
            raise
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"namespace": KUBE_SYSTEM, "name": MOVE_PLAN_CONFIG_MAP},
            "data": data,
        }
        await client.create(CONFIG_MAPS, KUBE_SYSTEM, body)


async def follow(
    client: Client,
    plan: MovePlan,
    *,
    clock: Clock | None = None,
    tell: Callable[[str], object] = lambda line: None,
) -> AppliedPlanFields:
    clock = clock or RealClock()
    began, taken = clock.monotonic(), False
    while True:
        ended, live = await _state_of(client, plan.id)
        if ended is not None:
            return result_of(ended)
        taken = taken or live is not None
        if not taken and clock.monotonic() - began > ACCEPT_SECONDS:
            raise SchedulerIsDeafError(NOT_TAKEN)
        tell(progress_of(live))
        await clock.sleep(POLL_SECONDS)


async def _state_of(client: Client, plan: str) -> tuple[EndedPlan | None, LivePlan | None]:
    try:
        found = await client.get(CONFIG_MAPS, VOLCANO_SYSTEM, RESCHEDULING_CONFIG_MAP, ConfigMapWire)
    except ApiError as error:
        if error.status == 403:
            record = f"get on ConfigMap {VOLCANO_SYSTEM}/{RESCHEDULING_CONFIG_MAP}"
            raise SchedulerIsDeafError(
                f"the plan is sent, and what becomes of it cannot be read without {record}"
            ) from None
        if error.status != 404:
            raise
        return None, None
    return state_in((found.data or {}).get(MOVES_KEY) or "", plan)


def state_in(text: str, plan: str) -> tuple[EndedPlan | None, LivePlan | None]:
    """Of a plan, in the record of the scheduler."""
    record = json.loads(text) if text else {}
    ended = next((one for one in record.get("ended", ()) if one["id"] == plan), None)
    live = next((one for one in record.get("plans", ()) if one["plan"]["id"] == plan), None)
    return (None if ended is None else read_ended(ended)), (None if live is None else read_live(live))
