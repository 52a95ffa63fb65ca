"""Fixes that change the job itself, or its queue."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from math import ceil

from ringwise.durations import SECOND, duration_text
from ringwise.framework.limits import waits_for_limit
from ringwise.framework.network_topology import PLUGIN
from ringwise.framework.reasons import QUEUE_SHARE_KEPT
from ringwise.grammar import agrees, amount_text, counted
from ringwise.placement.switches.classes import NORMAL_SCHEMA, asks_for_switches
from ringwise.plugins.predicates.reasons import SELECTOR_MISMATCH
from ringwise.reasons import Reason, Stage
from ringwise.scheduler.explain.boards_present import board_of_job, boards_present
from ringwise.scheduler.explain.fix_search import Fix, FixSearch, first_fixes, joined
from ringwise.scheduler.explain.what_if import JobChange
from ringwise.state.model import SOFT, STATIC, NetworkTopology, PartRequest, Queue, SubGroupPolicy
from ringwise.state.part_requests import SHARE_LABELS, quota
from ringwise.state.reasons import NODE_DRAINS, NODE_RESERVED
from ringwise.topology.board import Board
from ringwise.topology.policy import POLICY_ONLY, SOFT_SHARE_POLICY
from ringwise.topology.vnpu_templates import FAMILY_OF_RING, LOW, SHARED_DVPP, kinds_of
from ringwise.wellknown import (
    ACCELERATOR_TYPE,
    AICORE_QUOTA,
    EXPECTED_DURATION,
    HBM_QUOTA,
    RA_BLOCK,
    RING_CONTROLLER,
    SCHEDULE_POLICY,
    SHARE_POLICIES,
    SHARE_POLICY,
    SP_BLOCK,
    SUPER_POD_AFFINITY,
    TOR_AFFINITY,
    UB_MEMORY,
    VNPU_DVPP,
    VNPU_LEVEL,
)

#: Reasons of nodes that are kept from jobs from some time on.
_WITHHELD = frozenset({NODE_DRAINS.code, NODE_RESERVED.code})
_MINUTE = 60 * SECOND
#: Tiers above the present one that are tried.
_TIERS = 3
#: Expected durations that are tried.
_DURATIONS = 3
#: MB of a share whose label says nothing that can be read.
_SOME_MEMORY = 1024


def size_fixes(search: FixSearch) -> Iterator[Fix]:
    """N2: another valid number of chips in each pod.

    The largest below the present one; where that is invalid, also the next above.
    """
    pods = [pod for pod in search.job.chip_pods if not _is_placed(search, pod.uid)]
    counts = {pod.cls.chips for pod in pods}
    if len(counts) != 1 or len(pods) != len(search.job.chip_pods):
        return
    now = counts.pop()
    sizes = _allowed(search, len(pods))
    below = sorted((size for size in sizes if size < now), reverse=True)
    above = sorted(size for size in sizes if size > now) if now not in sizes else []
    words = counted(now, "chip") + (" in each pod" if len(pods) > 1 else "")
    for tried in (below, above[:1]):
        yield from first_fixes(
            search.change("size", f"request {size} instead of {words}", JobChange(chips=size))
            for size in tried
        )


def _allowed(search: FixSearch, pods: int) -> frozenset[int]:
    policy = search.job.policy
    board = policy.board if policy is not None else board_of_job(search.view, search.job)
    if board is None or isinstance(board, Reason):
        return frozenset()
    return board.requests(pods, search.view.settings.multi_pod_requests)


def _is_placed(search: FixSearch, uid: str) -> bool:
    return search.view.cluster.pods[uid].node >= 0


def minimum_fixes(search: FixSearch) -> Iterator[Fix]:
    """The largest smaller gang that starts, found by bisection."""
    job = search.job
    yield from search.largest_below(
        job.min_available,
        "min-available",
        lambda most: f"lower minAvailable from {job.min_available} to {most}",
        lambda most: JobChange(min_available=most),
    )


def label_fixes(search: FixSearch) -> Iterator[Fix]:
    """Labels and annotations that choose the nodes of a job as a whole: leaf switches, SuperPoDs, racks."""
    job = search.job
    value = job.labels.get(TOR_AFFINITY)
    if asks_for_switches(value):
        if value != NORMAL_SCHEMA:
            yield from _edit(search, "label", TOR_AFFINITY, NORMAL_SCHEMA)
        yield from _edit(search, "label", TOR_AFFINITY, None)
    if SP_BLOCK not in job.annotations and RA_BLOCK not in job.annotations:
        return
    if job.labels.get(SUPER_POD_AFFINITY) != "soft":
        yield from _edit(search, "label", SUPER_POD_AFFINITY, "soft")
    yield from first_fixes(_edit(search, "annotation", SP_BLOCK, size) for size in _block_sizes(search))
    yield from first_fixes(_edit(search, "annotation", RA_BLOCK, size) for size in _rack_sizes(search))
    for key in (SP_BLOCK, RA_BLOCK, UB_MEMORY):
        if key in job.annotations:
            yield from _edit(search, "annotation", key, None)


def topology_fixes(search: FixSearch) -> Iterator[Fix]:
    """The lowest tier of HyperNodes that would do; where none does, soft mode (M2)."""
    job, forest = search.job, search.view.hyper_forest()
    topology = job.group.topology if job.group is not None else None
    if topology is None or topology.soft or search.view.configuration.plugin(PLUGIN) is None:
        return
    limits = [forest.highest_tier(topology, top.name) for top in forest.tops]
    now = max((limit for limit in limits if limit is not None), default=topology.highest_tier)
    if now is None:
        return
    present = f" (now {topology.highest_tier_name or topology.highest_tier})"
    yield from _other_topologies(
        search, now, "set networkTopology.{} to {}", lambda other: JobChange(topology=other), present
    )


def _other_topologies(
    search: FixSearch,
    tier: int,
    sentence: str,
    change: Callable[[NetworkTopology], JobChange],
    present: str = "",
) -> Iterator[Fix]:
    """The lowest tier above this one that would do, and soft mode."""
    yield from first_fixes(
        search.change(
            "topology",
            sentence.format("highestTierAllowed", higher) + present,
            change(NetworkTopology(highest_tier=higher)),
        )
        for higher in [one for one in search.view.hyper_forest().by_tier if one > tier][:_TIERS]
    )
    yield from search.change("topology", sentence.format("mode", "soft"), change(NetworkTopology(soft=True)))


def sub_group_fixes(search: FixSearch) -> Iterator[Fix]:
    """Fewer sub-groups that must run, or a higher tier for each; where no tier does, soft mode."""
    group = search.job.group
    if group is None or not group.sub_groups:
        return
    yield from _fewer_sub_groups(search, group.sub_groups)
    hard = [policy for policy in group.sub_groups if policy.topology and not policy.topology.soft]
    if not hard or search.view.configuration.plugin(PLUGIN) is None:
        return

    def near(topology: NetworkTopology) -> JobChange:
        changed = (
            replace(policy, topology=topology) if policy in hard else policy for policy in group.sub_groups
        )
        return JobChange(sub_groups=tuple(changed))

    now = max((policy.topology.highest_tier or 0 for policy in hard if policy.topology), default=0)
    where = "of its partitions or sub-groups"
    yield from _other_topologies(search, now, f"set {{}} to {{}} in the networkTopology {where}", near)


def _fewer_sub_groups(search: FixSearch, policies: tuple[SubGroupPolicy, ...]) -> Iterator[Fix]:
    """The largest smaller number of sub-groups with which it starts, found by bisection."""
    job = search.job
    needed = sum(policy.min_groups * policy.size for policy in policies)
    others = max(0, job.min_available - needed)

    def fewer(most: int) -> JobChange:
        cut = tuple(replace(policy, min_groups=min(policy.min_groups, most)) for policy in policies)
        left = sum(policy.min_groups * policy.size for policy in cut) + others
        # With none that must run, minAvailable alone counts.
        return JobChange(
            min_available=min(job.min_available, left) if most else job.min_available, sub_groups=cut
        )

    now = max(policy.min_groups for policy in policies)
    low = search.most_below(now, fewer)
    refused = now and job.reason is not None and job.reason.kind.stage is Stage.VALIDATE
    # With none that must run a job starts which has pods for none; one that waits would start without them.
    if low or (refused and search.holds(search.changed(fewer(0)))):
        change = fewer(low)
        text = f"lower minPartitions (minSubGroups) from {now} to {low}"
        if change.min_available != job.min_available:
            text += f", and minAvailable from {job.min_available} to {change.min_available}"
        yield search.fix("min-available", text, search.changed(change))


def duration_fixes(search: FixSearch) -> Iterator[Fix]:
    """A shorter expected duration, where nodes are drained or reserved for others later (F4).

    The longest one first: the job ends just before the last of these times, else before the one before.
    """
    windows, now = search.view.cluster.node_windows, search.now
    starts = {
        one.start
        for miss in search.misses
        if miss.reason.code in _WITHHELD
        for one in windows.get(miss.number, ())
        if one.start is not None
    }
    # Whole minutes, as a person writes them.
    lengths = {(start - now) // _MINUTE for start in starts}
    present = search.job.expected
    shorter = {one for one in lengths if one > 0 and (present is None or one * _MINUTE < present)}
    yield from first_fixes(
        search.change(
            "duration",
            f"set {EXPECTED_DURATION} to {minutes}m or less",
            JobChange(expected=minutes * _MINUTE),
        )
        for minutes in sorted(shorter, reverse=True)[:_DURATIONS]
    )


def _edit(search: FixSearch, what: str, key: str, value: str | None) -> Iterator[Fix]:
    """With another value of a label or an annotation, or, where that is None, without it."""
    if value is None:
        text = f"remove the {what} {key}"
    else:
        text = f"set the {what} {key} to " + (f'"{value}"' if value.isdigit() else value)
    change = JobChange(labels={key: value}) if what == "label" else JobChange(annotations={key: value})
    return search.change(what, text, change)


def _block_sizes(search: FixSearch) -> Iterator[str]:
    """Other blocks that divide the job, in chips, the largest first (P1)."""
    job = search.job
    board, present = board_of_job(search.view, job), job.annotations.get(SP_BLOCK)
    if present is None or not isinstance(board, Board):
        return
    pods = len(job.chip_pods)
    for nodes in range(min(pods, search.view.settings.super_pod_size), 0, -1):
        if not pods % nodes and str(nodes * board.chips_per_node) != present:
            yield str(nodes * board.chips_per_node)


def _rack_sizes(search: FixSearch) -> Iterator[str]:
    """Smaller logical racks: powers of two, in chips (R1)."""
    written = search.job.annotations.get(RA_BLOCK, "")
    board = board_of_job(search.view, search.job)
    if not written or not isinstance(board, Board):
        return
    largest = board.chips_per_node * max(board.rack_nodes, 1)
    for size in (1 << power for power in reversed(range(largest.bit_length()))):
        if size >= board.chips_per_node and str(size) != written:
            yield str(size)


def board_fixes(search: FixSearch) -> Iterator[Fix]:
    """N1: the boards that the nodes have, by their label accelerator-type, their policy or job labels."""
    job = search.job
    asking = job.chip_pods
    if not asking or any(_is_placed(search, pod.uid) for pod in asking):
        return
    resources = {pod.cls.resource for pod in asking}
    selected = {dict(pod.cls.node_selector).get(ACCELERATOR_TYPE) for pod in asking}
    named = SCHEDULE_POLICY in job.annotations
    for resource, label, board in boards_present(search.view):
        if resource not in resources:
            continue
        policies = [policy for policy in board.policies if policy != job.annotations.get(SCHEDULE_POLICY)]
        if policies and (named or resource in POLICY_ONLY):
            text = f"set the annotation {SCHEDULE_POLICY} to {policies[0]} (board {board.name})"
            yield from search.change("board", text, JobChange(annotations={SCHEDULE_POLICY: policies[0]}))
        elif label and not named and selected != {label}:
            text = f"set the nodeSelector {ACCELERATOR_TYPE} to {label} (board {board.name})"
            yield from search.change("board", text, JobChange(selected=(ACCELERATOR_TYPE, label)))
    if named:
        yield from _edit(search, "annotation", SCHEDULE_POLICY, None)
    choosing = {
        key
        for one in resources
        for board in search.view.catalog.serving(one or "")
        for key, _ in board.job_labels
    }
    written = sorted(choosing & job.labels.keys())
    if written:
        text = f"remove the {agrees(len(written), 'label', 'labels')} {joined(written)}"
        yield from search.change("board", text, JobChange(labels=dict.fromkeys(written)))


def selector_fixes(search: FixSearch) -> Iterator[Fix]:
    if SELECTOR_MISMATCH.code not in search.codes:
        return
    selected = defaultdict[str, dict[str, None]](dict)
    for pod in search.job.in_order:
        for key, value in pod.cls.node_selector:
            selected[key][value] = None
    for key, values in selected.items():
        text = f"remove the nodeSelector {key}: {' or '.join(values)}"
        yield from search.change("selector", text, JobChange(unselected=frozenset({key})))


# -- its queue -----------------------------------------------------------------------------------


def queue_fixes(search: FixSearch) -> Iterator[Fix]:
    view, job = search.view, search.job
    reason = job.reason
    if reason is None or not ("queue" in reason.code or waits_for_limit(reason)):
        return
    queue = view.queues.get(job.queue)
    if queue is not None:
        used, held = view.usage.used_by_queue(queue.name), view.usage.reserved.against(job.queue, job.key)
        if reason.code == QUEUE_SHARE_KEPT.code:
            until = view.reserved_quota_until(queue.name)
            latest = "" if until is None else f", in {duration_text(until - search.now)} at the latest"
            text = f"wait until the quota reserved for {reason.details['jobs']} is released{latest}"
            yield from search.attempt("wait", text, view.what_if.shares_given_up)
        needed = {
            name: max(limit, ceil(used.get(name, 0) + held.get(name, 0) + job.min_requested().get(name, 0)))
            for name, limit in queue.capability.items()
        }
        raised = [name for name in needed if needed[name] > queue.capability[name]]
        if raised:
            words = ", ".join(
                f"{amount_text(name, needed[name])} of {name} "
                f"(now {amount_text(name, queue.capability[name])})"
                for name in raised
            )
            text = f"raise the capability of queue {queue.name} to {words}"
            yield from _queue_is(search, text, replace(queue, capability=needed))
        if queue.state != "Open":
            yield from _queue_is(search, f"open queue {queue.name}", replace(queue, state="Open"))
        if "share" in reason.code or "overused" in reason.code:
            weights = (max(1, queue.weight) * factor for factor in (2, 4, 8, 16, 32))
            text = f"raise the weight of queue {queue.name} to {{}} (now {queue.weight})"
            yield from first_fixes(
                _queue_is(search, text.format(weight), replace(queue, weight=weight)) for weight in weights
            )
    yield from first_fixes(
        search.change("queue", f"use queue {other}", JobChange(queue=other))
        for other in sorted(view.queues)[:16]
        if other != job.queue
    )


def _queue_is(search: FixSearch, text: str, queue: Queue) -> Iterator[Fix]:
    return search.attempt("queue", text, partial(search.view.what_if.queue_is, queue))


# -- shares of chips and vNPUs (part V) ------------------------------------------------------------


def part_fixes(search: FixSearch) -> Iterator[Fix]:
    """Another request that the nodes take, as near to the present one as possible."""
    job = search.job
    parts = [pod.cls.part for pod in job.in_order if pod.cls.part is not None]
    if not parts or any(search.view.cluster.pods[uid].node >= 0 for uid in job.pods):
        return
    part = parts[0]
    if part.mode == SOFT:
        yield from _of_share(search, part)
        return
    if SCHEDULE_POLICY in job.annotations and job.annotations[SCHEDULE_POLICY] == SOFT_SHARE_POLICY:
        yield from _edit(search, "annotation", SCHEDULE_POLICY, None)
    if part.mode == STATIC:
        if part.count > 1:
            yield from search.change("size", "request 1 vNPU in each pod", JobChange(part={"count": 1}))
        return
    yield from _of_vnpu(search, part)


def _with(labels: Mapping[str, object], **part: object) -> JobChange:
    return JobChange(labels={key: str(value) for key, value in labels.items()}, part=part)


def _of_share(search: FixSearch, part: PartRequest) -> Iterator[Fix]:
    job = search.job
    first = next(pod for pod in job.in_order if pod.cls.part is not None)
    labels = {**(job.group.labels if job.group is not None else {}), **first.labels}
    percent, mb, policy = (labels.get(key) for key in SHARE_LABELS)
    wrong: dict[str, object] = {}
    if quota(percent) != part.count:
        wrong[AICORE_QUOTA] = part.count
    if not quota(mb):
        wrong[HBM_QUOTA] = _SOME_MEMORY
    if policy not in SHARE_POLICIES:
        wrong[SHARE_POLICY] = next(iter(SHARE_POLICIES))
    memory = _SOME_MEMORY if HBM_QUOTA in wrong else int(mb or 0)
    named = wrong.get(SHARE_POLICY, policy or "")
    if wrong or len({tuple(pod.labels.get(key) for key in SHARE_LABELS) for pod in job.in_order}) > 1:
        # All pods have the same labels then.
        every = wrong or {AICORE_QUOTA: part.count, HBM_QUOTA: memory, SHARE_POLICY: named}
        text = "set the labels " if len(every) > 1 else "set the label "
        text += ", ".join(f'{key}: "{value}"' for key, value in every.items())
        yield from search.change("label", text, _with(every, count=part.count, mb=memory, policy=named))
        return
    yield from search.largest_below(
        part.count,
        "size",
        lambda most: f"request {most} instead of {part.count} percent (request and label {AICORE_QUOTA})",
        lambda most: _with({AICORE_QUOTA: most}, count=most),
    )
    yield from search.largest_below(
        part.mb,
        "size",
        lambda most: f'set the label {HBM_QUOTA} to "{most}"',
        lambda most: _with({HBM_QUOTA: most}, mb=most),
    )
    yield from first_fixes(
        search.change(
            "label", f"set the label {SHARE_POLICY} to {other}", _with({SHARE_POLICY: other}, policy=other)
        )
        for other in SHARE_POLICIES
        if other != part.policy
    )


def _of_vnpu(search: FixSearch, part: PartRequest) -> Iterator[Fix]:
    """One label or the number of cores; where that does not help, with the labels at their defaults."""
    yield from first_fixes(_other_rings(search, part))
    for key, name, value in ((VNPU_DVPP, "dvpp", SHARED_DVPP), (VNPU_LEVEL, "level", LOW)):
        if getattr(part, name) != value:
            change = _with({key: value}, **{name: value})
            yield from search.change("label", f'set the label {key} to "{value}"', change)
    family = FAMILY_OF_RING.get(part.ring)
    if family is None:
        return
    yield from first_fixes(
        search.change("size", f"request {count} instead of {part.count} cores", _with({}, count=count))
        for count in _counts(search, family, part.count)
    )


def _other_rings(search: FixSearch, part: PartRequest) -> Iterator[Iterator[Fix]]:
    """Chips of another family: with the same number of cores, else with one that they take."""
    for ring in dict(zip(FAMILY_OF_RING.values(), FAMILY_OF_RING, strict=True)).values():
        family = FAMILY_OF_RING[ring]
        if family != FAMILY_OF_RING.get(part.ring):
            text, labels = f"set the label {RING_CONTROLLER} to {ring}", {RING_CONTROLLER: ring}
            yield search.change("label", text, _with(labels, ring=ring))
            for count in _counts(search, family, part.count):
                more = f"{text} and request {counted(count, 'core')}"
                yield search.change("label", more, _with(labels, ring=ring, count=count))


def _counts(search: FixSearch, family: str, near: int) -> list[int]:
    """Return the other numbers of cores that chips of a family take, the nearest first."""
    present = (one.divided for one in search.view.cluster.modes.values())
    there = {id(kind): kind for kind in present if kind is not None and kind.family == family}
    kinds = list(there.values()) or kinds_of(family)
    counts = {count for kind in kinds for count in range(1, kind.cores + 1) if kind.takes_count(count)}
    return sorted(counts - {near}, key=lambda count: (abs(count - near), count))


#: The cheapest for its user first.
JOB_FIXES = (
    board_fixes,
    size_fixes,
    part_fixes,
    minimum_fixes,
    label_fixes,
    topology_fixes,
    sub_group_fixes,
    duration_fixes,
    selector_fixes,
    queue_fixes,
)
