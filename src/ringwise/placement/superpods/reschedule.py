"""Rescheduling after a fault (rule P7): intact blocks stay, broken ones refill, else the whole block moves.

A position in a block is intact when its pod still runs there, or when its previous
node is free again and was not the faulty one. Intact positions are held for their
block before any other block chooses, so that a broken block never takes them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence, Set
from dataclasses import field
from typing import TypeGuard

from ringwise.placement.reasons import (
    BLOCK_CANNOT_REFILL,
    WAIT_FOR_OLD_NODES,
)
from ringwise.placement.superpods.blocks import Block, Free, Origin
from ringwise.placement.superpods.packing import SuperPodSettings, plan
from ringwise.placement.superpods.previous_blocks import PreviousBlock
from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.topology.superpods import NodeId, SuperPodId, order_key

#: How long a job waits for its own healthy nodes; terminating pods release them with a delay.
WAIT_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Rescheduled:
    """All blocks of the job by logical id, and which of them moved."""

    blocks: tuple[Block, ...]
    moved: tuple[int, ...]


def must_wait(seconds: float, healthy_previous_nodes: Set[NodeId], candidates: Set[NodeId]) -> Reason | None:
    """The reason to wait, for a limited time, while healthy previous nodes are not free yet."""
    missing = healthy_previous_nodes - candidates
    if not missing or seconds > WAIT_SECONDS:
        return None
    return WAIT_FOR_OLD_NODES(
        limit=WAIT_SECONDS, seconds=round(seconds, 1), nodes=sorted(missing, key=order_key)
    )


def reschedule(
    old: Sequence[PreviousBlock],
    free: Mapping[SuperPodId, Sequence[NodeId]],
    *,
    running: Set[NodeId],
    faulty: Set[NodeId],
    nodes_per_block: int,
    soft: bool,
    settings: SuperPodSettings,
    seconds_since_fault: float,
    chips_per_node: int | None = None,
) -> Rescheduled | Reason:
    """Rule P7: nodes for a job that was placed before, or why it waits.

    `free` are the nodes that can take a pod of this job now, in the order in which they
    are to be taken; `running` the nodes where its pods stay; `faulty` the nodes with the fault.
    """
    for block in old:
        if not block.nodes:
            raise ValueError(f"block {block.logical} has no nodes")
    pool = _NodePool(old, free, running, faulty)
    reason = must_wait(seconds_since_fault, pool.healthy_previous_nodes(), pool.candidates.keys())
    if reason is not None:
        return reason
    placed: list[Block] = []
    broken: list[PreviousBlock] = []
    for block in old:
        if pool.is_intact(block):
            placed.append(_placed(block, block.nodes, Origin.KEPT))
        else:
            broken.append(block)
    moving: list[PreviousBlock] = []
    # Fewest lost positions first: so most blocks can stay where they are.
    for block in sorted(broken, key=lambda block: (pool.lost_positions(block), block.logical)):
        nodes = pool.refill(block)
        if nodes is not None:
            placed.append(_placed(block, nodes, Origin.REFILLED))
        elif pool.running_pods(block):
            return pool.cannot_refill(block)
        else:
            pool.release(block)
            moving.append(block)
    groups = _groups(moving, nodes_per_block, may_split=soft and not running)
    next_id = max((block.logical for block in old), default=-1) + 1
    moved = _move(
        pool.unheld(with_faulty=False), groups, next_id, soft and not running, settings, chips_per_node
    )
    if isinstance(moved, Reason):
        # The faulty nodes are used when nothing else fits.
        moved = _move(
            pool.unheld(with_faulty=True), groups, next_id, soft and not running, settings, chips_per_node
        )
    if isinstance(moved, Reason):
        return _without_soft_cure(moved) if soft and running else moved
    blocks = sorted([*placed, *moved], key=lambda block: block.logical)
    return Rescheduled(tuple(blocks), tuple(sorted(block.logical for block in moved)))


@dataclass(slots=True)
class _NodePool:
    """Free nodes, and which of them are held, while blocks are rescheduled."""

    old: Sequence[PreviousBlock]
    free: Mapping[SuperPodId, Sequence[NodeId]]
    running: Set[NodeId]
    faulty: Set[NodeId]
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
        self.held = {node for block in self.old for node in block.nodes if self._is_intact(node, block)}

    def _is_intact(self, node: NodeId | None, block: PreviousBlock) -> TypeGuard[NodeId]:
        if node is None:
            return False
        free_again = node not in self.faulty and self.candidates.get(node) == block.superpod
        return node in self.running or free_again

    def healthy_previous_nodes(self) -> set[NodeId]:
        return self.used_before - self.running - self.faulty

    def is_intact(self, block: PreviousBlock) -> bool:
        return all(self._is_intact(node, block) for node in block.nodes)

    def lost_positions(self, block: PreviousBlock) -> int:
        return sum(not self._is_intact(node, block) for node in block.nodes)

    def running_pods(self, block: PreviousBlock) -> int:
        return sum(node in self.running for node in block.nodes)

    def _spare(self, superpod: SuperPodId | None) -> list[NodeId]:
        """Free nodes that are not held: new ones first, then the job's previous ones, then faulty ones."""
        nodes = () if superpod is None else self.free.get(superpod, ())
        spare = [node for node in nodes if node in self.candidates and node not in self.held]
        return sorted(spare, key=lambda node: (node in self.faulty, node in self.used_before))

    def refill(self, block: PreviousBlock) -> tuple[NodeId, ...] | None:
        """The block with its lost positions filled inside its own SuperPoD, or None if that lacks room."""
        spare = self._spare(block.superpod)
        nodes: list[NodeId] = []
        for node in block.nodes:
            if self._is_intact(node, block):
                nodes.append(node)
                continue
            if not spare:
                return None
            nodes.append(spare.pop(0))
        self.held.update(nodes)
        return tuple(nodes)

    def release(self, block: PreviousBlock) -> None:
        """Release the block's intact positions. Other jobs may have its other previous nodes by now."""
        self.held.difference_update(node for node in block.nodes if self._is_intact(node, block))

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
    known = tuple(node for node in nodes if node is not None)
    if block.superpod is None or len(known) != len(nodes):
        raise ValueError(f"block {block.logical} has unknown nodes and cannot be {origin.value}")
    return Block(block.logical, block.superpod, len(known), known, origin)


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
    next_id: int,
    soft: bool,
    settings: SuperPodSettings,
    chips_per_node: int | None,
) -> list[Block] | Reason:
    """Places whole blocks by the packing rules, one group after the other; all or nothing."""
    moved: list[Block] = []
    taken: set[NodeId] = set()
    new_ids = itertools.count(next_id)
    for size, blocks, ids in groups:
        left: dict[SuperPodId, Free] = {
            superpod: [node for node in nodes if node not in taken] for superpod, nodes in pool.items()
        }
        answer = plan(
            left,
            nodes_per_block=size,
            blocks=blocks,
            reserve=settings.reserve_nodes,
            super_pod_size=settings.super_pod_size,
            soft=soft,
            packing=settings.packing,
            chips_per_node=chips_per_node,
            logical_ids=itertools.chain(ids, new_ids),
        )
        if isinstance(answer, Reason):
            return answer
        moved.extend(answer.blocks)
        taken.update(node for block in answer.blocks for node in block.nodes)
    return moved


def _without_soft_cure(reason: Reason) -> Reason:
    """The job is already soft, but its running pods keep their ranks, so its blocks cannot be split now."""
    return reason.with_cures(
        ["stop the job's running pods: a soft job is split only when all its pods are placed anew"]
    )
