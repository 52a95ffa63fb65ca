"""Switch affinity 1.0 (rule S8): idle switches only, as two arrays of their free nodes.

The first array has a row per leaf switch. The second has a column per position
under the leaf; one node of each column makes a logical switch, whose nodes share
no uplink. Both are sorted longest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from ringwise.placement.reasons import LEFTOVER_TOO_SMALL, ROWS_TOO_FEW
from ringwise.placement.switches.classes import SwitchClass
from ringwise.placement.switches.one_switch import lacking, too_small, under_one
from ringwise.placement.switches.search import closest, largest
from ringwise.placement.switches.states import SwitchState
from ringwise.placement.switches.view import PlanEntry, SwitchPlan, SwitchRequest, TopologyView
from ringwise.reasons import Reason
from ringwise.records import dataclass

ONE_SWITCH = "one idle switch that holds the whole job"
COMPLETE_SWITCHES = "complete switches"
LOGICAL_SWITCHES = "logical switches: one node of each position"
LEFTOVER = "common job's leftover, most free first"


class FreeNode(NamedTuple):
    """A free node, its switch and its position under it."""

    switch: int
    position: int
    node: int


def is_idle(view: TopologyView, switch: int) -> bool:
    """Rule S8: no common or foundation-model job is under the switch, whatever its mark."""
    facts = view.switches[switch].facts
    return facts.state is SwitchState.IDLE and not facts.labelled


@dataclass(frozen=True, slots=True)
class TwoArrays:
    """The two arrays of document 004: free nodes of idle switches by leaf, and by position under the leaf."""

    by_leaf: list[int]
    by_position: list[list[FreeNode]]
    width: int

    @classmethod
    def of(cls, view: TopologyView) -> TwoArrays:
        idle = [s for s in view.with_free() if is_idle(view, s)]
        by_leaf = sorted(idle, key=lambda s: -view.free[s])
        columns: dict[int, list[FreeNode]] = {}
        for switch in by_leaf:
            for position, node in zip(
                view.switches[switch].positions, view.switches[switch].free, strict=True
            ):
                # A server beyond tor_count has no counterpart under other leaves.
                if position < view.nodes_per_switch:
                    columns.setdefault(position, []).append(FreeNode(switch, position, node))
        by_position = sorted((columns[p] for p in sorted(columns)), key=lambda column: -len(column))
        return cls(by_leaf, by_position, view.nodes_per_switch)

    def length(self, column: int) -> int:
        return len(self.by_position[column]) if column < len(self.by_position) else 0

    @property
    def complete_rows(self) -> int:
        return self.length(self.width - 1)

    def row(self, index: int, count: int) -> list[FreeNode]:
        return [column[index] for column in self.by_position[:count]]

    def rows_for(self, pods: int) -> list[list[FreeNode]] | None:
        """Rule S8 (c): logical switches for the job, or None when they do not suffice."""
        if pods < self.width:
            # Taking the last row that holds the job leaves the longer rows to larger jobs.
            holding = self.length(pods - 1)
            return [self.row(holding - 1, pods)] if holding else None
        full, rest = divmod(pods - 1, self.width)
        if self.complete_rows < full or self.length(rest) < full + 1:
            return None
        return [*(self.row(i, self.width) for i in range(full)), self.row(full, rest + 1)]

    @property
    def logical_capacity(self) -> int:
        """The largest job that logical switches hold now."""
        complete = self.complete_rows
        return complete * self.width + sum(1 for column in self.by_position if len(column) > complete)


def plan_version1(view: TopologyView, request: SwitchRequest) -> SwitchPlan | Reason:
    """Rule S8: one switch, else complete switches, else logical switches, else (common jobs) the leftover."""
    pods = request.pods
    idle = [s for s in view.with_free() if is_idle(view, s)]
    one = closest(view.free, idle, pods)
    if one is not None:
        return under_one(view, one, pods, ONE_SWITCH)
    if request.job_class is SwitchClass.PADDING:
        return too_small(view, idle, request, "padding")
    by_leaf = sorted(idle, key=lambda s: -view.free[s])
    complete = [s for s in by_leaf if view.free[s] >= view.nodes_per_switch]
    if sum(view.free[s] for s in complete) >= pods:
        return _plan(view, [(COMPLETE_SWITCHES, _take(view, complete, pods, set()))])
    arrays = TwoArrays.of(view)
    rows = arrays.rows_for(pods)
    if rows is not None:
        return _plan(view, [(LOGICAL_SWITCHES, row) for row in rows])
    if request.job_class is SwitchClass.COMMON:
        return _with_leftover(view, arrays, request)
    return _rows_too_few(view, arrays, complete, request)


def _take(view: TopologyView, switches: Sequence[int], needed: int, taken: set[int]) -> list[FreeNode]:
    places: list[FreeNode] = []
    for switch in switches:
        if len(places) >= needed:
            break
        offer = view.switches[switch]
        places.extend(
            FreeNode(switch, position, node)
            for position, node in zip(offer.positions, offer.free, strict=True)
            if node not in taken
        )
    return places[:needed]


def _with_leftover(view: TopologyView, arrays: TwoArrays, request: SwitchRequest) -> SwitchPlan | Reason:
    """Rule S8, common jobs: complete logical rows, the rest under idle switches, then under others.

    Switches that carry a cross-switch foundation-model job are left out.
    """
    rows = [arrays.row(index, arrays.width) for index in range(arrays.complete_rows)]
    taken = {place.node for row in rows for place in row}
    left = dict.fromkeys(range(len(view.switches)), 0)
    for switch in view.with_free():
        left[switch] = view.free[switch]
    for row in rows:
        for place in row:
            left[place.switch] -= 1
    needed = request.pods - len(taken)
    idle = sorted(arrays.by_leaf, key=lambda s: (-left[s], s))
    others = sorted(
        (s for s in view.with_free() if not is_idle(view, s) and not view.switches[s].facts.cross_model),
        key=lambda s: (-left[s], s),
    )
    leftover = _take(view, [*idle, *others], needed, taken)
    if len(leftover) == needed:
        return _plan(view, [*((LOGICAL_SWITCHES, row) for row in rows), (LEFTOVER, leftover)])
    idle_free = sum(view.free[s] for s in idle)
    other_free = sum(view.free[s] for s in others)
    return LEFTOVER_TOO_SMALL(
        pods=request.pods,
        idle=idle_free,
        others=other_free,
        missing=request.pods - idle_free - other_free,
        largest=idle_free + other_free,
        switches=lacking(view, view.with_free(), request.pods),
    )


def _plan(view: TopologyView, parts: Sequence[tuple[str, Sequence[FreeNode]]]) -> SwitchPlan:
    """Ranks row by row, and inside a row switch by switch, so that neighbouring ranks share a switch."""
    entries: list[PlanEntry] = []
    for taken_by, places in parts:
        order = {switch: number for number, switch in enumerate(dict.fromkeys(p.switch for p in places))}
        if taken_by == LOGICAL_SWITCHES:
            # A row lists its leaves longest first, and so do its ranks.
            by_length = sorted(order, key=lambda s: (-view.free[s], s))
            order = {switch: number for number, switch in enumerate(by_length)}
        ordered = sorted(places, key=lambda place: (order[place.switch], place.position))
        for switch, group in groupby(ordered, key=lambda place: place.switch):
            offer = view.switches[switch]
            nodes = tuple([place.node for place in group])
            entries.append(
                PlanEntry(switch, offer.name, nodes, 0, offer.facts.state, offer.facts.healthy, taken_by)
            )
    return SwitchPlan(tuple(entries))


def _rows_too_few(
    view: TopologyView, arrays: TwoArrays, complete: Sequence[int], request: SwitchRequest
) -> Reason:
    best = largest(view.free, sorted(arrays.by_leaf))
    best_free = 0 if best is None else view.free[best]
    complete_nodes = sum(view.free[s] for s in complete)
    reason = ROWS_TOO_FEW(
        pods=request.pods,
        best="none" if best is None else view.switches[best].name,
        best_free=best_free,
        complete=len(complete),
        width=view.nodes_per_switch,
        complete_nodes=complete_nodes,
        logical_nodes=arrays.logical_capacity,
        largest=max(best_free, complete_nodes, arrays.logical_capacity),
        switches=lacking(view, arrays.by_leaf, request.pods),
    )
    if isinstance(_with_leftover(view, arrays, request), SwitchPlan):
        return reason.with_cures(["as a common job (tor-affinity: normal-schema) it would be placed now"])
    return reason
