"""From counts per switch to a plan with nodes, states and health."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ringwise.placement.matching import PodClasses
from ringwise.placement.node_groups import PickGroup, assign_in_groups
from ringwise.placement.switches.holding import Holding
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


def fill(holding: Holding, switches: Iterable[int], mark: int, taken_by: str) -> list[Draft]:
    """Pods that are left under the switches, one after the other."""
    drafts: list[Draft] = []
    for switch in switches:
        if not holding.unmet:
            break
        count = holding.take(switch)
        if count:
            drafts.append(Draft(switch, count, mark, taken_by))
    return drafts


def finish(view: TopologyView, drafts: Sequence[Draft], classes: PodClasses | None) -> SwitchPlan:
    """The plan, with the state of each switch once the pods run (rule S2)."""
    shared = sum(1 for draft in drafts if draft.mark == SwitchState.SHARED)
    over_limit = shared > view.settings.shared_limit
    groups = [(view.switches[draft.switch].free, draft.count) for draft in drafts]
    chosen: list[tuple[tuple[int, ...], tuple[int, ...]]] = [(free[:count], ()) for free, count in groups]
    if classes is not None:
        chosen = nodes_of_groups(groups, classes)
    return SwitchPlan(
        tuple(
            entry_of(view, draft, over_limit, nodes, ranks)
            for draft, (nodes, ranks) in zip(drafts, chosen, strict=True)
        )
    )


def nodes_of_groups(
    groups: Sequence[tuple[Sequence[int], int]], classes: PodClasses
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Rule S13: the nodes and ranks of each group, given its nodes in pick order and its number of pods."""
    ranks = sorted(classes.of_rank)
    chosen = assign_in_groups(
        classes.of_ranks(ranks),
        [PickGroup(classes.masks(nodes), count) for nodes, count in groups],
        classes.spend,
    )
    if chosen is None:
        raise ValueError("a group does not hold the pods that it was counted for")
    placed: list[tuple[list[int], list[int]]] = [([], []) for _ in groups]
    for rank, place in zip(ranks, chosen, strict=True):
        if place is not None:
            group, position = place
            placed[group][0].append(groups[group][0][position])
            placed[group][1].append(rank)
    return [(tuple(nodes), tuple(members)) for nodes, members in placed]


def entry_of(
    view: TopologyView, draft: Draft, over_limit: bool, nodes: tuple[int, ...], ranks: tuple[int, ...] = ()
) -> PlanEntry:
    switch = view.switches[draft.switch]
    state, healthy = state_after(switch.facts.state, switch.facts.healthy, draft.mark, over_limit)
    return PlanEntry(draft.switch, switch.name, nodes, draft.mark, state, healthy, draft.taken_by, ranks)


def state_after(before: SwitchState, healthy: bool, mark: int, over_limit: bool) -> tuple[SwitchState, bool]:
    """Rule S2: state and health of a switch after pods with this mark were placed under it."""
    if mark == 0:
        return before, healthy
    if mark == SwitchState.SHARED or before is SwitchState.SHARED:
        return SwitchState.SHARED, healthy and not over_limit
    return SwitchState.EXCLUSIVE, True
