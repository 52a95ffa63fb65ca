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
from ringwise.placement.switches.drafts import Draft, entry_of, fill, nodes_of_groups
from ringwise.placement.switches.holding import MatchedHolding, holding_of
from ringwise.placement.switches.one_switch import lacking, too_small, under_one
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


def free_nodes(view: TopologyView, switch: int) -> list[FreeNode]:
    """The free nodes of a switch in array order."""
    offer = view.switches[switch]
    return [
        FreeNode(switch, position, node) for position, node in zip(offer.positions, offer.free, strict=True)
    ]


def is_idle(view: TopologyView, switch: int) -> bool:
    """Rule S8: no common or foundation-model job is under the switch, whatever its mark."""
    facts = view.switches[switch].facts
    return facts.state is SwitchState.IDLE and not facts.labeled


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
            for place in free_nodes(view, switch):
                # A server beyond tor_count has no counterpart under other leaves.
                if place.position < view.nodes_per_switch:
                    columns.setdefault(place.position, []).append(place)
        by_position = sorted((columns[p] for p in sorted(columns)), key=lambda column: -len(column))
        return cls(by_leaf, by_position, view.nodes_per_switch)

    def length(self, column: int) -> int:
        return len(self.by_position[column]) if column < len(self.by_position) else 0

    @property
    def complete_rows(self) -> int:
        return self.length(self.width - 1)

    def all_rows(self) -> list[list[FreeNode]]:
        """Every logical switch, longest first: the nodes of each in column order."""
        longest = self.length(0)
        return [[column[i] for column in self.by_position if len(column) > i] for i in range(longest)]

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
    idle = [s for s in view.with_free() if is_idle(view, s)]
    holding = holding_of(view, request)
    one = holding.closest(idle)
    if one is not None:
        return under_one(view, one, request, ONE_SWITCH)
    if request.job_class is SwitchClass.PADDING:
        return too_small(view, idle, request, "padding")
    by_leaf = sorted(idle, key=lambda s: -view.free[s])
    complete = [s for s in by_leaf if view.free[s] >= view.nodes_per_switch]
    if holding.holds(*complete):
        drafts = fill(holding, complete, 0, COMPLETE_SWITCHES)
        parts = [_Row(draft.taken_by, free_nodes(view, draft.switch), draft.count) for draft in drafts]
        return _plan(view, parts, request)
    arrays = TwoArrays.of(view)
    rows = arrays.rows_for(request.pods) if request.classes is None else _matched_rows(view, arrays, request)
    if rows is not None:
        return _plan(view, [_Row(LOGICAL_SWITCHES, row, len(row)) for row in rows], request)
    if request.job_class is SwitchClass.COMMON:
        return _with_leftover(view, arrays, request)
    return _rows_too_few(view, arrays, complete, request)


@dataclass(frozen=True, slots=True)
class _Row:
    """Nodes in pick order, of a switch or of a logical switch, and how many of them get a pod."""

    chosen_by: str
    places: Sequence[FreeNode]
    pods: int


def _matched_rows(
    view: TopologyView, arrays: TwoArrays, request: SwitchRequest, *, only_complete: bool = False
) -> list[list[FreeNode]] | None:
    """Rules S8 (c) and S13: the nodes of logical switches that pods get, or None when they do not suffice.

    A job smaller than M takes the last row that holds it. Else complete rows are taken one after
    the other, and one row more that holds the rest. `only_complete`: the complete rows, whatever they hold.
    """
    assert request.classes is not None
    rows = arrays.all_rows()
    holding = MatchedHolding(view, request.pods, request.classes)
    if request.pods < arrays.width and not only_complete:
        for row in reversed(rows):
            if holding.node_gain(place.node for place in row) == request.pods:
                return [_useful(holding, row)]
    taken: list[list[FreeNode]] = []
    for row in rows:
        if not holding.unmet or (only_complete and len(row) < arrays.width):
            break
        taken.append(_useful(holding, row))
        if len(row) < arrays.width:
            break
    taken = [row for row in taken if row]
    return taken if only_complete or not holding.unmet else None


def _useful(holding: MatchedHolding, row: Sequence[FreeNode]) -> list[FreeNode]:
    useful = set(holding.take_nodes(place.node for place in row))
    return [place for place in row if place.node in useful]


def _with_leftover(view: TopologyView, arrays: TwoArrays, request: SwitchRequest) -> SwitchPlan | Reason:
    """Rule S8, common jobs: complete logical rows, the rest under idle switches, then under others.

    Switches that carry a cross-switch foundation-model job are left out.
    """
    rows = [arrays.row(index, arrays.width) for index in range(arrays.complete_rows)]
    if request.classes is not None:
        rows = _matched_rows(view, arrays, request, only_complete=True) or []
    taken = {place.node for row in rows for place in row}
    left = list(view.free)
    for row in rows:
        for place in row:
            left[place.switch] -= 1
    idle = sorted(arrays.by_leaf, key=lambda s: (-left[s], s))
    others = sorted(
        (s for s in view.with_free() if not is_idle(view, s) and not view.switches[s].facts.cross_model),
        key=lambda s: (-left[s], s),
    )
    parts = [_Row(LOGICAL_SWITCHES, row, len(row)) for row in rows]
    needed = request.pods - len(taken)
    rest = None if request.classes is None else MatchedHolding(view, request.pods, request.classes)
    if rest is not None:
        rest.take_nodes(place.node for row in rows for place in row)
    for switch in (*idle, *others):
        if not needed:
            break
        places = [place for place in free_nodes(view, switch) if place.node not in taken]
        count = len(places) if rest is None else len(rest.take_nodes(place.node for place in places))
        if count:
            parts.append(_Row(LEFTOVER, places, min(needed, count)))
            needed -= min(needed, count)
    if not needed:
        return _plan(view, parts, request)
    holding = holding_of(view, request)
    idle_free = holding.capacity(idle)
    most = holding.capacity([*idle, *others])
    return LEFTOVER_TOO_SMALL(
        pods=request.pods,
        idle=idle_free,
        others=most - idle_free,
        missing=request.pods - most,
        largest=most,
        switches=lacking(holding, view.with_free(), request.pods),
    )


def _plan(view: TopologyView, parts: Sequence[_Row], request: SwitchRequest) -> SwitchPlan:
    """Ranks row by row, and inside a row switch by switch, so that neighboring ranks share a switch."""
    ordered = [(part, _in_pick_order(view, part)) for part in parts]
    ranks: dict[int, int] = {}
    if request.classes is None:
        chosen = [(part, places[: part.pods]) for part, places in ordered]
    else:
        offers = [([place.node for place in places], part.pods) for part, places in ordered]
        groups = nodes_of_groups(offers, request.classes)
        for nodes, members in groups:
            ranks.update(zip(nodes, members, strict=True))
        chosen = [(part, [place for place in places if place.node in ranks]) for part, places in ordered]
    entries: list[PlanEntry] = []
    for part, places in chosen:
        for switch, group in groupby(places, key=lambda place: place.switch):
            nodes = tuple([place.node for place in group])
            draft = Draft(switch, len(nodes), 0, part.chosen_by)
            own_ranks = tuple([ranks[node] for node in nodes]) if ranks else ()
            entries.append(entry_of(view, draft, False, nodes, own_ranks))
    return SwitchPlan(tuple(entries))


def _in_pick_order(view: TopologyView, part: _Row) -> list[FreeNode]:
    if part.chosen_by != LOGICAL_SWITCHES:
        return sorted(part.places, key=lambda place: place.position)
    # A row lists its leaves longest first, and so do its ranks.
    return sorted(part.places, key=lambda place: (-view.free[place.switch], place.switch, place.position))


def _rows_too_few(
    view: TopologyView, arrays: TwoArrays, complete: Sequence[int], request: SwitchRequest
) -> Reason:
    holding = holding_of(view, request)
    best = holding.best(arrays.by_leaf)
    best_free = holding.capacity(best)
    complete_nodes = holding.capacity(complete)
    logical_nodes = arrays.logical_capacity
    if request.classes is not None:
        logical_nodes = _matched_capacity(view, arrays, request)
    reason = ROWS_TOO_FEW(
        pods=request.pods,
        best=view.switches[best[0]].name if best else "none",
        best_free=best_free,
        complete=len(complete),
        width=view.nodes_per_switch,
        complete_nodes=complete_nodes,
        logical_nodes=logical_nodes,
        largest=max(best_free, complete_nodes, logical_nodes),
        switches=lacking(holding, arrays.by_leaf, request.pods),
    )
    if isinstance(_with_leftover(view, arrays, request), SwitchPlan):
        return reason.with_fixes(["as a common job (tor-affinity: normal-schema) it would be placed now"])
    return reason


def _matched_capacity(view: TopologyView, arrays: TwoArrays, request: SwitchRequest) -> int:
    """The largest job that logical switches hold now, where pods differ."""
    assert request.classes is not None
    everything = len(request.classes.of_rank)
    rows = arrays.all_rows()
    several = MatchedHolding(view, everything, request.classes)
    one = max((several.node_gain(place.node for place in row) for row in rows), default=0)
    for row in rows:
        several.take_nodes(place.node for place in row)
        if len(row) < arrays.width:
            break
    return max(min(one, arrays.width - 1), everything - several.unmet)
