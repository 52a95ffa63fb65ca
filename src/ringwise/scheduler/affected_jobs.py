"""Which faults currently affect which job: all tables, documents and views use this module.

A job is affected by faults of the chips that its pods use, and of the nodes (and their switches) on which its
pods with chips run. A node that is not ready or was deleted affects all jobs on it. Faults of a
node to which a pod is not bound yet affect no job.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, partial

from ringwise.records import dataclass
from ringwise.scheduler.node_faults import DELETED, NOT_READY, NodeFault, node_faults
from ringwise.scheduler.view import SchedulerView
from ringwise.state.cluster import PodRecord
from ringwise.topology.chips import chip_names, chips_of
from ringwise.topology.natural import natural_key


@dataclass(frozen=True, slots=True)
class JobFault:
    """A fault that affects a job."""

    fault: NodeFault
    #: When it was first seen, in nanoseconds; None: it is not known.
    since: int | None


class AffectedJobs:
    """The faults of a cluster at one moment; those of a node are read once."""

    def __init__(self, view: SchedulerView) -> None:
        self._view = view
        self._cluster = view.cluster
        self.of_node = cache(partial(node_faults, view.cluster))

    def of_pods(self, uids: Iterable[str]) -> list[JobFault]:
        """Faults that affect the job of these pods, each once; nodes in natural order."""
        placements, faults = self._cluster.pods, dict[NodeFault, None]()
        for uid in uids:
            placement = placements.get(uid)
            if placement is None or placement.node < 0:
                continue
            for fault in self.of_node(placement.node):
                if _affects(fault, placement):
                    faults[fault] = None
        if len(faults) > 1:
            faults = dict.fromkeys(sorted(faults, key=lambda one: natural_key(one.node)))
        return [JobFault(fault, self._view.fault_since(fault)) for fault in faults]

    def all(self) -> list[tuple[JobFault, list[str]]]:
        """Every fault of the nodes that exist, nodes in natural order, with the jobs as namespace/name."""
        cluster = self._cluster
        return [
            (JobFault(fault, self._view.fault_since(fault)), self._jobs(number, fault))
            for number in cluster.existing_nodes()
            for fault in self.of_node(number)
        ]

    def _jobs(self, number: int, fault: NodeFault) -> list[str]:
        cluster, names = self._cluster, set[str]()
        for uid in cluster.pods_on[number]:
            placement = cluster.pods[uid]
            if _affects(fault, placement):
                names.add(self._view.job_name_of_pod(placement.pod))
        return sorted(names, key=natural_key)


def _affects(fault: NodeFault, placement: PodRecord) -> bool:
    cls = placement.pod.cls
    if placement.pod.node is None:
        return False
    if fault.chip:
        resource = cls.resource or ""
        return any(fault.chip == chip_names(resource, (chip,)) for chip in chips_of(placement.chips))
    return bool(cls.chips) or fault.level in (NOT_READY, DELETED)
