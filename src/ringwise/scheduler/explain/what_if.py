"""What-if on the live state: each `with` supposes one thing, and leaves the state as it was to the last bit.

No copy of the cluster is made. Suppositions nest like brackets; inside them `verdict`
says whether a job would start, by the same functions that a cycle uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ringwise.framework.amounts import Amounts, add
from ringwise.framework.gang_placement import fill
from ringwise.framework.job import Job
from ringwise.framework.reasons import QUEUE_NOT_OPEN, QUEUE_OVERUSED
from ringwise.framework.session import Session
from ringwise.framework.statement import Eviction, Statement
from ringwise.reasons import Reason
from ringwise.scheduler.core.machine import Scheduler
from ringwise.state.decisions import Placement
from ringwise.state.model import Node, Pod, PodClass, Queue

#: Pods of other schedulers belong to no job of ours; their chips can end up free all the same.
STRANGER = Job("", "", "", queue="")

_NODE_FACTS = (
    "listed", "unhealthy", "recovering", "network", "reported", "allocatable", "faulty", "assumed"
)  # fmt: skip


@contextmanager
def question(scheduler: Scheduler) -> Iterator[None]:
    """Around all suppositions of one question: views made only for it are dropped at the end."""
    fleets = scheduler.state.fleets
    kept = {resource: set(fleet.views) for resource, fleet in fleets.items()}
    try:
        yield
    finally:
        for resource, fleet in fleets.items():
            for key in [key for key in fleet.views if key not in kept.get(resource, ())]:
                if resource:
                    del fleet.views[key]


def verdict(scheduler: Scheduler, job: Job, now: int, ahead: Iterable[Job] = ()) -> Reason | None:
    """None when the job would start in a cycle now, else why not. `ahead` are served first."""
    session = scheduler.open_session(now, [job])
    statements: list[Statement] = []
    try:
        statements.extend(_served(scheduler, session, other)[0] for other in ahead)
        statement, reason = _served(scheduler, session, job)
        statements.append(statement)
        return reason
    finally:
        for statement in reversed(statements):
            statement.discard()


def _served(scheduler: Scheduler, session: Session, job: Job) -> tuple[Statement, Reason | None]:
    with session.reservations.open_to(job.key):
        statement = session.statement()
        reason = obstacle(scheduler, session, job) or fill(session, job, statement)
    if reason is not None and statement.allocations:
        statement.discard()
        statement = session.statement()
    return statement, reason


def obstacle(scheduler: Scheduler, session: Session, job: Job) -> Reason | None:
    """What stops the job before nodes are looked at."""
    reason = scheduler.refusal(job) or session.job_valid(job)
    if reason is not None:
        return reason
    queue = session.queues.get(job.queue)
    if queue is None:
        return None
    if queue.state != "Open":
        return QUEUE_NOT_OPEN(queue=queue.name, state=queue.state)
    if "enqueue" in session.configuration.actions and not job.inqueue:
        let_in, reason = session.job_enqueueable(job)
        if not let_in:
            return reason
    return QUEUE_OVERUSED(queue=queue.name) if session.overused(queue) else None


# -- pods and jobs -----------------------------------------------------------------------


@contextmanager
def gone(scheduler: Scheduler, session: Session, uids: Iterable[str], beneficiary: Job) -> Iterator[None]:
    """Inside, these running pods have let go of all they hold."""
    statement = session.statement()
    try:
        for uid in uids:
            placement = scheduler.state.pods[uid]
            if placement.node >= 0:
                owner = scheduler.book.job_of(uid) or STRANGER
                statement.evict(Eviction(owner, placement.pod, "supposed to end", beneficiary))
        yield
    finally:
        statement.discard()


@contextmanager
def present(scheduler: Scheduler, job: Job) -> Iterator[None]:
    """Inside, the pods the job is going to have exist."""
    pods = scheduler.state.pods
    made = [pod for pod in job.prospective if not job.pods and pod.uid not in pods]
    if not made:
        yield
        return
    with _unchanged(job):
        for pod in made:
            pods[pod.uid] = Placement(pod)
        job.pods = {pod.uid: pod for pod in made}
        job.ordered = job.ranks = None
        try:
            yield
        finally:
            for pod in made:
                del pods[pod.uid]


@dataclass(frozen=True, slots=True)
class Change:
    """What is different about a job. None: as it is."""

    chips: int | None = None
    min_available: int | None = None
    #: Label or annotation -> value; None takes it away.
    labels: Mapping[str, str | None] | None = None
    annotations: Mapping[str, str | None] | None = None
    #: Keys of the node selector to be left out.
    unselected: frozenset[str] = frozenset()
    queue: str | None = None


@contextmanager
def changed(scheduler: Scheduler, job: Job, change: Change) -> Iterator[None]:
    """Inside, the job asks for something else. Pods that have a node keep what they have."""
    placements = scheduler.state.pods
    before = dict(job.pods)
    with _unchanged(job):
        job.changed()
        job.labels = _edited(job.labels, change.labels)
        job.annotations = _edited(job.annotations, change.annotations)
        if change.queue is not None:
            job.queue = change.queue
        if change.min_available is not None:
            job.min_available = change.min_available
            job.min_per_task = {}
        if job.group is not None:
            # What the gang needs at once is no longer what its group says.
            job.group = replace(job.group, min_resources={})
        job.pods = {
            uid: replace(pod, cls=_asking(pod.cls, change)) if placements[uid].node < 0 else pod
            for uid, pod in before.items()
        }
        _set_pods(placements, job.pods)
        try:
            yield
        finally:
            _set_pods(placements, before)


def _set_pods(placements: Mapping[str, Placement], pods: Mapping[str, Pod]) -> None:
    for uid, pod in pods.items():
        placements[uid].pod = pod


def _asking(cls: PodClass, change: Change) -> PodClass:
    if change.chips is not None and cls.chips:
        cls = replace(cls, chips=change.chips)
    if change.unselected:
        kept = tuple(pair for pair in cls.node_selector if pair[0] not in change.unselected)
        cls = replace(cls, node_selector=kept)
    return cls


def _edited(texts: Mapping[str, str], edits: Mapping[str, str | None] | None) -> Mapping[str, str]:
    if not edits:
        return texts
    merged: dict[str, str | None] = {**texts, **edits}
    return {key: value for key, value in merged.items() if value is not None}


@contextmanager
def _unchanged(job: Job) -> Iterator[None]:
    saved = {name: getattr(job, name) for name in Job.__slots__}
    try:
        yield
    finally:
        for name, value in saved.items():
            setattr(job, name, value)


# -- nodes, chips, queues -----------------------------------------------------------------------


@contextmanager
def node_is(scheduler: Scheduler, node: Node) -> Iterator[None]:
    """Inside, the node of this name is ready, cordoned or tainted as given. Its chips stay as they are."""
    state = scheduler.state
    number = state.node_id[node.name]
    before = state.nodes[number]
    if before is None:
        yield
        return
    facts = {
        resource: [getattr(fleet, name)[number] for name in _NODE_FACTS]
        for resource, fleet in state.fleets.items()
    }

    def put(one: Node) -> None:
        state.put_node(one)
        for resource, values in facts.items():
            for name, value in zip(_NODE_FACTS, values, strict=True):
                getattr(state.fleets[resource], name)[number] = value
        state.refresh_node(number)
        scheduler.ledger.capacity.clear()
        scheduler.totals()

    put(node)
    try:
        yield
    finally:
        put(before)


@contextmanager
def chips_free(scheduler: Scheduler, resource: str, node: int, chips: int) -> Iterator[None]:
    """Inside, these chips (a mask) of a node are healthy, held by nobody and kept for nobody."""
    state = scheduler.state
    fleet = state.fleets[resource]
    names = ("held", "unhealthy", "recovering", "network", "reserved", "requested", "allocatable", "faulty")
    before = [getattr(fleet, name)[node] for name in names]
    held = fleet.held[node] & chips
    broken = (fleet.unhealthy[node] | fleet.recovering[node]) & chips
    for mask in (fleet.held, fleet.unhealthy, fleet.recovering, fleet.reserved):
        mask[node] &= ~chips
    if fleet.network[node] > 0:
        fleet.network[node] &= ~chips
    fleet.faulty[node] = fleet.unhealthy[node].bit_count()
    fleet.requested[node] -= held.bit_count()
    # Kubernetes does not count broken chips as allocatable; mended ones come back.
    mended = min(broken.bit_count(), max(0, fleet.listed[node].bit_count() - fleet.allocatable[node]))
    fleet.allocatable[node] += mended
    state.refresh_node(node)
    try:
        with _books_without(scheduler, resource, node, held, mended):
            yield
    finally:
        for name, value in zip(names, before, strict=True):
            getattr(fleet, name)[node] = value
        state.refresh_node(node)


@contextmanager
def _books_without(scheduler: Scheduler, resource: str, node: int, held: int, mended: int) -> Iterator[None]:
    """Inside, the ledger does not count the held chips, and counts the mended ones as there."""
    state, ledger = scheduler.state, scheduler.ledger
    scheduler.totals()
    changes: list[tuple[Amounts, int]] = [(ledger.capacity, mended)]
    for uid in state.pods_on[node]:
        placement = state.pods[uid]
        count = (placement.chips & held).bit_count()
        if count and placement.pod.cls.resource == resource:
            owner = scheduler.book.job_of(uid) or STRANGER
            changes.append((ledger.by_job.setdefault(owner.key, {}), -count))
            changes.append((ledger.by_queue.setdefault(owner.queue, {}), -count))
    for amounts, change in changes:
        add(amounts, {resource: change})
    try:
        yield
    finally:
        for amounts, change in changes:
            add(amounts, {resource: -change})


@contextmanager
def queue_is(scheduler: Scheduler, queue: Queue) -> Iterator[None]:
    """Inside, the queue of this name has these settings."""
    queues = scheduler.book.queues
    before = queues[queue.name]
    queues[queue.name] = queue
    try:
        yield
    finally:
        queues[queue.name] = before
