"""A job as the scheduler sees it: the pods that start together, and what was computed about them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from decimal import Decimal
from operator import attrgetter
from typing import Any, NamedTuple

from ringwise.framework.amounts import (
    Amount,
    Amounts,
    add,
    added,
    amounts_of,
    simplified,
    without_quota_names,
)
from ringwise.framework.policy import ChipPolicy
from ringwise.framework.reschedule_clock import RescheduleClock
from ringwise.framework.sub_groups import SubGroup, TooManySteps, cut
from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.state.allocation_modes import UNITS_OF_A_CHIP
from ringwise.state.job_rules import MAX_PODS
from ringwise.state.model import EMPTY, SOFT, Pod, PodGroup
from ringwise.state.vcjob import VcJob
from ringwise.topology.natural import natural_key
from ringwise.topology.policy import SOFT_SHARE_POLICY, is_chip_resource
from ringwise.wellknown import BACKUP_SOURCE_POD, SCHEDULE_POLICY


@dataclass(frozen=True, slots=True)
class PreviousNode:
    """Where a rank of the job ran before its pod was lost."""

    node: str
    annotations: Mapping[str, str] = field(default=EMPTY, hash=False)
    #: The pod was lost because of this node.
    faulty: bool = False
    #: When the pod was lost, in nanoseconds.
    lost: int = 0
    #: S9: the node is held for the job while that is rescheduled.
    held: bool = False
    #: The job was suspended: it returns here where the node is free; nothing is held.
    suspended: bool = False


class BrokenChip(NamedTuple):
    """Hardware that broke a job: a chip of a node, or the node itself."""

    node: str
    #: WHOLE_NODE: every chip of it.
    chip: int


WHOLE_NODE = -1


class CoolDown(NamedTuple):
    """F3: how a job avoids a chip that broke it."""

    #: In nanoseconds.
    until: int
    #: How often it broke the job, each time before the cool-down of the time before was over.
    times: int = 1
    #: The job has it again because nothing else fitted: its pod may return there (S9).
    used: bool = False

    @property
    def broke_again(self) -> bool:
        return self.times > 1


class AwaitedNode(NamedTuple):
    """S9: a healthy pod of a job that is rescheduled still terminates there; its replacement waits for it."""

    node: str
    rank: int
    #: When its deletion was asked for, and how long its replacement waits at most, in nanoseconds.
    since: int
    until: int


class PlannedPlace(NamedTuple):
    """M1: a place that a plan of moves keeps for a pod of the job."""

    #: Name of the pod that it was found for. A pod of another name that asks for as many chips may have it.
    pod: str
    node: str
    #: Mask.
    chips: int


class TerminatingPod(NamedTuple):
    """A pod of a job that is being deleted."""

    node: str
    #: When its deletion was asked for, or seen first, in nanoseconds.
    since: int
    #: Its node or one of its chips is broken, or broke the job.
    faulty: bool


@dataclass(slots=True, eq=False)
class Job:
    """One gang. Its key is `namespace/name` of its PodGroup, or of its only pod."""

    key: str
    namespace: str
    #: The name of its vcjob, PodGroup or bare pod.
    name: str
    pods: dict[str, Pod] = field(default_factory=dict)
    #: The pods its controller will create once the job is enqueued, in natural order of their names.
    prospective: tuple[Pod, ...] = ()
    #: The vcjob that they were made of.
    prospective_of: VcJob | None = None
    group: PodGroup | None = None
    queue: str = "default"
    #: Whether an object names the queue: running pods count for it from then on, also if it is changed.
    queue_is_known: bool = False
    priority: int = 0
    #: Priority classes that it names and may not use, each with the sentence that says why.
    refused_classes: Mapping[str, str] = EMPTY
    #: Uids of pending pods with the preemptionPolicy Never.
    non_preempting: frozenset[str] = frozenset()
    created: int = 0
    min_available: int = 1
    min_per_task: Mapping[str, int] = EMPTY
    #: PodGroup values win over pod values.
    labels: Mapping[str, str] = EMPTY
    annotations: Mapping[str, str] = EMPTY
    #: Why it can never run, found when it was read (a malformed vcjob).
    defects: tuple[Reason, ...] = ()
    #: Whether a pod of it may not be placed: it has a problem, or says itself which chips it sees.
    has_refusable_pods: bool = False
    #: Whether a pod of it has claims of volumes.
    has_claims: bool = False
    #: Set by the chip plugin when it validates the job; None for jobs without chips.
    policy: ChipPolicy | None = None
    #: Why it does not run; None when no reason is known.
    reason: Reason | None = None
    #: Nanoseconds: since when it waits.
    waiting_since: int | None = None
    #: Expected run time in nanoseconds, where it is given.
    expected: int | None = None
    #: Time the first pods of the present run were placed.
    started: int | None = None
    #: By rank, while the job is being rescheduled.
    previous_nodes: Mapping[int, PreviousNode] = EMPTY
    #: By uid of the terminating pod. Kept with the previous nodes.
    awaited_nodes: dict[str, AwaitedNode] = field(default_factory=dict)
    #: By uid. Kept with the previous nodes.
    terminating: dict[str, TerminatingPod] = field(default_factory=dict)
    #: M1: while it is moved, those that no new pod of it has yet. Kept by the moves.
    places: tuple[PlannedPlace, ...] = ()
    #: F2: while it lacks pods that it had. Kept by the fault handler.
    clock: RescheduleClock | None = None
    #: F3: chips that broke it, and how it avoids them. Kept by the fault handler.
    cooling: Mapping[BrokenChip, CoolDown] = EMPTY
    #: When it was last preempted or reclaimed, in nanoseconds. Kept by the preemptions.
    preempted: int | None = None
    #: When pods were last evicted for it, in nanoseconds. Kept by the same.
    room_made_at: int | None = None
    #: Its eviction was refused: it is not requested again before this, in nanoseconds. Kept by the same.
    not_evicted_before: int = 0
    #: When the first pod that it could evict, but for its protection, loses that, in nanoseconds.
    victims_from: int | None = None
    #: Its volumes were not there in time, and none of its claims changed since: pods would be evicted in
    #: vain. Kept by the waits for volumes.
    may_not_evict: bool = False
    inqueue: bool = False
    validated: bool = False
    requested_total: Mapping[str, Amount] | None = None
    #: Replicas that its vcjob orders in tasks with chips and in tasks without; 0 where it has no vcjob.
    ordered_chip_pods: int = 0
    ordered_other_pods: int = 0
    #: Caches: uids in natural order of the pods' names, ranks by uid, backup pods with their sources, and
    #: sub-groups.
    ordered: list[str] | None = None
    ranks: dict[str, int] | None = None
    sources: dict[str, str] | None = None
    parts: tuple[SubGroup, ...] | None = None
    _seniority: tuple[object, ...] = ()

    @property
    def full_name(self) -> str:
        """`namespace/name`, as users know it."""
        return f"{self.namespace}/{self.name}"

    @property
    def seniority(self) -> tuple[object, ...]:
        """The end of its sort key: by age, then by name. Cached while the job waits."""
        if not self._seniority:
            self.note_contents()
            self._seniority = (self.created, natural_key(self.full_name), self.key)
        return self._seniority

    def drop_seniority(self) -> None:
        """Free the cached end of the sort key: the job is placed, and there are thousands of those."""
        self.note_contents()
        self._seniority = ()

    @property
    def in_order(self) -> list[Pod]:
        """Its pods in natural order of their names; before any exist, those that will be created."""
        if not self.pods:
            return list(self.prospective)
        if len(self.pods) == 1:
            return list(self.pods.values())
        if self.ordered is None:
            self.note_contents()
            self.ordered = [pod.uid for pod in sorted(self.pods.values(), key=pod_order)]
        return list(map(self.pods.__getitem__, self.ordered))

    @property
    def chip_pods(self) -> list[Pod]:
        """The pods that request chips; failed ones and those that another pod replaces do so no more.

        Backup pods do not yet: they replace pods that are counted.
        """
        backups = self.backups
        return [
            pod
            for pod in self.in_order
            if pod.cls.chips
            and pod.phase != "Failed"
            and pod.uid not in backups
            and not (pod.deleting and self.is_replaced(pod))
        ]

    @property
    def backups(self) -> Mapping[str, str]:
        """Hot switch: pods that stand by to replace another one which runs, with that one, by uid.

        They are not part of the gang, and have the rank of the other, until that one ends. Then they are pods
        like any other.
        """
        if self.sources is None:
            self.note_contents()
            marked = [pod for pod in self.pods.values() if BACKUP_SOURCE_POD in pod.annotations]
            self.sources = _sources(marked, self.pods) if marked else {}
        return self.sources

    @property
    def rank_table(self) -> dict[str, int]:
        """The rank of every pod, by uid (see `ranks_of`)."""
        if self.ranks is None:
            self.note_contents()
            size = max(min(self.min_available, MAX_PODS), self.ordered_chip_pods + self.ordered_other_pods)
            backups = self.backups
            members = [pod for pod in self.in_order if pod.uid not in backups] if backups else self.in_order
            self.ranks = assign_ranks(members, size)
            self.ranks.update((uid, self.ranks[source]) for uid, source in backups.items())
        return self.ranks

    @property
    def sub_groups(self) -> tuple[SubGroup, ...]:
        """Its pods as its PodGroup cuts them; none for most jobs."""
        if self.group is None or not self.group.sub_groups:
            return ()
        if self.parts is None:
            self.note_contents()
            try:
                self.parts = cut(self.group.sub_groups, self.in_order)
            except TooManySteps:
                # Such a job is refused when it is read.
                self.parts = ()
        return self.parts

    def is_replaced(self, pod: Pod) -> bool:
        """Whether the pod terminates, and another one has its rank."""
        return pod.deleting and pod.rank is not None and self.rank_table.get(pod.uid) != pod.rank

    @property
    def expected_chip_pods(self) -> int:
        """Pods with chips that exist now or that its vcjob orders."""
        return max(len(self.chip_pods), self.ordered_chip_pods)

    @property
    def chip_pod_count(self) -> int:
        """Rule S1: how many pods with chips the job has, also while a lost one is not replaced yet.

        It follows from the objects alone, so it is the same after a restart. `minMember` counts
        less the pods that are known to ask for no chips.
        """
        present = [pod for pod in self.in_order if pod.phase != "Failed"]
        others = max(sum(not pod.cls.chips for pod in present), self.ordered_other_pods)
        return max(self.expected_chip_pods, min(self.min_available, MAX_PODS) - others)

    @property
    def has_independent_pods(self) -> bool:
        """Its pods are not a gang: those of a Deployment or the like of which one alone may start."""
        return self.group is not None and self.group.ordinary and self.min_available <= 1

    @property
    def is_distributed(self) -> bool:
        """More than one of its pods requests chips, those that its owner has not created yet included."""
        return self.announced_pods > 1 or self.chip_pod_count > 1

    @property
    def announced_pods(self) -> int:
        """How many pods with chips its vcjob, or the owner of its PodGroup, creates; 0 or 1 if unknown."""
        return max(self.ordered_chip_pods, self.group.replicas if self.group is not None else 0)

    def requested(self) -> Mapping[str, Amount]:
        """What all its pods request together."""
        if self.requested_total is None:
            self.note_contents()
            total: Mapping[str, Amount] = EMPTY
            for pod in self.in_order:
                total = added(total, amounts_of(pod.cls))
            self.requested_total = total
        return self.requested_total

    def min_requested(self) -> Amounts:
        """What it needs at once: `minResources` where it is given, else what the smallest gang requests."""
        if self.group is not None and self.group.min_resources:
            return self.min_resources()
        return self._requested_by_gang()

    def _requested_by_gang(self) -> Amounts:
        total: Amounts = {}
        for pod in self.in_order[: self.min_available]:
            add(total, amounts_of(pod.cls))
        return total

    def min_resources(self) -> Amounts:
        """`minResources` without the names that only quotas have, and with shares counted in chips (V18)."""
        group = self.group
        written = without_quota_names(group.min_resources) if group is not None else {}
        if self.policy is not None or group is None or not self._has_shares(group):
            return written
        shares = self._requested_by_gang() if self.pods or self.prospective else None
        for name in written:
            if is_chip_resource(name):
                count = Decimal(written[name]) / UNITS_OF_A_CHIP
                written[name] = simplified(count) if shares is None else shares.get(name, 0)
        return written

    def _has_shares(self, group: PodGroup) -> bool:
        if not self.pods and not self.prospective:
            return group.annotations.get(SCHEDULE_POLICY) == SOFT_SHARE_POLICY
        pods = self.pods.values() if self.pods else self.prospective
        return any(pod.cls.part is not None and pod.cls.part.mode == SOFT for pod in pods)

    def changed(self) -> None:
        """Its pods or settings changed: what was computed about it is void."""
        self.note_contents()
        self.validated = False
        self.policy = None
        self.requested_total = None
        self.ordered = None
        self.ranks = None
        self.sources = None
        self.parts = None
        self._seniority = ()

    def note_contents(self) -> None:
        """To be called before anything of it is set that a question may set: caches, and what is supposed."""
        for notes in _open_notes:
            notes.add(self)


#: All that a job holds, as one tuple.
_contents = attrgetter(*Job.__slots__)


def _restore(job: Job, contents: tuple[Any, ...]) -> None:
    for name, value in zip(Job.__slots__, contents, strict=True):
        setattr(job, name, value)


class _Notes:
    """What jobs held before a question touched them: a copy of all jobs takes long where there are many."""

    __slots__ = ("_before",)

    def __init__(self) -> None:
        self._before: dict[int, tuple[Job, tuple[Any, ...]]] = {}

    def add(self, job: Job) -> None:
        if id(job) not in self._before:
            self._before[id(job)] = job, _contents(job)

    def restore(self, jobs: Mapping[str, Job]) -> None:
        for job, before in self._before.values():
            # Jobs of other schedulers of this process are none of its business.
            if jobs.get(job.key) is job:
                _restore(job, before)


#: Of the questions that are open.
_open_notes: list[_Notes] = []


@contextmanager
def jobs_unchanged(jobs: Mapping[str, Job]) -> Iterator[None]:
    """At the end every one of these jobs holds what it held before, the caches too."""
    notes = _Notes()
    _open_notes.append(notes)
    try:
        yield
    finally:
        _open_notes.remove(notes)
        notes.restore(jobs)


@contextmanager
def job_unchanged(job: Job) -> Iterator[None]:
    """The same for one job, which may be changed inside."""
    job.note_contents()
    before = _contents(job)
    try:
        yield
    finally:
        _restore(job, before)


def _sources(marked: Iterable[Pod], pods: Mapping[str, Pod]) -> dict[str, str]:
    """Backups and the pods that they stand by for. Anyone may write the mark: only what fits is believed."""
    running = {
        pod.name: pod
        for pod in pods.values()
        if pod.node is not None and pod.live and not pod.deleting and BACKUP_SOURCE_POD not in pod.annotations
    }
    result: dict[str, str] = {}
    served: set[str] = set()
    for pod in sorted(marked, key=pod_order):
        source = running.get(pod.annotations[BACKUP_SOURCE_POD])
        request = pod.cls.resource, pod.cls.chips
        if source is None or not pod.cls.chips or request != (source.cls.resource, source.cls.chips):
            continue
        ends = pod.deleting or not pod.live
        # A second backup of the same pod would be a further pod of the job.
        if ends or source.uid not in served:
            result[pod.uid] = source.uid
        if not ends:
            served.add(source.uid)
    return result


def task_minimums_count(job: Job) -> bool:
    """The minimums of tasks count only where the job's own minimum covers all of them."""
    return bool(job.min_per_task) and job.min_available >= sum(job.min_per_task.values())


def is_awaiting_pods(job: Job) -> bool:
    """Whether the job is admitted and the owner of its PodGroup has created none of its pods yet.

    Of a job that needs none (a vcjob of 0 replicas) nothing is awaited.
    """
    group = job.group
    if not job.inqueue or job.pods or group is None or group.phase == "Completed":
        return False
    return job.min_available > 0 or any(group.min_resources.values())


def quota_names(job: Job) -> Amounts:
    """What the job needs at once, under every name that a ResourceQuota may have for it.

    Volcano writes most of these names into `minResources`; those that are missing follow from the others.
    """
    written: Mapping[str, int] = job.group.min_resources if job.group is not None else {}
    names: Amounts = {"pods": job.min_available, "count/pods": job.min_available}
    names.update((f"requests.{name}", amount) for name, amount in without_quota_names(written).items())
    names.update(written)
    return names


def gated_pods(job: Job) -> int:
    """How many of its pods wait behind scheduling gates."""
    return sum(pod.gated and pod.phase == "Pending" and not pod.deleting for pod in job.pods.values())


def job_key(pod: Pod) -> str:
    """PodGroup and pod names may be equal, so a pod's own job has a key that no group can have."""
    return f"{pod.namespace}/{pod.group}" if pod.group is not None else f"{pod.namespace}/pod:{pod.name}"


def pod_order(pod: Pod) -> tuple[object, ...]:
    """Pods of one job in the order of their names: worker-2 before worker-10."""
    return (natural_key(pod.name), pod.uid)


def differs_for_job(old: Pod, new: Pod) -> bool:
    """Whether anything of a pod changed that its job is read from."""
    # Of most reports nothing did: each comparison is the cheapest there is.
    return (
        (old.cls is not new.cls and old.cls != new.cls)
        or old.labels != new.labels
        or old.annotations != new.annotations
        or old.rank != new.rank
        or old.gated != new.gated
        or old.queue_gated != new.queue_gated
        or old.priority != new.priority
        or old.never_preempts != new.never_preempts
        or old.chip_containers != new.chip_containers
        or old.visible_devices != new.visible_devices
        or old.problem != new.problem
    )


def assign_ranks(pods: Sequence[Pod], size: int) -> dict[str, int]:
    """The rank of every pod, by uid. `pods` are in natural order of names; the job has `size` of them."""
    if len(pods) == 1:
        return {pods[0].uid: pods[0].rank or 0}
    ranks: dict[str, int] = {}
    used: set[int] = set()
    staying = [pod for pod in pods if not is_ending(pod)]
    ending = [pod for pod in pods if is_ending(pod)]
    left = {pod.rank for pod in ending if pod.rank is not None}
    _give(staying, ranks, used, left, max(size, len(staying)))
    _give(ending, ranks, used, set(), 0)
    return ranks


def is_ending(pod: Pod) -> bool:
    """Whether another pod takes its place."""
    return pod.phase == "Failed" or pod.deleting


def _give(pods: list[Pod], ranks: dict[str, int], used: set[int], left: set[int], size: int) -> None:
    """Ranks below the size that no pod has come first, then those that ending pods leave."""
    waiting = []
    for pod in sorted(pods, key=lambda pod: not pod.cls.chips):
        if pod.rank is not None and pod.rank not in used:
            ranks[pod.uid] = pod.rank
            used.add(pod.rank)
        else:
            waiting.append(pod)
    unused = [rank for rank in range(size) if rank not in used and rank not in left] if left else []
    following = 0
    for pod, rank in zip(waiting, unused, strict=False):
        ranks[pod.uid] = rank
        used.add(rank)
    for pod in waiting[len(unused) :]:
        while following in used:
            following += 1
        ranks[pod.uid] = following
        used.add(following)
