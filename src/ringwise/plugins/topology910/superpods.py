"""SuperPoD jobs (P1 to P8): translates between the session and the packing rules of `placement`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import TypeVar

from ringwise.durations import SECOND
from ringwise.framework.evictions.recently_faulty_chips import cooling_nodes, may_use_all
from ringwise.framework.extension_points import JobPlan
from ringwise.framework.gangs.gang_count import needed_pods, placed_pods
from ringwise.framework.gangs.gang_placement import missing_pods
from ringwise.framework.gangs.ranks import block_pod_count, ranks_of
from ringwise.framework.job import Job
from ringwise.framework.policy import ChipPolicy
from ringwise.framework.session import Session
from ringwise.grammar import counted, listed
from ringwise.placement.matching import PodClasses
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
from ringwise.plugins.topology910.candidates import Candidates, candidates
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


class SuperPodPlanner:
    def __init__(self, session: Session) -> None:
        self._session = session

    def plan(self, job: Job, policy: ChipPolicy, pods: Sequence[Pod]) -> JobPlan | Reason:
        pending = [pod for pod in pods if pod.cls.chips]
        if not pending:
            return JobPlan({})
        ranks = dense_ranks(job)
        pending.sort(key=lambda pod: ranks[pod.uid])
        session = self._session
        superpods = session.topology.superpods(session.state, session.settings.super_pod_size)
        usable = candidates(session, job, pending)
        free = _by_superpod(usable, superpods)
        nodes = [node for members in free.values() for node in members]
        classes = usable.classes({ranks[pod.uid]: pod for pod in pending}, nodes)
        least = fewest_pods(session, job, pending)
        # The blocks of running pods, and of lost ones as far as their previous nodes are known.
        placed = [_place(*place) for place in member_places(job, ranks, session.state)]
        if not placed and len(pending) < (policy.blocks or 0) * (policy.block_nodes or 0):
            return PODS_MISSING(pods=len(pending), all=job.chip_pod_count)

        def answer_without(avoided: Set[NodeId]) -> BlockPlan | MovedBlocks | Reason:
            left: Mapping[SuperPodId, list[NodeId]] = free
            if avoided:
                left = {
                    superpod: [node for node in members if node not in avoided]
                    for superpod, members in free.items()
                }
            if placed:
                return self._again(job, policy, left, placed, classes, least)
            return self._fresh(policy, left, classes, least)

        answer: BlockPlan | MovedBlocks | Reason = avoiding(session, job, answer_without, again=bool(placed))
        if isinstance(answer, Reason):
            _, outlook = level_of(session, job)
            if outlook and answer.code == BLOCK_CANNOT_REFILL.code:
                answer = answer.with_hints([outlook])
            if classes is not None:
                least = len(pending) if least is None else max(1, least)
                answer = usable.explain(answer, nodes, least, "of SuperPoDs")
            return _hinting(answer, superpods)
        return _as_plan(answer, pending, ranks, session)

    def near(self) -> Near:
        """P7: the SuperPoD of a node."""
        session = self._session
        superpods = session.topology.superpods(session.state, session.settings.super_pod_size)

        def of(node: NodeId) -> tuple[str, Sequence[NodeId]]:
            superpod = superpods.superpod_of.get(node)
            nodes = () if superpod is None else superpods.nodes_of[superpod]
            return f"SuperPoD {superpod}", nodes

        return of

    # -- first time --------------------------------------------------------------------

    def _fresh(
        self,
        policy: ChipPolicy,
        free: Mapping[SuperPodId, list[NodeId]],
        classes: PodClasses | None,
        least: int | None,
    ) -> BlockPlan | Reason:
        if not policy.multi_pod:
            fleet = self._session.state.fleets[policy.resource]
            idle = {
                superpod: [(node, fleet.free_mask[int(node)].bit_count()) for node in nodes]
                for superpod, nodes in free.items()
            }
            return plan_one_pod(idle, self._settings)
        block_nodes, blocks = policy.block_nodes or 1, policy.blocks or 1
        pods = _block_pods(classes, {block: (block * block_nodes, block_nodes) for block in range(blocks)})
        return pack(dict(free), _request(policy, pods, least), self._settings)

    @property
    def _settings(self) -> SuperPodSettings:
        settings = self._session.settings
        packing = Packing(settings.superpod_packing)
        return SuperPodSettings(settings.super_pod_size, settings.reserve_nodes, packing)

    # -- after a fault (P7) -------------------------------------------------------------------

    def _again(
        self,
        job: Job,
        policy: ChipPolicy,
        free: Mapping[SuperPodId, list[NodeId]],
        placed: list[BlockMember],
        classes: PodClasses | None,
        least: int | None,
    ) -> MovedBlocks | Reason:
        session = self._session
        state = session.state
        old = previous_blocks(placed, nodes_per_block=policy.block_nodes or 1, pod_count=block_pod_count(job))
        if isinstance(old, Reason):
            return old
        running, faulty = running_nodes(state, job), faulty_nodes(session, job)
        first = first_ranks(old)
        pods = _block_pods(classes, {one.logical: (first[one.logical], len(one.nodes)) for one in old})
        fault = BlockFault(running, faulty, Release() if running else release_of(session, job))
        answer = reschedule(old, free, _request(policy, pods, least), fault, self._settings)
        return naming_nodes(answer, state) if isinstance(answer, Reason) else answer


def _request(policy: ChipPolicy, pods: BlockPods | None, least: int | None) -> BlockRequest:
    return BlockRequest(
        policy.block_nodes or 1, policy.blocks or 1, policy.soft, policy.board.chips_per_node, pods, least
    )


def naming_nodes(reason: Reason, state: ClusterState) -> Reason:
    """Placement knows nodes by their numbers; people know them by their names."""
    if reason.kind is not WAIT_FOR_OLD_NODES:
        return reason
    numbers = reason.details["nodes"]
    names = sorted((state.names[number] for number in numbers), key=natural_key)
    more = len(names) - _NAMED
    shown = [*names[:_NAMED], *([f"{more} more"] if more > 0 else ())]
    return replace(reason, details={**reason.details, "nodes": shown})


Answer = TypeVar("Answer")


def avoiding(
    session: Session, job: Job, answer: Callable[[Set[NodeId]], Answer | Reason], *, again: bool
) -> Answer | Reason:
    """F3: the answer without nodes that broke the job. Those that broke it again are used only in the end.

    The rules after a fault (`again`) have their own order for the others: the job's own SuperPoDs and racks
    come first, then the same with such nodes.
    """
    broke_again = cooling_nodes(session, job, broke_again=True)
    stages: list[set[int]] = [broke_again]
    if not again:
        stages.insert(0, cooling_nodes(session, job))
    if broke_again and may_use_all(job):
        stages.append(set())
    first: Reason | None = None
    for number, avoided in enumerate(stages):
        if avoided in stages[:number]:
            continue
        result = answer(avoided)
        if not isinstance(result, Reason):
            return result
        first = first or result
    assert isinstance(first, Reason)
    omitted = sorted((session.state.names[node] for node in broke_again), key=natural_key)
    if not omitted or may_use_all(job):
        return first
    return first.with_hints([f"nodes that broke it again are left out: {listed(omitted, _NAMED)}"])


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


def _by_superpod(usable: Candidates, superpods: SuperPods) -> dict[SuperPodId, list[NodeId]]:
    """Candidate nodes by SuperPoD, in the order in which they are taken."""
    return {
        superpod: [node for node in nodes if node in usable.masks]
        for superpod, nodes in superpods.nodes_of.items()
    }


def _block_pods(classes: PodClasses | None, blocks: Mapping[int, tuple[int, int]]) -> BlockPods | None:
    """The classes of the pods of blocks, given by first rank and size. Pods that run need no node."""
    if classes is None:
        return None
    return BlockPods(
        {
            logical: [classes.of_rank.get(rank, 0) for rank in range(first, first + size)]
            for logical, (first, size) in blocks.items()
        },
        classes.of_node,
        classes.spend,
    )


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


def _place(rank: int, node: int, annotations: Mapping[str, str]) -> BlockMember:
    return BlockMember(rank, node, annotations.get(SUPER_POD_RANK), annotations.get(SUPER_POD_ID))


def _as_plan(
    answer: BlockPlan | MovedBlocks, pending: list[Pod], ranks: dict[str, int], session: Session
) -> JobPlan:
    slots = blocks_by_rank(answer.blocks, answer.first_ranks if isinstance(answer, MovedBlocks) else None)
    plan = JobPlan({}, lines=tuple(_line(block) for block in sorted(answer.blocks, key=lambda b: b.logical)))
    placements = session.state.pods
    for pod in pending:
        rank = ranks[pod.uid]
        if rank not in slots or placements[pod.uid].node >= 0:
            continue
        block, place = slots[rank]
        plan.nodes[pod.uid] = int(block.nodes[place])
        plan.annotations[pod.uid] = block_annotations(block)
    return plan


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
