"""What the scheduler tells about queues: how many PodGroups in which phase, and what their pods use.

Counted as phases change and compared for the queues of jobs that were touched: nobody counts jobs in a cycle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringwise.messages.commands import SetQueueStatus
from ringwise.state.model import Queue

if TYPE_CHECKING:
    from ringwise.scheduler.core.machine import Scheduler


class QueueReport:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        #: Queue and phase of every PodGroup, and how many there are of each.
        self._place: dict[str, tuple[str, str]] = {}
        self._counts: dict[str, dict[str, int]] = {}
        self._touched: dict[str, None] = {}
        #: A pod on its own went, and nobody knows any more from which queue.
        self._any_touched = False
        self._told: dict[str, SetQueueStatus] = {}

    def touch(self, queue: str) -> None:
        """Something in this queue may be different now."""
        self._touched[queue] = None

    def seen(self, queue: str) -> None:
        """The object itself is new or has changed: it is told everything again."""
        self._told.pop(queue, None)
        self._touched[queue] = None

    def gone(self, queue: str) -> None:
        self._told.pop(queue, None)

    def place(self, group: str, queue: str, phase: str) -> None:
        """A PodGroup is in this queue and phase now."""
        here = (queue, phase)
        if self._place.get(group) != here:
            self._leave(group)
            self._place[group] = here
            counts = self._counts.setdefault(queue, {})
            counts[phase] = counts.get(phase, 0) + 1
            self._touched[queue] = None

    def forget(self, key: str) -> None:
        """A job is gone, or its PodGroup is."""
        if not self._leave(key):
            self._any_touched = True

    def _leave(self, group: str) -> bool:
        before = self._place.pop(group, None)
        if before is None:
            return False
        queue, phase = before
        counts = self._counts[queue]
        counts[phase] -= 1
        if not counts[phase]:
            del counts[phase]
        if not counts:
            # Jobs may name queues that never were.
            del self._counts[queue]
        self._touched[queue] = None
        return True

    def news(self) -> list[SetQueueStatus]:
        """Of the queues that were touched, those that have something new to tell."""
        if not self._touched and not self._any_touched:
            return []
        queues = self._scheduler.book.queues
        found = []
        for name in list(queues) if self._any_touched else self._touched:
            queue = queues.get(name)
            if queue is not None:
                status = self._status(queue)
                if status is not None:
                    self._told[name] = status
                    found.append(status)
        self._touched.clear()
        self._any_touched = False
        return found

    def _status(self, queue: Queue) -> SetQueueStatus | None:
        """None when the same was told before."""
        counts = self._counts.get(queue.name, {})
        used = self._scheduler.ledger.used_by_queue(queue.name)
        # A queue that is being closed takes no more jobs, and is closed when the last has left it.
        state = "Closed" if queue.state == "Closing" and not counts else queue.state
        told = self._told.get(queue.name)
        if told is not None and told.allocated == used and told.state == state and counts == told.groups:
            return None
        return SetQueueStatus(queue.name, state, dict(counts), dict(used))
