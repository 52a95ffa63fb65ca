"""A plan of moves (M1) of a cluster, sent to its scheduler and followed to its end.

A cluster gets a plan as it gets isolations: in a ConfigMap of kube-system that the leading scheduler watches.
What became of it stands in the record that the scheduler keeps for the next leader (F1).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from ringwise.apps.moves import progress_of, result_of
from ringwise.kubeclient.client import PAGE_SIZE, ApiError, Client
from ringwise.kubeclient.clock import Clock, RealClock
from ringwise.kubeclient.config import Access
from ringwise.kubeclient.list_watch import page_reader
from ringwise.kubeclient.resources import CONFIG_MAPS
from ringwise.manifests.config_maps.move_plan import move_plan_data
from ringwise.manifests.text.wire import ConfigMapWire
from ringwise.messages.move_plan import MovePlan
from ringwise.scheduler.defragment.live_plan import EndedPlan, LivePlan, read_ended, read_live
from ringwise.versions import read_record
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
NOT_TAKEN = "no scheduler has taken the plan: does one of this version run, with your time?"
_RECORD = f"ConfigMap {VOLCANO_SYSTEM}/{RESCHEDULING_CONFIG_MAP}"
_NOT_READ = "the plan is sent, and what becomes of it cannot be read"
NOT_KNOWN = f"what became of the plan does not stand in {_RECORD} any more; the events of the jobs say it"

_FORBIDDEN = (
    f"the plan is sent, and what becomes of it cannot be read without get on {_RECORD}, or, where the "
    "scheduler has its record in a namespace of its own, list on ConfigMaps"
)


class NoSchedulerAnswersError(Exception):
    """Nobody takes the plan, or says what becomes of it; one line."""


def carry_out(
    access: Access, plan: MovePlan, now: int, tell: Callable[[str], object] = lambda line: None
) -> AppliedPlanFields:
    """Have the leading scheduler carry out a plan. Raises NoSchedulerAnswersError and ApiError."""

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
        if taken and live is None:
            raise NoSchedulerAnswersError(NOT_KNOWN)
        taken = live is not None
        if not taken and clock.monotonic() - began > ACCEPT_SECONDS:
            raise NoSchedulerAnswersError(NOT_TAKEN)
        tell(progress_of(live))
        await clock.sleep(POLL_SECONDS)


async def _state_of(client: Client, plan: str) -> tuple[EndedPlan | None, LivePlan | None]:
    try:
        found = await client.get(CONFIG_MAPS, VOLCANO_SYSTEM, RESCHEDULING_CONFIG_MAP, ConfigMapWire)
    except ApiError as error:
        if error.status not in (403, 404):
            raise
        return await _state_elsewhere(client, plan, forbidden=error.status == 403)
    return state_in((found.data or {}).get(MOVES_KEY) or "", plan)


async def _state_elsewhere(
    client: Client, plan: str, *, forbidden: bool
) -> tuple[EndedPlan | None, LivePlan | None]:
    """A cluster without volcano-system has the record in the namespace of the scheduler, wherever that is.

    Anybody may call a ConfigMap so. One that does not know the plan says nothing.
    """
    try:
        params = {"fieldSelector": f"metadata.name={RESCHEDULING_CONFIG_MAP}"}
        async for page in client.pages(CONFIG_MAPS.path(None), params, PAGE_SIZE, page_reader(ConfigMapWire)):
            for one in page.items or ():
                try:
                    state = state_in((one.data or {}).get(MOVES_KEY) or "", plan)
                except NoSchedulerAnswersError:
                    continue
                if any(state):
                    return state
    except ApiError as error:
        if error.status != 403:
            raise
        if forbidden:
            raise NoSchedulerAnswersError(_FORBIDDEN) from None
    return None, None


def state_in(text: str, plan: str) -> tuple[EndedPlan | None, LivePlan | None]:
    """Of a plan, in the record of the scheduler. Raises NoSchedulerAnswersError where that is no record."""
    record, problem = read_record(text)
    if problem:
        raise NoSchedulerAnswersError(f"{_NOT_READ}: {MOVES_KEY} of {_RECORD}: {problem}")
    try:
        ended = next((one for one in record.get("ended", ()) if one["id"] == plan), None)
        live = next((one for one in record.get("plans", ()) if one["plan"]["id"] == plan), None)
        return (None if ended is None else read_ended(ended)), (None if live is None else read_live(live))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        raise NoSchedulerAnswersError(
            f"{_NOT_READ}: {MOVES_KEY} of {_RECORD} is not a record of a scheduler"
        ) from None
