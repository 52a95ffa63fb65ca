"""Jobs with claims whose volumes are still to be made, by class: who is tried when storage grows.

Drivers of local disks write how much they have room for every minute, for each node. Only who asks for more
than there was, and not for more than there is now, can use the difference.
"""

from __future__ import annotations

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

#: Actions that do not evict pods: with these alone, a job cannot use a node that has too few free chips.
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
        #: By class: jobs with the sizes of their claims in bytes, and the chips that a node must have free.
        self._jobs: dict[str, dict[str, tuple[set[int], _Chips]]] = {}

    @on_job(ie.JobSettled)
    def _settled(self, job: Job, now: int) -> None:
        self._forget(job, now)
        if not job.has_claims or not self._state.volumes.capacities:
            return
        pods = [pod for pod in job.pods.values() if self._state.pods[pod.uid].node < 0]
        for name, size in (pair for pod in pods for pair in self._sizes_of(keys_of(pod))):
            jobs = self._jobs.setdefault(name, {})
            if job.key not in jobs:
                jobs[job.key] = set(), _least_chips(job, pods)
            jobs[job.key][0].add(size)

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
        for jobs in self._jobs.values():
            jobs.pop(job.key, None)

    @on(ie.StorageGrew)
    def _grew(self, event: ie.StorageGrew, now: int) -> None:
        growth, jobs = event.growth, self._jobs.get(event.storage_class, {})
        fitting = [
            key
            for key, (sizes, _) in jobs.items()
            if any(growth.above < size <= growth.largest for size in sizes)
        ]
        nodes = selected_nodes(self._state.labels, growth.nodes) if fitting else 0
        for job in self._book.existing(fitting) if nodes else ():
            if self._may_be_used(nodes, jobs[job.key][1]) and self._book.has_pending(job):
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
