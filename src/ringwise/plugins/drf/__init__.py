"""drf: the job with the smallest dominant share goes first.

A job's dominant share is the largest fraction it uses of any resource of the cluster. With
the flag `enableHierarchy` queues are ordered too, by their shares in a tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ringwise.framework.amounts import Amounts, add, share
from ringwise.framework.configuration import PluginOption
from ringwise.framework.extension_points import (
    ALLOCATED,
    DEALLOCATED,
    JOB_ORDER,
    PREEMPT_PRECHECK,
    PREEMPTABLE,
    QUEUE_ORDER,
    RECLAIMABLE,
)
from ringwise.framework.job import Job
from ringwise.framework.registry import PluginSpec
from ringwise.framework.session import Session
from ringwise.framework.victim_queues import VictimQueue
from ringwise.plugins.drf.hierarchy import Hierarchy, Key
from ringwise.state.model import Pod, Queue

#: Shares this close count as equal.
_EQUAL = 1e-6


class Drf:
    def __init__(self, option: PluginOption) -> None:
        self._by_tree = option.is_enabled("hierarchy")

    def open(self, session: Session) -> None:
        self._session = session
        session.register(JOB_ORDER, self.job_order)
        session.register(PREEMPTABLE, self.preemptable)
        session.register(PREEMPT_PRECHECK, self.names_none)
        #: By name of a queue: the candidates that were asked about last, and the most that a job keeps.
        self._largest: dict[str, tuple[VictimQueue, float]] = {}
        if self._by_tree:
            self._tree = Hierarchy(session)
            session.register(QUEUE_ORDER, self.queue_order)
            session.register(RECLAIMABLE, self.reclaimable)
            session.register(ALLOCATED, partial(self._count, sign=1))
            session.register(DEALLOCATED, partial(self._count, sign=-1))

    def job_order(self, job: Job) -> float:
        usage = self._session.usage
        used = usage.used_by_job(job.key)
        return share(used, usage.capacity) if used else 0.0

    def preemptable(self, job: Job, pod: Pod, candidates: list[str]) -> list[str]:
        """Victims whose job keeps at least the share that the preempting job gets."""
        usage = self._session.usage
        gets = dict(usage.used_by_job(job.key))
        add(gets, usage.amounts(pod.cls))
        target = share(gets, usage.capacity)
        left: dict[str, Amounts] = {}
        victims = []
        for uid in candidates:
            candidate = self._session.state.pods[uid].pod
            owner = self._session.job_of(candidate)
            if owner is None:
                continue
            used = left.setdefault(owner.key, dict(usage.used_by_job(owner.key)))
            without = dict(used)
            add(without, usage.amounts(candidate.cls), -1)
            rest = share(without, usage.capacity)
            if target < rest or abs(target - rest) <= _EQUAL:
                left[owner.key] = without
                victims.append(uid)
        return victims

    def names_none(self, job: Job, pod: Pod, victims: VictimQueue) -> bool:
        """Whether every job would have less than the preempting one, whichever pod it loses first."""
        usage = self._session.usage
        entry = self._largest.get(victims.name)
        if entry is None or entry[0] is not victims:
            largest = max(self._remaining_share(job) for job in victims.jobs.values())
            entry = self._largest[victims.name] = victims, largest
        gets = dict(usage.used_by_job(job.key))
        add(gets, usage.amounts(pod.cls))
        return entry[1] + _EQUAL < share(gets, usage.capacity)

    def _remaining_share(self, job: Job) -> float:
        """The largest share that the job can have without one of its pods."""
        usage = self._session.usage
        shares = []
        for cls in {id(pod.cls): pod.cls for pod in job.pods.values()}.values():
            without = dict(usage.used_by_job(job.key))
            add(without, usage.amounts(cls), -1)
            shares.append(share(without, usage.capacity))
        return max(shares, default=0.0)

    # -- with hierarchy ----------------------------------------------------------------------

    def queue_order(self, queue: Queue) -> Key:
        return self._tree.key(queue.name)

    def reclaimable(self, job: Job, pod: Pod, candidates: list[str]) -> list[str]:
        """Victims whose queue still comes after the reclaiming one when the pod is placed."""
        usage, tree = self._session.usage, self._tree
        gets = usage.amounts(pod.cls)
        moved: list[tuple[str, Amounts]] = []
        victims = []
        tree.move(job.queue, gets, 1)
        try:
            for uid in candidates:
                candidate = self._session.state.pods[uid].pod
                owner = self._session.job_of(candidate)
                queue = usage.queue_of(uid, owner.queue) if owner is not None else job.queue
                if queue == job.queue:
                    continue
                gives = usage.amounts(candidate.cls)
                tree.move(queue, gives, -1)
                if tree.shares(job.queue) < tree.shares(queue):
                    moved.append((queue, gives))
                    victims.append(uid)
                else:
                    tree.move(queue, gives, 1)
        finally:
            tree.move(job.queue, gets, -1)
            for queue, gives in moved:
                tree.move(queue, gives, 1)
        return victims

    def _count(self, job: Job, pod: Pod, node: int, sign: int) -> None:
        usage = self._session.usage
        amounts = usage.amounts(pod.cls)
        self._tree.move(usage.queue_of(pod.uid, job.queue), amounts, sign)
        # If the job was moved to another queue, its pods wait in that one.
        self._tree.want(job.queue, amounts, -sign)


def _one_order_of_queues(option: PluginOption, tier: Sequence[PluginOption]) -> str | None:
    if option.is_enabled("hierarchy") and any(other.name == "proportion" for other in tier):
        return "drf with enableHierarchy and proportion both order the queues; allowed: one of them in a tier"
    return None


SPEC = PluginSpec(
    "drf",
    "orders jobs by dominant share; with enableHierarchy also queues (not in the same tier as proportion)",
    Drf,
    check_tier=_one_order_of_queues,
)
