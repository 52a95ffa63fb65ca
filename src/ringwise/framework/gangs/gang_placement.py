"""Places the pods of one job in a statement: as a whole by a plan, or pod by pod."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from ringwise.framework.amounts import request_text
from ringwise.framework.evictions.recently_faulty_chips import chips_excluded
from ringwise.framework.extension_points import (
    JOB_PLAN,
    NODE_FILTER,
    NODE_PREFERENCE,
    TASK_ORDER,
    DomainRequest,
    JobPlan,
    NodeFilter,
    first_reason,
)
from ringwise.framework.gangs.domain_placement import place_in_domains, placed_nodes
from ringwise.framework.gangs.gang_count import placed_pods
from ringwise.framework.gangs.previous_node import (
    UsedNodes,
    node_if_it_fits,
    pods_with_previous_node_first,
    prefers_previous_node,
    wait_for_previous_nodes,
)
from ringwise.framework.gangs.ranks import ranks_of
from ringwise.framework.gangs.sub_group_placement import (
    cut_sub_group,
    needed_first,
    place_sub_groups,
    request_in_sub_group,
)
from ringwise.framework.job import Job, PlannedPlace, gated_pods
from ringwise.framework.network_topology import asks_for_topology
from ringwise.framework.node_selection import NodeSelection, SelectedNode
from ringwise.framework.part_selection import part_of
from ringwise.framework.preferred_nodes import PreferredNodes
from ringwise.framework.reasons import (
    GANG_INCOMPLETE,
    NO_NODE_FITS,
    NO_PODS_YET,
    PODS_GATED,
    WAIT_FOR_PLANNED_PLACES,
)
from ringwise.framework.session import Session
from ringwise.framework.statement import Allocation, Statement
from ringwise.grammar import listed
from ringwise.reasons import Reason
from ringwise.state.hyper_nodes import Domain
from ringwise.state.model import Pod, PodClass
from ringwise.state.volume_table import ClaimChoice
from ringwise.topology.natural import natural_key

#: Nodes that one reason names.
_NAMED = 5


def places_for(session: Session, job: Job, pods: Sequence[Pod]) -> dict[str, PlannedPlace]:
    """M1: the places that a plan of moves keeps for pods of the job, by uid.

    Owners create pods again, some under other names. A pod has the place that was found for the one of its
    name, else one that was found for a pod of the job that asked for as many chips. Pods for which no place
    is kept are left out; they are placed like any other.
    """
    with_chips = [pod for pod in pods if pod.cls.chips]
    left = {place.pod: place for place in job.places}
    result = {pod.uid: left.pop(pod.name) for pod in with_chips if _is_for(pod, left.get(pod.name))}
    # Of the others, one that is free now comes first: a pod of the job may have the other one already.
    rest = sorted(left.values(), key=lambda place: not _is_free(session, job, place))
    for pod in with_chips:
        if pod.uid not in result:
            place = next((one for one in rest if _is_for(pod, one)), None)
            if place is not None:
                rest.remove(place)
                result[pod.uid] = place
    return result


def _is_for(pod: Pod, place: PlannedPlace | None) -> bool:
    return place is not None and place.chips.bit_count() == pod.cls.chips


def _is_free(session: Session, job: Job, place: PlannedPlace) -> bool:
    fleet = session.state.fleets.get(job.policy.resource if job.policy is not None else "")
    node = session.state.node_id.get(place.node)
    return fleet is not None and node is not None and not fleet.held[node] & place.chips


def planned_nodes(session: Session, job: Job, planned: Mapping[str, PlannedPlace]) -> dict[str, int]:
    """By uid; without those that are not free, or gone."""
    ids = session.state.node_id
    return {uid: ids[place.node] for uid, place in planned.items() if _is_free(session, job, place)}


def chips_besides(
    session: Session, job: Job, planned: Mapping[str, PlannedPlace], *, everywhere: bool
) -> dict[int, int]:
    """By node: its chips that are not kept for these pods; on their nodes, or everywhere."""
    fleet = session.state.fleets[job.policy.resource if job.policy is not None else ""]
    reserved: dict[int, int] = {}
    if everywhere:
        reserved = {node: 0 for node in session.state.existing_nodes() if fleet.free_mask[node]}
    for uid, node in planned_nodes(session, job, planned).items():
        reserved[node] = reserved.get(node, 0) | planned[uid].chips
    return {node: fleet.listed[node] & ~chips for node, chips in reserved.items()}


def waits_for_planned_places(planned: Mapping[str, PlannedPlace]) -> Reason:
    nodes = sorted({place.node for place in planned.values()}, key=natural_key)
    return WAIT_FOR_PLANNED_PLACES(waiting=len(planned), nodes=len(nodes), listing=listed(nodes, _NAMED))


#: To look for a node once more for pods of one class.
_STEPS_TO_RETRY = 32


def pending_pods(session: Session, job: Job, *, best_effort: bool = False) -> list[Pod]:
    """The job's pods that wait for a node, in the order in which they are placed.

    Pods that request nothing (best effort) are placed separately, by backfill. Backup pods (hot switch) come
    last, when the gang runs: they must not keep a pod of it waiting. Pods that wait for a claim are left out.
    """
    pods = _pods_in_order(session, job, best_effort)
    return needed_first(session, job, pods)[0] if job.sub_groups and not best_effort else pods


def has_pending_pods(session: Session, job: Job) -> bool:
    """Whether `pending_pods` has any, without all of them and their order: it is asked after each pod."""
    if job.backups:
        return bool(_placeable_pods(session, job))
    return any(
        not pod.cls.best_effort
        and session.is_pending(pod)
        and (not job.has_claims or session.claim_refusal(pod) is None)
        for pod in job.in_order
    )


def _pods_in_order(session: Session, job: Job, best_effort: bool = False) -> list[Pod]:
    """Whatever sub-groups they are in."""
    pods = _placeable_pods(session, job, best_effort)
    if len(pods) > 1 and session.registered(TASK_ORDER):
        pods.sort(key=session.pod_key)
    return pods


def _placeable_pods(session: Session, job: Job, best_effort: bool = False) -> list[Pod]:
    pods = _waiting_pods(session, job, best_effort)
    if job.has_claims:
        pods = [pod for pod in pods if session.claim_refusal(pod) is None]
    if job.backups:
        members = [pod for pod in pods if pod.uid not in job.backups]
        pods = members if members or missing_pods(session, job) else pods
    return pods


def _waiting_pods(session: Session, job: Job, best_effort: bool = False) -> list[Pod]:
    return [pod for pod in job.in_order if pod.cls.best_effort is best_effort and session.is_pending(pod)]


def missing_pods(session: Session, job: Job) -> int:
    """How many pods must still get a node before the gang may start; best-effort pods come later."""
    missing = job.min_available - placed_pods(session.state, job)
    if missing > 0:
        for pod in job.pods.values():
            if pod.cls.best_effort and session.is_pending(pod):
                missing -= 1
    if job.sub_groups:
        missing = max(missing, needed_first(session, job, _waiting_pods(session, job))[1])
    return max(0, missing)


def claim_refusal(session: Session, job: Job) -> Reason | None:
    """The claim that the first of the job's pods waits for, whatever nodes are free; None: none does."""
    if not job.has_claims:
        return None
    waiting = (pod for pod in job.in_order if pod.claims and session.is_pending(pod))
    return next((reason for pod in waiting if (reason := session.claim_refusal(pod)) is not None), None)


def too_few_pods(job: Job, pods: int) -> Reason:
    """Why so many pods of a gang are not enough: the others do not exist, or have scheduling gates."""
    gated = gated_pods(job)
    if gated:
        return PODS_GATED(gated=gated, pods=pods, needed=job.min_available)
    return NO_PODS_YET(pods=pods, needed=job.min_available)


def place_gang(
    session: Session,
    job: Job,
    statement: Statement,
    *,
    beyond_gang: bool = False,
    further: Iterable[Pod] | None = None,
) -> Reason | None:
    """Place the job's pods until its gang is complete; None when it is.

    `beyond_gang` continues with the pods a job may have beyond its gang, one at a time: the first of
    `further` that finds a node, where the caller has them (`FurtherPods`).
    """
    if beyond_gang and further is not None:
        return _place_one_more(session, job, statement, further)
    by_sub_group = bool(job.sub_groups) and not _is_placed_as_a_whole(job)
    # Sub-groups are brought into order where they are placed.
    pods = (_pods_in_order if by_sub_group and not job.places else pending_pods)(session, job)
    if job.has_claims and len(pods) < max(1, missing_pods(session, job)):
        refused = claim_refusal(session, job)
        if refused is not None:
            return refused
    if job.places and (planned := places_for(session, job, pods)):
        return _place_as_planned(session, job, statement, pods, planned)
    awaited = wait_for_previous_nodes(session, job, pods)
    if awaited is not None:
        return awaited
    if by_sub_group:
        return _place_sub_groups(session, job, statement, pods, beyond_gang)
    missing = missing_pods(session, job)
    limited = session.limited(job, pods[: max(1, missing)]) if not beyond_gang else None
    if limited is not None:
        return limited
    if beyond_gang:
        missing = 1
        if job.policy is None or job.policy.block_nodes is None:
            return _place_one_more(session, job, statement, pods)
        # Jobs with blocks continue with whole blocks (P8).
    if len(pods) < missing:
        return too_few_pods(job, job.min_available - missing + len(pods))
    if session.limits and job.policy is not None and len(pods) > missing:
        pods = _within_limits(session, job, job.policy.block_nodes, pods, missing)
        limited = session.limited(job, pods) if beyond_gang else None
        if limited is not None:
            return limited
    reason = _place_together(session, job, statement, pods, missing) or cut_sub_group(session, job, statement)
    return reason or _limited_after_all(session, job, statement, pods[: max(1, missing)])


def _limited_after_all(
    session: Session, job: Job, statement: Statement, pods: Sequence[Pod]
) -> Reason | None:
    """Return the limit that the pods that fit exceed, if they have more chips than the first ones."""
    if not session.limits:
        return None
    placed = [one.pod for one in statement.allocations if one.job is job]
    if sum(pod.cls.chips for pod in placed) <= sum(pod.cls.chips for pod in pods):
        return None
    return session.limits.refusal(job, placed, session.configuration.actions, placed=True)


def _is_placed_as_a_whole(job: Job) -> bool:
    policy = job.policy
    return policy is not None and (policy.switch_class is not None or policy.block_nodes is not None)


def _place_sub_groups(
    session: Session, job: Job, statement: Statement, pods: Sequence[Pod], beyond_gang: bool
) -> Reason | None:
    def place(some: Sequence[Pod], missing: int) -> Reason | None:
        in_order = pods_with_previous_node_first(session, job, some)
        return _place_one_by_one(session, job, statement, in_order, missing, whole_gang=False)

    too_few = too_few_pods(job, placed_pods(session.state, job))
    return place_sub_groups(session, job, statement, pods, place, beyond_gang=beyond_gang, too_few=too_few)


def _place_together(
    session: Session, job: Job, statement: Statement, pods: Sequence[Pod], missing: int
) -> Reason | None:
    """Place the pods, where the job has a network topology inside one domain of it (M2)."""
    topology = job.group.topology if job.group is not None else None
    if topology is None:
        return _place_pods(session, job, statement, pods, missing)
    request = DomainRequest(job, pods, missing, topology, placed_nodes(session.state, job))
    return place_in_domains(
        session, statement, request, lambda domain: _place_pods(session, job, statement, pods, missing)
    )


def _within_limits(session: Session, job: Job, block: int | None, pods: list[Pod], missing: int) -> list[Pod]:
    """A plan places all pods it is given. Where limits do not allow all, it is given as few as may start."""
    if not _is_placed_as_a_whole(job):
        return pods
    if session.limited(job, pods) is None:
        return pods
    size = block or 1
    return pods[: -(-max(1, missing) // size) * size]


def _place_as_planned(
    session: Session, job: Job, statement: Statement, pods: Sequence[Pod], planned: dict[str, PlannedPlace]
) -> Reason | None:
    """M1: a moved pod has the place that is kept for it, before N3's order; it waits while that is not free.

    All other rules hold for the place. Pods of a gang wait for each other as always. A job that is placed as
    a whole is planned as always, where only its places are free.
    """
    missing = missing_pods(session, job)
    if len(pods) < missing:
        return too_few_pods(job, job.min_available - missing + len(pods))
    moved = [pod for pod in pods if pod.uid in planned or not pod.cls.chips]
    nodes = planned_nodes(session, job, planned)
    whole = _is_placed_as_a_whole(job)
    filtered = any(
        first_reason(node_filters(session, job, pod), nodes[pod.uid]) is not None
        for pod in moved
        if pod.uid in nodes
    )
    if len(nodes) < len(planned) or filtered:
        return waits_for_planned_places(planned)
    job.note_contents()
    previous, job.previous_nodes = job.previous_nodes, {}
    try:
        with chips_excluded(session, job, chips_besides(session, job, planned, everywhere=whole)):
            if whole:
                reason = _place_pods(session, job, statement, moved, missing)
            else:
                reason = _place_by_plan(session, job, statement, JobPlan(nodes), moved)
    finally:
        job.previous_nodes = previous
    return None if reason is None else waits_for_planned_places(planned)


def _place_one_more(session: Session, job: Job, statement: Statement, pods: Iterable[Pod]) -> Reason | None:
    """Place the first pod that finds a node; of equal pods one is tried."""
    failed: Reason | None = None
    tried: set[NodeSelection] = set()
    for pod in pods:
        selection = session.node_selection(job, pod)
        if selection in tried:
            # Those before the one that fits are looked at again each time.
            session.budget.spend(1)
        else:
            tried.add(selection)
            reason = session.limited(job, [pod]) or _place_together(session, job, statement, [pod], 1)
            if reason is None:
                return None
            failed = failed or reason
    return failed or claim_refusal(session, job) or too_few_pods(job, placed_pods(session.state, job))


def _place_pods(
    session: Session, job: Job, statement: Statement, pods: Sequence[Pod], missing: int
) -> Reason | None:
    plan = _plan(session, job, pods)
    if isinstance(plan, Reason):
        return _selects_no_node(session, job, statement, pods) or plan
    if plan is not None:
        return _place_by_plan(session, job, statement, plan, pods)
    if job.has_claims:
        pods = _pods_with_few_nodes_first(session, pods)
    pods_in_order = pods_with_previous_node_first(session, job, pods)
    return _place_one_by_one(session, job, statement, pods_in_order, missing)


def _selects_no_node(session: Session, job: Job, statement: Statement, pods: Sequence[Pod]) -> Reason | None:
    """Return why no node can take any of the pods; the topology of the nodes does not matter then."""
    selections = {session.node_selection(job, pod): pod for pod in reversed(pods) if pod.cls.chips}
    if not selections or not all(selection.selects_none() for selection in selections):
        return None
    selection, pod = selections.popitem()
    return _no_node(session, job, statement, pod, selection, {})


def _pods_with_few_nodes_first(session: Session, pods: Sequence[Pod]) -> Sequence[Pod]:
    """Volumes pin their pods, to a node or to a zone: others of the gang must not take what these need.

    Pods with equal sets follow each other: the order of the nodes is kept from one to the next.
    """
    rules = session.claim_rules
    if rules is None:
        return pods
    everywhere = session.state.labels.existing.bit_count()
    numbers: dict[Hashable, int] = {}

    def place(pod: Pod) -> tuple[int, int]:
        key, sets = rules.node_sets(pod) if pod.claims else (None, ())
        fewest = min((part.nodes.bit_count() for part in sets), default=everywhere)
        return fewest, numbers.setdefault(key, len(numbers)) if sets else -1

    return sorted(pods, key=place)


def place_best_effort(session: Session, job: Job, statement: Statement) -> Reason | None:
    """Place as many pods that request nothing as find a node; why the first does not."""
    pods = pending_pods(session, job, best_effort=True)
    return session.limited(job, pods) or place_each(session, job, statement, pods)


def place_each(session: Session, job: Job, statement: Statement, pods: Sequence[Pod]) -> Reason | None:
    """Place as many of these pods as find a node, whatever the gang has; why the first does not.

    The statement says which were placed: None is returned only where all were, and the job is ready.
    """
    if not asks_for_topology(job):
        return _place_one_by_one(session, job, statement, pods, None)
    topology = job.group.topology if job.group is not None else None
    failed: Reason | None = None
    for pod in pods:
        place = partial(_place_alone, session, job, statement, pod)
        if topology is None:
            reason = place(None)
        else:
            request = DomainRequest(job, [pod], 1, topology, placed_nodes(session.state, job))
            reason = place_in_domains(session, statement, request, place)
        failed = failed or reason
    return failed if failed is not None or session.job_ready(job) else too_few_pods(job, len(pods))


def _place_alone(
    session: Session, job: Job, statement: Statement, pod: Pod, domain: Domain | None
) -> Reason | None:
    """None where it got a node, near the rest of its sub-group, whatever its gang has."""

    def place(_domain: Domain | None) -> Reason | None:
        return _place_one_by_one(session, job, statement, [pod], 1, whole_gang=False)

    request = request_in_sub_group(session, job, pod, domain)
    return place(domain) if request is None else place_in_domains(session, statement, request, place)


def _plan(session: Session, job: Job, pods: Sequence[Pod]) -> JobPlan | Reason | None:
    for plan in session.registered(JOB_PLAN):
        answer = plan(job, pods)
        if answer is not None:
            return answer
    return None


def _place_by_plan(
    session: Session, job: Job, statement: Statement, plan: JobPlan, pods: Sequence[Pod]
) -> Reason | None:
    """Carry out a plan. Pods it does not name (they request no chips) are placed one by one."""
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
            return selection.verdict(node)[1] or _no_node(session, job, statement, pod, selection, {})
        volumes = _volumes(session, pod, node)
        if isinstance(volumes, Reason):
            return volumes
        annotations = plan.annotations.get(pod.uid, {})
        statement.allocate(Allocation(job, pod, node, chips, 0, annotations, volumes))
    session.plans[job.key] = plan
    return _place_one_by_one(session, job, statement, rest, missing_pods(session, job))


def _place_one_by_one(
    session: Session,
    job: Job,
    statement: Statement,
    pods: Sequence[Pod],
    missing: int | None,
    *,
    whole_gang: bool = True,
) -> Reason | None:
    """Give each pod the best node there is; stop when `missing` have one (None: try all of them).

    Those of a part of the job (not `whole_gang`) need not make the job ready.
    """
    queue = session.queues.get(job.queue)
    failed: Reason | None = None
    failed_classes: set[tuple[NodeSelection, tuple[str, ...]]] = set()
    placed = 0
    # Nodes that a filter refused are hidden from a view that all pods of a board share,
    # so they come back as soon as a pod of another class is placed.
    # So they do when the next pod has other claims: what those allow decides here, too.
    current: NodeSelection | None = None
    claims: tuple[str, ...] = ()
    hidden: dict[int, Reason] = {}
    used = UsedNodes(session, job)
    waiting: Sequence[Pod] = pods
    try:
        while True:
            left: list[Pod] = []
            #: How many were placed before the first that pods placed later may help.
            before: int | None = None
            for pod in waiting:
                left.append(pod)
                selection = session.node_selection(job, pod)
                if (selection, pod.claims) in failed_classes:
                    continue
                refused = session.claim_refusal(pod) if pod.claims else None
                if refused is not None:
                    # Another pod of the gang uses the claim, which only one pod may use.
                    failed = failed or refused
                    continue
                denied = session.allocatable(queue, pod) if queue is not None else None
                if denied is not None and failed is not None:
                    continue
                if hidden and current is not None and (selection is not current or pod.claims != claims):
                    current.unhide(hidden)
                current, claims = selection, pod.claims
                selected = _select_node(session, job, pod, selection, hidden, used)
                if selected is None:
                    failed_classes.add((selection, pod.claims))
                    failed = failed or _no_node(session, job, statement, pod, selection, hidden)
                    if before is None and _depends_on_others(pod.cls):
                        before = placed
                    continue
                if denied is not None:
                    # A node fits, so the queue is the reason why the pod is pending.
                    failed = denied
                    continue
                volumes = _volumes(session, pod, selected.node) if pod.claims else ()
                if isinstance(volumes, Reason):
                    failed = failed or volumes
                    continue
                chips = selection.chips_of_chosen(selected.node)
                annotations, binding = part_of(selection, selected.node)
                statement.allocate(
                    Allocation(job, pod, selected.node, chips, selected.score, annotations, volumes, binding)
                )
                used.add(selected.node)
                left.pop()
                placed += 1
                if missing is not None and placed >= missing and (not whole_gang or session.job_ready(job)):
                    return None
            if before is None or before == placed:
                break
            # What was placed meanwhile may have opened nodes for those that are left.
            session.budget.spend(_STEPS_TO_RETRY * len(failed_classes))
            waiting, failed = left, None
            failed_classes.clear()
            if current is not None:
                current.unhide(hidden)
    finally:
        if hidden and current is not None:
            current.unhide(hidden)
    if missing is None and failed is not None:
        return failed
    if placed >= (missing or 0) and (not whole_gang or session.job_ready(job)):
        return None
    return failed or too_few_pods(job, placed_pods(session.state, job))


def _depends_on_others(cls: PodClass) -> bool:
    """Whether a pod that is placed may open a node for pods of this class."""
    return bool(cls.pod_affinity) or any(constraint.required for constraint in cls.spread)


def _volumes(session: Session, pod: Pod, node: int) -> tuple[ClaimChoice, ...] | Reason:
    """What the pod's claims without a volume get on this node."""
    rules = session.claim_rules if pod.claims else None
    return () if rules is None else rules.choose(pod, node)


def _select_node(
    session: Session,
    job: Job,
    pod: Pod,
    selection: NodeSelection,
    hidden: dict[int, Reason],
    used: UsedNodes,
) -> SelectedNode | None:
    filters = node_filters(session, job, pod)
    preferred = node_preferences(session, job, pod)
    if not prefers_previous_node(session, job, pod):
        return selection.choose(hidden, filters, preferred)
    # Its previous node, else the best one that no rank of the job used.
    previous = job.previous_nodes.get(ranks_of(job)[pod.uid])
    own = None if previous is None else session.state.node_id.get(previous.node)
    faulty = previous is not None and previous.faulty
    selected = None if faulty else node_if_it_fits(selection, own, filters)
    selected = selected or selection.choose(hidden, filters, preferred, used.nodes())
    if selected is None and faulty:
        selected = node_if_it_fits(selection, own, filters)
    return selected or selection.choose(hidden, filters, preferred)


def node_filters(session: Session, job: Job, pod: Pod) -> list[NodeFilter]:
    """The plugins' filters of single nodes for this pod; most pods have none."""
    factories = session.registered(NODE_FILTER)
    return [accepts for make in factories if (accepts := make(job, pod)) is not None]


def node_preferences(session: Session, job: Job, pod: Pod) -> PreferredNodes | None:
    """The extra scores of nodes for this pod; most pods have none."""
    parts = [part for prefer in session.registered(NODE_PREFERENCE) for part in prefer(job, pod)]
    return PreferredNodes(parts, session.state.labels.existing, session.budget) if parts else None


def _no_node(
    session: Session,
    job: Job,
    statement: Statement,
    pod: Pod,
    selection: NodeSelection,
    hidden: dict[int, Reason],
) -> Reason:
    """Why no node fits this pod, in numbers."""
    selection.hide_refused(hidden, node_filters(session, job, pod))
    statement.refused = pod, len(statement.allocations)
    details = {
        "job": job.name,
        "pod": pod.name,
        "asks": request_text(pod.cls),
        "nodes": session.state.node_count,
        "refusals": selection.refusals(hidden),
    }
    started = placed_pods(session.state, job)
    if job.min_available <= 1 or started >= job.min_available:
        return NO_NODE_FITS(**details)
    return GANG_INCOMPLETE(
        **details, fit=started, needed=job.min_available, missing=job.min_available - started
    )


# -- the pods beyond the gang ----------------------------------------------------------------------------


class FurtherPods:
    """The pods that a job has beyond its gang and that wait: listed and sorted once, for all that follow.

    For as long as what was placed of these pods stays placed. They are placed one at a time, between those of
    other jobs. Listing all of them for each one would take quadratic time, and a job with thousands of pods
    would delay all other jobs.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        #: By job; the next one is the last.
        self._waiting: dict[str, list[Pod]] = {}

    def of(self, job: Job) -> Iterator[Pod] | None:
        """Return those that wait, in their order; None if the next one must be found again each time."""
        if job.backups or job.sub_groups or job.places or job.awaited_nodes:
            return None
        if job.policy is not None and job.policy.block_nodes is not None:
            return None
        waiting = self._waiting.get(job.key)
        if waiting is None:
            waiting = self._waiting[job.key] = pending_pods(self._session, job)[::-1]
        while waiting and not self._session.is_pending(waiting[-1]):
            del waiting[-1]
        return (pod for pod in reversed(waiting) if self._may_be_placed(job, pod))

    def wait(self, job: Job) -> bool:
        """Whether there are any."""
        pods = self.of(job)
        return has_pending_pods(self._session, job) if pods is None else next(pods, None) is not None

    def _may_be_placed(self, job: Job, pod: Pod) -> bool:
        session = self._session
        return session.is_pending(pod) and (not job.has_claims or session.claim_refusal(pod) is None)
