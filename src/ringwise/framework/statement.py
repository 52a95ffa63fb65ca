"""A statement: decisions about one job that take effect together or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from ringwise.framework.extension_points import PodNotice
from ringwise.framework.job import Job
from ringwise.framework.usage import ResourceUsage
from ringwise.records import dataclass
from ringwise.state.cluster import ClusterState
from ringwise.state.loads import Load, load_of
from ringwise.state.model import EMPTY, Pod, PodClass
from ringwise.state.part_requests import PartBinding
from ringwise.state.volume_table import ClaimChoice
from ringwise.topology.chips import mask_of


class Allocation(NamedTuple):
    """A pod got a node and its chips, in the order of the annotation."""

    job: Job
    pod: Pod
    node: int
    chips: tuple[int, ...]
    score: int = 0
    annotations: Mapping[str, str] = EMPTY
    #: What its claims get that have no volume.
    volumes: tuple[ClaimChoice, ...] = ()
    #: Of a pod with a share or a vNPU: what it is bound with.
    binding: PartBinding | None = None


@dataclass(frozen=True, slots=True)
class Eviction:
    """A running pod is evicted, in most cases so that another job can start."""

    job: Job
    pod: Pod
    why: str
    #: The job it is evicted for; None where it is evicted for no job in particular.
    beneficiary: Job | None = None


class Savepoint(NamedTuple):
    """How much was decided in a statement, and in the state, when it was taken."""

    decisions: int
    allocations: int
    evictions: int


@dataclass(slots=True, eq=False)
class Statement:
    """Works on the live state inside a transaction. Ends with `commit` or `discard`."""

    #: How many this process has made: the progress that a long question shows. Nothing decides by it.
    made = 0

    _state: ClusterState
    _usage: ResourceUsage
    _allocated: Sequence[PodNotice]
    _deallocated: Sequence[PodNotice]
    _committed: Callable[[Sequence[Allocation]], None]
    _mark: int = field(init=False)
    allocations: list[Allocation] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    #: The first pod that no node could take, and how many were allocated before it.
    refused: tuple[Pod, int] | None = None

    def __post_init__(self) -> None:
        Statement.made += 1
        self._mark = self._state.checkpoint()

    def allocate(self, allocation: Allocation) -> None:
        """N6: the chips are taken at once; the next decision sees them gone."""
        pod, job = allocation.pod, allocation.job
        chips, volumes = mask_of(allocation.chips), allocation.volumes
        self._state.place(pod.uid, allocation.node, chips, volumes, allocation.binding)
        self._usage.add_pod(job.key, job.queue, pod.cls)
        self.allocations.append(allocation)
        for notify in self._allocated:
            notify(job, pod, allocation.node)

    def evict(self, eviction: Eviction) -> None:
        """The victim's chips count as free from here on, inside this statement only."""
        pod, job = eviction.pod, eviction.job
        node = self._state.pods[pod.uid].node
        self._state.release(pod.uid)
        self._usage.remove_pod(job.key, self._usage.queue_of(pod.uid, job.queue), pod.cls)
        self.evictions.append(eviction)
        for notify in self._deallocated:
            notify(job, pod, node)

    def commit(self) -> None:
        """The allocations become bindings of this cycle."""
        if self.evictions:
            raise ValueError("a statement with evictions is nominated, not committed")
        self._state.commit(self._mark)
        self._committed(self.allocations)

    def discard(self) -> None:
        """Undo everything, last first."""
        self._state.rollback(self._mark)
        self._announce_undone(0, 0)

    def savepoint(self) -> Savepoint:
        """To undo what follows, and nothing else."""
        return Savepoint(self._state.decided, len(self.allocations), len(self.evictions))

    def rollback_to(self, savepoint: Savepoint) -> None:
        """Undo what was decided since then, last first; the statement stays open."""
        self._state.undo(savepoint.decisions)
        self._announce_undone(savepoint.allocations, savepoint.evictions)
        if self.refused is not None and self.refused[1] > savepoint.allocations:
            self.refused = None
        del self.allocations[savepoint.allocations :]
        del self.evictions[savepoint.evictions :]

    def _announce_undone(self, allocations: int, evictions: int) -> None:
        """The state has undone all but the first so many."""
        for allocation in reversed(self.allocations[allocations:]):
            job, pod = allocation.job, allocation.pod
            self._usage.remove_pod(job.key, job.queue, pod.cls)
            for notify in self._deallocated:
                notify(job, pod, allocation.node)
        for eviction in reversed(self.evictions[evictions:]):
            job, pod = eviction.job, eviction.pod
            self._usage.add_pod(job.key, self._usage.queue_of(pod.uid, job.queue), pod.cls)
            for notify in self._allocated:
                notify(job, pod, self._state.pods[pod.uid].node)


def chips_by_node(allocations: Iterable[Allocation]) -> dict[int, int]:
    chips: dict[int, int] = {}
    for allocation in allocations:
        if allocation.chips:
            chips[allocation.node] = chips.get(allocation.node, 0) | mask_of(allocation.chips)
    return chips


def loads_by_node(allocations: Iterable[Allocation]) -> dict[int, Load]:
    """cpu, memory, pods and other resources."""
    classes: dict[int, list[PodClass]] = {}
    for allocation in allocations:
        classes.setdefault(allocation.node, []).append(allocation.pod.cls)
    return {node: load_of(there) for node, there in classes.items()}
