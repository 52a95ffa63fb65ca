"""Blocks of inference services: each inside one rack, near other jobs of the service (R1).

Unlike training jobs they go to the emptiest racks. Logical racks, soft affinity and UB
memory play no part.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from ringwise.placement.node_groups import matched_nodes
from ringwise.placement.racks.model import FreeRacks, RackBlock, RackId, RackOrigin, RackRequest
from ringwise.placement.racks.pool import RackNodes, RackPool, in_order, merged_classes
from ringwise.placement.racks.reasons import NO_RACK_FOR_SERVICE
from ringwise.placement.racks.selection import check_sizes, first_blocks
from ringwise.reasons import Reason
from ringwise.topology.superpods import SuperPodId


def select_for_service(
    free: FreeRacks,
    request: RackRequest,
    super_pod_size: int,
    service_racks: Set[tuple[SuperPodId, RackId]] = frozenset(),
) -> tuple[RackBlock, ...] | Reason:
    """A rack for each open block; `service_racks` are those where other jobs of the service have nodes."""
    problem = check_sizes(free, super_pod_size)
    if problem is not None:
        return problem
    request = replace(request, classes=merged_classes(request.classes, free))
    pool = RackPool(free, request)
    used = set(service_racks)
    placed: list[RackBlock] = []
    for block in request.open_blocks:
        ranks = request.shape.ranks_of(block)
        for rack in _by_preference(pool, used):
            nodes = matched_nodes(pool.classes, ranks, rack.nodes)
            if nodes is not None:
                placed.append(RackBlock(block, tuple(rack.take(nodes)), RackOrigin.SERVICE))
                used.add((rack.superpod, rack.rack))
                break
    if len(placed) == len(request.open_blocks):
        return in_order(placed)
    start = first_blocks(placed, request)
    if start is not None:
        return in_order(start)
    return NO_RACK_FOR_SERVICE(
        blocks=len(request.open_blocks),
        block_nodes=request.shape.nodes_per_block,
        held=len(placed),
        listing=RackPool(free, request).listing(),
        largest=request.system.rack_chips,
    )


def _by_preference(pool: RackPool, used: Set[tuple[SuperPodId, RackId]]) -> list[RackNodes]:
    """Racks of the service, most free first; then its SuperPoDs, then others, emptiest first.

    Equal racks stay in the order of their ids, because sorting keeps it.
    """
    near = {superpod for superpod, _ in used}
    whole = pool.request.system.nodes_per_rack
    keyed: list[tuple[tuple[int, ...], RackNodes]] = []
    for superpod in pool.superpods:
        free = superpod.free
        whole_racks = sum(len(rack.nodes) == whole for rack in superpod.racks)
        distance = 1 if superpod.superpod in near else 2
        for rack in superpod.racks:
            if (rack.superpod, rack.rack) in used:
                key: tuple[int, ...] = (0, -len(rack.nodes))
            else:
                key = (distance, -whole_racks, -len(rack.nodes), -free)
            keyed.append((key, rack))
    return [rack for _, rack in sorted(keyed, key=lambda entry: entry[0])]
