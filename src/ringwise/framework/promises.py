"""What jobs that were enqueued have been promised and do not use yet.

A promise is the job's `minResources` without what its pods have been given. Plugins that
vote on enqueueing add the promises to what is used: a job must not be let in on resources
that another one was promised.
"""

from __future__ import annotations

from ringwise.framework.amounts import Amounts, add, without_quota_names
from ringwise.framework.extension_points import JOB_ENQUEUED
from ringwise.framework.job import Job
from ringwise.framework.session import Session


class Promises:
    """Counted when first needed in a cycle, then kept as jobs are enqueued."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._unused: dict[str, Amounts] | None = None
        self._beyond: dict[str, Amounts] = {}
        self._total: Amounts = {}
        session.register(JOB_ENQUEUED, self.enqueued)

    def needs(self, job: Job) -> Amounts:
        """What the job is promised when it is enqueued: `minResources` less what gated pods ask for.

        Gated pods cannot use it yet. The gate of the queue counts as none: it is removed with this promise.
        """
        group = job.group
        if group is None or not group.min_resources:
            return {}
        gated: Amounts = {}
        for pod in job.pods.values():
            if pod.gated and not pod.queue_gated:
                add(gated, self._session.usage.amounts(pod.cls))
        needs = without_quota_names(group.min_resources)
        return {name: max(0, amount - gated.get(name, 0)) for name, amount in needs.items()}

    def unused(self, queue: str) -> Amounts:
        """What jobs of the queue were promised and do not use."""
        return self._counted().get(queue, {})

    def beyond(self, queue: str) -> Amounts:
        """What jobs of the queue use beyond their promise: it can be taken back."""
        self._counted()
        return self._beyond.get(queue, {})

    def unused_in_all(self) -> Amounts:
        """What all jobs together were promised and do not use."""
        self._counted()
        return self._total

    def enqueued(self, job: Job) -> None:
        """The job was enqueued in this cycle."""
        if self._unused is not None:
            self._count(job, self._unused)

    def _counted(self) -> dict[str, Amounts]:
        if self._unused is None:
            self._unused = {}
            for job in self._session.jobs.values():
                self._count(job, self._unused)
        return self._unused

    def _count(self, job: Job, unused: dict[str, Amounts]) -> None:
        used = self._session.usage.used_by_job(job.key)
        if not used and (not job.inqueue or _is_over(job)):
            return
        needs = self.needs(job)
        if used == needs or self._session.reservations.of(job.key) is not None:
            # Complete, or its chips are reserved already, so that no other job has to wait for it.
            return
        if job.inqueue and not self._is_complete(job):
            rest = {name: max(0, amount - used.get(name, 0)) for name, amount in needs.items()}
            add(unused.setdefault(job.queue, {}), rest)
            add(self._total, rest)
        more = {name: max(0, amount - needs.get(name, 0)) for name, amount in used.items()}
        add(self._beyond.setdefault(job.queue, {}), more)

    def _is_complete(self, job: Job) -> bool:
        """None of its pods waits for a node, or for the removal of the gate of its queue."""
        return bool(job.pods) and not any(
            pod.queue_gated or self._session.is_pending(pod) for pod in job.pods.values()
        )


def _is_over(job: Job) -> bool:
    return job.group is not None and job.group.phase == "Completed" and not job.pods
