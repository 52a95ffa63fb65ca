"""Resource usage per job and per queue, kept as pods come and go.

Plugins that compare shares read it, so that no cycle counts pods again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from typing import Any

from ringwise.framework.amounts import Amount, Amounts, added, amounts_of
from ringwise.framework.holdings import Holdings
from ringwise.framework.reserved_quota import ReservedQuotas
from ringwise.records import dataclass
from ringwise.state.model import EMPTY, PodClass


@dataclass(slots=True, eq=False)
class ResourceUsage:
    #: Here and in `holdings`, the amounts of a job or queue are replaced and never changed: copies of the
    #: tables have them, too.
    by_job: dict[str, Mapping[str, Amount]] = field(default_factory=dict)
    by_queue: dict[str, Mapping[str, Amount]] = field(default_factory=dict)
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

    def queue_of(self, uid: str, queue: str) -> str:
        """The queue for which a pod counts, given the one its job is in now."""
        return self.bound_in.get(uid, queue)

    def end_placement(self, uid: str) -> None:
        """Forget the queue and the burst of a pod that no longer has a node."""
        self.bound_in.pop(uid, None)
        self.borrowing.pop(uid, None)

    def add_pod(self, job: str, queue: str, pod_class: PodClass, times: int = 1) -> None:
        requests = amounts_of(pod_class)
        self.by_job[job] = added(self.used_by_job(job), requests, times)
        self.by_queue[queue] = added(self.used_by_queue(queue), requests, times)
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
        tables: list[dict[Any, Any]] = [self.by_job, self.by_queue, self.pods_by_queue, self.capacity]
        tables += self.holdings.tables
        copies = [dict(table) for table in tables]
        bound_in, lent = dict(self.bound_in), dict(self.borrowing)
        try:
            yield
        finally:
            for table, entries in zip(tables, copies, strict=True):
                table.clear()
                table.update(entries)
            self.bound_in, self.borrowing = bound_in, lent
            self.reserved.touch_all()

    def used_by_job(self, job: str) -> Mapping[str, Amount]:
        return self.by_job.get(job, EMPTY)

    def used_by_queue(self, queue: str) -> Mapping[str, Amount]:
        return self.by_queue.get(queue, EMPTY)
