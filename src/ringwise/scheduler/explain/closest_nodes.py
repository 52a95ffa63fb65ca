"""Nodes that almost fit: which chips are missing on each, and what holds them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import field

from ringwise.durations import time_text
from ringwise.framework.extension_points import NodeFilter, first_reason
from ringwise.framework.gangs.gang_placement import node_filters
from ringwise.framework.job import Job
from ringwise.framework.node_selection import NodeSelection
from ringwise.framework.policy import ChipPolicy
from ringwise.framework.reasons import RESOURCE_NOT_OFFERED
from ringwise.framework.session import Session
from ringwise.grammar import counted
from ringwise.placement.reasons import NO_SUCH_TEMPLATE, NODE_LABEL_MISSING, PART_NOT_OFFERED
from ringwise.plugins.nodegroup.reasons import (
    NODE_GROUP_MISMATCH,
    NODE_GROUP_MISSING,
    NODE_GROUP_NOT_SPECIFIED,
)
from ringwise.plugins.predicates.reasons import AFFINITY_MISMATCH, SELECTOR_MISMATCH, UNTOLERATED_TAINT
from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.scheduler.view import SchedulerView
from ringwise.state.fleet import Fleet
from ringwise.state.model import PRE_SEPARATE_LEVEL, Pod
from ringwise.state.reasons import NODE_OFFERS_NO_CHIPS, OTHER_MODE
from ringwise.topology.chips import chips_of
from ringwise.wellknown import NODE_TAINT_PREFIX

#: More than can be missing on any node: for nodes that refuse for a reason other than chips.
_OTHER_REASON = 1 << 20


@dataclass(frozen=True, slots=True)
class ClosestNode:
    node: str
    number: int
    #: Chips (a mask) that would have to become free; 0 where the node refuses for another reason.
    chips: int
    #: The ring the missing chips are in, if they are in one.
    ring: int | None
    text: str
    reason: Reason

    @property
    def missing(self) -> int:
        return self.chips.bit_count()


@dataclass(frozen=True, slots=True)
class Refusals:
    """The verdicts of all nodes on one pod."""

    pod: str
    fits: int
    #: Reason code -> nodes, most first.
    counts: dict[str, int]
    #: Reason code -> the message of the first node with it.
    examples: dict[str, str]
    #: Nodes that the job selects, nearest first.
    misses: tuple[ClosestNode, ...]
    #: Nodes with a taint that the job does not tolerate, which is all that keeps it from selecting them.
    tainted: tuple[ClosestNode, ...] = ()


#: What the job, its board or its queue does not select: no chip that becomes free there helps.
_NOT_SELECTED = frozenset(
    kind.code
    for kind in (
        RESOURCE_NOT_OFFERED,
        SELECTOR_MISMATCH,
        AFFINITY_MISMATCH,
        NODE_LABEL_MISSING,
        NODE_GROUP_MISSING,
        NODE_GROUP_NOT_SPECIFIED,
        NODE_GROUP_MISMATCH,
        OTHER_MODE,
        NODE_OFFERS_NO_CHIPS,
        PART_NOT_OFFERED,
        NO_SUCH_TEMPLATE,
    )
)


def refusals_of(view: SchedulerView, session: Session, job: Job, pod: Pod) -> Refusals:
    """The verdict of every node on this pod, with the state as it is now.

    Counted as `NodeSelection.refusals` counts for the reason, which asks groups of nodes instead of nodes.
    """
    selection = session.node_selection(job, pod)
    filters = node_filters(session, job, pod)
    state = view.cluster
    counts, examples, fits = Counter[str](), dict[str, str](), 0
    rows: list[tuple[int, int, int, int | None, Reason]] = []
    missing_chips = _MissingChips(selection.policy, selection.chips) if selection.policy is not None else None
    for node in state.existing_nodes():
        _, reason = selection.verdict(node)
        if reason is None:
            reason = first_reason(filters, node)
        if reason is None:
            fits += 1
            continue
        counts[reason.code] += 1
        if reason.code not in examples:
            examples[reason.code] = f"{state.names[node]}: {reason.message}"
        chips, ring, distance = 0, None, _OTHER_REASON
        if missing_chips is not None and selection.policy is not None:
            fleet = state.fleets[selection.policy.resource]
            usable = selection.usable(node)
            offers = usable >= 0 and fleet.allocatable[node] >= 0
            if offers and (missing := missing_chips.of(fleet, node, usable)) is not None:
                chips, ring = missing
                distance = chips.bit_count()
        rows.append((distance, node, chips, ring, reason))
    # The sort is stable: equally near nodes stay in natural order.
    rows.sort(key=lambda miss: miss[0])
    misses: list[ClosestNode] = []
    tainted: list[ClosestNode] = []
    for _, node, chips, ring, reason in rows:
        if len(misses) == _MAX_MISSES:
            break
        refusal = _unselected_reason(selection, filters, node, reason)
        if refusal is not None and (not _is_dedicated(refusal) or len(tainted) == _MAX_MISSES):
            continue
        text = _text(view, selection.policy, node, chips, ring, reason)
        miss = ClosestNode(state.names[node], node, chips, ring, text, refusal or reason)
        (misses if refusal is None else tainted).append(miss)
    ordered = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    return Refusals(pod.name, fits, ordered, examples, tuple(misses), tuple(tainted))


#: The search for fixes uses more of them than are shown.
_MAX_MISSES = 64


def _unselected_reason(
    selection: NodeSelection, filters: Sequence[NodeFilter], node: int, reason: Reason
) -> Reason | None:
    """Why the job does not select the node, whatever state the node is in."""
    first = reason if reason.code in _NOT_SELECTED else selection.unselected(node)
    if first is not None and (first.code in _NOT_SELECTED or _is_dedicated(first)):
        return first
    other = first_reason(filters, node)
    return other if other is not None and other.code in _NOT_SELECTED else None


def _is_dedicated(reason: Reason) -> bool:
    """Whether the node has a taint that is not a condition of the node."""
    taint = str(reason.details.get("taint"))
    return reason.code == UNTOLERATED_TAINT.code and not taint.startswith(NODE_TAINT_PREFIX)


@dataclass(slots=True)
class _MissingChips:
    """The fewest chips that must become free for a request to fit; computed once for equal nodes."""

    _policy: ChipPolicy
    _request: int
    _cache: dict[tuple[int, int, int], tuple[int, int | None] | None] = field(default_factory=dict)

    def of(self, fleet: Fleet, node: int, usable: int) -> tuple[int, int | None] | None:
        faulty = fleet.unhealthy[node] | fleet.recovering[node] | fleet.isolated[node]
        faulty |= fleet.pre_separated[node]
        key = (usable, fleet.listed[node], faulty)
        if key not in self._cache:
            self._cache[key] = self._find(usable, fleet.listed[node], faulty)
        return self._cache[key]

    def _find(self, usable: int, listed: int, faulty: int) -> tuple[int, int | None] | None:
        if self._fits(usable):
            return 0, None
        others = listed & ~usable
        best: tuple[int, int | None] | None = None
        masks = self._policy.board.ring_masks
        rings: Iterable[tuple[int | None, int]] = enumerate(masks) if len(masks) > 1 else ()
        for ring, mask in (*rings, (None, listed)):
            freed = self._fewest(usable, others & mask, faulty)
            if freed and (best is None or freed.bit_count() < best[0].bit_count()):
                best = freed, ring
        return best

    def _fewest(self, usable: int, freed: int, faulty: int) -> int:
        """Leave out chips one by one while the request still fits; faulty ones first."""
        if not self._fits(usable | freed):
            return 0
        for chip in (*chips_of(freed & faulty), *chips_of(freed & ~faulty)):
            if self._fits(usable | (freed & ~(1 << chip))):
                freed &= ~(1 << chip)
        return freed

    def _fits(self, usable: int) -> bool:
        rule = self._policy.rule
        signature = rule.signature(usable, usable.bit_count(), 0)
        return rule.score(signature, self._request, self._policy.multi_pod) is not None


def _text(
    view: SchedulerView,
    policy: ChipPolicy | None,
    node: int,
    chips: int,
    ring: int | None,
    reason: Reason,
) -> str:
    if policy is None or not chips:
        return reason.message
    fleet = view.cluster.fleets[policy.resource]
    free = fleet.free_mask[node]
    scope, where = fleet.listed[node], "the node"
    if ring is not None:
        scope &= policy.board.ring_masks[ring]
        where = f"{policy.board.ring_kind} {ring}"
    # Free is what a new pod may have, and of a closed node that is none.
    word = "free" if reason.code in _ABOUT_CHIPS else "unused"
    text = f"{where} has {(free & scope).bit_count()} of {counted(scope.bit_count(), 'chip')} {word}"
    taken = ", ".join(holders(view, policy.resource, node, scope & ~free))
    if taken:
        text += f": {taken}"
    if reason.code not in _ABOUT_CHIPS:
        text += f"; and {reason.message}"
    return text


_ABOUT_CHIPS = frozenset(
    {
        "not-enough-free-chips",
        "no-ring-holds-request",
        "node-not-wholly-free",
        "not-enough-whole-rings",
        "not-enough-pairs-across-rings",
    }
)


def holders(view: SchedulerView, resource: str, node: int, chips: int) -> list[str]:
    """What holds these chips: `held by a (2)`, `perhaps in b (1)`, `faulty (1)`, `reserved for b (4)`."""
    state = view.cluster
    fleet = state.fleets[resource]
    counts = Counter[tuple[str, str]]()
    # They do not become free when their pod ends.
    leaving = fleet.pre_separated[node] & ~fleet.unhealthy[node]
    for doubtful in (False, True) if fleet.doubtful[node] else (False,):
        for uid in state.pods_on[node]:
            placement = state.pods[uid]
            held = (placement.doubtful if doubtful else placement.chips) & chips & ~leaving
            if held and placement.pod.cls.resource == resource:
                job = view.job_of(uid)
                name = job.name if job is not None else f"pod {placement.pod.key}"
                verb = "held by" if placement.pod.node is not None else "would go to"
                counts["perhaps in" if doubtful else verb, name] += held.bit_count()
                chips &= ~held
    for held in state.left_chips(state.names[node], resource).values():
        if held & chips & ~leaving:
            counts["in", "a container of a deleted pod"] += (held & chips & ~leaving).bit_count()
            chips &= ~held | leaving
    words, said = [], ""
    for (verb, name), count in counts.items():
        words.append(f"{name} ({count})" if verb == said else f"{verb} {name} ({count})")
        said = verb
    for word, mask in (
        ("faulty", fleet.unhealthy[node]),
        ("isolated", fleet.isolated[node]),
        ("recovering", fleet.recovering[node]),
        (PRE_SEPARATE_LEVEL, leaving),
        ("network faulty", max(fleet.network[node], 0)),
    ):
        if chips & mask:
            words.append(f"{word} ({(chips & mask).bit_count()})")
            chips &= ~mask
    for reservation in view.reservations:
        reserved = reservation.chips.get(node, 0) & chips
        if reserved and reservation.resource == resource:
            owner = view.jobs.get(reservation.owner)
            name = owner.name if owner else reservation.owner
            until = "" if reservation.expires is None else f" until {time_text(reservation.expires)}"
            words.append(f"reserved for {name}{until} ({reserved.bit_count()})")
            chips &= ~reserved
    if chips:
        words.append(f"not reported free ({chips.bit_count()})")
    return words
