"""Jobs on boards with racks: from the session to the rack rules and back (R1 to R3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from ringwise.framework.extension_points import JobPlan
from ringwise.framework.job import Job
from ringwise.framework.policy import ChipPolicy, RackPolicy
from ringwise.framework.session import Session
from ringwise.grammar import counted, first_of
from ringwise.placement.matching import PodClasses
from ringwise.placement.racks.model import FreeRacks, RackBlock, RackRequest, RackShape, Slot
from ringwise.placement.racks.previous import PlacedPod, PreviousSlot, previous_blocks
from ringwise.placement.racks.reschedule import RackFault, reschedule
from ringwise.placement.racks.selection import check_sizes, fullest_nodes, select, select_for_service
from ringwise.plugins.topology910.backups import Near
from ringwise.plugins.topology910.superpods import (
    BlockPlanner,
    faulty_nodes,
    level_of,
    naming_nodes,
    running_nodes,
)
from ringwise.reasons import Reason
from ringwise.state.model import Pod
from ringwise.topology.numbers import whole_number
from ringwise.topology.racks import Racks
from ringwise.topology.superpods import NodeId, SuperPodId
from ringwise.wellknown import (
    INFER_SERVICE_ID,
    LOGICAL_RACK,
    SUPER_POD_ID,
    SUPER_POD_RANK,
)

#: A reason names so many nodes that have no rack.
_NAMED_NODES = 4


class RackPlanner(BlockPlanner[tuple[RackBlock, ...]]):
    """Jobs on boards with racks (R1 to R3)."""

    def __init__(
        self, session: Session, job: Job, policy: ChipPolicy, rack: RackPolicy, pods: Sequence[Pod]
    ) -> None:
        super().__init__(session, job, policy, pods)
        self._rack = rack
        self._racks = session.topology.racks(session.state, self.super_pod_size)
        usable, masks = self.usable, self.usable.masks
        #: Nodes that can take a waiting pod of the job, by rack.
        self._free: FreeRacks = {
            superpod: {number: [node for node in nodes if node in masks] for number, nodes in of.items()}
            for superpod, of in self._racks.nodes_of.items()
        }
        of_rank = {
            **dict.fromkeys(range(rack.shape.pods), 0),
            **{self.ranks[pod.uid]: usable.class_of[pod.uid] for pod in self.waiting},
        }
        self._request = RackRequest(
            rack.shape,
            tuple(range(rack.shape.blocks)),
            soft=policy.soft and rack.service is None,
            ub_memory=rack.ub_memory and rack.service is None,
            minimum=self.least,
            classes=PodClasses(of_rank, masks, usable.spend) if len(usable.names) > 1 else None,
            system=rack.system,
        )

    def answer(self, avoided: Set[NodeId]) -> tuple[RackBlock, ...] | Reason:
        free = self._free
        if avoided:
            free = {
                superpod: {
                    number: [one for one in nodes if one not in avoided] for number, nodes in of.items()
                }
                for superpod, of in free.items()
            }
        if self.places:
            return self._again(free)
        problem = check_sizes(free, self.super_pod_size)
        return self._select(free, self._request) if problem is None else problem

    def _select(self, free: FreeRacks, request: RackRequest) -> tuple[RackBlock, ...] | Reason:
        """Places for open blocks: by the rule for services, or by the one for all others."""
        if not self.policy.multi_pod:
            fleet = self.session.state.fleets[self.policy.resource]
            idle: dict[NodeId, int] = {
                node: fleet.free_mask[int(node)].bit_count()
                for racks in free.values()
                for nodes in racks.values()
                for node in nodes
            }
            free = fullest_nodes(free, idle)
        service = self._rack.service
        if service is not None:
            return select_for_service(free, request, self.super_pod_size, self._service_racks(service))
        return select(free, request, self.super_pod_size)

    def _service_racks(self, service: str) -> set[tuple[SuperPodId, int]]:
        """Racks in which other jobs of the same inference service have pods."""
        session, rack_of = self.session, self._racks.rack_of
        nodes = {
            session.state.pods[uid].node
            for other in session.jobs.values()
            if other is not self.job and other.labels.get(INFER_SERVICE_ID) == service
            for uid, pod in other.pods.items()
            if pod.cls.chips
        }
        return {rack_of[node] for node in nodes if node in rack_of}

    def _again(self, free: FreeRacks) -> tuple[RackBlock, ...] | Reason:
        """After a fault (R3)."""
        session, job, state = self.session, self.job, self.session.state
        placed = [_placed(*place, self._racks) for place in self.places]
        running = running_nodes(state, job)
        level, outlook = level_of(session, job)
        fault = RackFault(running, faulty_nodes(session, job), self.release(running), level, outlook)
        old = previous_blocks(placed, self._rack.shape)
        answer = reschedule(old, free, self._request, fault, self.super_pod_size, self._select)
        return naming_nodes(answer, state) if isinstance(answer, Reason) else answer

    def explain(self, reason: Reason) -> Reason:
        problems = self._racks.node_problems
        return _hinting(reason, [problems[node] for node in self.usable.masks if node in problems])

    def as_plan(self, answer: tuple[RackBlock, ...]) -> JobPlan:
        """Every waiting pod gets the slot of its rank, or a free one where another pod of the job sits."""
        shape, ranks, state = self._rack.shape, self.ranks, self.session.state
        ordered = sorted(answer, key=lambda block: block.logical)
        running = running_nodes(state, self.job)
        free_slots = {
            rank: slot
            for block in ordered
            for rank, slot in zip(shape.ranks_of(block.logical), block.slots, strict=True)
            if slot.node not in running
        }
        plan = JobPlan({}, lines=tuple(map(_line, ordered)))
        chosen: list[tuple[Pod, int, Slot]] = []
        displaced: list[Pod] = []
        for pod in self.waiting:
            slot = free_slots.pop(ranks[pod.uid], None)
            if slot is None:
                displaced.append(pod)
            else:
                chosen.append((pod, ranks[pod.uid], slot))
        # The slots that are left: first those whose own pod runs in another slot, no pod will ask for them.
        elsewhere = {rank for uid, rank in ranks.items() if state.pods[uid].node in running}
        fixed = {rank for rank in ranks.values() if rank not in elsewhere}
        spare = sorted((rank for rank in free_slots if rank not in fixed), key=lambda r: r not in elsewhere)
        chosen += [(pod, rank, free_slots[rank]) for pod, rank in zip(displaced, spare, strict=False)]
        for pod, rank, slot in chosen:
            plan.nodes[pod.uid] = int(slot.node)
            plan.annotations[pod.uid] = rack_annotations(shape, rank, slot)
        return plan


def near_in_rack(session: Session, policy: RackPolicy) -> Near:
    """R3: the rack of a node; also other racks of its SuperPoD where a logical rack is one pod."""
    racks = session.topology.racks(session.state, session.settings.super_pod_size)
    anywhere = policy.shape.nodes_per_group == 1 and not policy.ub_memory

    def of(node: NodeId) -> tuple[str, Sequence[NodeId]]:
        if node not in racks.rack_of:
            return "its rack", ()
        superpod, rack = racks.rack_of[node]
        members = racks.nodes_of[superpod]
        if not anywhere:
            return f"rack {rack} of SuperPoD {superpod}", members[rack]
        others = (one for other, nodes in members.items() if other != rack for one in nodes)
        return f"SuperPoD {superpod}", (*members[rack], *others)

    return of


def _placed(rank: int, node: int, annotations: Mapping[str, str], racks: Racks) -> PlacedPod:
    superpod, number = racks.rack_of.get(node, (whole_number(annotations.get(SUPER_POD_ID, "")), None))
    slot = PreviousSlot(node, superpod, number)
    return PlacedPod(rank, slot, annotations.get(SUPER_POD_RANK), annotations.get(LOGICAL_RACK))


def _line(block: RackBlock) -> str:
    parts: dict[SuperPodId, list[str]] = {}
    for superpod, rack, nodes in block.parts():
        parts.setdefault(superpod, []).append(f"{counted(nodes, 'node')} of rack {rack}")
    places = "; ".join(f"SuperPoD {superpod}: {', '.join(racks)}" for superpod, racks in parts.items())
    return f"block {block.logical}: {places}; {block.origin.value}"


def _hinting(reason: Reason, outside: Sequence[Reason]) -> Reason:
    """Nodes without a usable rack id take no part; a waiting job names them (R1)."""
    if not outside:
        return reason
    more = "{n:more node has|more nodes have} no rack; ringwise doctor lists them"
    return reason.with_hints(
        first_of(outside, _NAMED_NODES, more, lambda one: f"the rack ids have a fault: {one.message}")
    )


def rack_annotations(shape: RackShape, rank: int, slot: Slot) -> dict[str, str]:
    """Rule R2: block, physical SuperPoD and logical rack of a pod.

    After a restart of the scheduler the map of the job is read from these three.
    """
    return {
        SUPER_POD_RANK: str(shape.block_of(rank)),
        SUPER_POD_ID: str(slot.superpod),
        LOGICAL_RACK: str(shape.group_of(rank)),
    }
