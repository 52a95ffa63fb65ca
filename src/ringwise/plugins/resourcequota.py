"""resourcequota: a job is enqueued while the ResourceQuotas of its namespace have room for its gang.

The API server counts pods when they are created, so a job above its namespace's quota would
be enqueued, get some of its pods and never the others.
"""

from __future__ import annotations

from ringwise.framework.amounts import Amounts, add
from ringwise.framework.extension_points import JOB_ENQUEUEABLE, JOB_ENQUEUED, Vote
from ringwise.framework.job import Job, is_awaiting_pods, quota_names
from ringwise.framework.registry import PluginSpec
from ringwise.framework.session import Session
from ringwise.reasons import Reason, ReasonFamily, Stage, Trigger

_full = ReasonFamily(
    Stage.ENQUEUE, {Trigger.QUOTA_CHANGED, Trigger.JOB_CHANGED, Trigger.JOB_ENDED, Trigger.CLAIM_FELL}
)

QUOTA_INSUFFICIENT = _full(
    "namespace-quota-insufficient",
    "resource quota insufficient, requested: {requested}, used: {used}, limited: {limited} "
    "(ResourceQuota {quota})",
    "raise the ResourceQuota {quota}",
)


class ResourceQuotas:
    def open(self, session: Session) -> None:
        self._session = session
        #: What enqueued jobs without pods will use, by namespace. The quotas do not count it yet.
        self._promised: dict[str, Amounts] = {}
        session.register(JOB_ENQUEUEABLE, self.enqueueable)
        session.register(JOB_ENQUEUED, self.enqueued)

    def enqueueable(self, job: Job) -> tuple[Vote, Reason | None]:
        quotas = self._session.quotas.get(job.namespace)
        if not quotas or job.group is None or not job.group.min_resources:
            return Vote.PERMIT, None
        requests = quota_names(job)
        promised = self._promises(job.namespace)
        for name in sorted(quotas):
            quota = quotas[name]
            if not quota.counts_class(_class_of_pods(job)):
                continue
            used = {key: quota.used.get(key, 0) + promised.get(key, 0) for key in quota.hard}
            over = [
                key
                for key, limit in quota.hard.items()
                if requests.get(key, 0) and used[key] + requests[key] > limit
            ]
            if over:
                return Vote.REJECT, QUOTA_INSUFFICIENT(
                    requested={key: requests[key] for key in over},
                    used={key: used[key] for key in over},
                    limited={key: quota.hard[key] for key in over},
                    quota=quota.key,
                    namespace=job.namespace,
                )
        return Vote.PERMIT, None

    def enqueued(self, job: Job) -> None:
        promised = self._promised.get(job.namespace)
        if promised is not None and not job.pods:
            add(promised, quota_names(job))

    def _promises(self, namespace: str) -> Amounts:
        result = self._promised.get(namespace)
        if result is None:
            result = self._promised[namespace] = {}
            for job in self._session.jobs.values():
                if job.namespace == namespace and is_awaiting_pods(job):
                    add(result, quota_names(job))
        return result


def _class_of_pods(job: Job) -> str:
    """By it the API server finds the quotas of a pod. Before any is known: what the PodGroup names."""
    first = next(iter(job.in_order), None)
    return first.priority_class if first is not None else job.group.priority_class if job.group else ""


SPEC = PluginSpec(
    "resourcequota",
    "enqueues jobs that fit in the ResourceQuotas of their namespace",
    lambda option: ResourceQuotas(),
)
