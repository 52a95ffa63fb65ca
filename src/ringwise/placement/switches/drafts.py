"""From counts per switch to a plan with nodes, states and health."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ringwise.placement.switches.states import State
from ringwise.placement.switches.view import ClusterView, PlanEntry, SwitchPlan


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


def finish(view: ClusterView, drafts: Sequence[Draft], shared_before: int = 0) -> SwitchPlan:
    """The plan, with the state each switch has once the pods run.

    `shared_before` are shared switches the job uses already and the drafts do not name.
    """
    shared = shared_before + sum(1 for draft in drafts if draft.mark == State.SHARED)
    over_limit = shared > view.settings.shared_limit
    return SwitchPlan(tuple(entry_of(view, draft, over_limit) for draft in drafts))


def entry_of(view: ClusterView, draft: Draft, over_limit: bool, ranks: tuple[int, ...] = ()) -> PlanEntry:
    switch = view.switches[draft.switch]
    state, healthy = state_after(switch.facts.state, switch.facts.healthy, draft.mark, over_limit)
    nodes = switch.free[: draft.count]
    return PlanEntry(draft.switch, switch.name, nodes, draft.mark, state, healthy, draft.taken_by, ranks)


def state_after(before: State, healthy: bool, mark: int, over_limit: bool) -> tuple[State, bool]:
    if mark == 0:
        return before, healthy
    if mark == State.SHARED or before is State.SHARED:
        return State.SHARED, healthy and not over_limit
    return State.EXCLUSIVE, True
