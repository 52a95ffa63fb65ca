"""Jobs on boards with racks: from the session to the rack rules and back (R1 to R3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from ringwise.framework.extension_points import JobPlan
from ringwise.framework.job import Job
from ringwise.framework.policy import ChipPolicy, RackPolicy
from ringwise.framework.session import Session
from ringwise.grammar import counted
from ringwise.placement.matching import PodClasses
from ringwise.placement.racks.inference import select_for_service
from ringwise.placement.racks.model import FreeRacks, RackBlock, RackRequest, RackShape, Slot
from ringwise.placement.racks.previous import PlacedPod, PreviousSlot, previous_blocks
from ringwise.placement.racks.reschedule import RackFault, reschedule
from ringwise.placement.racks.selection import check_sizes, fullest_nodes, select
from ringwise.placement.superpods.reschedule import Release
from ringwise.plugins.topology910.backups import Near
from ringwise.plugins.topology910.candidates import candidates
from ringwise.plugins.topology910.reasons import PODS_MISSING
from ringwise.plugins.topology910.superpods import (
    avoiding,
    dense_ranks,
    faulty_nodes,
    fewest_pods,
    level_of,
    member_places,
    naming_nodes,
    release_of,
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


class RackPlanner:
    def __init__(self, session: Session) -> None:
        self._session = session

    def plan(self, job: Job, policy: ChipPolicy, rack: RackPolicy, pods: Sequence[Pod]) -> JobPlan | Reason:
        waiting = [pod for pod in pods if pod.cls.chips]
        if not waiting:
            return JobPlan({})
        session = self._session
        ranks = dense_ranks(job)
        waiting.sort(key=lambda pod: ranks[pod.uid])
        racks = session.topology.racks(session.state, session.settings.super_pod_size)
        usable = _Candidates(session, job, waiting, ranks, racks, rack.shape.pods)
        request = RackRequest(
            rack.shape,
            tuple(range(rack.shape.blocks)),
            soft=policy.soft and rack.service is None,
            ub_memory=rack.ub_memory and rack.service is None,
            minimum=fewest_pods(session, job, waiting),
            classes=usable.classes,
            system=rack.system,
        )
        # The places of running pods, and of lost ones as far as they are remembered (R2).
        placed = [_placed(*place, racks) for place in member_places(job, ranks, session.state)]
        if not placed and len(waiting) < rack.shape.pods:
            return PODS_MISSING(pods=len(waiting), all=job.chip_pod_count)

        def answer_without(avoided: Set[NodeId]) -> tuple[RackBlock, ...] | Reason:
            free = usable.free
            if avoided:
                free = {
                    superpod: {
                        number: [one for one in nodes if one not in avoided] for number, nodes in of.items()
                    }
                    for superpod, of in usable.free.items()
                }
            if placed:
                return self._again(job, policy, rack, request, free, placed)
            problem = check_sizes(free, session.settings.super_pod_size)
            return self._select(job, policy, rack, free, request) if problem is None else problem

        blocks = avoiding(session, job, answer_without, again=bool(placed))
        if isinstance(blocks, Reason):
            return _hinting(blocks, usable.outside)
        return self._as_plan(job, rack, blocks, waiting)

    def near(self, policy: RackPolicy) -> Near:
        """R3: the rack of a node; also other racks of its SuperPoD where a logical rack is one pod."""
        session = self._session
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

    def _select(
        self, job: Job, policy: ChipPolicy, rack: RackPolicy, free: FreeRacks, request: RackRequest
    ) -> tuple[RackBlock, ...] | Reason:
        """Places for open blocks: by the rule for services, or by the one for all others."""
        size = self._session.settings.super_pod_size
        if not policy.multi_pod:
            fleet = self._session.state.fleets[policy.resource]
            idle: dict[NodeId, int] = {
                node: fleet.free_mask[int(node)].bit_count()
                for racks in free.values()
                for nodes in racks.values()
                for node in nodes
            }
            free = fullest_nodes(free, idle)
        if rack.service is not None:
            return select_for_service(free, request, size, self._service_racks(job, rack.service))
        return select(free, request, size)

    def _service_racks(self, job: Job, service: str) -> set[tuple[SuperPodId, int]]:
        """Racks in which other jobs of the same inference service have pods."""
        session = self._session
        rack_of = session.topology.racks(session.state, session.settings.super_pod_size).rack_of
        nodes = {
            session.state.pods[uid].node
            for other in session.jobs.values()
            if other is not job and other.labels.get(INFER_SERVICE_ID) == service
            for uid, pod in other.pods.items()
            if pod.cls.chips
        }
        return {rack_of[node] for node in nodes if node in rack_of}

    # -- after a fault ---------------------------------------------------------------------------

    def _again(
        self,
        job: Job,
        policy: ChipPolicy,
        rack: RackPolicy,
        request: RackRequest,
        free: FreeRacks,
        placed: Sequence[PlacedPod],
    ) -> tuple[RackBlock, ...] | Reason:
        session = self._session
        state = session.state
        level, outlook = level_of(session, job)
        running = running_nodes(state, job)
        fault = RackFault(
            running=running,
            faulty=faulty_nodes(session, job),
            level=level,
            outlook=outlook,
            release=Release() if running else release_of(session, job),
        )
        answer = reschedule(
            previous_blocks(placed, rack.shape),
            free,
            request,
            fault,
            session.settings.super_pod_size,
            lambda left, request: self._select(job, policy, rack, left, request),
        )
        return naming_nodes(answer, state) if isinstance(answer, Reason) else answer

    # -- the plan ----------------------------------------------------------------------------------

    def _as_plan(
        self, job: Job, rack: RackPolicy, blocks: Iterable[RackBlock], waiting: Sequence[Pod]
    ) -> JobPlan:
        """Every waiting pod gets the slot of its rank, or a free one where another pod of the job sits."""
        shape, ranks = rack.shape, dense_ranks(job)
        ordered = sorted(blocks, key=lambda block: block.logical)
        running = running_nodes(self._session.state, job)
        free_slots = {
            rank: slot
            for block in ordered
            for rank, slot in zip(shape.ranks_of(block.logical), block.slots, strict=True)
            if slot.node not in running
        }
        plan = JobPlan({}, lines=tuple(_line(block) for block in ordered))
        chosen: list[tuple[Pod, int, Slot]] = []
        displaced: list[Pod] = []
        for pod in waiting:
            slot = free_slots.pop(ranks[pod.uid], None)
            if slot is None:
                displaced.append(pod)
            else:
                chosen.append((pod, ranks[pod.uid], slot))
        # The slots that are left: first those whose own pod runs in another slot, no pod will ask for them.
        state = self._session.state
        elsewhere = {rank for uid, rank in ranks.items() if state.pods[uid].node in running}
        fixed = {rank for rank in ranks.values() if rank not in elsewhere}
        spare = sorted((rank for rank in free_slots if rank not in fixed), key=lambda r: r not in elsewhere)
        for pod, rank in zip(displaced, spare, strict=False):
            chosen.append((pod, rank, free_slots[rank]))
        for pod, rank, slot in chosen:
            plan.nodes[pod.uid] = int(slot.node)
            plan.annotations[pod.uid] = rack_annotations(shape, rank, slot)
        return plan


class _Candidates:
    """Nodes that can take a waiting pod of the job, by rack, and which pods each can take."""

    def __init__(
        self,
        session: Session,
        job: Job,
        waiting: Sequence[Pod],
        ranks: Mapping[str, int],
        racks: Racks,
        pods: int,
    ) -> None:
        usable = candidates(session, job, waiting)
        masks = usable.masks
        of_rank = {
            **dict.fromkeys(range(pods), 0),
            **{ranks[pod.uid]: usable.class_of[pod.uid] for pod in waiting},
        }
        self.free: FreeRacks = {
            superpod: {rack: [node for node in nodes if node in masks] for rack, nodes in members.items()}
            for superpod, members in racks.nodes_of.items()
        }
        self.classes = PodClasses(of_rank, masks, usable.spend) if len(usable.names) > 1 else None
        #: Why candidates are in no rack.
        self.outside = [racks.node_problems[node] for node in masks if node in racks.node_problems]


def _placed(rank: int, node: int, annotations: Mapping[str, str], racks: Racks) -> PlacedPod:
    superpod, rack = racks.rack_of.get(node, (whole_number(annotations.get(SUPER_POD_ID, "")), None))
    return PlacedPod(
        rank,
        PreviousSlot(node, superpod, rack),
        annotations.get(SUPER_POD_RANK),
        annotations.get(LOGICAL_RACK),
    )


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
    hints = [f"the rack ids have a fault: {problem.message}" for problem in outside[:_NAMED_NODES]]
    if len(outside) > _NAMED_NODES:
        more = len(outside) - _NAMED_NODES
        hints.append(
            f"{counted(more, 'more node has', 'more nodes have')} no rack; ringwise doctor lists them"
        )
    return reason.with_hints(hints)


def rack_annotations(shape: RackShape, rank: int, slot: Slot) -> dict[str, str]:
    """Rule R2: block, physical SuperPoD and logical rack of a pod.

    After a restart of the scheduler the map of the job is read from these three.
    """
    return {
        SUPER_POD_RANK: str(shape.block_of(rank)),
        SUPER_POD_ID: str(slot.superpod),
        LOGICAL_RACK: str(shape.group_of(rank)),
    }
