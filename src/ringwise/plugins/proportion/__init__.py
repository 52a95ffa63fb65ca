"""proportion: the cluster is shared among queues by weight.

What a queue *deserves* is computed by water filling over what the queues use and request;
it limits what a queue may use, below its capability. Capacity that no other queue
requests can be requested by any queue.

Three cases in which such a limit would leave resources idle that a job could use:

- a job that can never run (larger than its queue may ever get, or invalid) requests nothing;
- a gang larger than its queue's whole share may start when its queue uses nothing else:
  by shares alone two such gangs in two queues would wait for each other for ever;
- resources that the cluster does not list at all are not shared, only limited by capability.
"""

from __future__ import annotations

from ringwise.framework.amounts import Amounts, add, amounts_of, lacking, share, smaller
from ringwise.framework.extension_points import (
    ALLOCATABLE,
    JOB_ENQUEUEABLE,
    OVERUSED,
    PREEMPTIVE,
    QUEUE_ORDER,
    QUEUE_SHARE,
    RECLAIM_PRECHECK,
    RECLAIMABLE,
    QueueShare,
    Vote,
)
from ringwise.framework.job import Job, job_key
from ringwise.framework.reasons import QUEUE_NOT_OPEN, QUEUE_ROOM
from ringwise.framework.registry import PluginSpec
from ringwise.framework.session import Session
from ringwise.framework.shares.reserved_quota_limits import (
    beyond_capability,
    no_room_beside,
    reserved_against,
)
from ringwise.framework.victim_queues import VictimQueue
from ringwise.plugins.proportion.queue_accounts import QueueAccounts
from ringwise.reasons import Reason, ReasonFamily, Stage
from ringwise.state.model import Pod, Queue

_OPEN = "Open"

_no_room = ReasonFamily(Stage.GANG, QUEUE_ROOM)

QUEUE_SHARE_USED = _no_room(
    "queue-over-fair-share",
    "queue {queue} is over its fair share of {resource}: {used} used, {asked} requested, fair share "
    "{deserved}",
    "raise the weight of queue {queue}, which is {weight}",
)


class Proportion:
    def open(self, session: Session) -> None:
        self._session = session
        self._usage = session.usage
        self._accounts = QueueAccounts(session)
        session.register(QUEUE_ORDER, self.queue_order)
        session.register(OVERUSED, self.overused)
        session.register(ALLOCATABLE, self.allocatable)
        session.register(PREEMPTIVE, self.preemptive)
        session.register(RECLAIMABLE, self.reclaimable)
        session.register(RECLAIM_PRECHECK, self.names_none)
        session.register(JOB_ENQUEUEABLE, self.enqueueable)
        session.register(QUEUE_SHARE, self.queue_share)

    def queue_order(self, queue: Queue) -> tuple[int, float]:
        """Higher priority first, then the queue that uses the smaller fraction of its share."""
        return -queue.priority, self._share(queue)

    def _share(self, queue: Queue) -> float:
        deserved = self._accounts.deserved(queue.name)
        used = self._usage.used_by_queue(queue.name)
        return share({name: used.get(name, 0) for name in deserved}, deserved)

    def queue_share(self, queue: Queue) -> QueueShare:
        accounts, below = self._accounts, (queue.name,)
        promised = accounts.promises.unused(below)
        return QueueShare(
            accounts.deserved(queue.name), accounts.limit(queue), self._share(queue), promised, below
        )

    def overused(self, queue: Queue) -> bool:
        """Whether it uses at least its share of every resource."""
        used = self._usage.used_by_queue(queue.name)
        if not used:
            return False
        for name, amount in self._accounts.deserved(queue.name).items():
            if used.get(name, 0) < amount:
                return False
        return True

    def allocatable(self, queue: Queue, pod: Pod) -> Reason | None:
        """What the queue uses and the pod requests must fit into its share, beside what is kept (F6)."""
        reason = self._beyond_share(queue, pod)
        if reason is not None and reason.kind is QUEUE_SHARE_USED and self._larger_than_any_share(queue, pod):
            return None
        return reason

    def preemptive(self, queue: Queue, pod: Pod) -> bool:
        """A queue reclaims only what is within its own share."""
        return self._beyond_share(queue, pod) is None

    def _beyond_share(self, queue: Queue, pod: Pod) -> Reason | None:
        if queue.state != _OPEN:
            return QUEUE_NOT_OPEN(queue=queue.name, state=queue.state)
        requests, used = amounts_of(pod.cls), self._usage.used_by_queue(queue.name)
        capability = self._accounts.capability(queue)
        reason = beyond_capability(queue.name, requests, used, capability)
        if reason is not None:
            return reason
        deserved = self._accounts.deserved(queue.name)
        if beyond := lacking(requests, used, deserved):
            name = beyond[0]
            return QUEUE_SHARE_USED(
                queue=queue.name,
                resource=name,
                used=used.get(name, 0),
                asked=requests[name],
                deserved=deserved[name],
                weight=queue.weight,
            )
        reserved = reserved_against(self._session, (queue.name,), job_key(pod))
        if not reserved:
            return None
        limit = smaller(self._accounts.deserved_with_reserved(queue.name), capability)
        return no_room_beside(self._session, (queue.name,), job_key(pod), reserved, requests, used, limit)

    def _larger_than_any_share(self, queue: Queue, pod: Pod) -> bool:
        """Whether the pod's gang is larger than the share of its queue and alone in it."""
        job = self._session.job_of(pod)
        used = self._usage.used_by_queue(queue.name)
        if job is None or self._usage.used_by_job(job.key) != used:
            return False
        if reserved_against(self._session, (queue.name,), job.key):
            return False
        gang = self._accounts.promises.needs(job)
        requests = amounts_of(pod.cls)
        return (
            bool(lacking(gang, {}, self._accounts.deserved(queue.name)))
            and not lacking(gang, {}, self._accounts.limit(queue))
            and not lacking(requests, used, {name: gang.get(name, 0) for name in requests})
        )

    def reclaimable(self, job: Job, pod: Pod, candidates: list[str]) -> list[str]:
        """Pods of queues while they are above their share, and only pods that use the resource in excess."""
        left: dict[str, Amounts] = {}
        victims = []
        for uid in candidates:
            candidate = self._session.state.pods[uid].pod
            owner = self._session.job_of(candidate)
            queue = self._usage.queue_of(uid, owner.queue) if owner is not None else ""
            if queue not in self._session.queues:
                continue
            used = left.setdefault(queue, dict(self._usage.used_by_queue(queue)))
            deserved = self._accounts.deserved(queue)
            gives = amounts_of(candidate.cls)
            if any(name in deserved and used.get(name, 0) > deserved[name] for name in gives):
                add(used, gives, -1)
                victims.append(uid)
        return victims

    def names_none(self, job: Job, pod: Pod, victims: VictimQueue) -> bool:
        """Whether the queue is above its share of nothing."""
        if victims.name not in self._session.queues:
            return True
        used, deserved = self._usage.used_by_queue(victims.name), self._accounts.deserved(victims.name)
        return all(used.get(name, 0) <= amount for name, amount in deserved.items())

    def enqueueable(self, job: Job) -> tuple[Vote, Reason | None]:
        """Admit a job while what the admitted jobs of its queue need stays within the queue's limit."""
        queue = self._session.queues.get(job.queue)
        if queue is None:
            return Vote.ABSTAIN, None
        if queue.state != _OPEN:
            return Vote.REJECT, QUEUE_NOT_OPEN(queue=queue.name, state=queue.state)
        promises = self._accounts.promises
        needs = promises.needs(job)
        if not needs:
            return Vote.PERMIT, None
        reason = promises.refusal((queue.name,), job, needs, self._accounts.limit(queue))
        return (Vote.PERMIT if reason is None else Vote.REJECT), reason


SPEC = PluginSpec("proportion", "shares the cluster among queues by weight", lambda option: Proportion())
