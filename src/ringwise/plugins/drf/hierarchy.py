"""Queues in a tree: shares are compared from the root downwards.

Two annotations give the position of a queue, for example
`volcano.sh/hierarchy: root/research/vision` and `volcano.sh/hierarchy-weights: 1/3/2`.
A node of the tree uses what the queues below it use; its share is the largest fraction of
any resource of the cluster. A node is saturated when nothing below it can take more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ringwise.framework.amounts import Amount, Amounts, add, share
from ringwise.framework.session import Session
from ringwise.records import dataclass
from ringwise.state.model import ROOT_QUEUE, Queue
from ringwise.wellknown import HIERARCHY, HIERARCHY_WEIGHTS

#: Larger weights, infinity included, count as 1, as text that is not a number does.
_MAX_WEIGHT = 1e9

Key = tuple[tuple[bool, float], ...]


@dataclass(slots=True)
class HierarchyNode:
    """One node of the tree."""

    weight: float = 1.0
    used: Amounts = field(default_factory=dict)
    #: What the pending pods of queues below it request.
    wanted: Amounts = field(default_factory=dict)


class Hierarchy:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._nodes: dict[tuple[str, ...], HierarchyNode] = {}
        self._paths: dict[str, tuple[str, ...]] = {}
        for queue in session.queues.values():
            self._add(queue)
        for name, used in session.usage.by_queue.items():
            self.move(name, used, 1)
        for job in session.pending:
            self.want(job.queue, _difference(job.requested(), session.usage.used_by_job(job.key)))

    def _add(self, queue: Queue) -> None:
        steps = [step for step in queue.annotations.get(HIERARCHY, "").split("/") if step] or [queue.name]
        if steps[0] != ROOT_QUEUE:
            steps.insert(0, ROOT_QUEUE)
        weights = [_weight(text) for text in queue.annotations.get(HIERARCHY_WEIGHTS, "").split("/") if text]
        path = self._paths[queue.name] = tuple(steps)
        for depth in range(1, len(path) + 1):
            node = self._nodes.setdefault(path[:depth], HierarchyNode())
            if depth <= len(weights):
                node.weight = weights[depth - 1]

    def want(self, queue: str, amounts: Mapping[str, Amount], sign: int = 1) -> None:
        """Pending pods of the queue request more, or with sign -1 less."""
        for node in self._above(queue):
            add(node.wanted, amounts, sign)

    def move(self, queue: str, amounts: Mapping[str, Amount], sign: int) -> None:
        """The queue uses more, or with sign -1 less."""
        for node in self._above(queue):
            add(node.used, amounts, sign)

    def _above(self, queue: str) -> list[HierarchyNode]:
        path = self._paths.get(queue, ())
        return [self._nodes[path[:depth]] for depth in range(1, len(path) + 1)]

    def shares(self, queue: str) -> tuple[float, ...]:
        """Share divided by weight, level by level."""
        total = self._session.usage.capacity
        return tuple(share(node.used, total) / node.weight for node in self._above(queue))

    def key(self, queue: str) -> Key:
        """The smaller goes first: nodes that can take more before saturated ones, then the smaller share."""
        free = self._free()
        return tuple(
            (not any(amount > 0 and name in free for name, amount in node.wanted.items()), part)
            for node, part in zip(self._above(queue), self.shares(queue), strict=True)
        )

    def _free(self) -> Amounts:
        """What no queue uses."""
        used = self._nodes[ROOT_QUEUE,].used if self._nodes else {}
        return _difference(self._session.usage.capacity, used)


def _difference(whole: Mapping[str, Amount], part: Mapping[str, Amount]) -> Amounts:
    return {name: amount - part.get(name, 0) for name, amount in whole.items() if amount > part.get(name, 0)}


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        return 1.0
    return weight if 0 < weight <= _MAX_WEIGHT else 1.0
