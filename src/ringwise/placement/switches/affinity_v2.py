"""Switch affinity 2.0: the exclusive pass (S6), the shared rules (S4, S5), the common job's fallback (S7)."""

from __future__ import annotations

from collections.abc import Sequence

from ringwise.placement.reasons import COMMON_FULL, SHARED_LIMIT
from ringwise.placement.switches.classes import SwitchClass
from ringwise.placement.switches.drafts import Draft, fill, finish
from ringwise.placement.switches.holding import Holding, holding_of
from ringwise.placement.switches.one_switch import (
    Groups,
    lacking,
    largest_under_one,
    plan_padding,
    plan_single_switch_first,
)
from ringwise.placement.switches.states import SwitchState
from ringwise.placement.switches.view import SwitchPlan, SwitchRequest, TopologyView
from ringwise.reasons import Reason

EXCLUSIVE_PASS = "exclusive pass: all free nodes of an idle switch"
SHARED_RULE = "shared rule: healthy shared, closest to the remainder"
BECOMES_SHARED = "shared rule: closest to the remainder, becomes shared"
COMMON_FALLBACK = "common job's fallback"


def plan_version2(view: TopologyView, request: SwitchRequest) -> SwitchPlan | Reason:
    """Rules S3 to S7: padding jobs under one switch; foundation-model and common jobs by their passes."""
    if request.job_class is SwitchClass.PADDING:
        return plan_padding(view, request)
    one_switch = plan_single_switch_first(view, request)
    if one_switch is not None:
        return one_switch
    groups = Groups.of(view, view.with_free())
    drafts = foundation_model_drafts(holding_of(view, request), groups)
    if drafts is None and request.job_class is SwitchClass.COMMON:
        drafts = common_fallback(holding_of(view, request), groups)
    if drafts is None:
        return _too_full(view, groups, request)
    return finish(view, drafts, request.classes)


def foundation_model_drafts(holding: Holding, groups: Groups) -> list[Draft] | None:
    """Rule S6: idle switches used up in descending order, the remainder by the shared rules.

    A switch is used up when all its free nodes are taken or pods are left over (S13).
    """
    view = holding.view
    drafts: list[Draft] = []
    used: set[int] = set()
    for switch in sorted(groups.idle, key=lambda s: -view.free[s]):
        if holding.holds(switch) and holding.unmet < view.free[switch]:
            break
        drafts += fill(holding, (switch,), SwitchState.EXCLUSIVE, EXCLUSIVE_PASS)
        used.add(switch)
    if not holding.unmet:
        return drafts
    idle = [switch for switch in groups.idle if switch not in used]
    limit = view.settings.shared_limit
    shared = shared_rules(holding, groups.healthy, idle, groups.exclusive, limit)
    return None if shared is None else drafts + shared


def shared_rules(
    holding: Holding,
    healthy: Sequence[int],
    idle: Sequence[int],
    exclusive: Sequence[int],
    limit: int,
) -> list[Draft] | None:
    """Rules S4 and S5: healthy shared switches closest to what is left, else one that becomes shared."""
    if limit < 1:
        return None
    chosen = holding.closest_one_or_two(healthy, limit)
    if chosen is not None:
        return fill(holding, chosen, SwitchState.SHARED, SHARED_RULE)
    converted = holding.closest([*idle, *convertible(holding.view, exclusive)])
    if converted is None:
        return None
    return fill(holding, (converted,), SwitchState.SHARED, BECOMES_SHARED)


def convertible(view: TopologyView, exclusive: Sequence[int]) -> list[int]:
    """Rule S5: exclusive switches whose owner stays within the limit when they become shared."""
    limit = view.settings.shared_limit
    if limit < 2:
        return []
    return [s for s in exclusive if view.switches[s].facts.owner_shared + 1 <= limit]


def common_fallback(holding: Holding, groups: Groups) -> list[Draft] | None:
    """Rule S7: idle switches, then unhealthy shared ones, then healthy ones without a foundation model."""
    view = holding.view
    idle = sorted(groups.idle, key=lambda s: -view.free[s])
    drafts = fill(holding, idle, SwitchState.EXCLUSIVE, EXCLUSIVE_PASS)
    for group in (groups.unhealthy, _without_model(view, groups.healthy)):
        # The largest is taken while none holds what is left, so the list is sorted once.
        waiting = sorted(group, key=lambda s: -view.free[s])
        for place, largest_left in enumerate(waiting):
            if not holding.unmet:
                break
            # Where the largest has too few free nodes, so have the others.
            enough = view.free[largest_left] >= holding.unmet
            chosen = holding.closest(waiting[place:]) if enough else None
            taken = largest_left if chosen is None else chosen
            drafts += fill(holding, (taken,), SwitchState.SHARED, COMMON_FALLBACK)
    return None if holding.unmet else drafts


def _without_model(view: TopologyView, switches: Sequence[int]) -> list[int]:
    return [s for s in switches if view.switches[s].facts.only_common]


def _too_full(view: TopologyView, groups: Groups, request: SwitchRequest) -> Reason:
    """The reason with its numbers. At this point all idle switches were used up."""
    limit = view.settings.shared_limit
    holding = holding_of(view, request)
    fill(holding, groups.idle, SwitchState.EXCLUSIVE, EXCLUSIVE_PASS)
    idle = request.pods - holding.unmet
    best = max(
        holding.best(groups.healthy, limit),
        holding.best(convertible(view, groups.exclusive)),
        key=holding.capacity,
    )
    best_free = holding.capacity(best)
    foundation = max(idle + best_free, largest_under_one(view, request, request.job_class))
    without_model = _without_model(view, groups.healthy)
    unhealthy = holding.capacity(groups.unhealthy)
    healthy = holding.capacity([*groups.unhealthy, *without_model]) - unhealthy
    common = max(foundation, idle + unhealthy + healthy, largest_under_one(view, request, SwitchClass.COMMON))
    lines = lacking(holding_of(view, request), view.with_free(), holding.unmet)
    if request.job_class is SwitchClass.COMMON:
        return COMMON_FULL(
            pods=request.pods,
            foundation=foundation,
            fallback=idle + unhealthy + healthy,
            idle=idle,
            unhealthy=unhealthy,
            healthy=healthy,
            missing=request.pods - common,
            largest=common,
            switches=lines,
        )
    reason = SHARED_LIMIT(
        pods=request.pods,
        idle=idle,
        left=request.pods - idle,
        limit=limit,
        best=tuple(view.switches[s].name for s in best),
        best_free=best_free,
        missing=request.pods - foundation,
        largest=foundation,
        switches=lines,
    )
    if request.pods <= common:
        return reason.with_fixes(["as a common job (tor-affinity: normal-schema) it would be placed now"])
    return reason
