"""Jobs with claims whose volumes are still to be made, by class and size: who is tried when storage grows.

Drivers of local disks write how much they have room for every minute, for each node. Only who asks for more
than there was, and not for more than there is now, can use the difference.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ringwise.framework.job import Job
from ringwise.reasons import CAPACITY
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, on, on_job
from ringwise.state.model import Pod
from ringwise.state.node_labels import members_of
from ringwise.state.storage_capacities import selected_nodes
from ringwise.state.volume_table import keys_of

#: Nobody is evicted by these: a job for which a node has too few free chips cannot use it.
_NOT_EVICTING = frozenset({"enqueue", "allocate", "backfill"})
#: So many nodes are looked at one by one.
_FEW = 16


class _Chips(NamedTuple):
    """What a node must have free before a job can use it; freed chips wake the job, too."""

    resource: str
    least: int


#: Whatever is free on the node, the job is tried.
_ANY = _Chips("", 0)


class StorageWaits(Component):
    name = "storage"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        #: Jobs by class, size in bytes and chips. And the sizes of each class, ascending.
        self._jobs: dict[str, dict[int, dict[_Chips, dict[str, None]]]] = {}
        self._sizes: dict[str, list[int]] = {}
        #: Where a job is in these.
        self._sizes_of_job: dict[str, tuple[_Chips, set[tuple[str, int]]]] = {}

    @on_job(ie.JobSettled)
    def _settled(self, job: Job, now: int) -> None:
        self._forget(job, now)
        if not job.has_claims or not self._state.volumes.capacities:
            return
        pods = [pod for pod in job.pods.values() if self._state.pods[pod.uid].node < 0]
        pairs = {pair for pod in pods for pair in self._sizes_of(keys_of(pod))}
        if not pairs:
            return
        chips = _least_chips(job, pods)
        self._sizes_of_job[job.key] = chips, pairs
        for name, size in pairs:
            by_size = self._jobs.setdefault(name, {})
            if size not in by_size:
                insort(self._sizes.setdefault(name, []), size)
            by_size.setdefault(size, {}).setdefault(chips, {})[job.key] = None

    def _sizes_of(self, keys: Iterable[str]) -> Iterator[tuple[str, int]]:
        table = self._state.volumes
        for key in keys:
            claim = table.claims.get(key)
            if claim is not None and not claim.volume:
                cls = table.classes.get(claim.storage_class)
                if cls is not None and cls.waits_for_pod and table.capacities_of(cls) is not None:
                    yield claim.storage_class, claim.requested

    @on_job(ie.JobGone)
    def _forget(self, job: Job, now: int) -> None:
        chips, pairs = self._sizes_of_job.pop(job.key, (_ANY, ()))
        for name, size in pairs:
            by_size = self._jobs[name]
            by_chips = by_size[size]
            del by_chips[chips][job.key]
            if not by_chips[chips]:
                del by_chips[chips]
            if not by_chips:
                del by_size[size]
                sizes = self._sizes[name]
                del sizes[bisect_right(sizes, size) - 1]
            if not by_size:
                del self._jobs[name], self._sizes[name]

    @on(ie.StorageGrew)
    def _grew(self, event: ie.StorageGrew, now: int) -> None:
        sizes, growth = self._sizes.get(event.storage_class, []), event.growth
        fitting = sizes[bisect_right(sizes, growth.above) : bisect_right(sizes, growth.largest)]
        nodes = selected_nodes(self._state.labels, growth.nodes) if fitting else 0
        if not nodes:
            return
        for size in fitting:
            for chips, jobs in self._jobs[event.storage_class][size].items():
                if not self._may_be_used(nodes, chips):
                    continue
                for job in self._book.existing(jobs):
                    if self._book.has_pending(job):
                        self._job_queue.activate(job.key)

    def _may_be_used(self, nodes: int, chips: _Chips) -> bool:
        no_evictions = set(self._configuration.current.actions) <= _NOT_EVICTING
        if not chips.least or not no_evictions or nodes.bit_count() > _FEW:
            return True
        fleet = self._state.fleets[chips.resource]
        # What is reserved may be so for one of these jobs.
        free = (fleet.free_mask[node] | fleet.reserved[node] for node in members_of(nodes))
        return any(mask.bit_count() >= chips.least for mask in free)


def _least_chips(job: Job, pods: Sequence[Pod]) -> _Chips:
    """Of the pod that asks for least, where freed chips wake the job and all its pods use one resource."""
    resources = {pod.cls.resource or "" for pod in pods}
    if len(resources) > 1 or job.reason is None or not job.reason.kind.resolved_by >= CAPACITY:
        return _ANY
    return _Chips(resources.pop(), min(pod.cls.chips for pod in pods))
