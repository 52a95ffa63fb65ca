"""The previous blocks of a job (rule P7), read from the annotations of its pods.

Every placed pod names its logical and its physical SuperPoD, so the block map can
be read back after a restart of the scheduler. What no pod names stays unknown; it
is never guessed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from ringwise.placement.reasons import BLOCKS_DISAGREE
from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.topology.numbers import whole_number
from ringwise.topology.superpods import NodeId, SuperPodId, order_key


@dataclass(frozen=True, slots=True)
class PreviousBlock:
    """A block before the fault. `nodes` by position in the block; None where the node is unknown."""

    logical: int
    superpod: SuperPodId | None
    nodes: tuple[NodeId | None, ...]


@dataclass(frozen=True, slots=True)
class BlockMember:
    """A pod of the job: its rank, its node, and its two annotations as written."""

    rank: int | None
    node: NodeId | None
    super_pod_rank: str | None = None
    super_pod_id: str | None = None


def previous_blocks(
    pods: Iterable[BlockMember], *, nodes_per_block: int, pod_count: int
) -> tuple[PreviousBlock, ...] | Reason:
    """Rule P7: the block map from the pods; `pod_count` counts all NPU pods of the job, lost ones included.

    A block of which no pod is known has unknown nodes. Pods that contradict each
    other about a block give a reason.
    """
    placed = sorted(_annotated(pods), key=lambda entry: entry[:2])
    block_of = {rank: logical for rank, _, logical, _ in placed if 0 <= rank < pod_count}
    logical_of_rank = _logical_ids(block_of, nodes_per_block, pod_count)
    if isinstance(logical_of_rank, Reason):
        return logical_of_rank
    ranks_of: dict[int, list[int]] = {}
    for rank, logical in enumerate(logical_of_rank):
        ranks_of.setdefault(logical, []).append(rank)
    blocks = []
    for logical in sorted(ranks_of):
        block = _previous_block(
            logical, ranks_of[logical], [entry for entry in placed if entry[2] == logical]
        )
        if isinstance(block, Reason):
            return block
        blocks.append(block)
    return tuple(blocks)


#: Pods without a rank are sorted behind all ranks.
_UNRANKED = 2**62

#: Rank, position of the node in natural order, logical id, the pod.
_Ranked: TypeAlias = tuple[int, int, int, BlockMember]


def _annotated(pods: Iterable[BlockMember]) -> list[_Ranked]:
    """Pods that name their block, with their rank and the position of their node in natural order."""
    annotated = [
        (pod, logical)
        for pod in pods
        if pod.node is not None
        and pod.super_pod_id
        and pod.super_pod_rank
        and (logical := whole_number(pod.super_pod_rank)) is not None
        and logical >= 0
    ]
    annotated.sort(key=lambda entry: order_key(entry[0].node if entry[0].node is not None else ""))
    return [
        (_UNRANKED if pod.rank is None else pod.rank, position, logical, pod)
        for position, (pod, logical) in enumerate(annotated)
    ]


def _logical_ids(block_of: dict[int, int], nodes_per_block: int, pod_count: int) -> list[int] | Reason:
    """The logical id of every rank."""
    if all(rank // nodes_per_block == logical for rank, logical in block_of.items()):
        return [rank // nodes_per_block for rank in range(pod_count)]
    ranks = sorted(block_of)
    for before, after in itertools.pairwise(ranks):
        if block_of[before] > block_of[after]:
            return BLOCKS_DISAGREE(
                block=block_of[after],
                says=f"rank {before} is in block {block_of[before]}, rank {after} in {block_of[after]}",
            )
    return _uneven_ids(block_of, ranks, nodes_per_block, pod_count)


def _uneven_ids(
    block_of: dict[int, int], ranks: Sequence[int], nodes_per_block: int, pod_count: int
) -> list[int]:
    """Fragments have any size: a lost rank joins the block before it while that has room, else the next."""
    logical_of_rank: list[int] = []
    current, size = 0, 0
    for rank in range(pod_count):
        if rank in block_of:
            logical = block_of[rank]
        else:
            following = next((block_of[later] for later in ranks if later > rank), None)
            full = size >= nodes_per_block and current != following
            logical = current + 1 if full else current
        size = size + 1 if logical == current else 1
        current = logical
        logical_of_rank.append(logical)
    return logical_of_rank


def _previous_block(logical: int, ranks: Sequence[int], placed: Sequence[_Ranked]) -> PreviousBlock | Reason:
    superpods = sorted({pod.super_pod_id for _, _, _, pod in placed if pod.super_pod_id}, key=order_key)
    if len(superpods) > 1:
        return BLOCKS_DISAGREE(block=logical, says="SuperPoD " + " and ".join(superpods))
    nodes: list[NodeId | None] = [None] * len(ranks)
    without_position = []
    for rank, _, _, pod in placed:
        place = rank - ranks[0]
        if 0 <= place < len(nodes) and nodes[place] is None:
            nodes[place] = pod.node
        else:
            without_position.append(pod)
    for pod in without_position:
        if None in nodes:
            nodes[nodes.index(None)] = pod.node
    return PreviousBlock(logical, _superpod_id(superpods[0]) if superpods else None, tuple(nodes))


def _superpod_id(text: str) -> SuperPodId:
    number = whole_number(text)
    return text if number is None else number
