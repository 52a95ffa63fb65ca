"""From counts per switch to a plan with nodes, states and health."""

from __future__ import annotations

from collections.abc import Sequence

from ringwise.placement.switches.states import SwitchState
from ringwise.placement.switches.view import PlanEntry, SwitchPlan, TopologyView
from ringwise.records import dataclass


@dataclass(frozen=True, slots=True)
class Draft:
    """A number of nodes of one switch, taken by one rule."""

    switch: int
    count: int
    mark: int
    taken_by: str


def fill(free: Sequence[int], switches: Sequence[int], needed: int, mark: int, taken_by: str) -> list[Draft]:
    """`needed` nodes from the switches, one after the other."""
    drafts: list[Draft] = []
    for switch in switches:
        count = min(needed, free[switch])
        if count:
            drafts.append(Draft(switch, count, mark, taken_by))
            needed -= count
    return drafts


def finish(view: TopologyView, drafts: Sequence[Draft], shared_before: int = 0) -> SwitchPlan:
    """The plan, with the state of each switch once the pods run (rule S2).

    `shared_before` counts shared switches that the job already uses and no draft names.
    """
    shared = shared_before + sum(1 for draft in drafts if draft.mark == SwitchState.SHARED)
    over_limit = shared > view.settings.shared_limit
    return SwitchPlan(tuple(entry_of(view, draft, over_limit) for draft in drafts))


def entry_of(view: TopologyView, draft: Draft, over_limit: bool, ranks: tuple[int, ...] = ()) -> PlanEntry:
    switch = view.switches[draft.switch]
    state, healthy = state_after(switch.facts.state, switch.facts.healthy, draft.mark, over_limit)
    nodes = switch.free[: draft.count]
    return PlanEntry(draft.switch, switch.name, nodes, draft.mark, state, healthy, draft.taken_by, ranks)


def state_after(before: SwitchState, healthy: bool, mark: int, over_limit: bool) -> tuple[SwitchState, bool]:
    """Rule S2: state and health of a switch after pods with this mark were placed under it."""
    if mark == 0:
        return before, healthy
    if mark == SwitchState.SHARED or before is SwitchState.SHARED:
        return SwitchState.SHARED, healthy and not over_limit
    return SwitchState.EXCLUSIVE, True
