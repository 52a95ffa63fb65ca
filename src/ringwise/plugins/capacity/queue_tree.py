"""The limits and shares of queues, flat or in a tree.

Each queue has a *capability* (the most it may use), a *guarantee* (kept free for it) and what
it *deserves* (kept when others reclaim). In a tree a queue counts with all queues below it.

Usage is read from the session each time: it changes with every placement of the cycle.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field

from ringwise.framework.amounts import Amount, Amounts, add, share, smaller
from ringwise.framework.session import Session
from ringwise.records import dataclass
from ringwise.state.model import ROOT_QUEUE, Queue


@dataclass(slots=True, eq=False)
class QueueNode:
    """One queue with what follows from its place."""

    queue: Queue
    parent: QueueNode | None = None
    children: list[QueueNode] = field(default_factory=list)
    #: Names of the queue and of all below it.
    below: list[str] = field(default_factory=list)
    #: The most it may use; a resource that is not in it has no limit.
    limit: Amounts = field(default_factory=dict)
    guarantee: Mapping[str, Amount] = field(default_factory=dict)
    deserved: Amounts = field(default_factory=dict)
    #: Why it has no place in the tree.
    problem: str = ""

    @property
    def name(self) -> str:
        return self.queue.name

    @property
    def above(self) -> list[QueueNode]:
        """The queues above it, nearest first, without the root."""
        result = []
        node = self.parent
        while node is not None and node.parent is not None:
            result.append(node)
            node = node.parent
        return result


class QueueTree:
    def __init__(self, session: Session, *, by_tree: bool) -> None:
        self._session = session
        self._nodes = {name: QueueNode(queue, below=[name]) for name, queue in session.queues.items()}
        self.by_tree = by_tree
        if by_tree:
            root = self._nodes.get(ROOT_QUEUE)
            if root is None:
                # It exists in every cluster; its object may not.
                root = self._nodes[ROOT_QUEUE] = QueueNode(
                    Queue(ROOT_QUEUE, reclaimable=False), below=[ROOT_QUEUE]
                )
            self._hang(root)
            self._share_tree(root)
        else:
            _share(self._nodes.values(), session.usage.capacity)

    def __getitem__(self, name: str) -> QueueNode | None:
        return self._nodes.get(name)

    # -- building ------------------------------------------------------------------------

    def _hang(self, root: QueueNode) -> None:
        """Give every queue its parent. Queues that do not lead to the root stay outside, with the reason."""
        for node in self._nodes.values():
            if node is root:
                continue
            parent = self._nodes.get(node.queue.parent or ROOT_QUEUE)
            if parent is None:
                node.problem = f"its parent {node.queue.parent} does not exist"
            else:
                node.parent = parent
        for node in self._nodes.values():
            self._check_path(node)
        for node in self._nodes.values():
            if node.problem:
                node.parent = None
            elif node.parent is not None:
                node.parent.children.append(node)
                for upper in [*node.above, root]:
                    upper.below.append(node.name)

    def _check_path(self, node: QueueNode) -> None:
        passed: set[str] = set()
        upper: QueueNode | None = node
        while upper is not None:
            if upper.problem and upper is not node:
                node.problem = node.problem or f"queue {upper.name} above it: {upper.problem}"
                return
            if upper.name in passed:
                node.problem = node.problem or f"its parents lead back to {upper.name}"
                return
            passed.add(upper.name)
            upper = upper.parent

    def _share_tree(self, root: QueueNode) -> None:
        """Limits from the root downwards; without a capability the root has none."""
        root.limit = {**root.queue.limits}
        waiting = [root]
        while waiting:
            node = waiting.pop()
            _share(node.children, node.limit)
            waiting += node.children
        guarantee: Amounts = {}
        for child in root.children:
            add(guarantee, child.guarantee)
            add(root.deserved, child.deserved)
        root.guarantee = guarantee

    # -- reading -------------------------------------------------------------------------

    def used(self, node: QueueNode) -> Mapping[str, Amount]:
        """What the queue and all below it use now."""
        by_queue = self._session.usage.used_by_queue
        if len(node.below) == 1:
            return by_queue(node.name)
        total: Amounts = {}
        for name in node.below:
            add(total, by_queue(name))
        return total

    def tested(self, node: QueueNode) -> list[QueueNode]:
        """The queues whose limits a job of this queue must keep: itself, then those above it."""
        if not self.by_tree:
            return [node]
        root = self._nodes[ROOT_QUEUE]
        return [node, *node.above, *([root] if root is not node else [])]

    def share(self, node: QueueNode) -> float:
        """The largest fraction of what it deserves; 1 for a queue that deserves nothing."""
        if not node.deserved:
            return 1.0
        used = self.used(node)
        return share({name: used.get(name, 0) for name in node.deserved}, node.deserved)

    def distance(self, node: QueueNode, other: QueueNode) -> int:
        """How many steps up from `node` the first queue is that both are below."""
        theirs = {id(upper) for upper in (other, *other.above)}
        for steps, upper in enumerate((node, *node.above)):
            if id(upper) in theirs:
                return steps
        return len(node.above) + 1


def _share(nodes: Collection[QueueNode], total: Mapping[str, Amount]) -> None:
    """Set what each of these queues may use of what they share, and what it deserves.

    It deserves at most its limit, and at least its guarantee.
    """
    guaranteed: Amounts = {}
    for node in nodes:
        add(guaranteed, node.queue.guarantee)
    for node in nodes:
        own = node.guarantee = node.queue.guarantee
        free = {
            name: max(0, amount - guaranteed.get(name, 0) + own.get(name, 0))
            for name, amount in total.items()
        }
        node.limit = smaller(node.queue.limits, free)
        deserved = node.queue.deserved
        node.deserved = {name: min(amount, node.limit.get(name, amount)) for name, amount in deserved.items()}
        for name, amount in own.items():
            node.deserved[name] = max(node.deserved.get(name, 0), amount)
