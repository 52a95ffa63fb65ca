"""capacity: every queue has a share of its own in units, not in weights.

A queue may use more than it *deserves* while there is room, up to its *capability*; what it
uses beyond can be reclaimed by a queue that uses less than it deserves. A *guarantee* is kept
free for its queue. With the flag `enableHierarchy` queues form a tree by `spec.parent`: limits
hold for a queue with all queues below it.

A queue without a place in the tree (no such parent, a circle) refuses its own jobs with the
reason; Volcano schedules nothing at all then.
"""

from __future__ import annotations

from collections.abc import Mapping

from ringwise.framework.amounts import Amount, Amounts, add, amounts_of
from ringwise.framework.arguments import boolean, integer
from ringwise.framework.configuration import PluginOption
from ringwise.framework.extension_points import (
    ALLOCATABLE,
    JOB_ENQUEUEABLE,
    PREEMPTIVE,
    QUEUE_ORDER,
    QUEUE_SHARE,
    RECLAIM_PRECHECK,
    RECLAIMABLE,
    VICTIM_QUEUE_ORDER,
    QueueShare,
    Vote,
)
from ringwise.framework.job import Job, job_key
from ringwise.framework.reasons import QUEUE_NOT_OPEN
from ringwise.framework.registry import PluginSpec
from ringwise.framework.session import Session
from ringwise.framework.shares.promises import Promises
from ringwise.framework.shares.reserved_quota_limits import (
    beyond_capability,
    no_room_beside,
    reserved_against,
)
from ringwise.framework.victim_queues import VictimQueue
from ringwise.plugins.capacity.queue_tree import QueueNode, QueueTree
from ringwise.reasons import Reason, ReasonFamily, Stage, Trigger
from ringwise.state.model import Pod, Queue

_OPEN = "Open"

RECLAIM_LEVEL = integer(
    "ancestorReclaimLevel",
    0,
    "number of levels of ancestors whose deserved resources also allow a queue to reclaim",
    maximum=1000,
)

_out_of_tree = ReasonFamily(Stage.ENQUEUE, {Trigger.QUEUE_CHANGED, Trigger.JOB_CHANGED})

QUEUE_TREE_BROKEN = _out_of_tree(
    "queue-tree-broken",
    "queue {queue} is not in the queue tree: {problem}",
    "correct spec.parent of the queue",
    "use another queue",
)

#: A level of a queue's sort key: its share, whether it deserves nothing, then age and name.
Level = tuple[float, bool, int, str]


class Capacity:
    def __init__(self, option: PluginOption) -> None:
        self._by_tree = option.is_enabled("hierarchy")
        self._reclaim_level = option.value(RECLAIM_LEVEL)

    def open(self, session: Session) -> None:
        self._session = session
        self._promises = session.shared(Promises)
        self._tree = QueueTree(session, by_tree=self._by_tree)
        session.register(QUEUE_ORDER, self.queue_order)
        session.register(ALLOCATABLE, self.allocatable)
        session.register(JOB_ENQUEUEABLE, self.enqueueable)
        session.register(PREEMPTIVE, self.preemptive)
        session.register(RECLAIMABLE, self.reclaimable)
        session.register(RECLAIM_PRECHECK, self.names_none)
        session.register(QUEUE_SHARE, self.queue_share)
        if self._by_tree:
            session.register(VICTIM_QUEUE_ORDER, self.victim_queue_order)

    # -- order ---------------------------------------------------------------------------

    def queue_order(self, queue: Queue) -> tuple[int, tuple[Level, ...]]:
        """Higher priority, then the smaller share; in a tree the shares from below the root downwards."""
        node = self._tree[queue.name]
        if node is None:
            return -queue.priority, ()
        path = (*reversed(node.above), node) if self._by_tree else (node,)
        return -queue.priority, tuple(self._level(one) for one in path)

    def _level(self, node: QueueNode) -> Level:
        order = (node.queue.created, node.name) if self._by_tree else (0, "")
        return (self._tree.share(node), not node.deserved, *order)

    def victim_queue_order(self, queue: Queue, victim: Queue) -> int:
        """Queues nearer to the reclaiming one in the tree give pods first."""
        taker, giver = self._tree[queue.name], self._tree[victim.name]
        return self._tree.distance(taker, giver) if taker is not None and giver is not None else 0

    def queue_share(self, queue: Queue) -> QueueShare | None:
        node = self._tree[queue.name]
        if node is None:
            return None
        promised = self._promises.unused(node.below)
        return QueueShare(node.deserved, node.limit, self._tree.share(node), promised, node.below)

    # -- limits --------------------------------------------------------------------------

    def allocatable(self, queue: Queue, pod: Pod) -> Reason | None:
        """The queue and all above it stay within what they may use."""
        node = self._tree[queue.name]
        if node is None:
            return None
        reason = self._refusal(node)
        if reason is not None:
            return reason
        requests = amounts_of(pod.cls)
        for tested in self._tree.tested(node):
            used = self._tree.used(tested) if tested.limit else {}
            reason = beyond_capability(tested.name, requests, used, tested.limit)
            if reason is None and tested.limit and len(self._session.usage.reserved):
                key = job_key(pod)
                kept = reserved_against(self._session, tested.below, key)
                reason = no_room_beside(self._session, tested.below, key, kept, requests, used, tested.limit)
            if reason is not None:
                return reason
        return None

    def enqueueable(self, job: Job) -> tuple[Vote, Reason | None]:
        """Admit a job while what was promised to the queue, and to all above it, stays within the limits."""
        node = self._tree[job.queue]
        if node is None:
            return Vote.ABSTAIN, None
        reason = self._refusal(node)
        if reason is not None:
            return Vote.REJECT, reason
        needs = self._promises.needs(job)
        if not any(needs.values()):
            return Vote.PERMIT, None
        for tested in self._tree.tested(node):
            reason = self._promises.refusal(tested.below, job, needs, tested.limit)
            if reason is not None:
                return Vote.REJECT, reason
        return Vote.PERMIT, None

    def _refusal(self, node: QueueNode) -> Reason | None:
        """Why the queue takes no jobs at all."""
        if node.queue.state != _OPEN:
            return QUEUE_NOT_OPEN(queue=node.name, state=node.queue.state)
        if node.problem:
            return QUEUE_TREE_BROKEN(queue=node.name, problem=node.problem)
        return None

    # -- reclaiming ----------------------------------------------------------------------

    def preemptive(self, queue: Queue, pod: Pod) -> bool:
        """Whether the queue gets, in some resource, no more than it deserves; or a queue above it does."""
        node = self._tree[queue.name]
        if node is None or self.allocatable(queue, pod) is not None:
            return False
        requests = amounts_of(pod.cls)
        levels = self._reclaim_level if self._by_tree else 0
        return any(self._deserves(one, requests) for one in (node, *node.above[:levels]))

    def _deserves(self, node: QueueNode, requests: Mapping[str, Amount]) -> bool:
        used = self._tree.used(node)
        return any(
            node.deserved.get(name, 0) and used.get(name, 0) + amount <= node.deserved[name]
            for name, amount in requests.items()
        )

    def reclaimable(self, job: Job, pod: Pod, candidates: list[str]) -> list[str]:
        """Pods of queues above what they deserve, never below a guarantee; each one counts for the next."""
        taker = self._tree[job.queue]
        wanted = amounts_of(pod.cls)
        left: dict[str, Amounts] = {}
        victims = []
        for uid in candidates:
            candidate = self._session.state.pods[uid].pod
            owner = self._session.job_of(candidate)
            queue = self._session.usage.queue_of(uid, owner.queue) if owner is not None else ""
            node = self._tree[queue]
            if node is None or taker is None:
                continue
            gives = amounts_of(candidate.cls)
            if not gives.keys() & wanted.keys() or not self._may_give(taker, node, gives, left):
                continue
            for one in (node, *node.above):
                add(self._left(one, left), gives, -1)
            victims.append(uid)
        return victims

    def names_none(self, job: Job, pod: Pod, victims: VictimQueue) -> bool:
        """Whether not even the first pod of any kind may be taken."""
        taker, node = self._tree[job.queue], self._tree[victims.name]
        if node is None or taker is None:
            return True
        wanted = amounts_of(pod.cls)
        return not any(
            gives.keys() & wanted.keys() and self._may_give(taker, node, gives, {})
            for gives in map(amounts_of, victims.classes)
        )

    def _may_give(
        self, taker: QueueNode, node: QueueNode, gives: Mapping[str, Amount], left: dict[str, Amounts]
    ) -> bool:
        used = self._left(node, left)
        if any(
            used.get(name, 0) - gives.get(name, 0) < least
            for name, least in node.guarantee.items()
            if name in gives
        ):
            return False
        if not self._exceeds(node, gives, left):
            return False
        levels = self._reclaim_level if self._by_tree else 0
        shared = {id(one) for one in (taker, *taker.above)}
        for upper in node.above[:levels]:
            if id(upper) in shared:
                return bool(taker.deserved)
            if not self._exceeds(upper, gives, left):
                return False
        return True

    def _exceeds(self, node: QueueNode, gives: Mapping[str, Amount], left: dict[str, Amounts]) -> bool:
        """It uses more than it deserves of something the pod uses, or deserves nothing of it."""
        names = gives.keys() & node.deserved.keys()
        used = self._left(node, left)
        return not names or any(used.get(name, 0) > node.deserved[name] for name in names)

    def _left(self, node: QueueNode, left: dict[str, Amounts]) -> Amounts:
        result = left.get(node.name)
        if result is None:
            result = left[node.name] = dict(self._tree.used(node))
        return result


SPEC = PluginSpec(
    "capacity",
    "shares the cluster among queues by their deserved resources; with enableHierarchy, in a tree",
    Capacity,
    (
        RECLAIM_LEVEL,
        boolean(
            "capacity.DynamicResourceAllocationEnable",
            False,
            "claims of dynamic resource allocation are not counted",
            has_effect=False,
        ),
        boolean(
            "capacity.DRAConsumableCapacityEnable",
            False,
            "claims of dynamic resource allocation are not counted",
            has_effect=False,
        ),
    ),
)
