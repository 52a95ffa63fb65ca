"""A plan of moves (M1) of a cluster, sent to its scheduler and followed to its end.

A cluster gets a plan as it gets isolations: in a ConfigMap of kube-system that the leading scheduler watches.
What became of it stands in the record that the scheduler keeps for the next leader (F1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ringwise.apps.moves import progress_of, result_of
from ringwise.kubeclient.client import PAGE_SIZE, Client, IgnoredStatus, run
from ringwise.kubeclient.clock import Clock, RealClock
from ringwise.kubeclient.config import Access
from ringwise.kubeclient.list_watch import page_reader
from ringwise.kubeclient.resources import CONFIG_MAPS
from ringwise.manifests.config_maps.move_plan import move_plan_data
from ringwise.manifests.text.wire import ConfigMapWire
from ringwise.messages.move_plan import MovePlan
from ringwise.scheduler.cache.entries import UNREADABLE, decode
from ringwise.scheduler.cache.record_tables import read_tables, table_of
from ringwise.scheduler.defragment.live_plan import ENDED_MOVES, MOVES, EndedPlan, LivePlan
from ringwise.views.documents.changes import AppliedPlanFields
from ringwise.wellknown import (
    KUBE_SYSTEM,
    MOVE_PLAN_CONFIG_MAP,
    RESCHEDULING_CONFIG_MAP,
    VOLCANO_SYSTEM,
)

#: Seconds between two looks at a plan, and how long a scheduler may take to accept it.
POLL_SECONDS, ACCEPT_SECONDS = 2.0, 120.0
NOT_TAKEN = "no scheduler has taken the plan: does one of this version run, with your time?"
_TABLES = (ENDED_MOVES, MOVES)
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

    async def connected(client: Client) -> AppliedPlanFields:
        await send(client, replace(plan, made=now))
        return await follow(client, plan, tell=tell)

    return run(access, connected)


async def send(client: Client, plan: MovePlan) -> None:
    await client.apply(CONFIG_MAPS, KUBE_SYSTEM, MOVE_PLAN_CONFIG_MAP, {"data": move_plan_data(plan)})


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
    forbidden = True
    with IgnoredStatus(403):
        found = await client.find(CONFIG_MAPS, VOLCANO_SYSTEM, RESCHEDULING_CONFIG_MAP, ConfigMapWire)
        if found is not None:
            return state_in(found.data or {}, plan)
        forbidden = False
    return await _state_elsewhere(client, plan, forbidden=forbidden)


async def _state_elsewhere(
    client: Client, plan: str, *, forbidden: bool
) -> tuple[EndedPlan | None, LivePlan | None]:
    """A cluster without volcano-system has the record in the namespace of the scheduler, wherever that is.

    Anybody may call a ConfigMap so. One that does not know the plan says nothing.
    """
    with IgnoredStatus(403):
        params = {"fieldSelector": f"metadata.name={RESCHEDULING_CONFIG_MAP}"}
        async for page in client.pages(CONFIG_MAPS.path(None), params, PAGE_SIZE, page_reader(ConfigMapWire)):
            for one in page.items or ():
                try:
                    state = state_in(one.data or {}, plan)
                except NoSchedulerAnswersError:
                    continue
                if any(state):
                    return state
        forbidden = False
    if forbidden:
        raise NoSchedulerAnswersError(_FORBIDDEN)
    return None, None


def state_in(data: Mapping[str, str | None], plan: str) -> tuple[EndedPlan | None, LivePlan | None]:
    """Of a plan, in the record of the scheduler. Raises NoSchedulerAnswersError where that is no record."""
    tables, problems = read_tables(
        {key: text for key, text in data.items() if text and table_of(key) in _TABLES}
    )
    for key, problem in problems.items():
        raise NoSchedulerAnswersError(f"{_NOT_READ}: {key} of {_RECORD}: {problem}")
    ended, live = (tables.get(name, {}).get(plan) for name in _TABLES)
    try:
        return (
            None if ended is None else decode(EndedPlan, ended),
            None if live is None else decode(LivePlan, live),
        )
    except UNREADABLE:
        raise NoSchedulerAnswersError(f"{_NOT_READ}: {_RECORD} is not a record of a scheduler") from None
