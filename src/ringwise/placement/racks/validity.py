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
from ringwise.placement.reasons import (
    BLOCKS_DO_NOT_DIVIDE,
    ONE_POD_BLOCK,
    ONE_POD_REQUEST,
    POD_NOT_WHOLE_NODE,
    SP_BLOCK_ABOVE_SUPERPOD,
    SP_BLOCK_NOT_A_NUMBER,
    SP_BLOCK_NOT_POSITIVE,
    SP_BLOCK_NOT_WHOLE_NODES,
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
    total, pods = sum(asking), len(asking)
    chips = total if sp_block is None else _block_chips(sp_block, total, system)
    if isinstance(chips, Reason):
        return chips
    block_nodes = _block_nodes(chips, system)
    if isinstance(block_nodes, Reason):
        return block_nodes
    if pods % block_nodes:
        return PODS_DO_NOT_FILL_BLOCKS(
            pods=pods, sp_block=chips, block_nodes=block_nodes, chips_per_node=system.chips_per_node
        )
    problem = _check_superpod(super_pod_size, chips, block_nodes, system)
    if problem is not None:
        return problem
    group_nodes = _group_nodes(ra_block, pods, block_nodes, system)
    if isinstance(group_nodes, Reason):
        return group_nodes
    problem = _check_requests(asking, chips, system)
    if problem is not None:
        return problem
    if ub_memory and total > system.domain_chips:
        return UB_MEMORY_TOO_LARGE(total=total, largest=system.domain_chips)
    return RackShape(block_nodes, group_nodes, pods // block_nodes)


def _block_chips(sp_block: str | int, total: int, system: RackSystem) -> int | Reason:
    chips = whole_number(sp_block) if isinstance(sp_block, str) else sp_block
    example = max(total, system.chips_per_node)
    if chips is None:
        return SP_BLOCK_NOT_A_NUMBER(sp_block=sp_block, chips_per_node=system.chips_per_node, example=example)
    if chips < 1:
        return SP_BLOCK_NOT_POSITIVE(
            sp_block=chips, chips_per_node=system.chips_per_node, example=example, total=total
        )
    return chips


def _block_nodes(chips: int, system: RackSystem) -> int | Reason:
    if chips < system.chips_per_node:
        return 1
    nodes, rest = divmod(chips, system.chips_per_node)
    if rest:
        return SP_BLOCK_NOT_WHOLE_NODES(
            sp_block=chips,
            chips_per_node=system.chips_per_node,
            below=nodes * system.chips_per_node,
            above=(nodes + 1) * system.chips_per_node,
        )
    return nodes


def _check_superpod(super_pod_size: int, chips: int, block_nodes: int, system: RackSystem) -> Reason | None:
    if not 1 <= super_pod_size <= system.largest_superpod:
        return SUPER_POD_SIZE_RANGE(super_pod_size=super_pod_size, largest=system.largest_superpod)
    if block_nodes > super_pod_size:
        return SP_BLOCK_ABOVE_SUPERPOD(
            sp_block=chips,
            block_nodes=block_nodes,
            super_pod_size=super_pod_size,
            largest=super_pod_size * system.chips_per_node,
        )
    return None


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


def _check_requests(asking: Sequence[int], block_chips: int, system: RackSystem) -> Reason | None:
    if len(asking) == 1:
        request = asking[0]
        if request > system.chips_per_node:
            return ONE_POD_REQUEST(request=request, allowed=f"1 to {system.chips_per_node}")
        return None if block_chips == request else ONE_POD_BLOCK(request=request, sp_block=block_chips)
    wrong = [request for request in asking if request != system.chips_per_node]
    if wrong:
        return POD_NOT_WHOLE_NODE(
            chips_per_node=system.chips_per_node,
            wrong_pods=len(wrong),
            pods=len(asking),
            wrong_requests=sorted(set(wrong)),
            zero_fix="pods without chips may stay as they are",
        )
    # Whole nodes are a multiple of every ra-block that came so far; an sp-block below a node need not divide.
    total = sum(asking)
    if total % block_chips:
        return BLOCKS_DO_NOT_DIVIDE(
            total=total,
            pods=len(asking),
            sp_block=block_chips,
            left=total % block_chips,
            chips_per_node=system.chips_per_node,
        )
    return None
