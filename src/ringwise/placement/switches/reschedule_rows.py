"""Version 1.0 after a fault (rules S8, S9): refill the row of the failed rank.

Ranks are given row by row, so rank div M is the row. A row whose pods are all
under one leaf is a physical switch: any free node of that leaf fills it. Else it
is a logical switch: it needs a node at the position that is missing in it, which
is the failed pod's own position where that is known. Only leaves of the job and
idle leaves qualify; a common job that finds none takes any node that its leftover
rule allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from ringwise.placement.matching import Matching, PodClasses
from ringwise.placement.reasons import REPLACEMENT_POSITION
from ringwise.placement.switches.affinity_v1 import FreeNode, free_nodes, is_idle
from ringwise.placement.switches.classes import SwitchClass
from ringwise.placement.switches.drafts import Draft, entry_of
from ringwise.placement.switches.positions import PodPosition, RanksBySwitch
from ringwise.placement.switches.view import PlanEntry, SwitchPlan, SwitchRequest, TopologyView
from ringwise.reasons import Reason
from ringwise.records import dataclass

SAME_LEAF = "after a fault: the leaf of its row"
SAME_POSITION = "after a fault: the missing position of its logical switch"
LEFTOVER = "after a fault: common job's leftover"


@dataclass(frozen=True, slots=True)
class Replacement:
    """Pods of a job that failed, by rank, and those that stay. `request` is the whole job."""

    view: TopologyView
    request: SwitchRequest
    survivors: Sequence[PodPosition]
    failed: Sequence[PodPosition]


def reschedule_rows(lost_pods: Replacement) -> SwitchPlan | Reason:
    view, request, failed = lost_pods.view, lost_pods.request, lost_pods.failed
    width = view.nodes_per_switch
    free = [node for switch in view.with_free() for node in free_nodes(view, switch)]
    placed = [pod for pod in lost_pods.survivors if pod.switch is not None]
    own = {pod.switch for pod in (*lost_pods.survivors, *failed) if pod.switch is not None}
    near = RanksBySwitch(placed)
    entries: list[PlanEntry] = []
    for number, lost in enumerate(failed):
        takes = _acceptable(free, failed[number:], request.classes)
        row = [pod for pod in placed if pod.rank // width == lost.rank // width]
        leaves = {pod.switch for pod in row} or {lost.switch}
        leaf = leaves.pop() if len(leaves) == 1 else None
        same_leaf = [node for node in free if node.switch == leaf and takes(node)]
        used = {pod.position for pod in row}
        if lost.position is not None:
            positions = [lost.position]
        else:
            positions = sorted(
                {node.position for node in free if node.position < width and node.position not in used}
            )
        fits = set(positions)
        at_position = [
            node
            for node in free
            if node.position in fits and (node.switch in own or is_idle(view, node.switch)) and takes(node)
        ]
        at_position.sort(
            key=lambda node: (
                node.switch not in own,
                near.distance(node.switch, lost),
                node.switch,
                node.position,
            )
        )
        chosen = next(iter(same_leaf or at_position), None)
        taken_by = SAME_LEAF if same_leaf else SAME_POSITION
        if chosen is None and request.job_class is SwitchClass.COMMON:
            chosen, taken_by = _leftover(view, [node for node in free if takes(node)], own), LEFTOVER
        if chosen is None:
            return REPLACEMENT_POSITION(
                rank=lost.rank,
                positions=tuple(positions) or "missing in its row",
                switches=_names(view, own),
            )
        free.remove(chosen)
        own.add(chosen.switch)
        placed.append(PodPosition(lost.rank, chosen.switch, chosen.position))
        near.add(placed[-1])
        draft = Draft(chosen.switch, 1, 0, taken_by)
        entries.append(entry_of(view, draft, False, (chosen.node,), (lost.rank,)))
    return SwitchPlan(tuple(entries))


def _acceptable(
    free: Sequence[FreeNode], failed: Sequence[PodPosition], classes: PodClasses | None
) -> Callable[[FreeNode], bool]:
    """Rule S13: whether the first failed pod can take a node, and leave one for each of the others."""
    if classes is None:
        return lambda node: True
    masks = Counter(classes.masks(node.node for node in free))
    own, *others = classes.of_ranks(pod.rank for pod in failed)
    # Where not all can have a node, the first ones do.
    matching = Matching(Counter(others), classes.spend)
    for mask, count in masks.items():
        matching.add(mask, count)
    can_take = {mask for mask in masks if mask >> own & 1}
    leaving = can_take & matching.spared(masks)
    good = leaving or can_take
    return lambda node: classes.of_node.get(node.node, 0) in good


def _leftover(view: TopologyView, free: Sequence[FreeNode], own: set[int]) -> FreeNode | None:
    """The job's own leaves, then idle ones, then others without a cross-switch foundation model."""
    count: dict[int, int] = {}
    for node in free:
        count[node.switch] = count.get(node.switch, 0) + 1
    allowed = [
        node for node in free if node.switch in own or not view.switches[node.switch].facts.cross_model
    ]
    return min(
        allowed,
        key=lambda node: (
            node.switch not in own,
            not is_idle(view, node.switch),
            -count[node.switch],
            node.switch,
            node.position,
        ),
        default=None,
    )


def _names(view: TopologyView, switches: set[int]) -> tuple[str, ...]:
    return tuple(view.switches[s].name for s in sorted(switches))
