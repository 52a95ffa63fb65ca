"""The candidate nodes of a job that is placed as a whole, and which of its pods each node can take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field

from ringwise.framework.extension_points import first_reason
from ringwise.framework.gangs.gang_placement import node_filters
from ringwise.framework.job import Job
from ringwise.framework.session import Session
from ringwise.grammar import counted, first_of
from ringwise.placement.matching import PodClasses, Spend, largest_matching, uncounted
from ringwise.plugins.topology910.reasons import PODS_DIFFER
from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.state.cluster import ClusterState
from ringwise.state.model import Pod
from ringwise.state.node_labels import members_of, node_set
from ringwise.topology.chips import mask_of
from ringwise.topology.superpods import NodeId

#: A reason names so many roles; the rest are counted.
_NAMED = 8


@dataclass(frozen=True, slots=True)
class Candidates:
    """Pods of equal needs are one class; a node is known by the mask of classes that it can take."""

    pods: Sequence[Pod]
    class_of: Mapping[str, int]
    #: Nodes that can take some of the pods, in natural order of their names.
    masks: Mapping[NodeId, int]
    names: Mapping[int, str] = field(default_factory=dict)
    #: By class: the nodes that can take its pods.
    sets: Sequence[int] = ()
    spend: Spend = uncounted

    def takes(self, node: NodeId, pod: Pod) -> bool:
        return bool(self.masks.get(node, 0) >> self.class_of[pod.uid] & 1)

    def open_to(self, pods: Collection[Pod]) -> set[NodeId]:
        """Nodes that some of these pods can take."""
        wanted = mask_of(self.class_of[pod.uid] for pod in pods)
        return {node for node, mask in self.masks.items() if mask & wanted}

    def classes(self, ranks: Mapping[int, Pod], nodes: Collection[NodeId]) -> PodClasses | None:
        """The classes of pods by rank; None where each of them can take each of these nodes (S13, P8)."""
        of_rank = {rank: self.class_of[pod.uid] for rank, pod in ranks.items()}
        wanted = mask_of(of_rank.values())
        if all(self.masks.get(node, 0) & wanted == wanted for node in nodes):
            return None
        return PodClasses(of_rank, self.masks, self.spend)

    def explain(self, reason: Reason, nodes: Collection[NodeId], least: int, where: str) -> Reason:
        """The reason of a job whose pods differ: which of them lack nodes.

        `least` of the pods need a node of their own. Where not even all nodes together, whatever
        switch or SuperPoD they belong to, hold so many, that is the reason.
        """
        among = node_set(int(node) for node in nodes)
        demand = Counter(self.class_of[pod.uid] for pod in self.pods)
        can_take = {cls: (self.sets[cls] & among).bit_count() for cls in sorted(demand)}
        roles = [
            f"{self.names[cls]} ({counted(demand[cls], 'pod')}) can take {count}"
            for cls, count in can_take.items()
        ]
        listing = f"of {counted(len(nodes), 'free node')} {where} " + ", ".join(
            first_of(roles, _NAMED, "{n:more role}")
        )
        held = largest_matching(demand, Counter(self.masks.get(node, 0) for node in nodes), self.spend)
        if held >= least:
            return reason.with_hints([f"its pods need different nodes: {listing}"])
        short = [self.names[cls] for cls, count in can_take.items() if count < demand[cls]]
        lacking = first_of(short or sorted(self.names.values()), _NAMED, "{n:more role}")
        return PODS_DIFFER(held=held, needed=least, listing=listing, short=lacking)


def candidates(session: Session, job: Job, pods: Sequence[Pod]) -> Candidates:
    """Nodes that fit some pending pod of the job.

    A pod takes a node of its own, so nodes where the job already runs are left out.
    """
    spend = session.budget.spend
    taken = {session.state.pods[uid].node for uid, pod in job.pods.items() if pod.cls.chips}
    taken_set = node_set(node for node in taken if node >= 0)
    numbers: dict[object, int] = {}
    class_of: dict[str, int] = {}
    names: dict[int, str] = {}
    sets: list[int] = []
    cache: dict[tuple[int, ...], int] = {}
    for pod in pods:
        selection = session.node_selection(job, pod)
        number = numbers.get(selection)
        if number is None:
            number = numbers[selection] = len(numbers)
            names[number] = pod.task or pod.name
            nodes = selection.fitting_set(cache) & ~taken_set
            filters = node_filters(session, job, pod)
            if filters:
                members = members_of(nodes)
                spend(len(members))
                nodes = node_set(node for node in members if first_reason(filters, node) is None)
            sets.append(nodes)
        class_of[pod.uid] = number
    return Candidates(pods, class_of, _masks(session.state, sets, spend), names, sets, spend)


def _masks(state: ClusterState, sets: Sequence[int], spend: Spend) -> dict[NodeId, int]:
    """By node: the classes in whose sets it is.

    Of a class with most of the nodes only the others are looked at.
    """
    everywhere = 0
    for nodes in sets:
        everywhere |= nodes
    half = everywhere.bit_count() // 2
    usual = 0
    others: dict[int, int] = {}
    for number, nodes in enumerate(sets):
        unusual = nodes
        if nodes.bit_count() > half:
            usual |= 1 << number
            unusual = everywhere & ~nodes
        members = members_of(unusual)
        spend(1 + len(members))
        for node in members:
            others[node] = others.get(node, 0) ^ 1 << number
    return {node: usual ^ others.get(node, 0) for node in sorted(members_of(everywhere), key=state.rank_of)}
