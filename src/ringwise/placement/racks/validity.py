"""Which jobs may be cut into blocks and logical racks, and how (R1)."""

from __future__ import annotations

from collections.abc import Sequence

from ringwise.placement.racks.model import RackShape, RackSystem
from ringwise.placement.racks.reasons import (
    PODS_DO_NOT_FILL_BLOCKS,
    PODS_DO_NOT_FILL_RACKS,
    RA_BLOCK_ABOVE_SP_BLOCK,
    RA_BLOCK_RANGE,
    SP_BLOCK_NOT_WHOLE_RACKS,
    SUPER_POD_SIZE_RANGE,
    UB_MEMORY_TOO_LARGE,
)
from ringwise.placement.superpods.validity import (
    Family,
    block_chips,
    block_nodes,
    check_division,
    check_one_pod,
    check_pods,
    check_size,
)
from ringwise.reasons import Reason
from ringwise.topology.numbers import whole_number


def check_rack_job(
    requests: Sequence[int],
    sp_block: str | int | None,
    ra_block: str | int | None,
    *,
    super_pod_size: int,
    ub_memory: bool = False,
    system: RackSystem | None = None,
) -> RackShape | Reason:
    """How the job is cut, or the first rule that it breaks (R1).

    `requests` are the chips of every pod; pods that ask for none pass and do not count.
    Without `sp_block` the whole job is one block; without `ra_block` every node is a group.
    """
    system = system or RackSystem()
    asking = [request for request in requests if request]
    if not asking:
        return RackShape(1, 1, 0)
    total, pods, chips_per_node = sum(asking), len(asking), system.chips_per_node
    chips = total if sp_block is None else block_chips(sp_block, chips_per_node, total)
    if isinstance(chips, Reason):
        return chips
    nodes = block_nodes(chips_per_node, chips, total, Family.RACKS)
    if isinstance(nodes, Reason):
        return nodes
    if pods % nodes:
        return PODS_DO_NOT_FILL_BLOCKS(
            pods=pods, sp_block=chips, block_nodes=nodes, chips_per_node=chips_per_node
        )
    if not 1 <= super_pod_size <= system.largest_superpod:
        return SUPER_POD_SIZE_RANGE(super_pod_size=super_pod_size, largest=system.largest_superpod)
    problem = check_size(chips_per_node, chips, nodes, super_pod_size)
    if problem is not None:
        return problem
    group_nodes = _group_nodes(ra_block, pods, nodes, system)
    if isinstance(group_nodes, Reason):
        return group_nodes
    problem = _check_requests(asking, chips, chips_per_node)
    if problem is not None:
        return problem
    if ub_memory and total > system.domain_chips:
        return UB_MEMORY_TOO_LARGE(total=total, largest=system.domain_chips)
    return RackShape(nodes, group_nodes, pods // nodes)


def _group_nodes(ra_block: str | int | None, pods: int, block_nodes: int, system: RackSystem) -> int | Reason:
    """Nodes of a logical rack; a logical rack below a node's chips is one node."""
    if ra_block is None:
        return 1
    chips = whole_number(ra_block) if isinstance(ra_block, str) else ra_block
    if chips is None or not 1 <= chips <= system.rack_chips or chips & (chips - 1):
        powers = [1 << power for power in range(system.rack_chips.bit_length())]
        return RA_BLOCK_RANGE(ra_block=ra_block, largest=system.rack_chips, allowed=powers)
    nodes = -(-chips // system.chips_per_node)
    if nodes > block_nodes:
        return RA_BLOCK_ABOVE_SP_BLOCK(
            ra_block=chips,
            group_nodes=nodes,
            block_nodes=block_nodes,
            largest=(1 << (block_nodes.bit_length() - 1)) * system.chips_per_node,
        )
    if pods % nodes:
        return PODS_DO_NOT_FILL_RACKS(pods=pods, ra_block=chips, group_nodes=nodes)
    if block_nodes % nodes:
        return SP_BLOCK_NOT_WHOLE_RACKS(block_nodes=block_nodes, ra_block=chips, group_nodes=nodes)
    return nodes


def _check_requests(asking: Sequence[int], chips: int, chips_per_node: int) -> Reason | None:
    if len(asking) == 1:
        return check_one_pod(chips_per_node, chips, asking[0], Family.RACKS)
    problem = check_pods(chips_per_node, asking, Family.RACKS)
    # Whole nodes are a multiple of every ra-block that came so far; an sp-block below a node need not divide.
    return problem or check_division(chips_per_node, chips, asking)
