"""Pods that could be evicted, by queue: read once a cycle, however many jobs look for victims.

Of each queue little is known beforehand (its lowest priority, the kinds of its pods). With that most jobs
that may not evict any pod are refused without reading the pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

from ringwise.durations import SECOND
from ringwise.framework.evictions.lost_work import LostWork
from ringwise.framework.evictions.spare_pods import SparePods
from ringwise.framework.job import Job, pod_order
from ringwise.framework.session import Session
from ringwise.framework.victim_queues import JobPod
from ringwise.state.model import Pod, PodClass


class QueuePods:
    """Pods of one queue that could be evicted: `VictimQueue`."""

    def __init__(self, session: Session, name: str, members: Iterable[JobPod]) -> None:
        self._session = session
        self.name = name
        self._members = list(members)
        self._lower: dict[int, QueuePods] = {}

    @cached_property
    def jobs(self) -> Mapping[str, Job]:
        return {job.key: job for job, _ in self._members}

    @cached_property
    def lowest_priority(self) -> int:
        return min(job.priority for job in self.jobs.values())

    @cached_property
    def classes(self) -> frozenset[PodClass]:
        return frozenset({id(pod.cls): pod.cls for _, pod in self._members}.values())

    @cached_property
    def elastic(self) -> list[Job]:
        """The jobs that can spare a pod; of the time when it was first asked for: it can only become less."""
        spare = self._session.shared(SparePods)
        return [job for job in self.jobs.values() if spare.any_of(job)]

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """By uid: a number that rises in this order."""
        return {pod.uid: position for position, (_, pod) in enumerate(self.in_order)}

    @cached_property
    def in_order(self) -> list[JobPod]:
        """The reverse of the order in which they are served: jobs, then pods.

        Jobs with a long grace period come last. The others are sorted by priority, then by whether they were
        evicted recently, then by the work that would be lost.
        """
        work, keys = self._session.shared(LostWork), self._session.shared(_OrderKeys)
        keys.refresh()
        pods: dict[str, list[JobPod]] = {}
        for job, pod in self._members:
            pods.setdefault(job.key, []).append((job, pod))
        last_first = sorted(self.jobs.values(), key=keys.of_job, reverse=True)
        last_first.sort(
            key=lambda job: (
                work.rank_of(job),
                work.was_preempted_lately(job),
                sum([work.of(job, pod) for _, pod in pods[job.key]]),
            )
        )
        ordered: list[JobPod] = []
        for job in last_first:
            its_pods = pods[job.key]
            if len(its_pods) > 1:
                its_pods.sort(key=keys.of_member, reverse=True)
            ordered += its_pods
        return ordered

    def divided(self, job: Job) -> tuple[QueuePods, QueuePods]:
        """Those of other jobs, and those of this one."""
        others = [member for member in self._members if member[0] is not job]
        own = [member for member in self._members if member[0] is job]
        return QueuePods(self._session, self.name, others), QueuePods(self._session, self.name, own)

    def below(self, priority: int) -> QueuePods:
        """Those of jobs of a lower priority."""
        result = self._lower.get(priority)
        if result is None:
            lower = [member for member in self._members if member[0].priority < priority]
            whole = len(lower) == len(self._members)
            result = self if whole else QueuePods(self._session, self.name, lower)
            self._lower[priority] = result
        return result

    def without(self, going: set[str]) -> QueuePods:
        """The same but for these pods (uids)."""
        fewer = QueuePods(
            self._session, self.name, [member for member in self._members if member[1].uid not in going]
        )
        cached = self.__dict__
        lost = {job.key for job, pod in self._members if pod.uid in going}
        fewer.jobs = {job.key: job for job, _ in fewer._members}
        if "elastic" in cached:
            fewer.elastic = [job for job in self.elastic if job.key in fewer.jobs]
        if "in_order" in cached and lost.isdisjoint(fewer.jobs):
            # No job lost a part of its pods: the order of the others is as it was.
            fewer.in_order = [member for member in self.in_order if member[1].uid not in going]
            if "positions" in cached:
                fewer.positions = self.positions
        # A queue with pods of several priorities would else be put in order again for each job.
        fewer._lower = {
            priority: fewer if there is self else there.without(going)
            for priority, there in self._lower.items()
        }
        return fewer


class _OrderKeys:
    """The keys by which jobs and pods are served, of each computed once while no more pods are placed.

    Every search for victims asks for those of all candidates, and between two searches nothing changes them.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._bound = 0
        self._jobs: dict[str, tuple[Any, ...]] = {}
        self._pods: dict[str, tuple[Any, ...]] = {}

    def refresh(self) -> None:
        bound = len(self._session.bound)
        if bound != self._bound:
            self._bound = bound
            self._jobs.clear()
            self._pods.clear()

    def of_job(self, job: Job) -> tuple[Any, ...]:
        result = self._jobs.get(job.key)
        if result is None:
            result = self._jobs[job.key] = self._session.job_key(job)
        return result

    def of_member(self, member: JobPod) -> tuple[Any, ...]:
        pod = member[1]
        result = self._pods.get(pod.uid)
        if result is None:
            result = self._pods[pod.uid] = self._session.pod_key(pod), pod_order(pod)
        return result


def evictable_pods(session: Session, flagged: Callable[[Pod], bool]) -> list[JobPod]:
    """Flagged pods that have a node and are not being deleted, evicted or moved."""
    going = {eviction.pod.uid for eviction in session.evicted}
    placements = session.state.pods
    return [
        (job, pod)
        for job in session.jobs.values()
        if not job.places
        for uid, pod in job.pods.items()
        # Shares and vNPUs are never evicted to make room (V17).
        if pod.cls.part is None and flagged(pod) and pod.live and not pod.deleting and uid not in going
        if placements[uid].node >= 0 and session.ours(pod)
    ]


def by_queue(session: Session, members: Iterable[JobPod]) -> dict[str, QueuePods]:
    """By the queue for which they count: what is evicted becomes free there."""
    pods_of: dict[str, list[JobPod]] = {}
    queue_of = session.usage.queue_of
    for job, pod in members:
        pods_of.setdefault(queue_of(pod.uid, job.queue), []).append((job, pod))
    return {name: QueuePods(session, name, there) for name, there in pods_of.items()}


class EvictablePods:
    """All flagged pods, kept up to date as pods are placed and evicted in the cycle."""

    def __init__(self, session: Session, flagged: Callable[[Pod], bool]) -> None:
        self._session = session
        self._flagged = flagged
        self._bound = -1
        self._evicted = 0
        self._queues: dict[str, QueuePods] = {}

    def queues(self) -> Mapping[str, QueuePods]:
        """Those of each queue that has any."""
        session = self._session
        if len(session.bound) != self._bound:
            self._bound = len(session.bound)
            self._evicted = len(session.evicted)
            self._queues = by_queue(session, evictable_pods(session, self._flagged))
        elif len(session.evicted) != self._evicted:
            self._remove_evicted()
            self._evicted = len(session.evicted)
        return self._queues

    def _remove_evicted(self) -> None:
        gone: dict[str, set[str]] = {}
        for eviction in self._session.evicted[self._evicted :]:
            uid = eviction.pod.uid
            gone.setdefault(self._session.usage.queue_of(uid, eviction.job.queue), set()).add(uid)
        for name, uids in gone.items():
            queue_pods = self._queues.get(name)
            if queue_pods is not None:
                fewer = queue_pods.without(uids)
                if fewer.jobs:
                    self._queues[name] = fewer
                else:
                    del self._queues[name]


def preemptable_pods(session: Session) -> EvictablePods:
    """For `Session.shared`: bound or running pods with the flag."""
    return EvictablePods(session, lambda pod: pod.preemptable)


def reclaimable_pods(session: Session) -> EvictablePods:
    """For `Session.shared`: running pods with the flag."""
    return EvictablePods(session, lambda pod: pod.preemptable and pod.phase == "Running")


class LeavingPods:
    """Pods that are being deleted, or evicted in this cycle: what they hold counts as free for a search.

    Not of those that should have ended long ago: their node may never tell, and others can be evicted.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        placements = session.state.pods
        settings = session.settings
        began = session.now - min(settings.grace_over_time, settings.long_grace_period) * SECOND
        self._deleting: list[JobPod] = [
            (job, pod)
            for job in session.jobs.values()
            for uid, pod in job.pods.items()
            if pod.deleting and placements[uid].node >= 0
            if uid not in job.terminating or job.terminating[uid].since > began
        ]

    def now(self) -> list[JobPod]:
        evicted = [
            (eviction.job, eviction.pod) for eviction in self._session.evicted if not eviction.pod.deleting
        ]
        return [*self._deleting, *evicted] if evicted else self._deleting
