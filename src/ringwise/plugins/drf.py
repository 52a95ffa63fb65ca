"""drf: the job with the smallest dominant share goes first.

A job's dominant share is the largest fraction it uses of any resource of the cluster. With
the flag `enableHierarchy` queues are ordered too, by their shares in a tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import partial

from ringwise.framework.amounts import Amount, Amounts, add, amounts_of, share
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
from ringwise.records import dataclass
from ringwise.state.model import ROOT_QUEUE, Pod, Queue
from ringwise.wellknown import HIERARCHY, HIERARCHY_WEIGHTS

# -- queues in a tree ------------------------------------------------------------------------------------

#: Larger weights, infinity included, count as 1, as text that is not a number does.
_MAX_WEIGHT = 1e9

Key = tuple[tuple[bool, float], ...]


@dataclass(slots=True)
class HierarchyNode:
    """One node of the tree."""

    weight: float = 1.0
    used: Amounts = field(default_factory=dict)
    #: What the pending pods of queues below it request.
    wanted: Amounts = field(default_factory=dict)


class Hierarchy:
    """Queues in a tree: shares are compared from the root downwards.

    Two annotations give the position of a queue, for example
    `volcano.sh/hierarchy: root/research/vision` and `volcano.sh/hierarchy-weights: 1/3/2`.
    A node of the tree uses what the queues below it use; its share is the largest fraction of
    any resource of the cluster. A node is saturated when nothing below it can take more.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._nodes: dict[tuple[str, ...], HierarchyNode] = {}
        self._paths: dict[str, tuple[str, ...]] = {}
        for queue in session.queues.values():
            self._add(queue)
        for name, used in session.usage.by_queue.items():
            self.move(name, used, 1)
        for job in session.pending:
            self.want(job.queue, _difference(job.requested(), session.usage.used_by_job(job.key)))

    def _add(self, queue: Queue) -> None:
        steps = [step for step in queue.annotations.get(HIERARCHY, "").split("/") if step] or [queue.name]
        if steps[0] != ROOT_QUEUE:
            steps.insert(0, ROOT_QUEUE)
        weights = [_weight(text) for text in queue.annotations.get(HIERARCHY_WEIGHTS, "").split("/") if text]
        path = self._paths[queue.name] = tuple(steps)
        for depth in range(1, len(path) + 1):
            node = self._nodes.setdefault(path[:depth], HierarchyNode())
            if depth <= len(weights):
                node.weight = weights[depth - 1]

    def want(self, queue: str, amounts: Mapping[str, Amount], sign: int = 1) -> None:
        """Pending pods of the queue request more, or with sign -1 less."""
        for node in self._above(queue):
            add(node.wanted, amounts, sign)

    def move(self, queue: str, amounts: Mapping[str, Amount], sign: int) -> None:
        """The queue uses more, or with sign -1 less."""
        for node in self._above(queue):
            add(node.used, amounts, sign)

    def _above(self, queue: str) -> list[HierarchyNode]:
        path = self._paths.get(queue, ())
        return [self._nodes[path[:depth]] for depth in range(1, len(path) + 1)]

    def shares(self, queue: str) -> tuple[float, ...]:
        """Share divided by weight, level by level."""
        total = self._session.usage.capacity
        return tuple(share(node.used, total) / node.weight for node in self._above(queue))

    def key(self, queue: str) -> Key:
        """The smaller goes first: nodes that can take more before saturated ones, then the smaller share."""
        free = self._free()
        return tuple(
            (not any(amount > 0 and name in free for name, amount in node.wanted.items()), part)
            for node, part in zip(self._above(queue), self.shares(queue), strict=True)
        )

    def _free(self) -> Amounts:
        """What no queue uses."""
        used = self._nodes[ROOT_QUEUE,].used if self._nodes else {}
        return _difference(self._session.usage.capacity, used)


def _difference(whole: Mapping[str, Amount], part: Mapping[str, Amount]) -> Amounts:
    return {name: amount - part.get(name, 0) for name, amount in whole.items() if amount > part.get(name, 0)}


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        return 1.0
    return weight if 0 < weight <= _MAX_WEIGHT else 1.0


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
        add(gets, amounts_of(pod.cls))
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
            add(without, amounts_of(candidate.cls), -1)
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
        add(gets, amounts_of(pod.cls))
        return entry[1] + _EQUAL < share(gets, usage.capacity)

    def _remaining_share(self, job: Job) -> float:
        """The largest share that the job can have without one of its pods."""
        usage = self._session.usage
        shares = []
        for cls in {id(pod.cls): pod.cls for pod in job.pods.values()}.values():
            without = dict(usage.used_by_job(job.key))
            add(without, amounts_of(cls), -1)
            shares.append(share(without, usage.capacity))
        return max(shares, default=0.0)

    # -- with hierarchy ----------------------------------------------------------------------

    def queue_order(self, queue: Queue) -> Key:
        return self._tree.key(queue.name)

    def reclaimable(self, job: Job, pod: Pod, candidates: list[str]) -> list[str]:
        """Victims whose queue still comes after the reclaiming one when the pod is placed."""
        usage, tree = self._session.usage, self._tree
        gets = amounts_of(pod.cls)
        moved: list[tuple[str, Mapping[str, Amount]]] = []
        victims = []
        tree.move(job.queue, gets, 1)
        try:
            for uid in candidates:
                candidate = self._session.state.pods[uid].pod
                owner = self._session.job_of(candidate)
                queue = usage.queue_of(uid, owner.queue) if owner is not None else job.queue
                if queue == job.queue:
                    continue
                gives = amounts_of(candidate.cls)
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
        amounts = amounts_of(pod.cls)
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
