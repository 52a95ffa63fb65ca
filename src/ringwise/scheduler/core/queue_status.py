"""Status of queues: how many PodGroups are in which phase, and what their pods use.

What a queue uses counts for the queues above it, too. The counts follow the phases as they
change, and only queues of jobs that changed are compared: no cycle counts all jobs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ringwise.framework.amounts import Amounts, add
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
        #: A job without a PodGroup is gone: its queue is no longer known, so all are compared.
        self._all_touched = False
        self._reported: dict[str, SetQueueStatus] = {}
        #: Queues for which pods of jobs in other queues counted when they were last compared.
        self._bound_in: set[str] = set()
        #: The parent of each queue, what it was last seen to use itself, and with the queues below it.
        self._parents: dict[str, str] = {}
        self._own: dict[str, Amounts] = {}
        self._totals: dict[str, Amounts] = {}

    def touch(self, queue: str) -> None:
        """Usage or counts of this queue may have changed."""
        self._touched[queue] = None

    def seen(self, queue: str) -> None:
        """The Queue object is new or changed: its status is written again."""
        self._reported.pop(queue, None)
        self._touched[queue] = None
        parent = self._queues[queue].parent
        if self._parents.get(queue) != parent:
            self._parents[queue] = parent
            self._count_anew()

    def gone(self, queue: str) -> None:
        self._reported.pop(queue, None)
        if self._parents.pop(queue, None) is not None:
            self._count_anew()

    def _count_anew(self) -> None:
        """The tree of queues has changed, which is rare."""
        self._own.clear()
        self._totals.clear()
        self._all_touched = True

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
        result = []
        touched = dict.fromkeys(queues) if self._all_touched else dict(self._touched)
        if self._usage.bound_in or self._bound_in:
            before, self._bound_in = self._bound_in, set(self._usage.bound_in.values())
            touched.update(dict.fromkeys(sorted(before | self._bound_in)))
        for name in list(touched):
            touched.update(dict.fromkeys(self._count(name)))
        for name in touched:
            queue = queues.get(name)
            if queue is not None:
                status = self._status(queue)
                if status is not None:
                    self._reported[name] = status
                    result.append(status)
        self._touched.clear()
        self._all_touched = False
        return result

    def _status(self, queue: Queue) -> SetQueueStatus | None:
        """None when the same was reported before."""
        counts = self._counts.get(queue.name, {})
        used = self._totals.get(queue.name, {})
        last = self._reported.get(queue.name)
        if last is not None and last.allocated == used and counts == last.groups:
            return None
        return SetQueueStatus(queue.name, dict(sorted(counts.items())), dict(sorted(used.items())))

    def _count(self, name: str) -> Iterator[str]:
        """What a queue uses, for itself and the queues above it; yields those whose sum changed."""
        now = dict(self._usage.used_by_queue(name))
        if pods := self._usage.pods_by_queue.get(name):
            now["pods"] = pods
        before = self._own.get(name, {})
        if now == before:
            return
        self._own[name] = now
        passed: set[str] = set()
        while name in self._queues and name not in passed:
            passed.add(name)
            total = self._totals.setdefault(name, {})
            add(total, before, -1)
            add(total, now)
            yield name
            name = self._queues[name].parent
