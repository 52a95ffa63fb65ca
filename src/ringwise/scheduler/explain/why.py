"""Why a job is pending or placed where it is, and what would change that."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import field, replace

from ringwise.framework.amounts import request_text
from ringwise.framework.evictions.lost_work import claim_problems
from ringwise.framework.gangs.gang_placement import pending_pods
from ringwise.framework.gangs.ranks import ranks_of
from ringwise.framework.job import Job
from ringwise.framework.limits import waits_for_limit
from ringwise.framework.network_topology import topology_notes
from ringwise.framework.queue_discipline import job_ahead
from ringwise.framework.reasons import OTHER_SCHEDULER, PODS_GATED, VOLUMES_AWAITED, WAITS_BEHIND
from ringwise.framework.session import Session
from ringwise.framework.shares.backfill_reservations import overrun_namespaces
from ringwise.grammar import agrees, counted
from ringwise.messages.expected_start import ExpectedStart, next_cycle, unknown_start
from ringwise.messages.move_plan import DONE
from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.scheduler.defragment.movable import BudgetReader, no_budgets
from ringwise.scheduler.explain.boards_present import why_this_board
from ringwise.scheduler.explain.closest_nodes import ClosestNode, Refusals, refusals_of
from ringwise.scheduler.explain.cluster_fixes import find_fixes, waits_for_claim
from ringwise.scheduler.explain.fault_waits import fault_waits
from ringwise.scheduler.explain.findings import throttled_text
from ringwise.scheduler.explain.fix_search import Fix, FixSearch, SearchBudget
from ringwise.scheduler.explain.forecast import (
    AWAITS_VOLUMES,
    GATED,
    forecast,
    is_evicting,
    planned_start,
    waits,
)
from ringwise.scheduler.explain.limit_waits import counted_as_unknown, limit_users, run_time_left
from ringwise.scheduler.explain.preemption import preemption_of, refused_evictions, why_no_evictions
from ringwise.scheduler.explain.what_if import place_next
from ringwise.scheduler.job_states import (
    JobState,
    is_refused,
    needs_none,
    pods_not_created,
    state_of,
    would_be_nodes,
    would_be_placed,
)
from ringwise.scheduler.view import SchedulerView
from ringwise.topology.chips import chips_of
from ringwise.topology.natural import natural_key
from ringwise.topology.numbers import number_text
from ringwise.wellknown import ACCELERATOR_TYPE, LOGICAL_RACK, SUPER_POD_ID, SUPER_POD_RANK

#: How many near misses are shown.
SHOWN_MISSES = 5
#: How many names of jobs ahead are shown.
SHOWN_AHEAD = 5
#: If more jobs are pending, the last estimate of when a job starts is shown instead of a new one.
_MANY_WAITING = 200


class UnknownJobError(LookupError):
    """No job, or more than one, has that name."""


@dataclass(frozen=True, slots=True)
class PodLocation:
    """Where a pod of the job is, and with which chips."""

    pod: str
    rank: int
    node: str | None
    chips: tuple[int, ...] = ()
    switch: str | None = None
    superpod: str | None = None
    block: str | None = None
    #: Only for jobs on boards with racks.
    rack: int | None = None
    #: Whether its object names the node; else it would get it now.
    bound: bool = True


@dataclass(slots=True)
class Explanation:
    job: Job
    outcome: JobState
    sentence: str
    reason: Reason | None = None
    refusals: Refusals | None = None
    position: int | None = None
    waiting: int = 0
    ahead: tuple[str, ...] = ()
    #: When it starts, of a job that waits and is not refused.
    start: ExpectedStart | None = None
    #: Chips that are reserved for it.
    reserved_chips: int = 0
    fixes: list[Fix] = field(default_factory=list)
    locations: list[PodLocation] = field(default_factory=list)
    #: Why the job, while it does not run, has the board that it has.
    board: str | None = None
    #: How the job got its nodes, line by line.
    plan: tuple[str, ...] = ()
    #: What it waits for because of a fault, and until when.
    faults: tuple[str, ...] = ()
    #: What of its objects is not obeyed, and why.
    notes: tuple[str, ...] = ()
    #: What was not looked at because the budget was used up, as sentences.
    omitted: list[str] = field(default_factory=list)

    @property
    def misses(self) -> tuple[ClosestNode, ...]:
        return self.refusals.misses[:SHOWN_MISSES] if self.refusals is not None else ()


def find_job(view: SchedulerView, name: str) -> Job:
    """The job with this name, `namespace/name`, or with a pod of this name."""
    jobs = [*view.jobs.values(), *view.jobs_of_others()]
    for matches in (
        [job for job in jobs if name in (job.key, job.full_name)],
        [job for job in jobs if name in (job.name, job.key.partition("/")[2])],
        [job for job in jobs if any(name in (pod.name, pod.key) for pod in job.pods.values())],
    ):
        # The pods of a deleted vcjob may end while one of the same name waits: that one has a PodGroup.
        by_name = {
            (job.namespace, job.name): job for job in sorted(matches, key=lambda job: job.group is not None)
        }
        if len(by_name) == 1:
            return by_name.popitem()[1]
        if matches:
            names = ", ".join(sorted(job.full_name for job in matches)[:SHOWN_AHEAD])
            raise UnknownJobError(f"{counted(matches, 'job')} are named {name}; use one of {names}")
    choices = sorted({job.full_name for job in jobs} | {job.name for job in jobs})
    close = difflib.get_close_matches(name, choices, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(close)}?" if close else f"{counted(jobs, 'job is', 'jobs are')} known"
    raise UnknownJobError(f'job "{name}" not found; {hint}')


def explain(
    view: SchedulerView, job: Job, now: int, disruption_budgets: BudgetReader = no_budgets
) -> Explanation:
    """Everything about the job. The state is the same before and after."""
    answer = _explain(view, job, now, disruption_budgets)
    answer.notes = (
        *not_obeyed(view, job),
        *moves_of(view, job),
        *limit_users(view, job, answer.reason),
        *counted_as_unknown(view, job),
        *run_time_left(view, job, now),
        *disbelieved_claim(view, job, now),
        *preemption_of(view, job, answer.start, now),
        *why_no_evictions(view, job),
        *refused_evictions(view, job, now),
        *claim_problems(job, view.queues.get(job.queue), now),
        *throttled(view, job),
    )
    return answer


def throttled(view: SchedulerView, job: Job) -> Iterator[str]:
    """Yield a note if the namespace of the job is throttled."""
    used = view.history.throttled.get(job.namespace)
    if used is None:
        return
    if job.waiting_since is not None or would_be_nodes(view, job.pods.values()):
        yield f"namespace {job.namespace} {throttled_text(used)}"


def disbelieved_claim(view: SchedulerView, job: Job, now: int) -> Iterator[str]:
    """Yield a note if it cannot use reserved chips because a job of its namespace exceeded its duration."""
    if job.expected is not None and job.started is None and view.reservations.borrowed:
        other = overrun_namespaces(view.what_if.open_session(now)).get(job.namespace)
        if other is not None:
            yield (
                f"it cannot use chips that are reserved for others: {other} exceeded its expected duration "
                "on such chips"
            )


def not_obeyed(view: SchedulerView, job: Job) -> Iterator[str]:
    """What its objects ask for in vain: priority classes that it may not use, a topology (M2)."""
    yield from job.refused_classes.values()
    yield from (note.text for note in topology_notes(job, view.configuration, view.hyper_forest()))


def moves_of(view: SchedulerView, job: Job) -> Iterator[str]:
    """M1: the plan of moves that it waits for or is a part of; why the last one for it came to nothing."""
    yield from moves_under_way(view, job)
    last = [one for one in view.history.moves.ended.values() if job.key in (one.job, *one.moved)]
    if last and last[-1].why and view.has_pending_pods(job):
        yield f"the last moves that it was a part of came to nothing: {last[-1].why}"


def moves_under_way(view: SchedulerView, job: Job) -> Iterator[str]:
    """M1: what the plans that are carried out do for it or with it."""
    for live in view.history.moves.plans.values():
        if live.failed:
            continue
        if live.plan.job == job.key:
            names = ", ".join(view.job_name(key) for key in live.plan.moved_jobs[:SHOWN_AHEAD])
            pods = [pod.gone for _, _, pod in live.moving_pods()]
            yield f"jobs are moved so that it can start: {names}; {sum(pods)} of {counted(pods, 'pod')} gone"
        elif any(moving.job == job.key for moving in live.jobs):
            yield f"it is moved so that {view.job_name(live.plan.job)} can start"


def _explain(view: SchedulerView, job: Job, now: int, disruption_budgets: BudgetReader) -> Explanation:
    if job.reason is not None and job.reason.code == OTHER_SCHEDULER.code:
        return Explanation(job, JobState.REJECTED, job.reason.message, job.reason.with_only(()))
    vcjob = view.vcjob_of(job)
    missing = None if vcjob is None else pods_not_created(vcjob, job.pods.values())
    if missing is not None:
        state = state_of(view, job, missing)
        return Explanation(job, state, missing.message, missing, locations=_locations(view, job))
    start = _start_without_nodes(view, job)
    if job.reason is not None and start is not None:
        answer = Explanation(
            job, state_of(view, job, job.reason), job.reason.message, job.reason, start=start
        )
        answer.locations = [] if start is _GATED else _locations(view, job)
        return answer
    with view.what_if.question(labels=(ACCELERATOR_TYPE,)), view.what_if.with_pods(job):
        waiting = view.has_pending_pods(job)
        placed = any(view.cluster.pods[uid].node >= 0 for uid in job.pods)
        if not waiting and not _refused(job):
            answer = _of_running(view, job, now, placed)
        else:
            answer = _of_waiting(view, job, now, SearchBudget(disruption_budgets=disruption_budgets))
    answer.faults = fault_waits(view, job, now)
    return answer


def _start_without_nodes(view: SchedulerView, job: Job) -> ExpectedStart | None:
    """When a job starts that no node could help; None for all others.

    None of its pods can be placed before gates are removed, or it has its nodes already, and only the volumes
    of its claims are missing.
    """
    code = "" if job.reason is None else job.reason.code
    if code == PODS_GATED.code and not view.has_pending_pods(job):
        return _GATED
    return _AWAITS_VOLUMES if code == VOLUMES_AWAITED.code else None


def _refused(job: Job) -> bool:
    return bool(job.defects) or is_refused(job.reason)


# -- waiting -------------------------------------------------------------------------------------


@dataclass(slots=True)
class PresentReasons:
    """Why jobs wait at this moment, by their keys; each with fixes that were tried."""

    of: dict[str, Reason | None]
    #: Jobs for which no fixes were tried: the budget of a command is limited.
    not_searched: int = 0


def reasons_now(view: SchedulerView, jobs: Sequence[Job], now: int, *, fixes: bool = True) -> PresentReasons:
    """Why waiting jobs wait, with fixes that were tried, both as of now; the same that `explain` finds.

    The reason that a job carries is from the middle of the cycle that decided it. All jobs of a command
    share a budget for the search; once it is used up, or without `fixes`, none are tried.
    """
    waiting = [job for job in jobs if job.reason is not None]
    result = PresentReasons({job.key: None for job in jobs})
    budget = SearchBudget.of_jobs(len(waiting))
    with view.what_if.question(labels=(ACCELERATOR_TYPE,)):
        session = view.what_if.open_session(now, waiting)
        for job in waiting:
            if job.reason is not None and job.reason.code == OTHER_SCHEDULER.code:
                result.of[job.key] = job.reason.with_only(())
                continue
            if _start_without_nodes(view, job) is not None:
                result.of[job.key] = job.reason
                continue
            with view.what_if.with_pods(job):
                if fixes and budget.remaining > 0:
                    result.of[job.key] = _present(view, job, now, budget).reason
                else:
                    result.not_searched += 1
                    result.of[job.key] = _reason_only(view, session, job)
    return result


def _reason_only(view: SchedulerView, session: Session, job: Job) -> Reason | None:
    reason = view.what_if.verdict_in(session, job)
    if reason is None or is_evicting(view, job):
        reason = job.reason
    if reason is None:
        return None
    first = _first_ahead(session, job, reason)
    if first is not None:
        reason = _naming(reason, first, first.reason)
    return reason.with_only(())


def _first_ahead(session: Session, job: Job, reason: Reason | None) -> Job | None:
    """The job that it waits behind (queue-discipline: strict), where that is its reason."""
    return job_ahead(session, job) if reason is not None and reason.code == WAITS_BEHIND.code else None


def _naming(reason: Reason, first: Job, its_reason: Reason | None) -> Reason:
    """The reason with the job that it waits behind, and why that one does not start."""
    name = first.full_name
    why = f": {its_reason.message}" if its_reason is not None else ""
    named = reason.with_details({**reason.details, "job": name})
    return named.with_hints([f"the first of them is {name}{why}"])


def _present(view: SchedulerView, job: Job, now: int, budget: SearchBudget) -> Explanation:
    """Why a waiting job waits at this moment, and what would let it start."""
    session = view.what_if.open_session(now, [job])
    line = _line(view, session, job)
    ahead = line[: line.index(job)] if job in line else []
    reason, refusals = _try_to_place(view, session, job, budget)
    evicting = is_evicting(view, job)
    if evicting or reason is None:
        reason = job.reason
    first = _first_ahead(session, job, reason)
    fixes, cut_short = list[Fix](), False
    if reason is not None:
        if not evicting:
            search = FixSearch(view, job, now, reason, refusals, ahead, budget)
            fixes, cut_short = find_fixes(search), search.cut_short
        if first is not None:
            with view.what_if.with_pods(first):
                of_first = _present(view, first, now, budget)
            reason = _naming(reason, first, of_first.reason)
            start = f"let {first.full_name} start"
            fixes += [replace(fix, text=f"{start}: {fix.text}") for fix in of_first.fixes]
            cut_short = cut_short or bool(of_first.omitted)
        if waits_for_limit(reason):
            # Whatever the nodes are like: it is not tried there.
            refusals = None
        # Only what was tried at this moment is named; what helps in general is in the reference of reasons.
        # A claim that lacks something does so also where that alone would not start the job.
        if fixes or not waits_for_claim(reason):
            reason = reason.with_only([fix.sentence for fix in fixes])
    sentence = "it would start in the next cycle" if reason is None else reason.message
    answer = Explanation(job, state_of(view, job, reason), sentence, reason, refusals, fixes=fixes)
    answer.ahead = tuple(other.full_name for other in ahead[:SHOWN_AHEAD])
    if not is_refused(reason):
        answer.position, answer.waiting = len(ahead) + 1, len(line)
    if cut_short:
        answer.omitted.append("further fixes: the search has used its steps")
    return answer


def _of_waiting(view: SchedulerView, job: Job, now: int, budget: SearchBudget) -> Explanation:
    answer = _present(view, job, now, budget)
    answer.locations, answer.board = _locations(view, job), why_this_board(view, job)
    if not is_refused(answer.reason):
        answer.start = _start(view, job, now, answer.reason)
        reservation = view.reservations.of(job.key)
        answer.reserved_chips = reservation.chip_count if reservation is not None else 0
    answer.omitted[:0] = budget.omitted
    return answer


_GATED = unknown_start(GATED)
_AWAITS_VOLUMES = unknown_start(AWAITS_VOLUMES)


def expected_start(view: SchedulerView, job: Job, now: int) -> ExpectedStart | None:
    """When the job starts, as `explain` says it; None where it does not wait, or is refused."""
    start = _start_without_nodes(view, job)
    if start is not None:
        return start
    with view.what_if.question(labels=(ACCELERATOR_TYPE,)), view.what_if.with_pods(job):
        if _refused(job) or not view.has_pending_pods(job):
            return None
        session = view.what_if.open_session(now, [job])
        reason = _reason_only(view, session, job)
        if is_refused(reason):
            return None
        return _start(view, job, now, reason)


def _start(view: SchedulerView, job: Job, now: int, reason: Reason | None) -> ExpectedStart | None:
    if reason is None:
        return next_cycle(now)
    planned = planned_start(view, job, now)
    if planned is not None:
        return planned
    reported = view.expected_start(job.key)
    waiting = sum(1 for other in view.jobs.values() if other.reason is not None)
    if reported is not None and (view.expected_starts is not None or waiting > _MANY_WAITING):
        # A copy had time to look at all of them, if some time ago.
        return reported
    return forecast(view, now, until=job).get(job.key)


def _line(view: SchedulerView, session: Session, job: Job) -> list[Job]:
    """The waiting jobs of its queue in the order in which they are served, without refused ones."""
    waiting = [
        other
        for other in view.jobs.values()
        if other.queue == job.queue and (other is job or not _refused(other)) and waits(view, other)
    ]
    return sorted(waiting, key=session.job_key)


def _try_to_place(
    view: SchedulerView, session: Session, job: Job, budget: SearchBudget
) -> tuple[Reason | None, Refusals | None]:
    """Try to place the job, and collect the verdicts of all nodes at the moment when it fails."""
    with session.reservations.open_to(job.key):
        # What is reserved for the job is its own.
        stopped = view.what_if.obstacle(session, job)
    if job.policy is None and any(pod.cls.chips for pod in job.pods.values()):
        return stopped, None
    statement = session.statement()
    try:
        with session.reservations.open_to(job.key):
            reason = place_next(session, job, statement)
            # Of those that wait, the one that requests most chips.
            pod = max(pending_pods(session, job), key=lambda one: one.cls.chips, default=None)
            if statement.refused is not None:
                # The pods that got nodes after it would be in the verdicts, and are not in the reason.
                pod, before = statement.refused
                if before < len(statement.allocations):
                    allocations = statement.allocations[:before]
                    statement.discard()
                    statement = session.statement()
                    for allocation in allocations:
                        statement.allocate(allocation)
            if pod is None or (stopped is None and reason is None):
                return stopped, None
            # The session reads all jobs, the refusals all nodes.
            budget.remaining -= len(view.jobs) // 20 + len(job.pods) + view.cluster.node_count // 4
            return stopped or reason, refusals_of(view, session, job, pod)
    finally:
        statement.discard()


# -- running -----------------------------------------------------------------------------------------


def _of_running(view: SchedulerView, job: Job, now: int, placed: bool) -> Explanation:
    state = state_of(view, job, None)
    if not placed:
        if needs_none(view.vcjob_of(job)):
            return Explanation(job, state, "its tasks have 0 replicas, and so it has no pods")
        ended = [pod for pod in job.pods.values() if not pod.live]
        text = f"{len(ended)} of its {counted(job.pods, 'pod')} {agrees(len(ended), 'has', 'have')} ended"
        return Explanation(job, state, text if job.pods else "it has no pods yet")
    locations = _locations(view, job)
    bound = [location for location in locations if location.node is not None and location.bound]
    nodes = {location.node for location in bound}
    parts = any(pod.cls.part is not None for pod in job.pods.values())
    chips = 0 if parts else sum(len(location.chips) for location in bound)
    size = f" with {counted(chips, 'chip')}" if not parts else f" ({request_text(job.in_order[0].cls)} each)"
    verb = ("runs", "run") if state is JobState.RUNNING else ("is placed", "are placed")
    text = f"{counted(bound, 'pod')}{size} {agrees(len(bound), *verb)} on {counted(nodes, 'node')}"
    if chosen := would_be_nodes(view, job.pods.values()):
        would = would_be_placed(chosen, partly=bool(bound))
        text = would if state is JobState.PENDING else f"{text}; {would}"
    plan = view.history.plans.get(job.key)
    lines = plan.lines if plan is not None else tuple(_groups(locations))
    moved = _moved_for(view, job)
    by_plan = (f"a plan of moves put it there, so that {moved} could start",)
    how = by_plan if moved else _choice(view, job, now)
    return Explanation(job, state, text, locations=locations, plan=(*lines, *how))


def _moved_for(view: SchedulerView, job: Job) -> str:
    """M1: the job for which a plan of moves put this one where it is; empty: it was placed as any other."""
    if job.has_independent_pods and len(job.pods) > 1:
        # Single pods of it move, and the others stay.
        return ""
    for live in view.history.moves.plans.values():
        for moving in live.jobs:
            if moving.job == job.key and not live.failed and not any(uid in moving.pods for uid in job.pods):
                return view.job_name(live.plan.job)
    for ended in reversed([*view.history.moves.ended.values()]):
        # Pods that were created later were placed without the plan.
        if ended.outcome == DONE and job.key in ended.moved:
            lasting = all(pod.created <= ended.at for pod in job.pods.values())
            return ended.name if lasting else ""
    return ""


def _choice(view: SchedulerView, job: Job, now: int) -> tuple[str, ...]:
    """How good the first pod's node is: judged as if the job were not there yet."""
    policy = job.policy
    first = next((pod for pod in job.chip_pods if view.cluster.pods[pod.uid].node >= 0), None)
    session = view.what_if.open_session(now, [job])
    if first is None or session.job_valid(job) is not None or job.policy is None:
        return ()
    policy, state = job.policy, view.cluster
    node = state.pods[first.uid].node
    with view.what_if.ended(session, job.pods):
        selection = session.node_selection(job, first)
        score, reason = selection.verdict(node)
        fitting = selection.fitting_nodes()
        if reason is not None or score is None:
            return (f"{state.names[node]} would not be chosen now: {reason.message}",) if reason else ()
        fleet = state.fleets[policy.resource]
        usable = selection.usable(node)
        signature = policy.rule.signature(usable, fleet.allocatable[node], fleet.faulty[node])
        group = policy.rule.group(signature, first.cls.chips)
        better = [other for other in fitting if (selection.verdict(other)[0] or 0) > score]
        text = f"{state.names[node]}: score {score}" + (f", group {group}" if group else "")
        text += f"; {counted(fitting, 'node')} would fit without it"
        if policy.switch_class is None and policy.block_nodes is None:
            text += f", {len(better) or 'none'} of them with a higher score"
        return (text,)


def _groups(locations: list[PodLocation]) -> list[str]:
    """Pods per switch, per block and per rack, where the job has them."""
    lines = []
    racks, switches = defaultdict[str, set[int]](set), defaultdict[str, list[int]](list)
    blocks = defaultdict[tuple[str, str], list[int]](list)
    for location in locations:
        if location.switch is not None:
            switches[location.switch].append(location.rank)
        if location.block is not None and location.superpod is not None:
            blocks[location.block, location.superpod].append(location.rank)
            if location.rack is not None:
                racks[location.block].add(location.rack)
    for switch, ranks in switches.items():
        lines.append(f"switch {switch}: {counted(ranks, 'pod')}, {_span(ranks)}")
    for (block, superpod), ranks in sorted(blocks.items(), key=lambda item: [*map(natural_key, item[0])]):
        used = sorted(racks[block])
        where = f", {agrees(len(used), 'rack', 'racks')} {', '.join(map(str, used))}" if used else ""
        lines.append(f"block {block}: SuperPoD {superpod}{where}, {counted(ranks, 'pod')}, {_span(ranks)}")
    return lines


def _span(ranks: list[int]) -> str:
    low, high = min(ranks), max(ranks)
    if low == high:
        return f"rank {low}"
    if len(ranks) == high - low + 1:
        return f"ranks {low}-{high}"
    return f"ranks {', '.join(str(rank) for rank in sorted(ranks))}"


def _locations(view: SchedulerView, job: Job) -> list[PodLocation]:
    state, ranks = view.cluster, ranks_of(job)
    resolved = view.switches()
    switched = job.policy is not None and job.policy.switch_class is not None
    in_racks = any(LOGICAL_RACK in pod.annotations for pod in job.pods.values())
    locations = []
    for pod in sorted(job.pods.values(), key=lambda pod: (ranks.get(pod.uid, 0), pod.name)):
        number = state.pods[pod.uid].node
        rank = ranks.get(pod.uid, 0)
        if number < 0:
            locations.append(PodLocation(pod.name, rank, None))
            continue
        node = state.names[number]
        locations.append(
            PodLocation(
                pod.name,
                rank,
                node,
                pod.named_chips or chips_of(state.pods[pod.uid].part_chips),
                resolved.switch_name(node) if resolved is not None and switched else None,
                number_text(pod.annotations.get(SUPER_POD_ID, "")),
                number_text(pod.annotations.get(SUPER_POD_RANK, "")),
                view.racks().rack_of[number][1] if in_racks and number in view.racks().rack_of else None,
                pod.node is not None,
            )
        )
    return locations
