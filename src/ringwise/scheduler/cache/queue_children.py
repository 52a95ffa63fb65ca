"""Which queues are below which: a queue with others below it takes no jobs, whatever plugins are in use."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ringwise.framework.reasons import QUEUE_NOT_A_LEAF
from ringwise.reasons import Reason
from ringwise.state.model import ROOT_QUEUE, Queue

#: Queues that a message names.
_MAX_NAMES = 10


class QueueChildren:
    """Kept as queues come and go: whether a queue is a leaf is asked for every job."""

    def __init__(self, queues: Iterable[Queue] = ()) -> None:
        self._parents: dict[str, str] = {}
        self._children: dict[str, dict[str, None]] = {}
        for queue in queues:
            self.put(queue)

    def put(self, queue: Queue) -> None:
        parent = queue.parent or ROOT_QUEUE
        if self._parents.get(queue.name) == parent:
            return
        self.drop(queue.name)
        if queue.name not in (ROOT_QUEUE, parent):
            self._parents[queue.name] = parent
            self._children.setdefault(parent, {})[queue.name] = None

    def drop(self, name: str) -> None:
        parent = self._parents.pop(name, None)
        if parent is not None:
            below = self._children[parent]
            del below[name]
            if not below:
                del self._children[parent]

    def refusal(self, name: str) -> Reason | None:
        """Why jobs cannot run in this queue, with those that they can use instead; None for a leaf."""
        below = self._children.get(name)
        if below is None:
            return None
        return QUEUE_NOT_A_LEAF(queue=name, children=_some(below), leaves=_some(self._leaves_below(name)))

    def _leaves_below(self, name: str) -> list[str]:
        leaves, passed, waiting = [], {name}, [name]
        while waiting:
            for child in self._children.get(waiting.pop(), ()):
                if child in passed:
                    continue
                passed.add(child)
                if child in self._children:
                    waiting.append(child)
                else:
                    leaves.append(child)
        return leaves


def _some(names: Collection[str]) -> list[str]:
    shown = sorted(names)[:_MAX_NAMES]
    rest = len(names) - len(shown)
    return [*shown, f"{rest} more"] if rest else shown
