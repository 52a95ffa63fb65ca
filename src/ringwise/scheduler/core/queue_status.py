"""Status of queues: how many PodGroups are in which phase, and what their pods use.

The counts follow the phases as they change, and only queues of jobs that changed are
compared: no cycle counts all jobs.
"""

from __future__ import annotations

from collections.abc import Mapping

from ringwise.framework.usage import ResourceUsage
from ringwise.messages.commands import SetQueueStatus
from ringwise.state.model import Queue


class QueueStatusReporter:
    def __init__(self, queues: Mapping[str, Queue], usage: ResourceUsage) -> None:
        self._queues = queues
        self._usage = usage
        #: Queue and phase of every PodGroup, and how many there are of each.
        self._groups: dict[str, tuple[str, str]] = {}
        self._counts: dict[str, dict[str, int]] = {}
        self._touched: dict[str, None] = {}
        #: A job without a PodGroup is gone: its queue is not known any more, so all are compared.
        self._all_touched = False
        self._reported: dict[str, SetQueueStatus] = {}

    def touch(self, queue: str) -> None:
        """Usage or counts of this queue may have changed."""
        self._touched[queue] = None

    def seen(self, queue: str) -> None:
        """The Queue object is new or changed: its status is written again."""
        self._reported.pop(queue, None)
        self._touched[queue] = None

    def gone(self, queue: str) -> None:
        self._reported.pop(queue, None)

    def put(self, group: str, queue: str, phase: str) -> None:
        """The PodGroup is in this queue and phase now."""
        here = (queue, phase)
        if self._groups.get(group) != here:
            self._remove(group)
            self._groups[group] = here
            counts = self._counts.setdefault(queue, {})
            counts[phase] = counts.get(phase, 0) + 1
            self._touched[queue] = None

    def forget(self, key: str) -> None:
        """A job is gone, or its PodGroup is."""
        if not self._remove(key):
            self._all_touched = True

    def _remove(self, group: str) -> bool:
        before = self._groups.pop(group, None)
        if before is None:
            return False
        queue, phase = before
        counts = self._counts[queue]
        counts[phase] -= 1
        if not counts[phase]:
            del counts[phase]
        if not counts:
            # Jobs may name queues that do not exist.
            del self._counts[queue]
        self._touched[queue] = None
        return True

    def changes(self) -> list[SetQueueStatus]:
        """The status of touched queues, where it differs from what was reported."""
        if not self._touched and not self._all_touched:
            return []
        queues = self._queues
        found = []
        for name in list(queues) if self._all_touched else self._touched:
            queue = queues.get(name)
            if queue is not None:
                status = self._status(queue)
                if status is not None:
                    self._reported[name] = status
                    found.append(status)
        self._touched.clear()
        self._all_touched = False
        return found

    def _status(self, queue: Queue) -> SetQueueStatus | None:
        """None when the same was reported before."""
        counts = self._counts.get(queue.name, {})
        used = self._usage.used_by_queue(queue.name)
        # A closing queue admits no jobs, and is closed when the last one has left it.
        state = "Closed" if queue.state == "Closing" and not counts else queue.state
        last = self._reported.get(queue.name)
        if last is not None and last.allocated == used and last.state == state and counts == last.groups:
            return None
        return SetQueueStatus(queue.name, state, dict(sorted(counts.items())), dict(sorted(used.items())))
