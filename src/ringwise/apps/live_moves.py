"""A MovePlan of a cluster, followed to its end by its conditions."""

from __future__ import annotations

from collections.abc import Callable

from ringwise.kubeclient.client import Client, run
from ringwise.kubeclient.clock import Clock, RealClock
from ringwise.kubeclient.config import Access
from ringwise.kubeclient.resources import Resource
from ringwise.manifests.objects.custom_resources import CustomResourceWire
from ringwise.manifests.objects.move_plans import move_plan_from_wire
from ringwise.manifests.text.errors import Findings
from ringwise.messages.move_plan import MovePlan
from ringwise.wellknown import MOVE_PLANS

#: Seconds between two looks at a plan, and how long a scheduler may take to accept it.
POLL_SECONDS, ACCEPT_SECONDS = 2.0, 120.0
NOT_TAKEN = "no scheduler has taken the plan: does one of this version run?"


class NotFollowedError(Exception):
    """The end of a plan is not known; one line."""


def follow(access: Access, name: str, report: Callable[[str], object] = lambda line: None) -> MovePlan:
    """Return a plan that has finished. Raises NotFollowedError and ApiError."""
    return run(access, lambda client: follow_plan(client, name, report=report))


async def follow_plan(
    client: Client,
    name: str,
    *,
    clock: Clock | None = None,
    report: Callable[[str], object] = lambda line: None,
) -> MovePlan:
    clock = clock or RealClock()
    began = clock.monotonic()
    while True:
        wire = await client.find(Resource(*MOVE_PLANS), None, name, CustomResourceWire)
        if wire is None:
            raise NotFollowedError(f"MovePlan {name} was deleted")
        plan = move_plan_from_wire(wire, Findings(MOVE_PLANS.kind))
        if plan.finished:
            return plan
        if not plan.state and clock.monotonic() - began > ACCEPT_SECONDS:
            raise NotFollowedError(NOT_TAKEN)
        report(plan.why or "waiting for the scheduler")
        await clock.sleep(POLL_SECONDS)
