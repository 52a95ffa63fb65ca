"""The places where a plugin can have a say, and how several answers become one.

The functions below are the whole of the combination rules: each point has its own
sentence, and a session only walks the tiers.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ringwise.reasons import Reason


class Point(enum.Enum):
    """A registration point, what is asked there, and the switch that gates it."""

    # Points are looked up several times for every pod; enums hash their names, and in Python.
    __hash__ = object.__hash__

    #: (job) -> sort key; the smallest job goes first
    JOB_ORDER = "job_order"
    #: (queue) -> sort key
    QUEUE_ORDER = "queue_order"
    #: (pod) -> sort key, among the pods of one job
    TASK_ORDER = "task_order"
    #: (job) -> Reason | None
    JOB_VALID = "job_valid"
    #: (job) -> bool
    JOB_READY = "job_ready"
    #: (job) -> (Vote, Reason | None)
    JOB_PIPELINED = "job_pipelined"
    #: (job) -> (Vote, Reason | None)
    JOB_ENQUEUEABLE = "job_enqueued"
    #: (job) -> bool
    JOB_STARVING = "job_starving"
    #: (queue) -> bool
    OVERUSED = "overused"
    #: (queue, pod) -> Reason | None
    ALLOCATABLE = "allocatable"
    #: (queue, pod) -> bool
    PREEMPTIVE = "preemptive"
    #: (pod class, chip policy | None, shape) -> Reason | None; must depend on nothing else
    PREDICATE = "predicate"
    #: (job, pod) -> None | (node id) -> Reason | None; for what no class can tell
    NODE_FILTER = "node_filter"
    #: (pod class, shape) -> float; must depend on nothing else
    NODE_SCORE = "node_order"
    #: (job, pod) -> None | {node id: extra score}; for what no class can tell
    NODE_FAVOUR = "node_favour"
    #: (job, pending pods) -> JobPlan | Reason | None; the first that answers decides
    JOB_PLAN = "job_plan"
    #: (job, pod, candidate uids) -> victim uids | None
    PREEMPTABLE = "preemptable"
    #: (job, pod, candidate uids) -> victim uids | None
    RECLAIMABLE = "reclaimable"
    #: (job, pod, node id): a pod was placed, or came back when an eviction was undone
    ALLOCATED = "allocated"
    #: (job, pod, node id): a placement was undone, or a pod is to be evicted
    DEALLOCATED = "deallocated"


#: Points that no switch turns off.
UNGATED = frozenset({Point.JOB_VALID, Point.JOB_PLAN, Point.ALLOCATED, Point.DEALLOCATED})
#: Points that follow another point's switch.
GATED_WITH = {Point.NODE_FILTER: Point.PREDICATE, Point.NODE_FAVOUR: Point.NODE_SCORE}


class Vote(enum.IntEnum):
    REJECT = -1
    ABSTAIN = 0
    PERMIT = 1


def first_reason(asked: Iterable[Callable[..., Reason | None]], *about: Any) -> Reason | None:
    """Validity and predicates: the first objection counts."""
    for ask in asked:
        answer = ask(*about)
        if answer is not None:
            return answer
    return None


def votes(tiers: Iterable[Iterable[tuple[Vote, Reason | None]]]) -> tuple[bool, Reason | None]:
    """Pipelined, enqueueable: a rejection ends it; a tier with a permit ends it; nobody against is a yes."""
    for tier in tiers:
        permitted = False
        for vote, reason in tier:
            if vote is Vote.REJECT:
                return False, reason
            permitted = permitted or vote is Vote.PERMIT
        if permitted:
            return True, None
    return True, None


def starving(tiers: Iterable[Sequence[Callable[[Any], bool]]], job: Any) -> bool:
    """The first tier with any opinion decides, and there everybody must agree."""
    for tier in tiers:
        if tier:
            return all(opinion(job) for opinion in tier)
    return False


def victims(tiers: Iterable[Iterable[list[str] | None]]) -> list[str]:
    """Inside a tier only what every voter names; the first tier that ends with somebody decides.

    None is an abstention. The order of the first voter is kept.
    """
    for tier in tiers:
        agreed: list[str] | None = None
        for answer in tier:
            if answer is None:
                continue
            agreed = list(answer) if agreed is None else [uid for uid in agreed if uid in set(answer)]
            if not agreed:
                break
        if agreed:
            return agreed
    return []
