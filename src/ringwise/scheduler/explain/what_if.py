"""What-if on the live state: each `with` supposes one change, and restores the state exactly.

No copy of the cluster is made. Suppositions nest; inside them `verdict` returns whether a
job would start, by the same functions that a cycle uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from ringwise.framework.amounts import Amount, add, added
from ringwise.framework.evictions.recently_faulty_chips import chips_excluded, withheld_chips
from ringwise.framework.extension_points import first_reason
from ringwise.framework.gangs.gang_placement import has_pending_pods, missing_pods, node_filters, place_gang
from ringwise.framework.job import Job, job_unchanged, jobs_unchanged
from ringwise.framework.queue_discipline import waits_behind
from ringwise.framework.reasons import QUEUE_NOT_OPEN, QUEUE_OVERUSED
from ringwise.framework.session import Session
from ringwise.framework.statement import Allocation, Eviction, Statement
from ringwise.framework.trials import trial
from ringwise.framework.usage import ResourceUsage
from ringwise.messages.events import Event
from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.scheduler.cache.expected_starts import ExpectedStarts
from ringwise.scheduler.cache.job_book import JobBook
from ringwise.scheduler.cache.sessions import SessionFactory
from ringwise.state.cluster import ClusterState, PodRecord
from ringwise.state.model import (
    EMPTY,
    SOFT,
    Isolation,
    NetworkTopology,
    Node,
    NodeReservations,
    Pod,
    PodClass,
    Queue,
    SubGroupPolicy,
)
from ringwise.state.owned_annotations import owned_in
from ringwise.state.part_requests import hundredths_of
from ringwise.state.volume_table import keys_of
from ringwise.state.volumes import PersistentVolume, PersistentVolumeClaim

Value = TypeVar("Value")
#: Owner of the pods of other schedulers, which belong to no job; their chips can become free all the same.
NO_JOB = Job("", "", "", queue="")

#: A volume that is only supposed: no name of an object has a blank.
_ANYWHERE = PersistentVolume("a supposed volume")
_NODE_FACTS = (
    "listed", "unhealthy", "recovering", "network", "reported", "allocatable", "faulty", "assumed"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class JobChange:
    """What is different about a job. None: unchanged."""

    chips: int | None = None
    #: Fields of the request for a share or a vNPU.
    part: Mapping[str, object] | None = None
    min_available: int | None = None
    #: Label or annotation -> value, wherever the job carries it; None removes it.
    labels: Mapping[str, str | None] | None = None
    annotations: Mapping[str, str | None] | None = None
    #: Keys of the node selector to leave out.
    unselected: frozenset[str] = frozenset()
    #: Key and value that the node selector gets.
    selected: tuple[str, str] | None = None
    queue: str | None = None
    #: How long it is expected to run, in nanoseconds.
    expected: int | None = None
    topology: NetworkTopology | None = None
    sub_groups: tuple[SubGroupPolicy, ...] | None = None


class NodeAssessment(NamedTuple):
    """What a node is for a pod."""

    score: int | None
    reason: Reason | None
    #: The pod would be the first one there and leave chips free.
    splits_node: bool


def waits_for_one_more(session: Session, job: Job) -> bool:
    """Whether its gang is complete and pods beyond it wait."""
    return not missing_pods(session, job) and has_pending_pods(session, job)


def closed_queue(session: Session, job: Job) -> Reason | None:
    queue = session.queues.get(job.queue)
    if queue is None or queue.state == "Open":
        return None
    return QUEUE_NOT_OPEN(queue=queue.name, state=queue.state)


def overused_queue(session: Session, job: Job) -> Reason | None:
    queue = session.queues.get(job.queue)
    return QUEUE_OVERUSED(queue=queue.name) if queue is not None and session.overused(queue) else None


def place_next(session: Session, job: Job, statement: Statement) -> Reason | None:
    """Place what the job waits for: its gang, or where that is complete one more pod."""
    with chips_excluded(session, job, withheld_chips(session, job)):
        return place_gang(session, job, statement, beyond_gang=waits_for_one_more(session, job))


@dataclass(slots=True, eq=False)
class WhatIf:
    """Suppositions and questions. The state is the same before and after each of them."""

    _state: ClusterState
    _book: JobBook
    _usage: ResourceUsage
    sessions: SessionFactory
    #: Returns all objects as events.
    current_events: Callable[[], Iterable[Event]]
    #: When jobs are expected to start, as it was found last.
    starts: ExpectedStarts

    def open_session(self, now: int, pending: Iterable[Job] = ()) -> Session:
        """A session outside any cycle; what it allocates must be discarded."""
        return self.sessions.open(now, pending)

    @contextmanager
    def question(self, labels: Iterable[str] = ()) -> Iterator[None]:
        """Around all suppositions of one question: at the end everything is as it was before.

        That includes what is computed and kept for later: the order of entries, the caches of jobs, and
        index views made only for the question. `labels` are node labels that it tells nodes apart by.
        """
        self._state.settle()
        views = {resource: set(fleet.views) for resource, fleet in self._state.fleets.items()}
        try:
            with (
                jobs_unchanged(self._book.jobs),
                self._usage.unchanged(),
                self._state.watching_labels(labels),
            ):
                yield
        finally:
            fleets = self._state.fleets
            for resource in list(fleets):
                if resource in views:
                    fleets[resource].drop_views(views[resource])
                else:
                    del fleets[resource]

    # -- verdicts ---------------------------------------------------------------------------

    def job_valid(self, job: Job, now: int) -> Reason | None:
        """The answer of the plugins that validate jobs; None when the job is valid."""
        return self.sessions.open(now).job_valid(job)

    def verdict(self, job: Job, now: int, ahead: Iterable[Job] = ()) -> Reason | None:
        """None when the job would start in a cycle now, else the reason. `ahead` are served first."""
        first = list(ahead)
        with ExitStack() as supposed:
            for other in first:
                supposed.enter_context(self.with_pods(other))
            session = self.open_session(now, [job])
            for other in first:
                supposed.callback(self._serve(session, other)[0].discard)
            return self.verdict_in(session, job)

    def verdict_in(self, session: Session, job: Job) -> Reason | None:
        """None when the job would start in this session, else the reason."""
        statement, reason = self._serve(session, job)
        statement.discard()
        return reason

    def _serve(self, session: Session, job: Job) -> tuple[Statement, Reason | None]:
        with session.reservations.open_to(job.key):
            statement = session.statement()
            reason = self.obstacle(session, job) or place_next(session, job, statement)
        if reason is not None and statement.allocations:
            statement.discard()
            statement = session.statement()
        return statement, reason

    def obstacle(self, session: Session, job: Job) -> Reason | None:
        """What stops the job before nodes are tried."""
        return (
            self._defect(session, job) or waits_behind(session, job) or self._lack_of_resources(session, job)
        )

    def own_obstacle(self, session: Session, job: Job) -> Reason | None:
        """Return the same, regardless of other jobs that wait."""
        return self._defect(session, job) or self._lack_of_resources(session, job)

    def _defect(self, session: Session, job: Job) -> Reason | None:
        """What is wrong with the job or its queue."""
        return self._book.refusal(job) or session.job_valid(job) or closed_queue(session, job)

    def _lack_of_resources(self, session: Session, job: Job) -> Reason | None:
        enqueues = job.queue in session.queues and "enqueue" in session.configuration.actions
        if enqueues and not job.inqueue:
            admitted, reason = session.job_enqueueable(job)
            if not admitted:
                return reason
        return overused_queue(session, job)

    def node_verdicts(self, uid: str, nodes: Sequence[str], now: int) -> list[NodeAssessment | None]:
        """Return what each node is for a placed pod, as if it had not been placed yet.

        None if the node is unknown, or the pod has no job.
        """
        mark = self._state.checkpoint()
        self._state.release(uid)
        try:
            return [self._node_verdict(uid, node, now) for node in nodes]
        finally:
            self._state.rollback(mark)

    def _node_verdict(self, uid: str, node: str, now: int) -> NodeAssessment | None:
        job, number = self._book.job_of(uid), self._state.node_id.get(node)
        if job is None or number is None:
            return None
        pod = self._state.pods[uid].pod
        session = self.open_session(now)
        score, reason = session.node_selection(job, pod).verdict(number)
        if reason is None:
            reason = first_reason(node_filters(session, job, pod), number)
        return NodeAssessment(score if reason is None else None, reason, self._splits(pod.cls, number))

    def _splits(self, cls: PodClass, number: int) -> bool:
        fleet = self._state.fleets.get(cls.resource) if cls.resource is not None else None
        if fleet is None or fleet.taken(number):
            return False
        return 0 < cls.chips < fleet.free_if_empty(number).bit_count()

    # -- pods and jobs --------------------------------------------------------------------------

    @contextmanager
    def ended(self, session: Session, uids: Iterable[str]) -> Iterator[None]:
        """Inside, these running pods have ended."""
        records = self._state.pods
        running = [
            (self._book.job_of(uid) or NO_JOB, records[uid].pod) for uid in uids if records[uid].node >= 0
        ]
        with trial(session, gone=running):
            yield

    @contextmanager
    def restarted(self, session: Session, uids: Iterable[str]) -> Iterator[None]:
        """Inside, these running pods wait for nodes again, as their owners make them after an eviction."""
        records = self._state.pods
        by_job: dict[str, list[str]] = {}
        for uid in uids:
            job = self._book.job_of(uid)
            if job is not None and records[uid].node >= 0:
                by_job.setdefault(job.key, []).append(uid)
        with trial(session) as statement, ExitStack() as undone:
            for key, chosen in by_job.items():
                job = self._book.jobs[key]
                for uid in chosen:
                    statement.evict(Eviction(job, records[uid].pod, "supposed to restart"))
                before = {uid: job.pods[uid] for uid in chosen}
                undone.callback(_set_pods, records, before)
                undone.enter_context(job_unchanged(job))
                again = {uid: _made_again(pod) for uid, pod in before.items()}
                job.pods = {**job.pods, **again}
                job.changed()
                _set_pods(records, again)
            yield

    @contextmanager
    def placed(self, session: Session, allocations: Sequence[Allocation]) -> Iterator[None]:
        """Inside, these waiting pods have these places and the annotations that come with them."""
        records = self._state.pods
        with trial(session) as statement, ExitStack() as undone:
            for allocation in allocations:
                statement.allocate(allocation)
            for job in {id(one.job): one.job for one in allocations}.values():
                mine = [one for one in allocations if one.job is job]
                before = {one.pod.uid: job.pods[one.pod.uid] for one in mine}
                undone.callback(_set_pods, records, before)
                undone.enter_context(job_unchanged(job))
                bound = {
                    one.pod.uid: one.pod.with_chips(one.chips, one.annotations, one.pod.rank) for one in mine
                }
                job.pods = {**job.pods, **bound}
                _set_pods(records, bound)
            yield

    @contextmanager
    def submitted(self, job: Job) -> Iterator[None]:
        """Inside, a made-up job exists with its pods, and counts for its queue if it has one."""
        pods, jobs = self._state.pods, self._book.jobs
        if job.queue:
            jobs[job.key] = job
        for pod in job.pods.values():
            pods[pod.uid] = PodRecord(pod)
        try:
            yield
        finally:
            jobs.pop(job.key, None)
            for uid in job.pods:
                del pods[uid]

    @contextmanager
    def with_pods(self, job: Job) -> Iterator[None]:
        """Inside, the pods that the job's controller is going to create exist."""
        pods = self._state.pods
        made = [pod for pod in job.prospective if not job.pods and pod.uid not in pods]
        if not made:
            yield
            return
        with job_unchanged(job):
            for pod in made:
                pods[pod.uid] = PodRecord(pod)
            job.pods = {pod.uid: pod for pod in made}
            job.ordered = job.ranks = None
            try:
                yield
            finally:
                for pod in made:
                    del pods[pod.uid]

    @contextmanager
    def without_pods(self, job: Job) -> Iterator[None]:
        """Inside, the job has ended. Its pods must have been released."""
        with job_unchanged(job):
            job.pods = {}
            job.prospective = ()
            job.changed()
            yield

    @contextmanager
    def changed(self, job: Job, change: JobChange) -> Iterator[None]:
        """Inside, the job is different. Pods that have a node keep what they have."""
        placements = self._state.pods
        before = dict(job.pods)
        with job_unchanged(job):
            job.changed()
            job.labels = _edited(job.labels, change.labels)
            job.annotations = _edited(job.annotations, change.annotations)
            if change.expected is not None:
                job.expected = change.expected
            if change.queue is not None:
                job.queue = change.queue
            if change.min_available is not None:
                job.min_available = change.min_available
                job.min_per_task = {}
            if job.group is not None:
                # `minResources` of the group does not describe the changed job.
                job.group = replace(
                    job.group,
                    min_resources={},
                    labels=_edited(job.group.labels, change.labels),
                    annotations=_edited(job.group.annotations, change.annotations),
                    topology=change.topology or job.group.topology,
                    sub_groups=change.sub_groups or job.group.sub_groups,
                )
            job.pods = {
                uid: _changed_pod(pod, change, self._state.chip_memories) if placements[uid].node < 0 else pod
                for uid, pod in before.items()
            }
            _set_pods(placements, job.pods)
            try:
                yield
            finally:
                _set_pods(placements, before)

    # -- nodes, chips, queues -----------------------------------------------------------------

    def node_is(self, node: Node) -> AbstractContextManager[None]:
        """Inside, the node of this name is ready, cordoned or tainted as given. Its chips are unchanged."""
        state = self._state
        number = state.node_id[node.name]
        before = state.nodes[number]
        if before is None:
            return nullcontext()
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
            self._usage.capacity.clear()
            self.sessions.capacity()

        self.sessions.capacity()
        return _supposed(put, before, node)

    def released(self, node: int) -> AbstractContextManager[None]:
        """Inside, neither the node nor a chip of it is isolated, nor its leaf switch or SuperPoD."""
        state = self._state

        def put(isolations: Mapping[str, Isolation | None]) -> None:
            for name, one in isolations.items():
                state.put_isolation(name, one)

        before: dict[str, Isolation | None]
        before = {one.name: state.isolations[one.name] for one in state.isolations_of(node)}
        return _supposed(put, before, dict.fromkeys(before))

    def unreserved(self, name: str) -> AbstractContextManager[None]:
        """Inside, the reservation of nodes with this name was canceled."""
        before = self._state.node_reservations
        left = NodeReservations(tuple(one for one in before.entries if one.name != name))
        return _supposed(self._state.put_node_reservations, before, left)

    @contextmanager
    def chips_free(self, resource: str, node: int, chips: int) -> Iterator[None]:
        """Inside, these chips (a mask) of a node are healthy, and neither held nor reserved."""
        state = self._state
        fleet = state.fleets[resource]
        names = (
            "held", "unhealthy", "recovering", "pre_separated", "isolated", "doubtful", "network",
            "reserved", "requested", "allocatable", "faulty"
        )  # fmt: skip
        before = [getattr(fleet, name)[node] for name in names]
        held = fleet.held[node] & chips
        faulty = (fleet.unhealthy[node] | fleet.recovering[node]) & chips
        gone = (fleet.held, fleet.unhealthy, fleet.recovering, fleet.pre_separated, fleet.isolated)
        for mask in (*gone, fleet.doubtful, fleet.reserved):
            mask[node] &= ~chips
        if fleet.network[node] > 0:
            fleet.network[node] &= ~chips
        fleet.faulty[node] = fleet.unhealthy[node].bit_count()
        fleet.requested[node] -= held.bit_count()
        # Kubernetes does not count faulty chips as allocatable; healed ones are counted again.
        healed = min(faulty.bit_count(), max(0, fleet.listed[node].bit_count() - fleet.allocatable[node]))
        fleet.allocatable[node] += healed
        state.refresh_node(node)
        try:
            with self._usage_without(resource, node, held, healed):
                yield
        finally:
            for name, value in zip(names, before, strict=True):
                getattr(fleet, name)[node] = value
            state.refresh_node(node)

    def _usage_without(
        self, resource: str, node: int, held: int, healed: int
    ) -> AbstractContextManager[None]:
        """Inside, the usage does not count the held chips, and the capacity counts the healed ones."""
        state, usage = self._state, self._usage
        self.sessions.capacity()
        changes: list[tuple[dict[str, Mapping[str, Amount]], str, int]] = []
        for uid in state.pods_on[node]:
            placement = state.pods[uid]
            count = (placement.chips & held).bit_count()
            if count and placement.pod.cls.resource == resource:
                key, queue = self._book.counts_for(uid, self._book.job_of(uid))
                changes += [(usage.by_job, key, count), (usage.by_queue, queue, count)]

        def put(sign: int) -> None:
            add(usage.capacity, {resource: sign * healed})
            for table, name, count in changes:
                table[name] = added(table.get(name, EMPTY), {resource: count}, -sign)

        return _supposed(put, -1, 1)

    @contextmanager
    def claims_bound(self, pods: Iterable[Pod], others: bool = False) -> Iterator[None]:
        """Inside, those claims of the pods that have no volume, or with `others` all of them, have one that
        every node can use.
        """
        table = self._state.volumes
        wanted: dict[str, str] = {}
        for pod in pods:
            own = [f"{pod.namespace}/{name}" for name in pod.ephemeral_claims]
            wanted |= {key: pod.uid if key in own else "" for key in keys_of(pod)}
        before = {key: table.claims.get(key) for key in wanted}
        table.volumes[_ANYWHERE.name] = _ANYWHERE
        for key, claim in before.items():
            usable = claim is not None and claim.bound and claim.volume in table.volumes
            if claim is None or others or not usable or claim.deleting:
                namespace, _, name = key.partition("/")
                table.claims[key] = PersistentVolumeClaim(
                    namespace, name, volume=_ANYWHERE.name, bound=True, owner=wanted[key]
                )
        try:
            yield
        finally:
            del table.volumes[_ANYWHERE.name]
            for key, claim in before.items():
                if claim is None:
                    del table.claims[key]
                else:
                    table.claims[key] = claim

    def shares_given_up(self) -> AbstractContextManager[None]:
        """Inside, nothing is kept for jobs that are being rescheduled (F6)."""
        return self._usage.reserved.ignored()

    def queue_is(self, queue: Queue) -> AbstractContextManager[None]:
        """Inside, the queue of this name has these settings."""
        queues = self._book.queues
        return _supposed(partial(queues.__setitem__, queue.name), queues[queue.name], queue)


@contextmanager
def _supposed(put: Callable[[Value], object], before: Value, instead: Value) -> Iterator[None]:
    """Inside, something is put in the place of what was there before."""
    put(instead)
    try:
        yield
    finally:
        put(before)


def _set_pods(placements: Mapping[str, PodRecord], pods: Mapping[str, Pod]) -> None:
    for uid, pod in pods.items():
        placements[uid].pod = pod


def _made_again(pod: Pod) -> Pod:
    """The pod as its owner creates it after an eviction: what its binding wrote is gone."""
    written = set(owned_in(pod.annotations))
    return replace(
        pod,
        phase="Pending",
        node=None,
        holds=(),
        mounted=(),
        stray=(),
        annotations={key: value for key, value in pod.annotations.items() if key not in written},
    )


def _changed_pod(pod: Pod, change: JobChange, memories: Mapping[str, int]) -> Pod:
    return replace(
        pod,
        cls=_changed_class(pod.cls, change, memories),
        labels=_edited(pod.labels, change.labels),
        annotations=_edited(pod.annotations, change.annotations),
    )


def _changed_class(cls: PodClass, change: JobChange, memories: Mapping[str, int]) -> PodClass:
    if change.chips is not None and cls.chips:
        cls = replace(cls, chips=change.chips)
    if change.part and cls.part is not None:
        part = replace(cls.part, **dict[str, Any](change.part))
        counted = hundredths_of(part.count, part.mb, memories.get(part.resource, 0))
        cls = replace(cls, part=replace(part, hundredths=counted if part.mode == SOFT else 0))
    if change.unselected:
        pairs = tuple(pair for pair in cls.node_selector if pair[0] not in change.unselected)
        cls = replace(cls, node_selector=pairs)
    if change.selected is not None:
        selector = {**dict(cls.node_selector), change.selected[0]: change.selected[1]}
        cls = replace(cls, node_selector=tuple(sorted(selector.items())))
    return cls


def _edited(texts: Mapping[str, str], edits: Mapping[str, str | None] | None) -> Mapping[str, str]:
    if not edits:
        return texts
    merged: dict[str, str | None] = {**texts, **edits}
    return {key: value for key, value in merged.items() if value is not None}
