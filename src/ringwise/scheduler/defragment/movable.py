"""Which running jobs may be moved, why the others may not, what moving them costs, and for which jobs it is.

Whether the nodes of a plan suit its pods is asked as a cycle asks, once the pods have left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack

from ringwise.durations import SECOND, plain_duration
from ringwise.framework.evictions.lost_work import (
    FALSE,
    NO_COST,
    TRUE,
    cooldown_span,
    gang_started,
    pod_started,
    shortened,
    written_cooldown,
)
from ringwise.framework.extension_points import first_reason
from ringwise.framework.gangs.gang_placement import node_filters
from ringwise.framework.job import Job, PlannedPlace
from ringwise.framework.selectors import all_hold
from ringwise.framework.statement import Allocation
from ringwise.reasons import Reason, Trigger
from ringwise.records import dataclass
from ringwise.scheduler.defragment.live_plan import LivePlan, place_of
from ringwise.scheduler.defragment.reasons import (
    BEING_RESCHEDULED,
    BUDGET_FORBIDS_MOVE,
    COOLS_DOWN,
    EVICTION_COUNTS_AS_FAILURE,
    MOVE_NOT_ALLOWED,
    MUST_NOT_MOVE,
    NOT_COMPLETE,
    NOT_RECREATED,
    OF_ANOTHER_SCHEDULER,
    POLICY_ENDS_JOB,
    RETRIES_USED_UP,
    TIED_TO_NODE,
)
from ringwise.scheduler.view import SchedulerView
from ringwise.state.cluster import PodRecord
from ringwise.state.failures import NO_OP_ACTIONS
from ringwise.state.job_rules import ANY
from ringwise.state.model import Pod, Queue, Requirement
from ringwise.state.vcjob import Policy, Task, VcJob
from ringwise.topology.chips import chips_of
from ringwise.wellknown import COOLDOWN_TIME, MOVABLE, PREEMPTABLE, RESTART_COST

#: Owners that keep their pods on their nodes.
_TIED = frozenset({"DaemonSet", "Node"})
#: Actions of a policy after which the job does not run again.
_ENDING = frozenset({"AbortJob", "TerminateJob", "CompleteJob"})
#: What an eviction may be to a vcjob: the pod is gone, or is seen as failed before that (also by the exit
#: codes of SIGTERM and SIGKILL), or a part of the gang runs for a moment.
_EVICTION_EVENTS = ("PodEvicted", "PodFailed", "Unknown", "JobUnknown")
_SIGNALED = frozenset({137, 143})

#: What the caller knows besides. None: the job may be moved.
Permit = Callable[[Job], Reason | None]


def anyone(_: Job) -> Reason | None:
    """The permit of a caller that knows nothing besides."""
    return None


def only_willing(job: Job) -> Reason | None:
    """The permit of `defragment: auto`: only jobs that say so themselves are moved without a question."""
    if job.annotations.get(MOVABLE, "").strip().lower() in TRUE:
        return None
    return MOVE_NOT_ALLOWED(job=job.full_name, key=MOVABLE, value='"true"')


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """A PodDisruptionBudget: how many of the pods that it selects may be evicted now."""

    namespace: str
    name: str
    selector: tuple[Requirement, ...]
    allowed: int

    def counts(self, pod: Pod) -> bool:
        return pod.namespace == self.namespace and all_hold(self.selector, pod.labels)


#: Reads the disruption budgets of the cluster, and says what could not be read of them, as sentences.
BudgetReader = Callable[[], tuple[Sequence[DisruptionBudget], Sequence[str]]]


def no_budgets() -> tuple[Sequence[DisruptionBudget], Sequence[str]]:
    """Of a cluster that has none: a lab."""
    return (), ()


def restart_cost(view: SchedulerView, job: Job) -> int:
    """What a restart of the job costs, in nanoseconds of its run."""
    written = plain_duration(job.annotations.get(RESTART_COST, ""))
    if written is None and job.annotations.get(RESTART_COST, "").strip() in NO_COST:
        return 0
    return view.settings.restart_cost * SECOND if written is None else written


def not_movable(
    view: SchedulerView,
    job: Job,
    now: int,
    permit: Permit = anyone,
    budgets: Sequence[DisruptionBudget] = (),
) -> Reason | None:
    """Why the job must not be moved; None: it may be."""
    pods = view.cluster.pods
    placed = [pod for uid, pod in job.pods.items() if pods[uid].node >= 0 and pod.live]
    return (
        _forbidden(view, job)
        or _foreign(view, job, placed)
        or _rescheduled(view, job)
        or _incomplete(view, job, placed)
        or _not_recreated(view, job, placed)
        or _ended_by_policy(view, job, placed)
        or _cooling(job, placed, view.queues.get(job.queue), now)
        or _over_budget(job, moved_together(job, placed), budgets)
        or permit(job)
    )


def moved_together(job: Job, placed: Sequence[Pod]) -> Sequence[Pod]:
    """The fewest pods of the job that a move evicts: one where they run alone, else all."""
    return placed[:1] if job.has_independent_pods else placed


def fewest_moved_chips(view: SchedulerView, job: Job) -> int:
    """Of the pods that a move of the job evicts at least."""
    held = [
        record.chips.bit_count()
        for uid, pod in job.pods.items()
        if (record := view.cluster.pods[uid]).node >= 0 and record.chips and pod.live
    ]
    return min(held, default=0) if job.has_independent_pods else sum(held)


# -- causes ------------------------------------------------------------------------------------------------


def _forbidden(view: SchedulerView, job: Job) -> Reason | None:
    """Return the reason if an annotation or label of the job, its vcjob or a pod forbids moves, or None."""
    texts = [job.annotations, job.labels]
    vcjob = view.vcjob_of(job)
    if vcjob is not None:
        texts += [vcjob.annotations, vcjob.labels]
    texts += [written for pod in job.pods.values() for written in (pod.annotations, pod.labels)]
    for written in texts:
        value = written.get(MOVABLE)
        if value is not None and (value := value.strip().lower()) not in TRUE:
            shown = "false" if value in FALSE else shortened(value)
            return MUST_NOT_MOVE(job=job.full_name, key=MOVABLE, value=f'"{shown}"')
    for written in texts:
        if written.get(PREEMPTABLE, "").strip().lower() in FALSE:
            return MUST_NOT_MOVE(job=job.full_name, key=PREEMPTABLE, value='"false"')
    return None


def _foreign(view: SchedulerView, job: Job, placed: Iterable[Pod]) -> Reason | None:
    if all(view.is_ours(pod) for pod in placed):
        return None
    return OF_ANOTHER_SCHEDULER(job=job.full_name)


def _rescheduled(view: SchedulerView, job: Job) -> Reason | None:
    """A fault handler, a drain or another move is at work with it."""
    key = job.key
    busy = (
        key in view.fault_jobs
        or key in view.waiting_restarts
        or key in view.clocks.by_job
        or job.clock is not None
        or job.previous_nodes
        or job.awaited_nodes
        or job.terminating
        or job.backups
        or view.reserved_quota_of(key)[0]
        or view.reservations.of(key) is not None
    )
    return BEING_RESCHEDULED(job=job.full_name) if busy else None


def _incomplete(view: SchedulerView, job: Job, placed: Sequence[Pod]) -> Reason | None:
    """Its share of pods must be there: what is moved is then all that waits."""
    why = ""
    if any(pod.deleting for pod in job.pods.values()):
        why = "a pod of it terminates"
    elif any(pod.cls.part is not None for pod in placed):
        why = "its pods have soft shares or vNPUs"
    elif any(view.is_pending(pod) or (pod.gated and pod.live) for pod in job.pods.values()):
        why = "a pod of it waits for a node"
    elif any(not _is_settled(view.cluster.pods[pod.uid], pod) for pod in placed):
        why = "it is not known which chips its pods have"
    elif not job.has_independent_pods and any(not pod.live for pod in job.pods.values()):
        why = "a pod of its gang has ended"
    elif len(placed) < max(job.min_available, 0 if job.has_independent_pods else job.announced_pods):
        why = "not all of its pods run"
    return NOT_COMPLETE(job=job.full_name, why=why) if why else None


def _is_settled(record: PodRecord, pod: Pod) -> bool:
    """Whether the pod is bound, and its chips are known."""
    return pod.node is not None and record.chips.bit_count() == pod.cls.chips and not record.doubtful


def _not_recreated(view: SchedulerView, job: Job, placed: Sequence[Pod]) -> Reason | None:
    vcjob = view.vcjob_of(job)
    if vcjob is not None:
        return NOT_RECREATED(job=job.full_name, why="its vcjob has ended") if vcjob.over else None
    if view.only_vcjobs_recreated:
        return NOT_RECREATED(job=job.full_name, why="in a lab only the pods of vcjobs are")
    for pod in placed:
        owner = pod.owner
        if owner is None:
            return NOT_RECREATED(job=job.full_name, why=f"pod {pod.name} has no owner")
        if owner.kind in _TIED:
            return TIED_TO_NODE(job=job.full_name, kind=owner.kind)
        if owner.kind == "Job":
            if owner.is_vcjob:
                return NOT_RECREATED(job=job.full_name, why=f"its vcjob {owner.name} is gone")
            return EVICTION_COUNTS_AS_FAILURE(
                job=job.full_name, why="and how many its backoffLimit has left is not known"
            )
    return None


def _ended_by_policy(view: SchedulerView, job: Job, placed: Sequence[Pod]) -> Reason | None:
    vcjob = view.vcjob_of(job)
    if vcjob is None:
        return None
    tasks = {task.name: task for task in vcjob.tasks}
    for name in dict.fromkeys(pod.task for pod in placed):
        for event, policy in _policies_of_eviction(vcjob, tasks.get(name)):
            if policy.action in _ENDING:
                return POLICY_ENDS_JOB(job=job.full_name, event=event, action=policy.action)
            if policy.action in NO_OP_ACTIONS or not policy.action.startswith("Restart"):
                continue
            # A restart of the whole job is one retry; of the others each evicted pod may be one.
            needed = 1 if policy.action == "RestartJob" else len(placed)
            left = max(0, vcjob.max_retry - 1 - vcjob.retry_count)
            if needed > left:
                return RETRIES_USED_UP(
                    job=job.full_name, event=event, action=policy.action, limit=vcjob.max_retry, left=left
                )
    return None


def _policies_of_eviction(vcjob: VcJob, task: Task | None) -> Iterable[tuple[str, Policy]]:
    """Of each event that an eviction may be, the policy that counts: task before job, the first match.

    Exit codes are not known beforehand: all that a signal leads to count.
    """
    policies = (*(task.policies if task is not None else ()), *vcjob.policies)
    for event in _EVICTION_EVENTS:
        for policy in policies:
            if event == "PodFailed" and policy.exit_code in _SIGNALED:
                yield f"exit code {policy.exit_code}", policy
            elif event in policy.events or any(word in policy.events for word in ANY):
                yield event, policy
                break


def _cooling(job: Job, placed: Sequence[Pod], queue: Queue | None, now: int) -> Reason | None:
    until, why = 0, ""
    for cool_down in job.cooling.values():
        if cool_down.until > max(now, until):
            until, why = cool_down.until, "hardware broke it a while ago"
    gang = None if job.has_independent_pods else gang_started(job, now)
    for pod in placed:
        span = cooldown_span(job, pod, queue)
        end = span + (pod_started(job, pod, now) if gang is None else gang)
        if span and end > max(now, until):
            until, why = end, f"it has {COOLDOWN_TIME}: {written_cooldown(job, pod)}"
    if not why:
        return None
    return COOLS_DOWN(job=job.full_name, seconds=-((now - until) // SECOND), why=why)


def _over_budget(job: Job, pods: Sequence[Pod], budgets: Sequence[DisruptionBudget]) -> Reason | None:
    for budget in budgets:
        needed = sum(map(budget.counts, pods))
        if needed > budget.allowed:
            return BUDGET_FORBIDS_MOVE(
                job=job.full_name, budget=budget.name, allowed=budget.allowed, needed=needed
            )
    return None


def waits_for_room(job: Job) -> bool:
    """Whether it does not fit now, and others that end or move would help it."""
    reason = None if job.waiting_since is None else job.reason
    return reason is not None and Trigger.CHIPS_FREED in reason.kind.resolved_by


def chips_of_heads(view: SchedulerView) -> dict[str, list[int]]:
    """By resource: the chips that the pods of the first waiting job of each queue still ask for.

    The first by priority and age: other orders of plugins need a session, which is too much for a metric.
    """
    heads: dict[str, tuple[tuple[int, int, str], Job]] = {}
    for job in view.jobs.values():
        if waits_for_room(job) and job.policy is not None:
            entry = (-job.priority, job.created, job.key), job
            heads[job.queue] = min(entry, heads.get(job.queue, entry))
    result: dict[str, list[int]] = {}
    for _, job in heads.values():
        # The pods of a vcjob are created when it is admitted: until then all that will be ask for chips.
        chips = sum(pod.cls.chips for pod in job.in_order if not job.pods or view.is_pending(pod))
        if chips and job.policy is not None:
            result.setdefault(job.policy.resource, []).append(chips)
    return result


def unsuitable_node(view: SchedulerView, live: LivePlan, now: int) -> str:
    """Return which pod does not fit on its node, and why; empty if all fit. The chips must be free."""
    state, what_if = view.cluster, view.what_if
    with what_if.question(), ExitStack() as supposed:
        session = what_if.open_session(now)
        supposed.enter_context(session.reservations.open_to(live.plan.job))
        leaving = [uid for _, uid, _ in live.moving_pods()]
        supposed.enter_context(what_if.restarted(session, leaving))
        # What pods keep others away is found in a session where they have left.
        session = what_if.open_session(now)
        places = list(_places(view, live))
        for job in {job.key: job for job, _, _ in places}.values():
            # Its policy, without which no node is asked about, is found there, too.
            if (refused := session.job_valid(job)) is not None:
                return f"{job.full_name} could not start: {refused.message}"
        for job, uid, place in places:
            pod, node = job.pods[uid], state.node_id[place.node]
            refused = session.node_selection(job, pod).unselected(node)
            refused = refused or first_reason(node_filters(session, job, pod), node)
            if refused is not None:
                return f"{pod.key} does not fit on {place.node}: {refused.message}"
            allocation = Allocation(job, pod, node, chips_of(place.chips))
            supposed.enter_context(what_if.placed(session, [allocation]))
    return ""


def _places(view: SchedulerView, live: LivePlan) -> Iterator[tuple[Job, str, PlannedPlace]]:
    """The pods that move, then those of the job that waits. Pods without chips go wherever they fit."""
    for moving, uid, pod in live.moving_pods():
        if pod.target.chips:
            yield view.jobs[moving.job], uid, pod.target
    waiting = view.jobs[live.plan.job]
    uids = {pod.name: pod.uid for pod in waiting.in_order}
    for place in map(place_of, live.plan.room):
        if place.chips:
            yield waiting, uids[place.pod], place
