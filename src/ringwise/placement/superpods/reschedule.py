"""Rescheduling after a fault (rule P7): intact blocks stay, broken ones refill, else the whole block moves.

A position in a block is intact when its pod still runs there, or when its previous
node is free again and was not the faulty one. Intact positions are held for their
block before any other block chooses, so that a broken block never takes them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import field, replace
from functools import partial

from ringwise.placement.node_groups import first_matching
from ringwise.placement.reasons import (
    BLOCK_CANNOT_REFILL,
    WAIT_FOR_OLD_NODES,
)
from ringwise.placement.superpods.blocks import Block, Free, Origin
from ringwise.placement.superpods.differing import BlockPods
from ringwise.placement.superpods.packing import BlockRequest, SuperPodSettings, plan
from ringwise.placement.superpods.previous_blocks import PreviousBlock
from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.topology.superpods import NodeId, SuperPodId, order_key

#: How long a job waits for its own healthy nodes; terminating pods release them with a delay.
WAIT_SECONDS = 10


@dataclass(frozen=True, slots=True)
class MovedBlocks:
    """All blocks of the job by logical id, and which of them moved."""

    blocks: tuple[Block, ...]
    moved: tuple[int, ...]
    #: The first rank of each block; None if the blocks were formed again, so that ranks follow the blocks.
    first_ranks: Mapping[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """P7: how far the healthy old nodes of a job are released."""

    #: Since the last pod on one of them is gone; 0 while one terminates there.
    seconds: float = math.inf
    #: Nodes whose pods terminate for too long: they are not waited for.
    given_up: Set[NodeId] = frozenset()


def must_wait(
    release: Release, running: Set[NodeId], healthy_previous_nodes: Set[NodeId], candidates: Set[NodeId]
) -> Reason | None:
    """P7: the reason to wait, for a limited time, while healthy previous nodes are not free yet.

    Where pods of the job still run, nothing waits: a lost pod of it goes where there is a node.
    """
    seconds = release.seconds
    missing = healthy_previous_nodes - candidates - release.given_up
    if running or not missing or seconds > WAIT_SECONDS:
        return None
    return WAIT_FOR_OLD_NODES(
        limit=WAIT_SECONDS, seconds=round(seconds, 1), nodes=sorted(missing, key=order_key)
    )


@dataclass(frozen=True, slots=True)
class BlockFault:
    """What is known when lost pods are placed again."""

    #: Nodes on which pods of the job stay.
    running: Set[NodeId]
    #: Nodes that broke the job; used again only where nothing else fits (F3).
    faulty: Set[NodeId]
    release: Release = field(default_factory=Release)


def reschedule(
    old: Sequence[PreviousBlock],
    free: Mapping[SuperPodId, Sequence[NodeId]],
    request: BlockRequest,
    fault: BlockFault,
    settings: SuperPodSettings,
) -> MovedBlocks | Reason:
    """Rule P7: nodes for a job that was placed before, or why it waits.

    `free` are the nodes that can take a pod of this job now, in the order in which they are to be taken.
    A job whose pods differ is not split again. The `blocks` of the request are not read; `minimum` is the
    number of pods without a node that must get one: the blocks of the others may wait (P8).
    """
    running, pods, minimum = fault.running, request.pods, request.minimum
    for block in old:
        if not block.nodes:
            raise ValueError(f"block {block.logical} has no nodes")
    pool = _NodePool(old, free, running, fault.faulty, pods)
    reason = must_wait(fault.release, running, pool.healthy_previous_nodes(), pool.candidates.keys())
    if reason is not None:
        return reason
    placed: list[Block] = []
    broken: list[PreviousBlock] = []
    for block in old:
        if not pool.lost_positions(block):
            placed.append(_placed(block, block.nodes, Origin.KEPT))
        else:
            broken.append(block)
    moving: list[PreviousBlock] = []
    stuck: Reason | None = None
    # Fewest lost positions first: so most blocks can stay where they are.
    for block in sorted(broken, key=lambda block: (pool.lost_positions(block), block.logical)):
        nodes = pool.refill(block)
        if nodes is not None:
            placed.append(_placed(block, nodes, Origin.REFILLED))
        elif pool.running_pods(block):
            stuck = stuck or pool.cannot_refill(block)
            if minimum is None:
                return stuck
        else:
            pool.release(block)
            moving.append(block)
    may_split = request.soft and not running and pods is None
    next_id = max((block.logical for block in old), default=-1) + 1
    move = partial(_move, request=request, settings=settings, next_id=next_id)
    groups = _groups(moving, request.nodes_per_block, may_split)
    moved = move(pool.unheld(with_faulty=False), groups, soft=may_split)
    if isinstance(moved, Reason):
        # The faulty nodes are used when nothing else fits.
        moved = move(pool.unheld(with_faulty=True), groups, soft=may_split)
    if minimum is not None and (stuck is not None or isinstance(moved, Reason)):
        # P8: whole blocks that fit are placed, the others continue to wait.
        new = sum(node not in running for block in placed for node in block.nodes)
        groups = _groups(moving, request.nodes_per_block, may_split=False)
        some = move(pool.unheld(with_faulty=False), groups, soft=False, least=max(0, minimum - new))
        if isinstance(some, Reason) or not (some or new):
            moved = stuck if stuck is not None else moved
        else:
            return _rescheduled(placed, some, old)
    if isinstance(moved, Reason):
        if not request.soft or may_split:
            return moved
        # The job is already soft, but its running pods keep their ranks, so its blocks cannot be split now.
        return moved.with_fixes(()).with_hints(
            ["a soft job is split only when all its pods are scheduled again"]
        )
    return _rescheduled(placed, moved, () if may_split else old)


def _rescheduled(
    placed: Sequence[Block], moved: Sequence[Block], old: Sequence[PreviousBlock]
) -> MovedBlocks:
    blocks = sorted([*placed, *moved], key=lambda block: block.logical)
    return MovedBlocks(
        tuple(blocks), tuple(sorted(block.logical for block in moved)), first_ranks(old) if old else None
    )


def first_ranks(old: Sequence[PreviousBlock]) -> dict[int, int]:
    """The first rank of each block."""
    result: dict[int, int] = {}
    rank = 0
    for block in sorted(old, key=lambda block: block.logical):
        result[block.logical] = rank
        rank += len(block.nodes)
    return result


@dataclass(slots=True)
class _NodePool:
    """Free nodes, and which of them are held, while blocks are rescheduled."""

    old: Sequence[PreviousBlock]
    free: Mapping[SuperPodId, Sequence[NodeId]]
    running: Set[NodeId]
    faulty: Set[NodeId]
    pods: BlockPods | None
    candidates: dict[NodeId, SuperPodId] = field(init=False)
    used_before: set[NodeId] = field(init=False)
    held: set[NodeId] = field(init=False)

    def __post_init__(self) -> None:
        self.candidates = {
            node: superpod
            for superpod, nodes in self.free.items()
            for node in nodes
            if node not in self.running
        }
        self.used_before = {node for block in self.old for node in block.nodes if node is not None}
        self.held = {node for block in self.old for node in self.intact_nodes(block)}

    def _is_intact(self, block: PreviousBlock, place: int) -> bool:
        node = block.nodes[place]
        if node is None:
            return False
        free_again = node not in self.faulty and self.candidates.get(node) == block.superpod
        if free_again and self.pods is not None:
            free_again = bool(self.pods.of_node.get(node, 0) >> self.pods.of_block[block.logical][place] & 1)
        return node in self.running or free_again

    def intact_nodes(self, block: PreviousBlock) -> list[NodeId]:
        return [
            node
            for place, node in enumerate(block.nodes)
            if node is not None and self._is_intact(block, place)
        ]

    def healthy_previous_nodes(self) -> set[NodeId]:
        return self.used_before - self.running - self.faulty

    def lost_positions(self, block: PreviousBlock) -> int:
        return len(block.nodes) - len(self.intact_nodes(block))

    def running_pods(self, block: PreviousBlock) -> int:
        return sum(node in self.running for node in block.nodes)

    def _spare(self, superpod: SuperPodId | None) -> list[NodeId]:
        """Free nodes that are not held: new ones first, then the job's previous ones, then faulty ones."""
        nodes = () if superpod is None else self.free.get(superpod, ())
        spare = [node for node in nodes if node in self.candidates and node not in self.held]
        return sorted(spare, key=lambda node: (node in self.faulty, node in self.used_before))

    def refill(self, block: PreviousBlock) -> tuple[NodeId, ...] | None:
        """The block with its lost positions filled inside its own SuperPoD, or None if that lacks room.

        F3: without nodes that broke the job where that is possible.
        """
        spare = self._spare(block.superpod)
        healthy = [node for node in spare if node not in self.faulty]
        return self._refill(block, healthy) or self._refill(block, spare)

    def _refill(self, block: PreviousBlock, spare: list[NodeId]) -> tuple[NodeId, ...] | None:
        lost = [place for place in range(len(block.nodes)) if not self._is_intact(block, place)]
        if self.pods is not None:
            classes = [self.pods.of_block[block.logical][place] for place in lost]
            masks = [self.pods.of_node.get(node, 0) for node in spare]
            chosen = first_matching(classes, masks, self.pods.spend)
            spare = [] if chosen is None else [spare[position] for position in chosen]
        if len(spare) < len(lost):
            return None
        filled = dict(zip(lost, spare, strict=False))
        nodes = [filled.get(place, node) for place, node in enumerate(block.nodes)]
        held_nodes = tuple(node for node in nodes if node is not None)
        self.held.update(held_nodes)
        return held_nodes

    def release(self, block: PreviousBlock) -> None:
        """Release the block's intact positions. Other jobs may have its other previous nodes by now."""
        self.held.difference_update(self.intact_nodes(block))

    def unheld(self, with_faulty: bool) -> dict[SuperPodId, list[NodeId]]:
        """Nodes that moving blocks may take; faulty ones last, or not at all."""
        return {
            superpod: sorted(
                (
                    node
                    for node in nodes
                    if node in self.candidates
                    and node not in self.held
                    and (with_faulty or node not in self.faulty)
                ),
                key=lambda node: node in self.faulty,
            )
            for superpod, nodes in self.free.items()
        }

    def cannot_refill(self, block: PreviousBlock) -> Reason:
        missing, free = self.lost_positions(block), len(self._spare(block.superpod))
        return BLOCK_CANNOT_REFILL(
            block=block.logical,
            missing=missing,
            block_nodes=len(block.nodes),
            superpod=block.superpod,
            free=free,
            running=self.running_pods(block),
            short_by=missing - free,
        )


def _placed(block: PreviousBlock, nodes: Sequence[NodeId | None], origin: Origin) -> Block:
    present = tuple(node for node in nodes if node is not None)
    if block.superpod is None or len(present) != len(nodes):
        raise ValueError(f"block {block.logical} has unknown nodes and cannot be {origin.value}")
    return Block(block.logical, block.superpod, len(present), present, origin)


def _groups(
    moving: Sequence[PreviousBlock], nodes_per_block: int, may_split: bool
) -> list[tuple[int, int, list[int]]]:
    """(nodes per block, blocks, logical ids) of the blocks that move together, largest blocks first.

    While other pods of the job run, every block keeps its size and its id: another size
    would shift the ranks of running pods. Where no pod runs, a soft job's
    fragments may be joined again.
    """
    pods = sum(len(block.nodes) for block in moving)
    if may_split and pods % nodes_per_block == 0:
        return [(nodes_per_block, pods // nodes_per_block, sorted(block.logical for block in moving))]
    by_size: dict[int, list[int]] = {}
    for block in sorted(moving, key=lambda block: (-len(block.nodes), block.logical)):
        by_size.setdefault(len(block.nodes), []).append(block.logical)
    return [(size, len(ids), ids) for size, ids in by_size.items()]


def _move(
    pool: Mapping[SuperPodId, Sequence[NodeId]],
    groups: Sequence[tuple[int, int, list[int]]],
    *,
    request: BlockRequest,
    settings: SuperPodSettings,
    next_id: int,
    soft: bool,
    least: int | None = None,
) -> list[Block] | Reason:
    """Places whole blocks by the packing rules, one group after the other.

    All or nothing; with `least`, as many as fit if they hold so many pods (P8).
    """
    reason: Reason | None = None
    moved: list[Block] = []
    taken: set[NodeId] = set()
    new_ids = itertools.count(next_id)
    for size, blocks, ids in groups:
        left: dict[SuperPodId, Free] = {
            superpod: [node for node in nodes if node not in taken] for superpod, nodes in pool.items()
        }
        group = replace(
            request,
            nodes_per_block=size,
            blocks=blocks,
            soft=soft,
            logical_ids=itertools.chain(ids, new_ids),
            minimum=None if least is None else 0,
        )
        answer = plan(left, group, settings)
        if isinstance(answer, Reason):
            if least is None:
                return answer
            reason = answer
            continue
        moved.extend(answer.blocks)
        taken.update(node for block in answer.blocks for node in block.nodes)
    if reason is not None and sum(block.size for block in moved) < (least or 0):
        return reason
    return moved
