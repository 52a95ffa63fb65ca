"""How a job gets its nodes: as a whole by a plan, or pod by pod, inside one statement."""

from __future__ import annotations

from collections.abc import Sequence

from ringwise.framework.extension_points import Point
from ringwise.framework.job import Job
from ringwise.framework.node_selection import Choice, NodeFilter, NodeSelection
from ringwise.framework.previous_node import choose_like_before, comes_back, old_seats_first
from ringwise.framework.reasons import GANG_INCOMPLETE, NO_NODE_FITS, NO_PODS_YET
from ringwise.framework.session import JobPlan, Session
from ringwise.framework.statement import Allocation, Statement
from ringwise.reasons import Reason
from ringwise.state.model import Pod


def pending_pods(session: Session, job: Job, *, best_effort: bool = False) -> list[Pod]:
    """The job's pods that wait for a node, in the order in which they are served.

    Pods that ask for nothing are served apart, by backfill.
    """
    pods = [pod for pod in job.in_order if pod.cls.best_effort is best_effort and session.is_pending(pod)]
    if len(pods) > 1 and session.registered(Point.TASK_ORDER):
        pods.sort(key=session.pod_key)
    return pods


def started_pods(session: Session, job: Job) -> int:
    """Pods that count for the gang: they have a node and are not going, or have done their work."""
    placements = session.state.pods
    count = 0
    for uid, pod in job.pods.items():
        if pod.phase == "Succeeded" or (placements[uid].node >= 0 and not pod.deleting):
            count += 1
    return count


def missing_pods(session: Session, job: Job) -> int:
    """How many pods must still get a node before the gang may start; the best-effort ones come later."""
    missing = job.min_available - started_pods(session, job)
    if missing > 0:
        for pod in job.pods.values():
            if pod.cls.best_effort and session.is_pending(pod):
                missing -= 1
    return max(0, missing)


def fill(session: Session, job: Job, statement: Statement, *, beyond_gang: bool = False) -> Reason | None:
    """Place the job's pods until its gang is complete; None when it is.

    `beyond_gang` goes on with the pods a job may have beyond its gang, one at a time.
    """
    pods = pending_pods(session, job)
    missing = missing_pods(session, job)
    if beyond_gang:
        # Jobs for racks go on with whole blocks (P8), all others pod by pod.
        pods, missing = pods if job.policy is not None and job.policy.rack is not None else pods[:1], 1
    if len(pods) < missing:
        return NO_PODS_YET(pods=job.min_available - missing + len(pods), needed=job.min_available)
    plan = _plan(session, job, pods)
    if isinstance(plan, Reason):
        return plan
    if plan is not None:
        return _follow(session, job, statement, plan, pods)
    return _one_by_one(session, job, statement, old_seats_first(session, job, pods), missing)


def fill_best_effort(session: Session, job: Job, statement: Statement) -> Reason | None:
    """Place the pods that ask for nothing, as many as find a node."""
    return _one_by_one(session, job, statement, pending_pods(session, job, best_effort=True), None)


def _plan(session: Session, job: Job, pods: Sequence[Pod]) -> JobPlan | Reason | None:
    for ask in session.registered(Point.JOB_PLAN):
        answer: JobPlan | Reason | None = ask(job, pods)
        if answer is not None:
            return answer
    return None


def _follow(
    session: Session, job: Job, statement: Statement, plan: JobPlan, pods: Sequence[Pod]
) -> Reason | None:
    """Carry out a plan. Pods it does not name (no chips asked) find a node by themselves."""
    rest: list[Pod] = []
    queue = session.queues.get(job.queue)
    for pod in pods:
        node = plan.nodes.get(pod.uid)
        if node is None:
            if not pod.cls.chips:
                rest.append(pod)
            continue
        if queue is not None:
            denied = session.allocatable(queue, pod)
            if denied is not None:
                return denied
        selection = session.node_selection(job, pod)
        chips = selection.chips_on(node)
        if len(chips) != selection.chips or not selection.fits(node):
            return selection.verdict(node)[1] or _nothing(session, job, pod, selection, {})
        statement.allocate(Allocation(job, pod, node, chips, 0, plan.annotations.get(pod.uid, {})))
    session.plans[job.key] = plan
    return _one_by_one(session, job, statement, rest, missing_pods(session, job))


def _one_by_one(
    session: Session, job: Job, statement: Statement, pods: Sequence[Pod], missing: int | None
) -> Reason | None:
    """Give each pod the best node there is; stop when `missing` have one (None: go on to the last)."""
    queue = session.queues.get(job.queue)
    failed: Reason | None = None
    failed_classes: set[NodeSelection] = set()
    placed = 0
    # Nodes that a filter refused are hidden from a view that all pods of a board share,
    # so they come back as soon as a pod of another class asks.
    current: NodeSelection | None = None
    hidden: dict[int, Reason] = {}
    try:
        for pod in pods:
            selection = session.node_selection(job, pod)
            if selection in failed_classes:
                continue
            denied = session.allocatable(queue, pod) if queue is not None else None
            if denied is not None and failed is not None:
                continue
            if hidden and current is not None and selection is not current:
                current.show(hidden)
            current = selection
            choice = _choose(session, job, pod, selection, hidden)
            if choice is None:
                failed_classes.add(selection)
                failed = failed or _nothing(session, job, pod, selection, hidden)
                continue
            if denied is not None:
                # There is room, so it really is the queue that keeps the pod waiting.
                failed = denied
                continue
            chips = selection.chips_of_chosen(choice.node)
            statement.allocate(Allocation(job, pod, choice.node, chips, choice.score))
            placed += 1
            if missing is not None and placed >= missing and session.job_ready(job):
                return None
    finally:
        if hidden and current is not None:
            current.show(hidden)
    if placed >= (missing or 0) and session.job_ready(job):
        return None
    return failed or NO_PODS_YET(pods=started_pods(session, job), needed=job.min_available)


def _choose(
    session: Session, job: Job, pod: Pod, selection: NodeSelection, hidden: dict[int, Reason]
) -> Choice | None:
    filters = filters_of(session, job, pod)
    favoured = _favours(session, job, pod)
    if comes_back(session, job, pod):
        choice = choose_like_before(session, job, pod, selection, hidden, filters, favoured)
        if choice is not None:
            return choice
    return selection.choose(hidden, filters, favoured)


def filters_of(session: Session, job: Job, pod: Pod) -> list[NodeFilter]:
    """What plugins have to say about single nodes for this pod; usually nothing."""
    makers = session.registered(Point.NODE_FILTER)
    return [block for make in makers if (block := make(job, pod)) is not None]


def _favours(session: Session, job: Job, pod: Pod) -> dict[int, float]:
    total: dict[int, float] = {}
    for ask in session.registered(Point.NODE_FAVOUR):
        favoured = ask(job, pod)
        if favoured:
            for node, extra in favoured.items():
                total[node] = total.get(node, 0.0) + extra
    return total


def _nothing(
    session: Session, job: Job, pod: Pod, selection: NodeSelection, hidden: dict[int, Reason]
) -> Reason:
    """Why this pod found nothing, in numbers."""
    details = {
        "job": job.name,
        "pod": pod.name,
        "asks": _asks(pod),
        "nodes": session.state.node_count,
        "refusals": selection.refusals(hidden),
    }
    if job.min_available <= 1:
        return NO_NODE_FITS(**details)
    started = started_pods(session, job)
    return GANG_INCOMPLETE(
        **details, fit=started, needed=job.min_available, missing=job.min_available - started
    )


def _asks(pod: Pod) -> str:
    cls = pod.cls
    if cls.chips:
        return f"{cls.chips} x {cls.resource}"
    return "no chips"
