"""The candidate nodes of a job that is placed as a whole, and which of its pods each node can take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field

from ringwise.framework.gang_placement import node_filters
from ringwise.framework.job import Job
from ringwise.framework.session import Session
from ringwise.grammar import counted
from ringwise.placement.matching import PodClasses, largest_matching
from ringwise.plugins.topology910.reasons import PODS_DIFFER
from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.state.model import Pod
from ringwise.topology.superpods import NodeId


@dataclass(frozen=True, slots=True)
class Candidates:
    """Pods of equal needs are one class; a node is known by the mask of classes that it can take."""

    pods: Sequence[Pod]
    class_of: Mapping[str, int]
    #: Nodes that can take some of the pods, in natural order of their names where all pods are alike.
    masks: Mapping[NodeId, int]
    names: Mapping[int, str] = field(default_factory=dict)

    def takes(self, node: NodeId, pod: Pod) -> bool:
        return bool(self.masks.get(node, 0) >> self.class_of[pod.uid] & 1)

    def open_to(self, pods: Collection[Pod]) -> set[NodeId]:
        """Nodes that some of these pods can take."""
        wanted = 0
        for pod in pods:
            wanted |= 1 << self.class_of[pod.uid]
        return {node for node, mask in self.masks.items() if mask & wanted}

    def classes(self, ranks: Mapping[int, Pod], nodes: Collection[NodeId]) -> PodClasses | None:
        """The classes of pods by rank; None where each of them can take each of these nodes (S13, P8)."""
        of_rank = {rank: self.class_of[pod.uid] for rank, pod in ranks.items()}
        wanted = 0
        for cls in of_rank.values():
            wanted |= 1 << cls
        if all(self.masks.get(node, 0) & wanted == wanted for node in nodes):
            return None
        return PodClasses(of_rank, self.masks)

    def explain(self, reason: Reason, nodes: Collection[NodeId], least: int, where: str) -> Reason:
        """The reason of a job whose pods differ: which of them lack nodes.

        `least` of the pods need a node of their own. Where not even all nodes together, whatever
        switch or SuperPoD they belong to, hold so many, that is the reason.
        """
        supply = Counter(self.masks.get(node, 0) for node in nodes)
        demand = Counter(self.class_of[pod.uid] for pod in self.pods)
        roles = [
            f"{self.names[cls]} ({counted(count, 'pod')}) can take {_nodes(supply, cls)}"
            for cls, count in sorted(demand.items())
        ]
        listing = f"of {counted(len(nodes), 'free node')} {where} " + ", ".join(roles)
        held = largest_matching(demand, supply)
        if held >= least:
            return reason.with_hints([f"its pods need different nodes: {listing}"])
        short = [self.names[cls] for cls, count in sorted(demand.items()) if _nodes(supply, cls) < count]
        return PODS_DIFFER(
            held=held, needed=least, listing=listing, short=short or sorted(self.names.values())
        )


def _nodes(supply: Mapping[int, int], cls: int) -> int:
    return sum(count for mask, count in supply.items() if mask >> cls & 1)


def candidates(session: Session, job: Job, pods: Sequence[Pod]) -> Candidates:
    """Nodes that fit some pending pod of the job.

    A pod takes a node of its own, so nodes where the job already runs are left out.
    """
    taken = {session.state.pods[uid].node for uid, pod in job.pods.items() if pod.cls.chips}
    numbers: dict[object, int] = {}
    class_of: dict[str, int] = {}
    masks: dict[NodeId, int] = {}
    names: dict[int, str] = {}
    for pod in pods:
        selection = session.node_selection(job, pod)
        number = numbers.get(selection)
        if number is None:
            number = numbers[selection] = len(numbers)
            names[number] = pod.task or pod.name
            filters = node_filters(session, job, pod)
            for node in selection.fitting_nodes():
                if node not in taken and all(check(node) is None for check in filters):
                    masks[node] = masks.get(node, 0) | 1 << number
        class_of[pod.uid] = number
    return Candidates(pods, class_of, masks, names)
