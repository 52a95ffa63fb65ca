"""overcommit: jobs are enqueued while the cluster, times a factor, has what they need at once.

A job that is enqueued gets its pods. Without a limit a cluster would fill with pods that
cannot run for hours; with a factor above 1 the next jobs are ready when resources come free.
"""

from __future__ import annotations

from ringwise.framework.amounts import Amounts, add
from ringwise.framework.arguments import decimal
from ringwise.framework.configuration import PluginOption
from ringwise.framework.extension_points import ALLOCATED, DEALLOCATED, JOB_ENQUEUEABLE, Vote
from ringwise.framework.job import Job
from ringwise.framework.registry import PluginSpec
from ringwise.framework.session import Session
from ringwise.framework.shares.promises import Promises
from ringwise.reasons import CAPACITY, Reason, ReasonFamily, Stage, Trigger
from ringwise.state.model import Pod

FACTOR = decimal(
    "overcommit-factor",
    1.2,
    "jobs are enqueued until their requests reach this multiple of the cluster's resources",
    minimum=1.0,
)

_full = ReasonFamily(Stage.ENQUEUE, CAPACITY | {Trigger.JOB_CHANGED, Trigger.CLAIM_FELL})

CLUSTER_OVERCOMMITTED = _full(
    "cluster-overcommitted",
    "resource in cluster is overused: overused {overused}; {resource}: {used} used, {promised} "
    "admitted, {asked} requested, limit {limit} ({factor} x {capacity})",
    "raise overcommit-factor, which is {factor}",
    "add nodes with {resource}",
)


class Overcommit:
    def __init__(self, option: PluginOption) -> None:
        self._factor = option.value(FACTOR)

    def open(self, session: Session) -> None:
        self._session = session
        self._promises = session.shared(Promises)
        #: What all pods use; None when it has to be counted again.
        self._used: Amounts | None = None
        session.register(JOB_ENQUEUEABLE, self.enqueueable)
        session.register(ALLOCATED, self._changed)
        session.register(DEALLOCATED, self._changed)

    def enqueueable(self, job: Job) -> tuple[Vote, Reason | None]:
        """Permit the job while used, promised and its own resources are within factor x allocatable."""
        needs = self._promises.needs(job)
        if not any(needs.values()):
            return Vote.PERMIT, None
        capacity = self._session.usage.capacity
        promised = self._promises.unused_in_all()
        used = self._all_used()
        over = [
            name
            for name, amount in needs.items()
            if amount
            and (name in capacity or is_extended(name))
            and amount + promised.get(name, 0) + used.get(name, 0) > self._limit(name)
        ]
        if not over:
            return Vote.PERMIT, None
        name = over[0]
        return Vote.REJECT, CLUSTER_OVERCOMMITTED(
            overused=", overused ".join(over),
            resource=name,
            used=used.get(name, 0),
            promised=promised.get(name, 0),
            asked=needs[name],
            limit=int(self._limit(name)),
            factor=self._factor,
            capacity=capacity.get(name, 0),
        )

    def _limit(self, name: str) -> float:
        return float(self._session.usage.capacity.get(name, 0)) * self._factor

    def _all_used(self) -> Amounts:
        if self._used is None:
            self._used = {}
            for amounts in self._session.usage.by_queue.values():
                add(self._used, amounts)
        return self._used

    def _changed(self, job: Job, pod: Pod, node: int) -> None:
        self._used = None


def is_extended(name: str) -> bool:
    """A resource that nodes offer under a name of its own; the cluster may have none of it."""
    return "/" in name and not name.startswith(("requests.", "limits.", "count/"))


SPEC = PluginSpec(
    "overcommit",
    "enqueues jobs while their requests fit in the resources of the cluster times a factor",
    Overcommit,
    (FACTOR,),
)
