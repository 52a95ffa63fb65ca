"""Where the pods of a job were: read back from the pods themselves (R2).

A placed pod carries its block, its SuperPoD and its logical rack. A pod whose rank does not
agree with these (its owner has renumbered its pods) takes a free place of its logical rack.
"""

from __future__ import annotations

from collections.abc import Iterable

from ringwise.placement.racks.model import RackId, RackShape
from ringwise.records import dataclass
from ringwise.topology.numbers import whole_number
from ringwise.topology.superpods import NodeId, SuperPodId, order_key


@dataclass(frozen=True, slots=True)
class PreviousSlot:
    """The place a rank had. SuperPoD and rack are None where the node no longer reports them."""

    node: NodeId
    superpod: SuperPodId | None
    rack: RackId | None


@dataclass(frozen=True, slots=True)
class PreviousRackBlock:
    """A block as it was; None where no place is known."""

    logical: int
    slots: tuple[PreviousSlot | None, ...]


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """A pod of the job that has or had a node, with its annotations as they are written."""

    rank: int
    slot: PreviousSlot
    super_pod_rank: str | None = None
    logical_rack: str | None = None


def previous_blocks(pods: Iterable[PlacedPod], shape: RackShape) -> tuple[PreviousRackBlock, ...]:
    """All blocks of the job with the places that are known."""
    places: list[PreviousSlot | None] = [None] * shape.pods
    displaced: list[PlacedPod] = []
    for pod in sorted(pods, key=lambda pod: (pod.rank, order_key(pod.slot.node))):
        if 0 <= pod.rank < shape.pods and places[pod.rank] is None and _agrees(pod, shape):
            places[pod.rank] = pod.slot
        else:
            displaced.append(pod)
    for pod in displaced:
        rank = next((rank for rank in _ranks_of(pod, shape) if places[rank] is None), None)
        if rank is not None:
            places[rank] = pod.slot
    return tuple(
        PreviousRackBlock(block, tuple(places[rank] for rank in shape.ranks_of(block)))
        for block in range(shape.blocks)
    )


def _agrees(pod: PlacedPod, shape: RackShape) -> bool:
    block, group = _number(pod.super_pod_rank), _number(pod.logical_rack)
    return block in (None, shape.block_of(pod.rank)) and group in (None, shape.group_of(pod.rank))


def _ranks_of(pod: PlacedPod, shape: RackShape) -> list[int]:
    """The places a pod may stand for: those of its logical rack, then those of its block."""
    block, group = _number(pod.super_pod_rank), _number(pod.logical_rack)
    ranks: list[int] = []
    if group is not None:
        ranks += range(group * shape.nodes_per_group, (group + 1) * shape.nodes_per_group)
    if block is not None:
        ranks += shape.ranks_of(block)
    return [rank for rank in ranks if rank < shape.pods]


def _number(text: str | None) -> int | None:
    number = whole_number(text) if text else None
    return number if number is not None and number >= 0 else None
