"""A statement: decisions about one job that hold together or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ringwise.framework.extension_points import Point
from ringwise.framework.job import Job
from ringwise.state.model import EMPTY, Pod
from ringwise.topology.chips import mask_of

if TYPE_CHECKING:
    from ringwise.framework.session import Session


class Allocation(NamedTuple):
    """A pod got a node and, in written order, its chips."""

    job: Job
    pod: Pod
    node: int
    chips: tuple[int, ...]
    score: int = 0
    annotations: Mapping[str, str] = EMPTY


@dataclass(frozen=True, slots=True)
class Eviction:
    """A running pod is asked to go, so that another job can start."""

    job: Job
    pod: Pod
    why: str
    #: The job it makes room for.
    beneficiary: Job


class Statement:
    """Works on the live state inside a transaction. Ends with `commit` or `discard`."""

    __slots__ = ("_mark", "_session", "allocations", "evictions")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._mark = session.state.checkpoint()
        self.allocations: list[Allocation] = []
        self.evictions: list[Eviction] = []

    def allocate(self, allocation: Allocation) -> None:
        session = self._session
        pod, job = allocation.pod, allocation.job
        session.state.place(pod.uid, allocation.node, mask_of(allocation.chips))
        session.usage.add_pod(job.key, job.queue, pod.cls)
        self.allocations.append(allocation)
        for notice in session.registered(Point.ALLOCATED):
            notice(job, pod, allocation.node)

    def evict(self, eviction: Eviction) -> None:
        """The victim's chips count as free from here on, inside this statement only."""
        session = self._session
        pod, job = eviction.pod, eviction.job
        node = session.state.pods[pod.uid].node
        session.state.release(pod.uid)
        session.usage.remove_pod(job.key, job.queue, pod.cls)
        self.evictions.append(eviction)
        for notice in session.registered(Point.DEALLOCATED):
            notice(job, pod, node)

    def commit(self) -> None:
        """The allocations become bindings of this cycle."""
        if self.evictions:
            raise ValueError("a statement with evictions is nominated, not committed")
        self._session.state.commit(self._mark)
        self._session.bound.extend(self.allocations)
        self._session.announce(self.allocations)

    def discard(self) -> None:
        """Undo everything, last first."""
        session = self._session
        session.state.rollback(self._mark)
        for allocation in reversed(self.allocations):
            job, pod = allocation.job, allocation.pod
            session.usage.remove_pod(job.key, job.queue, pod.cls)
            for notice in session.registered(Point.DEALLOCATED):
                notice(job, pod, allocation.node)
        for eviction in reversed(self.evictions):
            job, pod = eviction.job, eviction.pod
            session.usage.add_pod(job.key, job.queue, pod.cls)
            for notice in session.registered(Point.ALLOCATED):
                notice(job, pod, session.state.pods[pod.uid].node)
