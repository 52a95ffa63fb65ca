"""Fixes that change the cluster: free chips, ended jobs, nodes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations

from ringwise.framework.limits import waits_for_limit
from ringwise.framework.selectors import written_taint
from ringwise.grammar import agrees, counted, first_of
from ringwise.plugins.predicates.reasons import (
    CLAIM_IN_USE,
    NODE_CORDONED,
    OF_CLAIMS,
    OF_VOLUMES,
    UNTOLERATED_TAINT,
)
from ringwise.reasons import Reason
from ringwise.scheduler.defragment.reasons import PLAN_TOO_COSTLY
from ringwise.scheduler.defragment.search import PlanBudget, Planner
from ringwise.scheduler.defragment.units import Units
from ringwise.scheduler.explain.closest_nodes import ClosestNode
from ringwise.scheduler.explain.fix_search import (
    STARTS,
    Fix,
    FixSearch,
    Suppose,
    first_fixes,
    joined,
    together,
)
from ringwise.scheduler.explain.job_fixes import JOB_FIXES, minimum_fixes, queue_fixes, size_fixes
from ringwise.scheduler.explain.limit_waits import limit_fixes
from ringwise.scheduler.explain.preemption import bundle_fixes, cooldown_fixes
from ringwise.scheduler.view import SUPERPODS, SWITCHES
from ringwise.state.model import Isolation
from ringwise.state.reasons import NODE_DRAINS, NODE_ISOLATED, NODE_NOT_READY, NODE_RESERVED
from ringwise.state.volume_table import keys_of
from ringwise.wellknown import UNSCHEDULABLE_TAINT

_MAX_SINGLE_JOBS = 3
_MAX_TOGETHER = 8
_PAIRED = 12
_NAMED_CLAIMS = 3
#: Steps of the search for moves.
_MOVE_STEPS = 1_000
#: Reasons of nodes that `ringwise unisolate` fixes.
_ISOLATED = frozenset({NODE_ISOLATED.code, NODE_DRAINS.code})


def chip_fixes(search: FixSearch) -> Iterator[Fix]:
    """The nearest nodes: one alone, else several, of one switch or SuperPoD where that matters."""
    policy = search.job.policy
    if policy is None:
        return
    own = _own_chips(search)
    near = [miss for miss in search.misses if miss.chips and not miss.chips & own[miss.number]]
    kind = policy.board.ring_kind
    alone = (
        search.attempt("chips", f"free {_chips_text(kind, [miss])}", _freed(search, miss))
        for miss in near[:5]
    )
    single = list(first_fixes(alone, 2))
    yield from single
    if single:
        return
    for region in _regions(search, near)[:6]:
        parts = [_freed(search, miss) for miss in region[:16]]
        taken = search.fewest(parts)
        if taken:
            text = f"free {_chips_text(kind, [region[n] for n in taken])}"
            yield search.fix("chips", text, together(parts, taken))
            return


def _own_chips(search: FixSearch) -> dict[int, int]:
    """By node: what pods of the job itself have and keep: it does not get on by losing that."""
    result = defaultdict[int, int](int)
    for uid, pod in search.job.pods.items():
        placement = search.view.cluster.pods[uid]
        if not pod.deleting:
            result[placement.node] |= placement.chips
    return result


def _freed(search: FixSearch, miss: ClosestNode) -> Suppose:
    policy = search.job.policy
    resource = policy.resource if policy is not None else ""
    return partial(search.view.what_if.chips_free, resource, miss.number, miss.chips)


def _regions(search: FixSearch, misses: list[ClosestNode]) -> list[list[ClosestNode]]:
    """Nodes that can serve the job together, the region with the fewest missing chips first."""
    policy, domains = search.job.policy, search.view.domains()
    if policy is None or (policy.switch_class is None and policy.block_nodes is None):
        return [misses] if misses else []
    region_of = domains[SWITCHES if policy.switch_class is not None else SUPERPODS]
    grouped: dict[object, list[ClosestNode]] = {}
    for miss in misses:
        if (region := region_of(miss.number)) is not None:
            grouped.setdefault(region, []).append(miss)
    rows = sorted(grouped.values(), key=lambda row: sum(miss.missing for miss in row))
    return [*rows, misses] if len(rows) > 1 else rows


def ended_job_fixes(search: FixSearch) -> Iterator[Fix]:
    """One running job, else two, else a handful."""
    candidates = _candidates(search)
    helpful: list[tuple[float, int]] = []
    count = 0
    for position, (names, uids) in enumerate(candidates):
        if search.is_over:
            search.cut_short = True
            break
        progress = search.progress(search.ended(uids), len(uids))
        helpful.append((-progress, position))
        if progress == STARTS:
            yield search.fix("job-ended", f"wait for {names} to end", search.ended(uids))
            count += 1
            if count == _MAX_SINGLE_JOBS:
                return
    if count:
        return
    # Those that brought the job furthest alone come first.
    candidates = [candidates[position] for _, position in sorted(helpful)]
    for (one, some), (other, more) in combinations(candidates[:_PAIRED], 2):
        if search.is_over:
            return
        uids = [*some, *more]
        if search.holds(search.ended(uids), len(uids)):
            yield search.fix("job-ended", f"wait for {one} and {other} to end", search.ended(uids))
            return
    parts = [search.ended(uids) for _, uids in candidates[:_MAX_TOGETHER]]
    taken = search.fewest(parts, 8)
    if taken:
        names = joined([candidates[position][0] for position in taken])
        yield search.fix("job-ended", f"wait for {names} to end", together(parts, taken))


def move_fixes(search: FixSearch) -> Iterator[Fix]:
    """Running jobs moved to other places, where enough chips are free for the job, but in the wrong ones."""
    view, job = search.view, search.job
    if view.settings.defragment == "off" or not search.budget.may_move:
        return
    budgets, unread = search.budget.disruption_budgets()
    plan = Planner(Units(view, search.now, budgets=budgets), PlanBudget(_MOVE_STEPS)).find(job)
    if isinstance(plan, Reason):
        search.cut_short = search.cut_short or plan.code == PLAN_TOO_COSTLY.code
        return
    search.budget.omitted += unread
    moved = plan.moved_jobs
    first = view.jobs[moved[0]]
    what = f"job {first.namespace}/{first.name}" if len(moved) == 1 else counted(moved, "job")
    name = job.full_name
    # The room that the moves make is kept for this job, whoever is ahead of it.
    yield Fix("moves", f"move {what} to other nodes (`ringwise defrag --plan --for {name}`)")


def wait_fixes(search: FixSearch) -> Iterator[Fix]:
    """Where nothing smaller helps: whether the job would start once all others have ended."""
    view, job = search.view, search.job
    uids = [uid for uid, placed in view.cluster.pods.items() if placed.node >= 0 and uid not in job.pods]
    if uids:
        text = "wait for all running jobs to end, or add nodes"
        yield from search.attempt("wait", text, search.ended(uids), len(uids))


def _candidates(search: FixSearch) -> list[tuple[str, list[str]]]:
    """Jobs that hold what this one needs: those on near misses first, then the smallest.

    Without a scheduler that decides, some of them would only be placed now, ahead of this one.
    """
    view, job = search.view, search.job
    resource = job.policy.resource if job.policy is not None else None
    near = {miss.number for miss in search.misses[:16]}
    grouped, chips, close = defaultdict[str, list[str]](list), Counter[str](), set[str]()
    for uid, placement in view.cluster.pods.items():
        cls = placement.pod.cls
        if placement.node < 0 or uid in job.pods or (resource is not None and cls.resource != resource):
            continue
        owner = view.job_of(uid)
        name = f"job {owner.namespace}/{owner.name}" if owner else f"pod {placement.pod.key}"
        if placement.pod.node is None:
            name += " (pending)"
        grouped[name].append(uid)
        chips[name] += cls.chips
        if placement.node in near:
            close.add(name)
    ordered = sorted(grouped, key=lambda name: (name not in close, chips[name], name))
    return [(name, grouped[name]) for name in ordered]


def node_fixes(search: FixSearch) -> Iterator[Fix]:
    misses = (*search.misses, *search.tainted)
    repairs = [repair for miss in misses if (repair := _repair(search, miss)) is not None]
    single = list(first_fixes((search.attempt("node", *repair) for repair in repairs[:5]), 2))
    yield from single
    if single or len(repairs) < 2:
        return
    parts = [suppose for _, suppose in repairs[:16]]
    taken = search.fewest(parts)
    if taken:
        words = joined([repairs[n][0] for n in taken])
        yield search.fix("node", words, together(parts, taken))


def isolation_fixes(search: FixSearch) -> Iterator[Fix]:
    """Nodes, and chips of nodes, that an operator took out of use."""
    view, policy = search.view, search.job.policy
    if not view.cluster.isolations or policy is None:
        return
    nodes: dict[str, int] = {}
    for miss in search.misses:
        entries = view.cluster.isolations_of(miss.number)
        if entries and (miss.reason.code in _ISOLATED or miss.chips):
            # Other nodes of the same leaf switch or SuperPoD are released with the first.
            nodes.setdefault(_release_text(entries), miss.number)
    attempts = (
        search.attempt("released", text, partial(view.what_if.released, node)) for text, node in nodes.items()
    )
    yield from first_fixes(attempts, 2)


def reservation_fixes(search: FixSearch) -> Iterator[Fix]:
    """Reservations of nodes that keep the job off: each canceled alone."""
    reserved = (miss.reason for miss in search.misses if miss.reason.code == NODE_RESERVED.code)
    names = dict.fromkeys(str(reason.details["name"]) for reason in reserved)
    attempts = (
        search.attempt(
            "unreserved",
            f"delete reservation {name} (`ringwise unreserve {name}`)",
            partial(search.view.what_if.unreserved, name),
        )
        for name in [*names][:_MAX_TOGETHER]
    )
    yield from first_fixes(attempts, 2)


def _release_text(entries: Sequence[Isolation]) -> str:
    """One command for each target; chips count only where their node stays in use."""
    whole = [one for one in entries if not one.chip]
    chips = list(dict.fromkeys(one.chip for one in entries if one.chip))
    if not whole:
        what = f"{joined(chips)} of {entries[0].node}"
        commands = [f"{entries[0].node} {' '.join(chips)}"]
    else:
        what = joined([one.title for one in whole])
        commands = [one.target for one in whole]
    shown = " and ".join(f"`ringwise unisolate {command}`" for command in commands)
    return f"end the isolation of {what} ({shown})"


def _repair(search: FixSearch, miss: ClosestNode) -> tuple[str, Suppose] | None:
    node = search.view.cluster.nodes[miss.number]
    if node is None:
        return None
    if miss.reason.code == NODE_CORDONED.code:
        taints = tuple(taint for taint in node.taints if taint.key != UNSCHEDULABLE_TAINT)
        text, repaired = f"uncordon {node.name}", replace(node, unschedulable=False, taints=taints)
    elif miss.reason.code == NODE_NOT_READY.code:
        text, repaired = f"make {node.name} Ready", replace(node, ready=True)
    elif miss.reason.code == UNTOLERATED_TAINT.code:
        taint = miss.reason.details["taint"]
        taints = tuple(one for one in node.taints if written_taint(one) != taint)
        text, repaired = f"remove the taint {taint} from {node.name}", replace(node, taints=taints)
    else:
        return None
    return text, partial(search.view.what_if.node_is, repaired)


def _chips_text(ring_kind: str, misses: Sequence[ClosestNode]) -> str:
    """`2 chips of ring 0 on node-17`"""
    words = []
    for miss in misses:
        count = counted(miss.missing, "chip")
        where = f" of {ring_kind} {miss.ring}" if miss.ring is not None else ""
        words.append(f"{count}{where} on {miss.node}")
    return joined(words)


# -- claims of volumes that keep a job from every node ---------------------------------------------


def waits_for_claim(reason: Reason) -> bool:
    """Whether a claim of the job refuses it, whatever nodes are free."""
    return reason.code in OF_CLAIMS


def claim_fixes(search: FixSearch) -> Iterator[Fix]:
    """What the reason says of the claim; tried with volumes that every node can use."""
    if search.reason.code == CLAIM_IN_USE.code:
        yield from ended_job_fixes(search)
        return
    pods = search.job.in_order
    supposed = partial(search.view.what_if.claims_bound, pods)
    if search.holds(supposed, sum(len(pod.claims) for pod in pods)):
        for text in search.reason.fixes:
            yield search.fix("claim", text, supposed)


def volume_fixes(search: FixSearch) -> Iterator[Fix]:
    """Other volumes, where it is volumes that keep the job from nodes."""
    if not OF_VOLUMES & search.codes.keys():
        return
    pods = search.job.in_order
    claims = list(dict.fromkeys(key for pod in pods for key in keys_of(pod)))
    names = first_of(claims, _NAMED_CLAIMS, "{n:more claim}")
    text = f"use {agrees(len(claims), 'a volume', 'volumes')} for {joined(names)} that every node can use"
    supposed = partial(search.view.what_if.claims_bound, pods, others=True)
    yield from search.attempt("claim", text, supposed, sum(len(pod.claims) for pod in pods))


# -- all fixes --------------------------------------------------------------------------------------

#: The cheapest for the cluster first.
_FIXES = (
    *JOB_FIXES,
    isolation_fixes,
    reservation_fixes,
    chip_fixes,
    cooldown_fixes,
    bundle_fixes,
    move_fixes,
    ended_job_fixes,
    node_fixes,
)
#: Of a job that waits for a limit: no chips, nodes or moves help; and what others run is not shown.
_OF_LIMITS = (limit_fixes, size_fixes, minimum_fixes, queue_fixes)


def find_fixes(search: FixSearch) -> list[Fix]:
    """What would let the pending job start; each was tried."""
    tried: Sequence[Sequence[Callable[[FixSearch], Iterator[Fix]]]]
    if waits_for_limit(search.reason):
        tried = (_OF_LIMITS,)
    elif waits_for_claim(search.reason):
        tried = ((claim_fixes,),)
    else:
        tried = (_FIXES, (volume_fixes,), (wait_fixes,))
    for kinds in tried:
        fixes = [fix for fixes_of in kinds for fix in fixes_of(search)]
        if fixes:
            # A gang of fewer pods is another job: it is the last thing to suggest.
            return sorted(fixes, key=lambda fix: fix.kind == "min-available")
    return []
