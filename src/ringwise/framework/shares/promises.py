"""What jobs that were enqueued have been promised and do not use yet.

A promise is the job's `minResources` without what its pods have been given. Plugins that
vote on enqueueing add the promises to what is used: a job must not be let in on resources
that another one was promised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ringwise.framework.amounts import Amount, Amounts, add, amounts_of, lacking
from ringwise.framework.extension_points import JOB_ENQUEUED
from ringwise.framework.job import Job
from ringwise.framework.reasons import QUEUE_QUOTA_INSUFFICIENT
from ringwise.framework.session import Session
from ringwise.framework.shares.reserved_quota_limits import no_room_beside
from ringwise.reasons import Reason


class Promises:
    """Counted when first needed in a cycle, then kept as jobs are enqueued."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._unused: dict[str, Amounts] | None = None
        self._beyond: dict[str, Amounts] = {}
        self._total: Amounts = {}
        #: F6: job -> its queue and what is kept for it beyond its promise; the same by queue.
        self._reserved_for: dict[str, tuple[str, Amounts]] = {}
        self._reserved_in: dict[str, Amounts] = {}
        session.register(JOB_ENQUEUED, self.enqueued)

    def needs(self, job: Job) -> Mapping[str, Amount]:
        """What the job is promised when it is enqueued: `minResources` less what gated pods ask for.

        Gated pods cannot use it yet. The gate of the queue counts as none: it is removed with this promise.
        """
        group = job.group
        if group is None or not group.min_resources:
            return {}
        gated: Amounts = {}
        for pod in job.pods.values():
            if pod.gated and not pod.queue_gated:
                add(gated, amounts_of(pod.cls))
        needs = job.min_resources()
        return {name: max(0, amount - gated.get(name, 0)) for name, amount in needs.items()}

    def refusal(
        self, queues: Sequence[str], job: Job, needs: Mapping[str, Amount], limit: Mapping[str, Amount]
    ) -> Reason | None:
        """Why what the job needs exceeds the limit of the first queue; the others are those below it.

        What they use and what their admitted jobs still need counts, without what they use beyond their
        promise: that can be taken back.
        """
        if not limit:
            return None
        unused, taken = self._counted(), dict[str, Amount]()
        for name in queues:
            add(taken, self._session.usage.used_by_queue(name))
            add(taken, unused.get(name, {}))
            add(taken, self._beyond.get(name, {}), -1)
        if over := lacking(needs, taken, limit):
            name = over[0]
            return QUEUE_QUOTA_INSUFFICIENT(
                queue=queues[0],
                resource=name,
                taken=taken.get(name, 0),
                limit=limit[name],
                asked=needs[name],
            )
        kept = self._reserved(queues, job.key)
        return no_room_beside(self._session, queues, job.key, kept, needs, taken, limit)

    def unused(self, queues: Sequence[str]) -> Amounts:
        """What jobs of these queues were promised and do not use."""
        unused, total = self._counted(), dict[str, Amount]()
        for name in queues:
            add(total, unused.get(name, {}))
        return total

    def unused_in_all(self) -> Amounts:
        """What all jobs together were promised and do not use."""
        self._counted()
        return self._total

    def _reserved(self, queues: Sequence[str], job: str) -> Amounts:
        """F6: what is kept in these queues for other jobs, and not promised to them anyway."""
        shares = self._session.usage.reserved
        if not len(shares) or shares.is_ignored:
            return {}
        total: Amounts = {}
        for name in queues:
            add(total, self._reserved_in.get(name, {}))
        own = self._reserved_for.get(job)
        if own is not None and own[0] in queues:
            add(total, own[1], -1)
        return total

    def enqueued(self, job: Job) -> None:
        """The job was enqueued in this cycle."""
        if self._unused is not None:
            self._count(job, self._unused)
            self._count_reserved(job.key)

    def _counted(self) -> dict[str, Amounts]:
        if self._unused is None:
            self._unused = {}
            for job in self._session.jobs.values():
                self._count(job, self._unused)
            for key in self._session.usage.reserved.jobs():
                self._count_reserved(key)
        return self._unused

    def _count_reserved(self, key: str) -> None:
        """What is kept for the job is counted once: its promise is a part of it, or it of its promise."""
        before = self._reserved_for.pop(key, None)
        if before is not None:
            add(self._reserved_in[before[0]], before[1], -1)
        shares, job = self._session.usage.reserved, self._session.jobs.get(key)
        share = shares.share_of(key)
        if share is None:
            return
        promised = self._rest(job) if job is not None else {}
        more = {name: max(0, amount - promised.get(name, 0)) for name, amount in shares.of(key).items()}
        self._reserved_for[key] = share.queue, more
        add(self._reserved_in.setdefault(share.queue, {}), more)

    def _count(self, job: Job, unused: dict[str, Amounts]) -> None:
        used = self._session.usage.used_by_job(job.key)
        if not used and (not job.inqueue or _is_over(job)):
            return
        needs = self.needs(job)
        if used == needs or self._session.reservations.of(job.key) is not None:
            # Complete, or its chips are reserved already, so that no other job has to wait for it.
            return
        if rest := self._rest(job):
            add(unused.setdefault(job.queue, {}), rest)
            add(self._total, rest)
        more = {name: max(0, amount - needs.get(name, 0)) for name, amount in used.items()}
        add(self._beyond.setdefault(job.queue, {}), more)

    def _rest(self, job: Job) -> Amounts:
        """What the job was promised and does not use; nothing where its chips are reserved already."""
        if not job.inqueue or self._session.reservations.of(job.key) is not None or self._is_complete(job):
            return {}
        used = self._session.usage.used_by_job(job.key)
        if not used and _is_over(job):
            return {}
        return {name: max(0, amount - used.get(name, 0)) for name, amount in self.needs(job).items()}

    def _is_complete(self, job: Job) -> bool:
        """None of its pods waits for a node, or for the removal of the gate of its queue."""
        return bool(job.pods) and not any(
            pod.queue_gated or self._session.is_pending(pod) for pod in job.pods.values()
        )


def _is_over(job: Job) -> bool:
    return job.group is not None and job.group.phase == "Completed" and not job.pods
