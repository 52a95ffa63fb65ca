"""Version 1.0 after a fault: repair the row the failed rank belongs to.

Ranks are given row by row, so rank div M names the row. A row whose pods all sit
under one leaf is a physical switch: any free node of that leaf mends it. Else it
is a logical switch: it needs a node at the position that is missing in it, which
is the failed pod's own position where that is known. Only leaves of the job and
idle leaves qualify; a common job that finds none takes any node its leftover rule
would allow.
"""

from __future__ import annotations

from collections.abc import Sequence

from ringwise.placement.switches.affinity_v1 import Place, is_idle
from ringwise.placement.switches.classes import SwitchClass
from ringwise.placement.switches.seats import Neighbourhood, Seat
from ringwise.placement.switches.switch_reasons import REPLACEMENT_POSITION
from ringwise.placement.switches.view import ClusterView, PlanEntry, Request, SwitchPlan
from ringwise.reasons import Reason

SAME_LEAF = "after a fault: the leaf of its row"
SAME_POSITION = "after a fault: the missing position of its logical switch"
LEFTOVER = "after a fault: common job's leftover"


def repair_rows(
    view: ClusterView, request: Request, survivors: Sequence[Seat], failed: Sequence[Seat]
) -> SwitchPlan | Reason:
    width = view.nodes_per_switch
    free = [
        Place(switch, position, node)
        for switch in view.with_free()
        for position, node in zip(view.switches[switch].positions, view.switches[switch].free, strict=True)
    ]
    seated = [seat for seat in survivors if seat.switch is not None]
    own = {seat.switch for seat in (*survivors, *failed) if seat.switch is not None}
    near = Neighbourhood(seated)
    entries: list[PlanEntry] = []
    for lost in failed:
        row = [seat for seat in seated if seat.rank // width == lost.rank // width]
        leaves = {seat.switch for seat in row} or {lost.switch}
        leaf = leaves.pop() if len(leaves) == 1 else None
        same_leaf = [place for place in free if place.switch == leaf]
        used = {seat.position for seat in row}
        if lost.position is not None:
            positions = [lost.position]
        else:
            positions = sorted({p.position for p in free if p.position < width and p.position not in used})
        fits = set(positions)
        at_position = [
            place
            for place in free
            if place.position in fits and (place.switch in own or is_idle(view, place.switch))
        ]
        at_position.sort(
            key=lambda p: (p.switch not in own, near.distance(p.switch, lost), p.switch, p.position)
        )
        chosen = next(iter(same_leaf or at_position), None)
        words = SAME_LEAF if same_leaf else SAME_POSITION
        if chosen is None and request.job_class is SwitchClass.COMMON:
            chosen, words = _leftover(view, free, own), LEFTOVER
        if chosen is None:
            return REPLACEMENT_POSITION(
                rank=lost.rank,
                positions=tuple(positions) or "missing in its row",
                switches=_names(view, own),
            )
        free.remove(chosen)
        own.add(chosen.switch)
        seated.append(Seat(lost.rank, chosen.switch, chosen.position))
        near.add(seated[-1])
        facts = view.switches[chosen.switch].facts
        entries.append(
            PlanEntry(
                chosen.switch,
                view.switches[chosen.switch].name,
                (chosen.node,),
                0,
                facts.state,
                facts.healthy,
                words,
                (lost.rank,),
            )
        )
    return SwitchPlan(tuple(entries))


def _leftover(view: ClusterView, free: Sequence[Place], own: set[int]) -> Place | None:
    """The job's own leaves, then idle ones, then others without a cross-switch foundation model."""
    count: dict[int, int] = {}
    for place in free:
        count[place.switch] = count.get(place.switch, 0) + 1
    allowed = [p for p in free if p.switch in own or not view.switches[p.switch].facts.cross_model]
    return min(
        allowed,
        key=lambda p: (
            p.switch not in own,
            not is_idle(view, p.switch),
            -count[p.switch],
            p.switch,
            p.position,
        ),
        default=None,
    )


def _names(view: ClusterView, switches: set[int]) -> tuple[str, ...]:
    return tuple(view.switches[s].name for s in sorted(switches))
