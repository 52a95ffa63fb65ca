"""SuperPoD jobs (P1 to P8): translates between the session and the packing rules of `placement`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Set
from typing import Generic, TypeVar

from ringwise.durations import SECOND
from ringwise.framework.evictions.recently_faulty_chips import cooling_nodes, may_use_all
from ringwise.framework.extension_points import JobPlan
from ringwise.framework.gangs.gang_count import needed_pods, placed_pods
from ringwise.framework.gangs.gang_placement import missing_pods
from ringwise.framework.gangs.ranks import block_pod_count, ranks_of
from ringwise.framework.job import Job
from ringwise.framework.policy import ChipPolicy
from ringwise.framework.session import Session
from ringwise.grammar import counted, first_of, listed
from ringwise.placement.racks.levels import Level
from ringwise.placement.reasons import BLOCK_CANNOT_REFILL, WAIT_FOR_OLD_NODES
from ringwise.placement.superpods.blocks import Block, BlockPlan, blocks_by_rank
from ringwise.placement.superpods.differing import BlockPods
from ringwise.placement.superpods.packing import BlockRequest, Packing, SuperPodSettings, plan_one_pod
from ringwise.placement.superpods.packing import plan as pack
from ringwise.placement.superpods.previous_blocks import BlockMember, previous_blocks
from ringwise.placement.superpods.reschedule import (
    WAIT_SECONDS,
    BlockFault,
    MovedBlocks,
    Release,
    first_ranks,
    reschedule,
)
from ringwise.plugins.topology910.backups import Near
from ringwise.plugins.topology910.candidates import candidates
from ringwise.plugins.topology910.reasons import PODS_MISSING
from ringwise.reasons import Reason
from ringwise.state.cluster import ClusterState
from ringwise.state.model import Pod
from ringwise.topology.natural import natural_key
from ringwise.topology.reasons import SUPERPOD_NONE
from ringwise.topology.superpods import NodeId, SuperPodId, SuperPods
from ringwise.wellknown import SUPER_POD_ID, SUPER_POD_RANK

#: Nodes that one reason names.
_NAMED = 4


Answer = TypeVar("Answer")


class BlockPlanner(ABC, Generic[Answer]):
    """Plans the pods of one job with blocks: what SuperPoDs (P1 to P8) and racks (R1 to R3) share."""

    def __init__(self, session: Session, job: Job, policy: ChipPolicy, pods: Sequence[Pod]) -> None:
        self.session = session
        self.job = job
        self.policy = policy
        self.ranks = dense_ranks(job)
        self.waiting = sorted((pod for pod in pods if pod.cls.chips), key=lambda pod: self.ranks[pod.uid])
        self.usable = candidates(session, job, self.waiting)
        #: Fewest of the waiting pods that must get a node now; None: all (P8).
        self.least = fewest_pods(session, job, self.waiting)
        #: The places of running pods, and of lost ones as far as they are remembered (P7, R2).
        self.places = member_places(job, self.ranks, session.state)
        self.super_pod_size = session.settings.super_pod_size

    def plan(self) -> JobPlan | Reason:
        if not self.waiting:
            return JobPlan({})
        if not self.places and len(self.waiting) < (self.policy.blocks or 0) * (self.policy.block_nodes or 0):
            return PODS_MISSING(pods=len(self.waiting), all=self.job.chip_pod_count)
        answer = self._avoiding_broken()
        return self.explain(answer) if isinstance(answer, Reason) else self.as_plan(answer)

    @abstractmethod
    def answer(self, avoided: Set[NodeId]) -> Answer | Reason:
        """Places for the pods, without these nodes."""

    @abstractmethod
    def explain(self, reason: Reason) -> Reason:
        """The reason with what else is known about it."""

    @abstractmethod
    def as_plan(self, answer: Answer) -> JobPlan: ...

    def _avoiding_broken(self) -> Answer | Reason:
        """F3: the answer without nodes that broke the job. Those that broke it again are used last.

        The rules after a fault have their own order for the others: the job's own SuperPoDs and racks come
        first, then the same with such nodes.
        """
        session, job = self.session, self.job
        broke_again = cooling_nodes(session, job, broke_again=True)
        stages: list[set[int]] = [broke_again]
        if not self.places:
            stages.insert(0, cooling_nodes(session, job))
        if broke_again and may_use_all(job):
            stages.append(set())
        first: Reason | None = None
        for number, avoided in enumerate(stages):
            if avoided in stages[:number]:
                continue
            result = self.answer(avoided)
            if not isinstance(result, Reason):
                return result
            first = first or result
        assert isinstance(first, Reason)
        omitted = sorted((session.state.names[node] for node in broke_again), key=natural_key)
        if not omitted or may_use_all(job):
            return first
        return first.with_hints([f"nodes that broke it again are left out: {listed(omitted, _NAMED)}"])

    def release(self, running: Set[NodeId]) -> Release:
        """P7: how far the healthy old nodes are released. Where pods still run, nothing is waited for."""
        return Release() if running else release_of(self.session, self.job)


class SuperPodPlanner(BlockPlanner[BlockPlan | MovedBlocks]):
    """SuperPoD jobs (P1 to P8)."""

    def __init__(self, session: Session, job: Job, policy: ChipPolicy, pods: Sequence[Pod]) -> None:
        super().__init__(session, job, policy, pods)
        self._superpods = session.topology.superpods(session.state, self.super_pod_size)
        #: Candidate nodes by SuperPoD, in the order in which they are taken.
        self._free = {
            superpod: [node for node in nodes if node in self.usable.masks]
            for superpod, nodes in self._superpods.nodes_of.items()
        }
        self._nodes = [node for members in self._free.values() for node in members]
        self._classes = self.usable.classes({self.ranks[pod.uid]: pod for pod in self.waiting}, self._nodes)

    def answer(self, avoided: Set[NodeId]) -> BlockPlan | MovedBlocks | Reason:
        free: Mapping[SuperPodId, list[NodeId]] = self._free
        if avoided:
            free = {
                superpod: [node for node in members if node not in avoided]
                for superpod, members in free.items()
            }
        return self._again(free) if self.places else self._fresh(free)

    def _fresh(self, free: Mapping[SuperPodId, list[NodeId]]) -> BlockPlan | Reason:
        policy = self.policy
        if not policy.multi_pod:
            fleet = self.session.state.fleets[policy.resource]
            idle = {
                superpod: [(node, fleet.free_mask[int(node)].bit_count()) for node in nodes]
                for superpod, nodes in free.items()
            }
            return plan_one_pod(idle, self._settings)
        size, blocks = policy.block_nodes or 1, policy.blocks or 1
        return pack(
            dict(free), self._request({one: (one * size, size) for one in range(blocks)}), self._settings
        )

    def _again(self, free: Mapping[SuperPodId, list[NodeId]]) -> MovedBlocks | Reason:
        """After a fault (P7)."""
        session, job, state = self.session, self.job, self.session.state
        placed = [
            BlockMember(rank, node, notes.get(SUPER_POD_RANK), notes.get(SUPER_POD_ID))
            for rank, node, notes in self.places
        ]
        size = self.policy.block_nodes or 1
        old = previous_blocks(placed, nodes_per_block=size, pod_count=block_pod_count(job))
        if isinstance(old, Reason):
            return old
        running, first = running_nodes(state, job), first_ranks(old)
        request = self._request({one.logical: (first[one.logical], len(one.nodes)) for one in old})
        fault = BlockFault(running, faulty_nodes(session, job), self.release(running))
        answer = reschedule(old, free, request, fault, self._settings)
        return naming_nodes(answer, state) if isinstance(answer, Reason) else answer

    @property
    def _settings(self) -> SuperPodSettings:
        settings = self.session.settings
        return SuperPodSettings(
            self.super_pod_size, settings.reserve_nodes, Packing(settings.superpod_packing)
        )

    def _request(self, blocks: Mapping[int, tuple[int, int]]) -> BlockRequest:
        """For these blocks, given by first rank and size. Pods that run need no node."""
        policy, classes, pods = self.policy, self._classes, None
        if classes is not None:
            of_block = {
                logical: [classes.of_rank.get(rank, 0) for rank in range(first, first + size)]
                for logical, (first, size) in blocks.items()
            }
            pods = BlockPods(of_block, classes.of_node, classes.spend)
        chips = policy.board.chips_per_node
        return BlockRequest(policy.block_nodes or 1, policy.blocks or 1, policy.soft, chips, pods, self.least)

    def explain(self, reason: Reason) -> Reason:
        _, outlook = level_of(self.session, self.job)
        if outlook and reason.code == BLOCK_CANNOT_REFILL.code:
            reason = reason.with_hints([outlook])
        if self._classes is not None:
            least = len(self.waiting) if self.least is None else max(1, self.least)
            reason = self.usable.explain(reason, self._nodes, least, "of SuperPoDs")
        return _hinting(reason, self._superpods)

    def as_plan(self, answer: BlockPlan | MovedBlocks) -> JobPlan:
        slots = blocks_by_rank(answer.blocks, answer.first_ranks if isinstance(answer, MovedBlocks) else None)
        plan = JobPlan({}, lines=tuple(map(_line, sorted(answer.blocks, key=lambda block: block.logical))))
        placements = self.session.state.pods
        for pod in self.waiting:
            rank = self.ranks[pod.uid]
            if rank not in slots or placements[pod.uid].node >= 0:
                continue
            block, place = slots[rank]
            plan.nodes[pod.uid] = int(block.nodes[place])
            plan.annotations[pod.uid] = block_annotations(block)
        return plan


def near_in_superpod(session: Session) -> Near:
    """P7: the SuperPoD of a node."""
    superpods = session.topology.superpods(session.state, session.settings.super_pod_size)

    def of(node: NodeId) -> tuple[str, Sequence[NodeId]]:
        superpod = superpods.superpod_of.get(node)
        nodes = () if superpod is None else superpods.nodes_of[superpod]
        return f"SuperPoD {superpod}", nodes

    return of


def naming_nodes(reason: Reason, state: ClusterState) -> Reason:
    """Placement knows nodes by their numbers; people know them by their names."""
    if reason.kind is not WAIT_FOR_OLD_NODES:
        return reason
    numbers = reason.details["nodes"]
    names = sorted((state.names[number] for number in numbers), key=natural_key)
    return reason.with_details({**reason.details, "nodes": first_of(names, _NAMED, "{n} more")})


def level_of(session: Session, job: Job) -> tuple[Level, str]:
    """F2: how far lost pods may go now, and what time alone will change."""
    clock = job.clock
    if clock is not None:
        return clock.level, clock.outlook
    if placed_pods(session.state, job) >= needed_pods(job):
        least = counted(needed_pods(job), "pod")
        return Level.POD, f"the job has its {least} of minAvailable, so lost pods wait at pod level"
    # It was never complete: no pod is lost.
    return Level.JOB, ""


def release_of(session: Session, job: Job) -> Release:
    """P7: how far the healthy old nodes of the job are released; it is tried again when that changes."""
    now, grace = session.now, session.settings.grace_over_time * SECOND
    going = [
        pod
        for uid, pod in job.terminating.items()
        if uid in job.pods and job.pods[uid].cls.chips and not pod.faulty
    ]
    ids = session.state.node_id
    given_up = {ids[pod.node] for pod in going if pod.since + grace <= now and pod.node in ids}
    ends = [pod.since + grace for pod in going if pod.since + grace > now]
    if ends:
        session.retry_at(job, min(ends))
        return Release(0, given_up)
    lost = max((one.lost for one in job.previous_nodes.values() if not one.faulty), default=None)
    if lost is None:
        return Release(given_up=given_up)
    end = lost + WAIT_SECONDS * SECOND + 1
    if end > now:
        session.retry_at(job, end)
    return Release((now - lost) / SECOND, given_up)


def running_nodes(state: ClusterState, job: Job) -> set[NodeId]:
    """The nodes of its pods that stay."""
    return {
        state.pods[uid].node
        for uid, pod in job.pods.items()
        if pod.cls.chips and state.pods[uid].node >= 0 and not pod.deleting
    }


def faulty_nodes(session: Session, job: Job) -> set[NodeId]:
    """Its previous nodes to which no pod returns, and those that broke it (F3)."""
    ids = session.state.node_id
    faulty = (one.node for one in job.previous_nodes.values() if one.faulty)
    return {*(ids[node] for node in faulty if node in ids), *cooling_nodes(session, job)}


def fewest_pods(session: Session, job: Job, waiting: Sequence[Pod]) -> int | None:
    """Fewest of the waiting pods with chips that must get a node now; None: all (P8)."""
    without_chips = sum(
        not pod.cls.chips and not pod.cls.best_effort and session.is_pending(pod) for pod in job.pods.values()
    )
    fewest = max(0, missing_pods(session, job) - without_chips)
    return None if fewest >= len(waiting) else fewest


def dense_ranks(job: Job) -> dict[str, int]:
    """Positions in the blocks: the ranks, or, where ranks have gaps, 0, 1, 2 ... in their order.

    A gap that a lost pod left stays open for the pod that replaces it.
    """
    ranks, pods = ranks_of(job), block_pod_count(job)
    asking = sorted((pod.uid for pod in job.chip_pods), key=lambda uid: ranks[uid])
    if all(ranks[uid] < pods for uid in asking):
        return {uid: ranks[uid] for uid in asking}
    return {uid: place for place, uid in enumerate(asking)}


def member_places(
    job: Job, ranks: Mapping[str, int], state: ClusterState
) -> list[tuple[int, int, Mapping[str, str]]]:
    """Position, node and annotations of every pod that has a node, and of lost ones as far as known (P7, R2).

    `ranks` are those of `dense_ranks`. A pod that terminates while its replacement waits shows where that
    belongs.
    """
    positions = {rank: ranks[uid] for uid, rank in ranks_of(job).items() if uid in ranks}
    places: dict[int, tuple[int, Mapping[str, str]]] = {}
    replaced: list[Pod] = []
    for uid, pod in job.pods.items():
        if not pod.cls.chips or state.pods[uid].node < 0 or uid in job.backups:
            continue
        if uid in ranks:
            places[ranks[uid]] = (state.pods[uid].node, pod.annotations)
        else:
            replaced.append(pod)
    for pod in replaced:
        rank = pod.rank or 0
        places.setdefault(positions.get(rank, rank), (state.pods[pod.uid].node, pod.annotations))
    for rank, previous in sorted(job.previous_nodes.items()):
        node = state.node_id.get(previous.node)
        if node is not None:
            places.setdefault(positions.get(rank, rank), (node, previous.annotations))
    return [(rank, node, annotations) for rank, (node, annotations) in places.items()]


def _line(block: Block) -> str:
    return (
        f"block {block.logical}: SuperPoD {block.superpod}, {counted(block.size, 'node')}, "
        f"{block.origin.value}"
    )


def _hinting(reason: Reason, superpods: SuperPods) -> Reason:
    """P6: nodes without a valid SuperPoD id are left out; the reason of a pending job names them.

    Servers that are in no SuperPoD beside those that are, as in a mixed cluster, are not a fault.
    """
    problems = [one for one in superpods.problems if one.code != SUPERPOD_NONE.code or not superpods.nodes_of]
    if not problems:
        return reason
    return reason.with_hints(f"the SuperPoD ids have a fault: {problem.message}" for problem in problems[:4])


def block_annotations(block: Block) -> dict[str, str]:
    """Rule P7: the logical and the physical SuperPoD of a pod of this block.

    After a restart of the scheduler the block map of the job is read from these two.
    """
    return {SUPER_POD_RANK: str(block.logical), SUPER_POD_ID: str(block.superpod)}
