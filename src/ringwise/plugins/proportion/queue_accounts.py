"""What queues use, request, deserve and have promised. Computed when first needed in a cycle."""

from __future__ import annotations

from collections.abc import Mapping

from ringwise.framework.amounts import Amounts, add, lacking
from ringwise.framework.job import Job
from ringwise.framework.session import Session
from ringwise.framework.shares.promises import Promises
from ringwise.plugins.proportion.water_filling import WeightedClaim, share_out
from ringwise.reasons import Stage
from ringwise.state.model import Queue

_NOTHING: Mapping[str, Amounts] = {}


class QueueAccounts:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._deserved: dict[str, Amounts] | None = None
        self._deserved_with_kept: dict[str, Amounts] = {}
        self._requested: dict[str, Amounts] | None = None
        self._limits: dict[str, Amounts] = {}
        self._capabilities: dict[str, Amounts] = {}
        self._gangs: dict[str, Amounts] = {}
        self._promises = _GangPromises(session, self)

    # -- limits --------------------------------------------------------------------------

    def capability(self, queue: Queue) -> Amounts:
        found = self._capabilities.get(queue.name)
        if found is None:
            found = self._capabilities[queue.name] = queue.limits
        return found

    def limit(self, queue: Queue) -> Amounts:
        """The capability, and the cluster without what other queues are guaranteed."""
        found = self._limits.get(queue.name)
        if found is None:
            found = dict(self.capability(queue))
            for name, total in self._session.usage.capacity.items():
                others = sum(
                    other.guarantee.get(name, 0)
                    for other in self._session.queues.values()
                    if other.guarantee and other is not queue
                )
                found[name] = min(found.get(name, total), max(0, total - others))
            self._limits[queue.name] = found
        return found

    def gang(self, job: Job) -> Amounts:
        """What the job needs at once. Cached, because computing it orders the job's pods."""
        found = self._gangs.get(job.key)
        if found is None:
            whole = len(job.in_order) <= job.min_available and not (job.group and job.group.min_resources)
            found = self._gangs[job.key] = job.asked() if whole else job.min_asked()
        return found

    # -- shares --------------------------------------------------------------------------

    def deserved(self, queue: str) -> Amounts:
        """Its share of every resource the cluster has."""
        if self._deserved is None:
            self._deserved = self._share_out()
        return self._deserved.get(queue, {})

    def deserved_with_kept(self, queue: str) -> Amounts:
        """F6: its share while it also requests what is kept there for jobs whose pods do not exist yet.

        It limits other jobs of the queue only: for other queues, and for reclaiming, nothing is requested.
        """
        found = self._deserved_with_kept.get(queue)
        if found is None:
            more = self._kept_without_pods(queue)
            found = self._share_out({queue: more})[queue] if more else self.deserved(queue)
            self._deserved_with_kept[queue] = found
        return found

    def _kept_without_pods(self, queue: str) -> Amounts:
        session = self._session
        total: Amounts = {}
        for key in session.usage.kept.jobs_in(queue):
            job = session.jobs.get(key)
            pending: Amounts = {}
            for pod in job.pods.values() if job is not None else ():
                if session.is_pending(pod):
                    add(pending, session.usage.amounts(pod.cls))
            kept = session.usage.kept.of(key)
            add(total, {name: max(0, amount - pending.get(name, 0)) for name, amount in kept.items()})
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
                asked = (
                    used + waiting.get(queue.name, {}).get(name, 0) + more.get(queue.name, {}).get(name, 0)
                )
                least = queue.guarantee.get(name, 0)
                most = max(least, min(asked, self.limit(queue)[name]))
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
        used_by_job, amounts = session.usage.used_by_job, session.usage.amounts
        # Only these are shared out, whatever else pods ask for.
        shared = session.usage.capacity.keys()
        found: dict[str, Amounts] = {}
        for job in session.jobs.values():
            asked = job.asked()
            if used_by_job(job.key) == asked:
                continue
            queue = session.queues.get(job.queue)
            if queue is None or queue.state != "Open" or self._can_never_run(job, queue, asked):
                continue
            total = found.setdefault(queue.name, {})
            for pod in job.pods.values():
                if session.is_pending(pod):
                    asked_for = amounts(pod.cls)
                    add(total, {name: asked_for[name] for name in shared if name in asked_for})
        return found

    def _can_never_run(self, job: Job, queue: Queue, asked: Amounts) -> bool:
        if job.defects or (job.reason is not None and job.reason.kind.stage is Stage.VALIDATE):
            return True
        limit = self.limit(queue)
        return bool(lacking(asked, {}, limit) and lacking(self.gang(job), {}, limit))

    # -- promises ------------------------------------------------------------------------

    def promised(self, queue: str) -> Amounts:
        """What the queue uses and its admitted jobs still need, without what can be reclaimed."""
        total = dict(self._session.usage.used_by_queue(queue))
        add(total, self._promises.unused(queue))
        add(total, self._promises.beyond(queue), -1)
        return total

    def kept_beyond_promises(self, queue: str, job: Job) -> Amounts:
        """F6: what is kept in the queue for other jobs, and not promised to them anyway."""
        return self._promises.kept(queue, job.key)


class _GangPromises(Promises):
    """Where a PodGroup has no `minResources`, its job is promised what its smallest gang asks for."""

    def __init__(self, session: Session, accounts: QueueAccounts) -> None:
        super().__init__(session)
        self._accounts = accounts

    def needs(self, job: Job) -> Amounts:
        return self._accounts.gang(job)
