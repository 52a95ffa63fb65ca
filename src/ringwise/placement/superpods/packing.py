"""Find SuperPoDs for all blocks of a job, or the reason with its numbers (rules P1 to P6)."""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterable, Mapping, Sequence

from ringwise.grammar import counted
from ringwise.placement.reasons import NOT_ENOUGH_BLOCKS, NOT_ENOUGH_NODES
from ringwise.placement.superpods.blocks import Block, BlockAssignment, BlockPlan, Free, FreeBySuperPod
from ringwise.placement.superpods.differing import BlockPods, DifferingAssignment
from ringwise.placement.superpods.per_block import pack_per_block
from ringwise.placement.superpods.whole_job import pack_whole_job
from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.topology.reasons import SUPERPOD_OVERSIZE
from ringwise.topology.superpods import NodeId, SuperPodId, order_key

#: A message names this many SuperPoDs, the freest ones; the rest are counted.
_LISTED = 8


class Packing(enum.Enum):
    """Rule P5: the documents' order, or the order of Volcano with Huawei's plugin."""

    WHOLE_JOB = "whole-job"
    PER_BLOCK = "per-block"


@dataclass(frozen=True, slots=True)
class SuperPodSettings:
    super_pod_size: int
    reserve_nodes: int
    packing: Packing = Packing.WHOLE_JOB


@dataclass(frozen=True, slots=True)
class BlockRequest:
    """Blocks of a job, with one pod on each node."""

    nodes_per_block: int
    blocks: int
    #: A job that lacks whole blocks may use fragments (P4): each becomes a block with an id of its own.
    soft: bool = False
    #: Only makes fixes more exact.
    chips_per_node: int | None = None
    #: If pods differ.
    pods: BlockPods | None = None
    #: So many pods are enough, in whole blocks up to the first that is missing (P8); None: all.
    minimum: int | None = None
    #: None: 0, 1, 2 ...
    logical_ids: Iterable[int] | None = None


def plan(free: FreeBySuperPod, request: BlockRequest, settings: SuperPodSettings) -> BlockPlan | Reason:
    """Rules P2 to P5: a place for all blocks, or for as many as the request needs.

    `free` gives each SuperPoD's free nodes, as a count or in the order in which they are to be taken.
    """
    nodes_per_block, blocks, soft = request.nodes_per_block, request.blocks, request.soft
    logical_ids, minimum, reserve = request.logical_ids, request.minimum, settings.reserve_nodes
    if nodes_per_block < 1 or blocks < 0:
        raise ValueError(
            f"a job is divided into whole blocks, not into {blocks} of {counted(nodes_per_block, 'node')}"
        )
    pack = pack_whole_job if settings.packing is Packing.WHOLE_JOB else pack_per_block
    if (pods := request.pods) is not None:
        ids = list(itertools.islice(itertools.count() if logical_ids is None else logical_ids, blocks))

        def packed(softly: bool) -> DifferingAssignment:
            differing = DifferingAssignment(free, ids, pods)
            pack(differing, nodes_per_block, blocks, reserve, softly)
            return differing

        problem = check_counts(BlockAssignment(free).counts(), settings.super_pod_size)
        if problem is not None:
            return problem
        done = packed(soft)
        if not done.open:
            return BlockPlan(tuple(done.blocks))
        start = _first_blocks(done.blocks, ids, minimum)
        if start is not None:
            return BlockPlan(start)
        softly = not soft and not packed(True).open
        return _differing_reason(DifferingAssignment(free, ids, pods), done, nodes_per_block, softly)
    assignment = BlockAssignment(free, logical_ids)
    problem = check_counts(assignment.counts(), settings.super_pod_size)
    if problem is not None:
        return problem
    problem = _check_room(assignment, nodes_per_block, blocks, soft, request.chips_per_node)
    if problem is None:
        pack(assignment, nodes_per_block, blocks, reserve, soft)
        return BlockPlan(tuple(assignment.blocks))
    if minimum is None or minimum >= blocks * nodes_per_block:
        return problem
    pack(assignment, nodes_per_block, blocks, reserve, False)
    held = sum(block.size for block in assignment.blocks)
    return BlockPlan(tuple(assignment.blocks)) if held >= max(1, minimum) else problem


def _first_blocks(
    placed: Sequence[Block], ids: Sequence[int], minimum: int | None
) -> tuple[Block, ...] | None:
    """Rule P8: the placed blocks up to the first that is missing, if they are enough to start with."""
    if minimum is None:
        return None
    placed_ids = {block.logical for block in placed}
    first = set(itertools.takewhile(lambda logical: logical in placed_ids, ids))
    start = tuple(block for block in placed if block.logical in first)
    return start if sum(block.size for block in start) >= max(1, minimum) else None


def _differing_reason(
    free: DifferingAssignment, done: DifferingAssignment, nodes_per_block: int, softly: bool
) -> Reason:
    blocks = len(free.open)
    reason = _no_room(free, nodes_per_block, blocks, len(done.blocks))
    pods, total = blocks * nodes_per_block, sum(free.free)
    return reason.with_fixes([_soft_fix(total, pods)]) if softly and total >= pods else reason


def _no_room(free: BlockAssignment, nodes_per_block: int, blocks: int, held: int) -> Reason:
    """The SuperPoDs have too few nodes for the blocks, or room for `held` of them."""
    pods, total = blocks * nodes_per_block, sum(free.free)
    listing, superpods = _listing(free), _freest(free)
    if total < pods:
        return NOT_ENOUGH_NODES(
            pods=pods, free=total, missing=pods - total, listing=listing, superpods=superpods
        )
    nearest, short_by = _nearest_to_one_more(free, nodes_per_block)
    return NOT_ENOUGH_BLOCKS(
        blocks=blocks,
        block_nodes=nodes_per_block,
        held=held,
        listing=listing,
        superpods=superpods,
        nearest=nearest,
        short_by=short_by,
    )


def _soft_fix(free: int, pods: int) -> str:
    return (
        "label the job super-pod-affinity: soft: "
        f"then blocks may be split, and the {counted(free, 'free node')} hold its {counted(pods, 'pod')}"
    )


def plan_one_pod(
    idle: Mapping[SuperPodId, Sequence[tuple[NodeId, int]]], settings: SuperPodSettings
) -> BlockPlan | Reason:
    """A node for a job of one pod. `idle` gives (node, idle chips) of the nodes that can take it.

    Only the nodes with the fewest idle chips are candidates, so that emptier nodes stay whole.
    """
    counts = ((superpod, len(idle[superpod])) for superpod in sorted(idle, key=order_key))
    problem = check_counts(counts, settings.super_pod_size)
    if problem is not None:
        return problem
    fewest = min((chips for nodes in idle.values() for _, chips in nodes), default=0)
    fullest: dict[SuperPodId, Free] = {
        superpod: [node for node, chips in nodes if chips == fewest] for superpod, nodes in idle.items()
    }
    return plan(fullest, BlockRequest(1, 1), settings)


def check_counts(counts: Iterable[tuple[SuperPodId, int]], super_pod_size: int) -> Reason | None:
    """Rule P6: more free nodes than `super-pod-size` are an error: an id or the setting is wrong."""
    for superpod, count in counts:
        if count < 0:
            raise ValueError(f"SuperPoD {superpod} cannot have {counted(count, 'free node')}")
        if count > super_pod_size:
            return SUPERPOD_OVERSIZE(
                superpod=superpod, nodes=count, what="free node", super_pod_size=super_pod_size
            )
    return None


def _check_room(
    assignment: BlockAssignment, nodes_per_block: int, blocks: int, soft: bool, chips_per_node: int | None
) -> Reason | None:
    """Every whole block can be used, the reserve included, so counting decides before packing."""
    pods = blocks * nodes_per_block
    enough = sum(assignment.free) >= pods
    held = _blocks_held(assignment.free, nodes_per_block)
    if enough and (soft or held >= blocks):
        return None
    reason = _no_room(assignment, nodes_per_block, blocks, held)
    return reason.with_fixes(_fixes(assignment, nodes_per_block, pods, chips_per_node)) if enough else reason


def _fixes(
    assignment: BlockAssignment, nodes_per_block: int, pods: int, chips_per_node: int | None
) -> list[str]:
    """What would place the job now. Fewer reserve-nodes would not: queue 2 (P4) uses the reserve anyway."""
    fixes = [_soft_fix(sum(assignment.free), pods)]
    for smaller in range(nodes_per_block - 1, 0, -1):
        if pods % smaller == 0 and _blocks_held(assignment.free, smaller) * smaller >= pods:
            written = (
                "a smaller sp-block" if chips_per_node is None else f'sp-block: "{smaller * chips_per_node}"'
            )
            fixes.append(f"{written}: blocks of {counted(smaller, 'node')} fit now")
            break
    return fixes


def _blocks_held(free: Iterable[int], nodes_per_block: int) -> int:
    return sum(count // nodes_per_block for count in free)


def _nearest_to_one_more(assignment: BlockAssignment, nodes_per_block: int) -> tuple[SuperPodId, int]:
    """The SuperPoD that lacks fewest nodes for one more block, and how many it lacks."""
    short = [nodes_per_block - count % nodes_per_block for count in assignment.free]
    position = short.index(min(short))
    return assignment.counts()[position][0], short[position]


def _freest(assignment: BlockAssignment) -> dict[SuperPodId, int]:
    with_room = [(superpod, count) for superpod, count in assignment.counts() if count]
    return dict(sorted(with_room, key=lambda entry: -entry[1])[:_LISTED])


def _listing(assignment: BlockAssignment) -> str:
    """`SuperPoD 0 has 10 free, 3 has 6`"""
    if not assignment.free:
        return "there is no SuperPoD"
    freest = _freest(assignment)
    if not freest:
        return f"none of {len(assignment.free)} has a free node"
    parts = [
        f"{superpod} has {count}" if position else f"SuperPoD {superpod} has {count} free"
        for position, (superpod, count) in enumerate(freest.items())
    ]
    others = len(assignment.free) - len(freest)
    if others:
        most = f"at most {min(freest.values())}" if len(freest) == _LISTED else "none"
        parts.append(f"{counted(others, 'more has', 'more have')} {most}")
    return ", ".join(parts)
