"""proportion: the cluster is shared among queues by weight.

What a queue *deserves* is found by water filling over what the queues use and ask for;
it is the ceiling of what a queue may use, below its capability. Capacity that nobody
else asks for is therefore everybody's to ask for.

Three cases in which a ceiling would keep idle what somebody could use are settled here:

- a job that can never run (bigger than its queue may ever get, or invalid) asks for nothing;
- a gang larger than its queue's whole share may start when its queue uses nothing else:
  by shares alone two such gangs in two queues would wait for each other for ever;
- resources that the cluster does not list at all are not shared, only capped by capability.
"""

from __future__ import annotations

from ringwise.framework.amounts import Amounts, add, lacking, share
from ringwise.framework.extension_points import Point, Vote
from ringwise.framework.job import Job
from ringwise.framework.owners import job_of
from ringwise.framework.plugin_options import PluginOption
from ringwise.framework.reasons import QUEUE_NOT_OPEN
from ringwise.framework.session import Session
from ringwise.plugins.queue_accounts import Accounts
from ringwise.plugins.reasons import (
    QUEUE_CAPABILITY_REACHED,
    QUEUE_QUOTA_INSUFFICIENT,
    QUEUE_SHARE_USED,
)
from ringwise.reasons import Reason
from ringwise.state.model import Pod, Queue

_OPEN = "Open"


class Proportion:
    def __init__(self, option: PluginOption) -> None:
        self._option = option

    def open(self, session: Session) -> None:
        self._session = session
        self._usage = session.usage
        self._accounts = Accounts(session)
        session.on(Point.QUEUE_ORDER, self.queue_order)
        session.on(Point.OVERUSED, self.overused)
        session.on(Point.ALLOCATABLE, self.allocatable)
        session.on(Point.PREEMPTIVE, self.preemptive)
        session.on(Point.RECLAIMABLE, self.reclaimable)
        session.on(Point.JOB_ENQUEUEABLE, self.enqueueable)

    def queue_order(self, queue: Queue) -> tuple[int, float]:
        """Higher priority first, then the queue that has the smaller part of its share."""
        deserved = self._accounts.deserved(queue.name)
        used = self._usage.used_by_queue(queue.name)
        return -queue.priority, share({name: used.get(name, 0) for name in deserved}, deserved)

    def overused(self, queue: Queue) -> bool:
        """It uses something, and at least its share of everything."""
        used = self._usage.used_by_queue(queue.name)
        if not used:
            return False
        for name, amount in self._accounts.deserved(queue.name).items():
            if used.get(name, 0) < amount:
                return False
        return True

    def allocatable(self, queue: Queue, pod: Pod) -> Reason | None:
        """What the queue uses and what the pod asks for must fit into its share."""
        reason = self._beyond_share(queue, pod)
        if reason is not None and reason.kind is QUEUE_SHARE_USED and self._larger_than_any_share(queue, pod):
            return None
        return reason

    def preemptive(self, queue: Queue, pod: Pod) -> bool:
        """May take from others only what is in its own share."""
        return self._beyond_share(queue, pod) is None

    def _beyond_share(self, queue: Queue, pod: Pod) -> Reason | None:
        if queue.state != _OPEN:
            return QUEUE_NOT_OPEN(queue=queue.name, state=queue.state)
        asked = self._usage.amounts(pod.cls)
        used = self._usage.used_by_queue(queue.name)
        capability = self._accounts.capability(queue) if queue.capability else None
        if capability and (over := lacking(asked, used, capability)):
            name = over[0]
            return QUEUE_CAPABILITY_REACHED(
                queue=queue.name,
                resource=name,
                used=used.get(name, 0),
                asked=asked[name],
                limit=capability[name],
                needed=used.get(name, 0) + asked[name],
            )
        deserved = self._accounts.deserved(queue.name)
        beyond = lacking(asked, used, deserved)
        if not beyond:
            return None
        name = beyond[0]
        return QUEUE_SHARE_USED(
            queue=queue.name,
            resource=name,
            used=used.get(name, 0),
            asked=asked[name],
            deserved=deserved[name],
            weight=queue.weight,
        )

    def _larger_than_any_share(self, queue: Queue, pod: Pod) -> bool:
        """The pod belongs to the gang of a job that is larger than the share and alone in its queue."""
        job = job_of(self._session, pod)
        used = self._usage.used_by_queue(queue.name)
        if job is None or self._usage.used_by_job(job.key) != used:
            return False
        gang = self._accounts.gang(job)
        asked = self._usage.amounts(pod.cls)
        return (
            bool(lacking(gang, {}, self._accounts.deserved(queue.name)))
            and not lacking(gang, {}, self._accounts.limit(queue))
            and not lacking(asked, used, {name: gang.get(name, 0) for name in asked})
        )

    def reclaimable(self, job: Job, pod: Pod, candidates: list[str]) -> list[str]:
        """Pods of queues beyond their share, while they are, and only those that use what is too much."""
        left: dict[str, Amounts] = {}
        victims = []
        for uid in candidates:
            candidate = self._session.state.pods[uid].pod
            owner = job_of(self._session, candidate)
            if owner is None or owner.queue not in self._session.queues:
                continue
            used = left.setdefault(owner.queue, dict(self._usage.used_by_queue(owner.queue)))
            deserved = self._accounts.deserved(owner.queue)
            gives = self._usage.amounts(candidate.cls)
            if any(name in deserved and used.get(name, 0) > deserved[name] for name in gives):
                add(used, gives, -1)
                victims.append(uid)
        return victims

    def enqueueable(self, job: Job) -> tuple[Vote, Reason | None]:
        """Admit a job while what was promised to jobs of its queue stays within what the queue may use."""
        queue = self._session.queues.get(job.queue)
        if queue is None:
            return Vote.ABSTAIN, None
        if queue.state != _OPEN:
            return Vote.REJECT, QUEUE_NOT_OPEN(queue=queue.name, state=queue.state)
        asked = self._accounts.gang(job)
        if not asked:
            return Vote.PERMIT, None
        promised = self._accounts.promised(queue.name)
        limit = self._accounts.limit(queue)
        over = lacking(asked, promised, limit)
        if not over:
            self._accounts.permitted(job)
            return Vote.PERMIT, None
        name = over[0]
        return Vote.REJECT, QUEUE_QUOTA_INSUFFICIENT(
            queue=queue.name,
            resource=name,
            taken=promised.get(name, 0),
            limit=limit[name],
            asked=asked[name],
        )
