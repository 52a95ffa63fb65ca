"""Rescheduling after a fault (rule S9): new nodes for failed pods; healthy pods keep theirs.

Version 2.0 searches the job's exclusive switches, then its shared ones, then
unused ones, which become shared within the limits. Version 1.0 refills the
row (physical or logical switch) of the failed rank. Jobs that stay under
one switch return to the switch of their peers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field, replace

from ringwise.placement.node_groups import PickGroup, assign_in_groups, first_matching
from ringwise.placement.reasons import (
    PEERS_OUTSIDE,
    PEERS_SWITCH_FULL,
    REPLACEMENT_LIMIT,
)
from ringwise.placement.switches.affinity_v2 import BECOMES_SHARED, convertible, shared_rules
from ringwise.placement.switches.classes import SwitchClass
from ringwise.placement.switches.drafts import Draft, entry_of, fill
from ringwise.placement.switches.holding import Holding, holding_of
from ringwise.placement.switches.one_switch import Groups
from ringwise.placement.switches.planning import plan, refusal_of_topology, with_problems
from ringwise.placement.switches.positions import PodPosition, RanksBySwitch
from ringwise.placement.switches.reschedule_rows import Replacement, reschedule_rows
from ringwise.placement.switches.states import SwitchState
from ringwise.placement.switches.view import PlanEntry, SwitchPlan, SwitchRequest, TopologyView
from ringwise.reasons import Reason
from ringwise.records import dataclass

PEERS_SWITCH = "after a fault: the switch of its peers"
OWN_EXCLUSIVE = "after a fault: an exclusive switch of the job"
OWN_SHARED = "after a fault: a shared switch of the job"


def reschedule(
    view: TopologyView,
    request: SwitchRequest,
    survivors: Sequence[PodPosition],
    failed: Sequence[PodPosition],
) -> SwitchPlan | Reason:
    """Rule S9: a plan for the failed pods only. `request` is the whole job; its classes are theirs.

    The position of a failed pod is where it was (`switch` None where that is unknown).
    The view's states count the survivors; its free nodes leave out every faulty one.
    """
    unusable = refusal_of_topology(view)
    if unusable is not None:
        return unusable
    failed = sorted(failed, key=lambda pod: pod.rank)
    if not failed:
        return SwitchPlan(())
    if not survivors:
        ranks = [pod.rank for pod in failed]
        fresh = plan(view, replace(request, pods=len(failed)))
        if isinstance(fresh, Reason) or request.classes is not None:
            return fresh
        return _with_ranks(fresh, ranks)
    lost = Replacement(view, request, survivors, failed)
    if stays_under_one(view, request, survivors):
        answer = _under_peers(lost)
    elif view.settings.version == "2.0":
        answer = _version2(lost)
    else:
        answer = reschedule_rows(lost)
    return with_problems(view, answer)


def stays_under_one(view: TopologyView, request: SwitchRequest, survivors: Sequence[PodPosition]) -> bool:
    """Whether a failed pod must return to the switch of its peers (rules S3, S9, S11)."""
    if view.single_layer or request.job_class is SwitchClass.PADDING:
        return True
    # `single-switch-first` placed this job like a padding job: its pods carry no mark.
    placed = [pod for pod in survivors if pod.switch is not None]
    unmarked = all(pod.mark == 0 for pod in placed)
    return view.settings.version == "2.0" and unmarked and len({pod.switch for pod in placed}) == 1


def _with_ranks(fresh: SwitchPlan, ranks: Sequence[int]) -> SwitchPlan:
    entries: list[PlanEntry] = []
    start = 0
    for entry in fresh.entries:
        stop = start + len(entry.nodes)
        entries.append(replace(entry, ranks=tuple(ranks[start:stop])))
        start = stop
    return SwitchPlan(tuple(entries))


def _under_peers(lost: Replacement) -> SwitchPlan | Reason:
    view, survivors, failed = lost.view, lost.survivors, lost.failed
    switches = sorted({pod.switch for pod in survivors if pod.switch is not None})
    if len(switches) != 1:
        return PEERS_OUTSIDE(failed=len(failed), survivors=len(survivors), switches=len(switches))
    peers = switches[0]
    held = holding_of(view, replace(lost.request, pods=len(failed))).gain(switches)
    if held < len(failed):
        return PEERS_SWITCH_FULL(
            failed=len(failed),
            switch=view.switches[peers].name,
            free=held,
            missing=len(failed) - held,
        )
    drafts = [Draft(peers, len(failed), 0, PEERS_SWITCH)]
    return _entries(lost, drafts, over_limit=False)


@dataclass(slots=True)
class OwnSwitches:
    """The switches of the job before the fault, by how the job holds them."""

    exclusive: set[int] = field(default_factory=set)
    #: Held without a mark: pods that version 1.0 placed.
    unmarked: set[int] = field(default_factory=set)
    shared: set[int] = field(default_factory=set)
    #: Shared, but only by pods that failed: using it again counts against the limit.
    left_shared: set[int] = field(default_factory=set)

    @classmethod
    def of(
        cls, view: TopologyView, survivors: Iterable[PodPosition], failed: Iterable[PodPosition]
    ) -> OwnSwitches:
        own = cls()
        for pod in survivors:
            if pod.switch is None:
                continue
            # The states do not count pods of a job that is rescheduled as a whole; their marks do.
            if SwitchState.SHARED in (view.switches[pod.switch].facts.state, pod.mark):
                own.shared.add(pod.switch)
            elif pod.mark == SwitchState.EXCLUSIVE:
                own.exclusive.add(pod.switch)
            else:
                own.unmarked.add(pod.switch)
        own.unmarked -= own.exclusive
        for pod in failed:
            if pod.switch is None or pod.switch in own.all():
                continue
            state = view.switches[pod.switch].facts.state
            if state is SwitchState.SHARED or (state is SwitchState.IDLE and pod.mark == SwitchState.SHARED):
                own.left_shared.add(pod.switch)
            elif state is SwitchState.IDLE and pod.mark == SwitchState.EXCLUSIVE:
                own.exclusive.add(pod.switch)
        return own

    def all(self) -> set[int]:
        return self.exclusive | self.unmarked | self.shared | self.left_shared


def _version2(lost: Replacement) -> SwitchPlan | Reason:
    view, request, survivors, failed = lost.view, lost.request, lost.survivors, lost.failed
    own = OwnSwitches.of(view, survivors, failed)
    limit = view.settings.shared_limit
    model = request.job_class is SwitchClass.FOUNDATION_MODEL
    near = RanksBySwitch(survivors)
    used = set(own.shared)
    holding = holding_of(view, replace(request, pods=len(failed)))
    drafts: list[Draft] = []
    for group, mark, taken_by in (
        (own.exclusive, int(SwitchState.EXCLUSIVE), OWN_EXCLUSIVE),
        (own.unmarked, 0, PEERS_SWITCH),
        (own.shared | own.left_shared, int(SwitchState.SHARED), OWN_SHARED),
    ):
        for switch in _nearest_first(group, near, failed):
            if mark == SwitchState.SHARED:
                over = switch in own.left_shared and len(used) >= limit
                if over or (model and not view.switches[switch].facts.healthy):
                    continue
            taken = fill(holding, (switch,), mark, taken_by)
            drafts += taken
            if taken and mark == SwitchState.SHARED:
                used.add(switch)
    if holding.unmet:
        outside = own.all() - own.left_shared | {draft.switch for draft in drafts}
        groups = Groups.of(view, [s for s in view.with_free() if s not in outside])
        more = _unused(holding, groups, limit - len(used))
        if more is None:
            return _over_limit(holding, groups, own, used, len(failed))
        drafts.extend(more)
        used.update(draft.switch for draft in more)
    return _entries(lost, drafts, over_limit=len(used) > limit)


def _nearest_first(group: Iterable[int], near: RanksBySwitch, failed: Sequence[PodPosition]) -> list[int]:
    """Neighboring ranks share switches where possible: the switch nearest to a failed rank comes first."""
    return sorted(group, key=lambda switch: (min(near.distance(switch, pod) for pod in failed), switch))


def _unused(holding: Holding, groups: Groups, quota: int) -> list[Draft] | None:
    """Rules S4, S5, S9: switches that the job does not use yet; each counts against its shared limit."""
    result = shared_rules(holding, groups.healthy, groups.idle, groups.exclusive, quota)
    if result is not None or quota < 2:
        return result
    # Several pods failed at once and no single switch holds them: two within the limit may.
    candidates = sorted([*groups.healthy, *groups.idle, *convertible(holding.view, groups.exclusive)])
    pair = holding.closest_one_or_two(candidates, quota)
    return None if pair is None else fill(holding, pair, SwitchState.SHARED, BECOMES_SHARED)


def _entries(lost: Replacement, drafts: Sequence[Draft], *, over_limit: bool) -> SwitchPlan:
    """Each switch takes the failed ranks that are nearest to the pods it already holds.

    Where pods differ, it takes the nearest from which the other switches can be completed (S13).
    """
    view, classes = lost.view, lost.request.classes
    near = RanksBySwitch(lost.survivors)
    waiting = list(lost.failed)
    entries: list[PlanEntry] = []
    for number, draft in enumerate(drafts):
        distance = {pod.rank: near.distance(draft.switch, pod) for pod in waiting}
        waiting.sort(key=lambda pod: (distance[pod.rank], pod.rank))
        nodes: Sequence[int] = view.switches[draft.switch].free
        if classes is None:
            ranks = sorted(pod.rank for pod in waiting[: draft.count])
        else:
            groups = [
                PickGroup(classes.masks(view.switches[one.switch].free), one.count) for one in drafts[number:]
            ]
            chosen = assign_in_groups(classes.of_ranks(pod.rank for pod in waiting), groups, classes.spend)
            places = zip(waiting, chosen or (), strict=False)
            ranks = sorted(pod.rank for pod, place in places if place is not None and place[0] == 0)
            matched = first_matching(classes.of_ranks(ranks), classes.masks(nodes), classes.spend) or []
            nodes = [nodes[position] for position in matched]
        taken = set(ranks)
        waiting = [pod for pod in waiting if pod.rank not in taken]
        entries.append(entry_of(view, draft, over_limit, tuple(nodes[: draft.count]), tuple(ranks)))
    return SwitchPlan(tuple(entries))


def _over_limit(holding: Holding, groups: Groups, own: OwnSwitches, used: set[int], failed: int) -> Reason:
    view, left = holding.view, holding.unmet
    allowed = [*groups.healthy, *groups.idle, *convertible(view, groups.exclusive)]
    best = holding.best(allowed) if len(used) < view.settings.shared_limit else ()
    return REPLACEMENT_LIMIT(
        failed=failed,
        own=failed - left,
        limit=view.settings.shared_limit,
        used=len(used),
        left=left,
        best=view.switches[best[0]].name if best else "none",
        best_free=holding.capacity(best),
        switches=tuple(view.switches[s].name for s in sorted(own.all())),
    )
