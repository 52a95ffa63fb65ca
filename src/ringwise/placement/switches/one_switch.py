"""Jobs that stay under one switch: padding jobs (S3), single layer (S11) and `single-switch-first` (S3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ringwise.placement.reasons import ONE_SWITCH_TOO_SMALL
from ringwise.placement.switches.classes import SwitchClass
from ringwise.placement.switches.drafts import Draft, finish
from ringwise.placement.switches.holding import Holding, holding_of
from ringwise.placement.switches.states import SwitchFacts, SwitchState
from ringwise.placement.switches.view import SwitchPlan, SwitchRequest, TopologyView
from ringwise.reasons import Reason
from ringwise.records import dataclass

#: How many switches a reason names.
_NAMED = 8


@dataclass(slots=True)
class Groups:
    """The switches with free nodes by state, each in ConfigMap order."""

    idle: list[int]
    exclusive: list[int]
    healthy: list[int]
    unhealthy: list[int]

    @classmethod
    def of(cls, view: TopologyView, candidates: Iterable[int]) -> Groups:
        groups = cls([], [], [], [])
        for switch in candidates:
            facts = view.switches[switch].facts
            if facts.state is SwitchState.IDLE:
                groups.idle.append(switch)
            elif facts.state is SwitchState.EXCLUSIVE:
                groups.exclusive.append(switch)
            elif facts.healthy:
                groups.healthy.append(switch)
            else:
                groups.unhealthy.append(switch)
        return groups


def padding_switch(view: TopologyView, candidates: Iterable[int], holding: Holding) -> int | None:
    """Rule S3: the closest-fitting switch of the first group that has one that fits."""
    groups = Groups.of(view, candidates)
    for group in (groups.exclusive, groups.unhealthy, groups.healthy, groups.idle):
        chosen = holding.closest(group)
        if chosen is not None:
            return chosen
    return None


def under_one(view: TopologyView, switch: int, request: SwitchRequest, taken_by: str) -> SwitchPlan:
    """A whole job under one switch; it changes no state (rule S2)."""
    return finish(view, [Draft(switch, request.pods, 0, taken_by)], request.classes)


def plan_padding(view: TopologyView, request: SwitchRequest) -> SwitchPlan | Reason:
    """Rule S3: a padding job never crosses switches."""
    chosen = padding_switch(view, view.with_free(), holding_of(view, request))
    if chosen is None:
        return too_small(view, view.with_free(), request, "padding")
    return under_one(view, chosen, request, "padding: the closest-fitting switch")


def plan_single_layer(view: TopologyView, request: SwitchRequest) -> SwitchPlan | Reason:
    """Rule S11: the switch with the fewest free nodes that holds the job."""
    chosen = holding_of(view, request).closest(view.with_free())
    if chosen is None:
        return too_small(view, view.with_free(), request, "single-layer")
    return under_one(view, chosen, request, "single layer: the closest-fitting switch")


def plan_single_switch_first(view: TopologyView, request: SwitchRequest) -> SwitchPlan | None:
    """Rule S3, setting `single-switch-first`; None: the usual rules apply."""
    if not view.settings.single_switch_first or request.pods >= view.nodes_per_switch:
        return None
    chosen = padding_switch(view, _open_to(view, request.job_class), holding_of(view, request))
    return None if chosen is None else under_one(view, chosen, request, "single-switch-first")


def largest_under_one(view: TopologyView, request: SwitchRequest, job_class: SwitchClass) -> int:
    """The largest job that `single-switch-first` would place now; 0 without the setting."""
    if not view.settings.single_switch_first:
        return 0
    holding = holding_of(view, request)
    best = holding.best(_open_to(view, job_class))
    return min(holding.capacity(best), view.nodes_per_switch - 1)


def _open_to(view: TopologyView, job_class: SwitchClass) -> list[int]:
    """Rule S3: foundation models do not use unhealthy switches."""
    model = job_class is SwitchClass.FOUNDATION_MODEL
    return [s for s in view.with_free() if view.switches[s].facts.healthy or not model]


def too_small(
    view: TopologyView, candidates: Sequence[int], request: SwitchRequest, job_class: str
) -> Reason:
    holding = holding_of(view, request)
    best = holding.best(candidates)
    return ONE_SWITCH_TOO_SMALL(
        job_class=job_class,
        pods=request.pods,
        best=view.switches[best[0]].name if best else "none",
        best_free=holding.capacity(best),
        switches=lacking(holding, candidates, request.pods),
    )


def lacking(holding: Holding, candidates: Sequence[int], needed: int) -> tuple[str, ...]:
    """What each switch lacks, most free nodes first, for `why`."""
    view = holding.view
    lines: list[str] = []
    for switch in sorted(candidates, key=lambda s: (-view.free[s], s))[:_NAMED]:
        free, held = view.free[switch], holding.capacity((switch,))
        line = f"{view.switches[switch].name} ({describe(view.switches[switch].facts)}): {free} free"
        if held < free:
            line += f" for {held} of the pods"
        lines.append(line + (f", {needed - held} short of {needed}" if held < needed else ""))
    rest = len(view.switches) - len(lines)
    return (*lines, f"and {rest} more") if rest else tuple(lines)


def describe(facts: SwitchFacts) -> str:
    if facts.state is SwitchState.SHARED:
        return "healthy shared" if facts.healthy else "unhealthy shared"
    if facts.state is SwitchState.IDLE and facts.labeled:
        return "in use"
    return facts.state.word
