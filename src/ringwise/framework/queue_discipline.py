"""`queue-discipline: strict`: a job that does not fit blocks those of its resource behind it in its queue.

It blocks them only while time alone can help it. A job does not block others if it is refused, lacks pods,
waits behind scheduling gates, was too costly to place, runs with `minAvailable` pods, or would not fit even
into the empty cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator

from ringwise.framework.budget import TooCostly
from ringwise.framework.gangs.gang_placement import missing_pods, place_gang
from ringwise.framework.job import Job
from ringwise.framework.network_topology import asks_for_topology
from ringwise.framework.queue_heads import Head, Line
from ringwise.framework.reasons import INTERNAL_ERROR, WAITS_BEHIND
from ringwise.framework.session import Session
from ringwise.framework.shares.backfill_reservations import reserved_free
from ringwise.framework.trials import trial
from ringwise.reasons import Reason, Trigger
from ringwise.state.fleet import HOSTS
from ringwise.state.model import PodClass, PodTerm


def job_ahead(session: Session, job: Job) -> Job | None:
    """The job that this one has to wait behind, whether or not it would fit."""
    heads = session.heads
    if not heads or not session.is_strict:
        return None
    order = None
    for key, place in heads.in_order(line_of(session, job)):
        ahead = session.jobs.get(key)
        if key == job.key:
            return None
        if ahead is None or not _waits(session, ahead):
            continue
        order = session.job_key(job) if order is None else order
        return ahead if place < order else None
    return None


def waits_behind(session: Session, job: Job) -> Reason | None:
    """The reason of a job that has to wait behind another one.

    It does not name that one: hundreds of jobs would get another reason, and their PodGroups be written,
    whenever the first of them starts. `why` names it.
    """
    return None if job_ahead(session, job) is None else _reason(line_of(session, job))


def take_turn(session: Session, job: Job) -> Reason | None:
    """The same for a job that is about to be tried. One that has to wait is remembered in its place."""
    # M1: a job that is being moved has its place, so it does not overtake other jobs.
    if not session.is_strict or job.places:
        return None
    heads, line = session.heads, line_of(session, job)
    heads.unpark(job.key)
    before = heads.first_behind(line)
    order = session.job_key(job) if before is not None else None
    # A job ahead of it that waits is tried in a later cycle of this turn; until then no job overtakes it.
    passes = before is not None and order is not None and before < order
    if not passes and job_ahead(session, job) is None:
        return None
    heads.park(job.key, Head(line, session.job_key(job)))
    return _reason(line)


def _reason(line: Line) -> Reason:
    return WAITS_BEHIND(queue=line.queue, resource=line.resource or "no chips")


def note_attempt(session: Session, job: Job) -> None:
    """The job was tried, and its reason says how that ended: others wait behind it from now on, or not."""
    if not session.is_strict:
        return
    # A job that was allowed to borrow does not block other jobs either.
    if job.places or job.key in session.limits.may_burst or not _waits_for_room(session, job):
        session.heads.drop(job.key)
        return
    if _is_unplaced(session, job):
        shape = shape_of(session, job)
        if not session.heads.is_tested(shape):
            if _plainly_fits(session, job):
                session.heads.judge(shape, fits=True)
            else:
                session.heads.to_test[job.key] = None
        if session.heads.is_too_large(shape):
            session.heads.drop(job.key)
            return
    session.heads.put(job.key, Head(line_of(session, job), session.job_key(job)))


def _waits_for_room(session: Session, job: Job) -> bool:
    """Whether it does not fit now, and others that end or give way would help it."""
    return lacks_room(job.reason) and _is_whole(session, job)


def lacks_room(reason: Reason | None) -> bool:
    if reason is None or reason.code == INTERNAL_ERROR.code:
        return False
    return Trigger.CHIPS_FREED in reason.kind.resolved_by


def blocks(session: Session, job: Job) -> bool:
    """Whether a job that lacks room keeps those behind it in its line waiting."""
    if not session.is_strict or not _is_whole(session, job):
        return False
    return not (_is_unplaced(session, job) and session.heads.is_too_large(shape_of(session, job)))


def _is_whole(session: Session, job: Job) -> bool:
    """Whether it has all pods of its gang, and not all of them have nodes."""
    if job.queue not in session.queues:
        return False
    if not job.pods:
        return True
    return len(job.pods) >= max(job.min_available, job.announced_pods) and missing_pods(session, job) > 0


def _waits(session: Session, job: Job) -> bool:
    """False where it was placed a moment ago, or a what-if supposes that."""
    return not job.pods or any(session.state.pods[uid].node < 0 for uid in job.pods)


def _is_unplaced(session: Session, job: Job) -> bool:
    """Whether no pod of it has a node. A job of which a part runs has fitted before."""
    return all(session.state.pods[uid].node < 0 for uid in job.pods)


def line_of(session: Session, job: Job) -> Line:
    return Line(job.queue, _resource(session, job))


def _resource(session: Session, job: Job) -> str:
    if job.policy is not None:
        return job.policy.resource
    if not job.pods and not job.prospective and job.group is not None:
        names = job.group.min_resources
        return next((name for name in names if names[name] and session.topology.catalog.serving(name)), HOSTS)
    return HOSTS


# -- jobs that are too large ------------------------------------------------------------------


def shape_of(session: Session, job: Job) -> Hashable:
    """All that decides whether the job fits into the empty cluster."""
    classes = Counter(zip((pod.cls for pod in job.in_order), _labels_of_terms(job), strict=True))
    requests = frozenset(job.min_requested().items()) if not job.pods else None
    # Where nodes are kept free from some time on (F4), it matters how long the job runs, and whose it is.
    timed = (job.namespace, session.run_time_of(job)) if session.state.node_windows else None
    # Volumes are its own, and decide where it may be.
    volumes = (job.namespace, frozenset(pod.claims for pod in job.in_order)) if job.has_claims else None
    # A network topology restricts it to HyperNodes, and labels of its pods form sub-groups.
    near = job.key if job.sub_groups else job.group and job.group.topology
    pods = job.min_available, frozenset(classes.items())
    return job.queue, job.policy, *pods, requests, timed, volumes, near


def _labels_of_terms(job: Job) -> list[tuple[str | None, ...]]:
    """Of each pod, its namespace and labels that decide whether terms of the job match its own pods."""
    pods = job.in_order
    terms = [term for cls in dict.fromkeys(pod.cls for pod in pods) for term in _required_terms(cls)]
    if not terms:
        return [()] * len(pods)
    keys = sorted({requirement.key for term in terms for requirement in term.selector})
    return [(pod.namespace, *map(pod.labels.get, keys)) for pod in pods]


def _required_terms(cls: PodClass) -> Iterator[PodTerm]:
    yield from cls.pod_affinity
    yield from cls.pod_anti_affinity
    yield from (constraint.term for constraint in cls.spread if constraint.required)


def equivalence_class(session: Session, job: Job) -> Hashable:
    """Jobs with the same value start on the same nodes, if any."""
    own = job.previous_nodes or job.cooling or session.reservations.of(job.key) is not None
    placements = session.state.pods
    if own or any(placements[uid].node >= 0 for uid in job.pods):
        return job.key
    affine = any(pod.cls.pod_affinity or pod.cls.pod_anti_affinity or pod.cls.spread for pod in job.in_order)
    lends = job.expected if len(session.reservations) else None
    # Labels of equal pods may differ, and decide which running pods keep them away.
    kept_away = _kept_away(session, job) if session.state.anti_affinity_pods else frozenset()
    shape = shape_of(session, job)
    user = session.limits.user_of(job)
    return job.key if affine else (job.namespace, user, job.inqueue, lends, kept_away, shape)


def _kept_away(session: Session, job: Job) -> frozenset[int]:
    """The terms of running pods that match its pods, as sets of terms."""
    index, state = session.topology.anti_affinity_index, session.state
    return frozenset(index.terms_against(state, pod) for pod in job.in_order)


def _plainly_fits(session: Session, job: Job) -> bool:
    """Whether enough nodes would have the chips if they were empty; False: it has to be tried.

    For most jobs this test is enough, and it ends after the first few nodes.
    """
    policy, queue = job.policy, session.queues[job.queue]
    if policy is None or policy.switch_class is not None or policy.block_nodes is not None or not job.pods:
        return False
    if queue.capability or queue.parent or queue.node_groups is not None or session.quotas.get(job.namespace):
        return False
    # What other queues are guaranteed, and the HyperNodes of a network topology, are not counted here.
    if job.has_claims or asks_for_topology(job) or any(one.guarantee for one in session.queues.values()):
        return False
    classes = {pod.cls for pod in job.pods.values()}
    if len(classes) > 1:
        return False
    (cls,) = classes
    if cls.pod_affinity or cls.pod_anti_affinity or cls.spread or cls.host_ports:
        return False
    fleet = session.state.fleets[policy.resource]
    selection = session.node_selection(job, next(iter(job.pods.values())))
    missing = job.min_available
    for node in session.state.existing_nodes():
        if session.state.closed(node, policy.resource) is not None or selection.is_withheld(node):
            continue
        if selection.unselected(node) is None:
            free = fleet.free_if_empty(node)
            if policy.withholds_network:
                # -1 where it is not known: then no chip is left.
                free &= ~fleet.network[node]
            missing -= bool(policy.rule.chips(free, cls.chips, policy.multi_pod))
            if missing <= 0:
                return True
    return False


def waiting_in_line(session: Session, line: Line) -> list[Job]:
    """The unplaced jobs of the line that wait for room or behind others, as they are served."""
    waiting = [
        job
        for job in session.jobs.values()
        if job.queue == line.queue
        and job.reason is not None
        and (job.reason.code == WAITS_BEHIND.code or _waits_for_room(session, job))
        and _resource(session, job) == line.resource
        and _is_unplaced(session, job)
    ]
    return sorted(waiting, key=session.job_key)


def lines_to_test(session: Session) -> dict[Line, None]:
    """The lines with jobs of which it is not known whether they fit into the empty cluster."""
    result: dict[Line, None] = {}
    for key in session.heads.to_test:
        job = session.jobs.get(key)
        if job is not None and _waits_for_room(session, job) and _is_unplaced(session, job):
            result[line_of(session, job)] = None
    return result


def fits_empty_cluster(session: Session, job: Job) -> bool:
    """Asked while all running jobs count as ended."""
    owners = [reservation.owner for reservation in session.reservations]
    try:
        with trial(session, job) as statement, reserved_free(session, job, owners):
            session.budget.begin(job.namespace, len(job.pods))
            if session.job_valid(job) is not None:
                return False
            if not job.pods:
                return session.job_enqueueable(job)[0]
            return place_gang(session, job, statement) is None
    except TooCostly:
        return False
