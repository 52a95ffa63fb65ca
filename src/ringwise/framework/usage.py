"""Resource usage per job and per queue, kept as pods come and go.

Plugins that compare shares read it, so that no cycle counts pods again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Any
from weakref import WeakKeyDictionary

from ringwise.framework.amounts import Amounts, add, amounts_of
from ringwise.framework.holdings import Holdings
from ringwise.framework.reserved_quota import ReservedQuotas
from ringwise.records import dataclass
from ringwise.state.model import PodClass


@dataclass(slots=True, eq=False)
class ResourceUsage:
    by_job: dict[str, Amounts] = field(default_factory=dict)
    by_queue: dict[str, Amounts] = field(default_factory=dict)
    pods_by_queue: dict[str, int] = field(default_factory=dict)
    #: By uid, of pods whose job was moved to another queue: the queue in which they were bound. They
    #: count for it until they are gone, even if the queue of the job changes.
    bound_in: dict[str, str] = field(default_factory=dict)
    #: Uids of pods that were placed with a burst: they stay reclaimable if their annotations change.
    borrowing: dict[str, None] = field(default_factory=dict)
    #: The allocatable resources of the cluster.
    capacity: Amounts = field(default_factory=dict)
    #: What limits count.
    holdings: Holdings = field(default_factory=Holdings)
    #: F6: what jobs lost that are being rescheduled; it is not in the tables above.
    reserved: ReservedQuotas = field(default_factory=ReservedQuotas)
    _amounts: WeakKeyDictionary[PodClass, Amounts] = field(default_factory=WeakKeyDictionary)
    #: Of each `unchanged` that is open: what jobs used before it was touched.
    _notes: list[dict[str, Amounts]] = field(default_factory=list)

    def queue_of(self, uid: str, queue: str) -> str:
        """The queue for which a pod counts, given the one its job is in now."""
        return self.bound_in.get(uid, queue)

    def end_placement(self, uid: str) -> None:
        """Forget the queue and the burst of a pod that no longer has a node."""
        self.bound_in.pop(uid, None)
        self.borrowing.pop(uid, None)

    def amounts(self, pod_class: PodClass) -> Amounts:
        result = self._amounts.get(pod_class)
        if result is None:
            result = self._amounts[pod_class] = amounts_of(pod_class)
        return result

    def add_pod(self, job: str, queue: str, pod_class: PodClass, times: int = 1) -> None:
        requests = self.amounts(pod_class)
        add(self.of_job(job), requests, times)
        add(self.by_queue.setdefault(queue, {}), requests, times)
        self.pods_by_queue[queue] = self.pods_by_queue.get(queue, 0) + times
        self.holdings.add(job, queue, requests, times)
        self.reserved.touch(job)

    def remove_pod(self, job: str, queue: str, pod_class: PodClass) -> None:
        self.add_pod(job, queue, pod_class, -1)
        if not self.by_job[job]:
            del self.by_job[job]

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """At the end everything is as it was, the order of the entries too."""
        # Of thousands of jobs few are touched: what they use is copied then.
        jobs, touched = dict(self.by_job), dict[str, Amounts]()
        queues = {name: dict(amounts) for name, amounts in self.by_queue.items()}
        tables: list[dict[Any, Any]] = [self.capacity, self.pods_by_queue, *self.holdings.tables]
        copies = [dict(table) for table in tables]
        bound_in, lent = dict(self.bound_in), dict(self.borrowing)
        self._notes.append(touched)
        try:
            yield
        finally:
            del self._notes[-1]
            # One that used nothing before has no entry.
            jobs.update((job, amounts) for job, amounts in touched.items() if job in jobs)
            before = zip((self.by_job, self.by_queue, *tables), (jobs, queues, *copies), strict=True)
            for table, entries in before:
                table.clear()
                table.update(entries)
            self.bound_in, self.borrowing = bound_in, lent
            self.reserved.touch_all()

    def of_job(self, job: str) -> Amounts:
        """What the job uses, to be changed."""
        for touched in self._notes:
            if job not in touched and job in self.by_job:
                touched[job] = dict(self.by_job[job])
        return self.by_job.setdefault(job, {})

    def used_by_job(self, job: str) -> Amounts:
        return self.by_job.get(job, {})

    def used_by_queue(self, queue: str) -> Amounts:
        return self.by_queue.get(queue, {})
