"""What queues use, request, deserve and have promised. Computed when first needed in a cycle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ringwise.framework.amounts import Amount, Amounts, WeightedClaim, add, amounts_of, lacking, share_out
from ringwise.framework.job import Job
from ringwise.framework.session import Session
from ringwise.framework.shares.promises import Promises
from ringwise.reasons import Stage
from ringwise.state.model import Queue

_NOTHING: Mapping[str, Amounts] = {}


class _Asking(NamedTuple):
    """A job with pods that wait: what it used when they were counted, and what they request."""

    job: Job
    used: Amounts
    waits: Amounts


class QueueAccounts:
    def __init__(self, session: Session) -> None:
        self._session = session
        #: When shares were computed: in a forecast, time advances.
        self._at = session.now
        self._deserved: dict[str, Amounts] | None = None
        self._deserved_with_reserved: dict[str, Amounts] = {}
        self._requested: dict[str, Amounts] | None = None
        #: The jobs of which that is the sum.
        self._asking: list[_Asking] = []
        self._limits: dict[str, Amounts] = {}
        self._capabilities: dict[str, Amounts] = {}
        self.promises = _GangPromises(session)

    # -- limits --------------------------------------------------------------------------

    def capability(self, queue: Queue) -> Amounts:
        result = self._capabilities.get(queue.name)
        if result is None:
            result = self._capabilities[queue.name] = {**queue.limits}
        return result

    def limit(self, queue: Queue) -> Amounts:
        """The capability, and the cluster without what other queues are guaranteed."""
        result = self._limits.get(queue.name)
        if result is None:
            result = dict(self.capability(queue))
            for name, total in self._session.usage.capacity.items():
                others = sum(
                    other.guarantee.get(name, 0)
                    for other in self._session.queues.values()
                    if other.guarantee and other is not queue
                )
                result[name] = min(result.get(name, total), max(0, total - others))
            self._limits[queue.name] = result
        return result

    # -- shares --------------------------------------------------------------------------

    def deserved(self, queue: str) -> Amounts:
        """Its share of every resource the cluster has."""
        if self._at != self._session.now:
            self._go_on()
        if self._deserved is None:
            self._deserved = self._share_out()
        return self._deserved.get(queue, {})

    def deserved_with_reserved(self, queue: str) -> Amounts:
        """F6: its share while it also requests what is kept there for jobs whose pods do not exist yet.

        It limits other jobs of the queue only: for other queues, and for reclaiming, nothing is requested.
        """
        result = self._deserved_with_reserved.get(queue)
        if result is None:
            more = self._reserved_without_pods(queue)
            result = self._share_out({queue: more})[queue] if more else self.deserved(queue)
            self._deserved_with_reserved[queue] = result
        return result

    def _reserved_without_pods(self, queue: str) -> Amounts:
        session = self._session
        total: Amounts = {}
        for key in session.usage.reserved.jobs_in(queue):
            job = session.jobs.get(key)
            pending: Amounts = {}
            for pod in job.pods.values() if job is not None else ():
                if session.is_pending(pod):
                    add(pending, amounts_of(pod.cls))
            reserved = session.usage.reserved.of(key)
            add(total, {name: max(0, amount - pending.get(name, 0)) for name, amount in reserved.items()})
        return total

    def _share_out(self, more: Mapping[str, Amounts] = _NOTHING) -> dict[str, Amounts]:
        session = self._session
        queues = sorted(session.queues.values(), key=lambda queue: (queue.created, queue.name))
        if self._requested is None:
            self._requested = self._waiting()
        waiting = self._requested
        deserved: dict[str, Amounts] = {queue.name: {} for queue in queues}
        for name, total in session.usage.capacity.items():
            claims = []
            for queue in queues:
                used = session.usage.used_by_queue(queue.name).get(name, 0)
                demand = (
                    used + waiting.get(queue.name, {}).get(name, 0) + more.get(queue.name, {}).get(name, 0)
                )
                least = queue.guarantee.get(name, 0)
                most = max(least, min(demand, self.limit(queue)[name]))
                claims.append(WeightedClaim(max(1, queue.weight), most, least))
            for queue, amount in zip(queues, share_out(total, claims), strict=True):
                deserved[queue.name][name] = amount
        return deserved

    def _waiting(self) -> dict[str, Amounts]:
        """What pending pods request, by queue; jobs that can never run request nothing."""
        session = self._session
        asking = {job.queue for job in session.jobs.values()}
        if len(asking) == 1:
            # There is no other queue to share with, so its requests need not be counted.
            return {name: self.limit(session.queues[name]) for name in asking if name in session.queues}
        used_by_job = session.usage.used_by_job
        result: dict[str, Amounts] = {}
        for job in session.jobs.values():
            requests = job.requested()
            used = used_by_job(job.key)
            if used == requests:
                continue
            queue = session.queues.get(job.queue)
            if queue is None or queue.state != "Open" or self._can_never_run(job, queue, requests):
                continue
            waits = self._waits(job)
            add(result.setdefault(queue.name, {}), waits)
            if waits:
                self._asking.append(_Asking(job, dict(used), waits))
        return result

    def _waits(self, job: Job) -> Amounts:
        """What its pending pods request of what is shared out, whatever else they ask for."""
        session = self._session
        result: Amounts = {}
        for pod in job.pods.values():
            if session.is_pending(pod):
                requests = amounts_of(pod.cls)
                add(result, {name: requests[name] for name in session.usage.capacity if name in requests})
        return result

    def _go_on(self) -> None:
        """Time has passed in a forecast: jobs have started and ended, and no other has come."""
        self._at = self._session.now
        self._deserved = None
        self._deserved_with_reserved.clear()
        left: list[_Asking] = []
        for one in self._asking:
            used = self._session.usage.used_by_job(one.job.key)
            if one.job.pods and used == one.used:
                left.append(one)
                continue
            waits = self._waits(one.job)
            if self._requested is not None:
                add(self._requested[one.job.queue], one.waits, -1)
                add(self._requested[one.job.queue], waits)
            if waits:
                left.append(_Asking(one.job, dict(used), waits))
        self._asking = left

    def _can_never_run(self, job: Job, queue: Queue, requests: Mapping[str, Amount]) -> bool:
        if job.defects or (job.reason is not None and job.reason.kind.stage is Stage.VALIDATE):
            return True
        limit = self.limit(queue)
        return bool(lacking(requests, {}, limit) and lacking(self.promises.needs(job), {}, limit))


class _GangPromises(Promises):
    """Where a PodGroup has no `minResources`, its job is promised what its smallest gang asks for."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._gangs: dict[str, Mapping[str, Amount]] = {}

    def needs(self, job: Job) -> Mapping[str, Amount]:
        """What the job needs at once. Cached, because computing it orders the job's pods."""
        result = self._gangs.get(job.key)
        if result is None:
            whole = len(job.in_order) <= job.min_available and not (job.group and job.group.min_resources)
            result = self._gangs[job.key] = job.requested() if whole else job.min_requested()
        return result
