"""Whether and how a job is cut into blocks (rules P1, P6)."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from ringwise.placement.reasons import (
    BLOCKS_DO_NOT_DIVIDE,
    ONE_POD_BLOCK,
    ONE_POD_REQUEST,
    POD_NOT_WHOLE_NODE,
    SP_BLOCK_ABOVE_SUPERPOD,
    SP_BLOCK_BELOW_NODE,
    SP_BLOCK_NOT_A_NUMBER,
    SP_BLOCK_NOT_POSITIVE,
    SP_BLOCK_NOT_WHOLE_NODES,
    SWITCH_AND_SUPERPOD,
)
from ringwise.placement.switches.classes import asks_for_switches
from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.topology.numbers import whole_number


class Family(enum.Enum):
    """The families of SuperPoD boards; they differ in what one pod alone, and pods without chips, may do."""

    A3 = "a3"
    A850 = "850"
    RACKS = "racks"


#: What to do with a pod that requests no chips in a job with blocks.
_ZERO_FIXES = {
    Family.A3: "a pod that needs no chips carries the annotation huawei.com/skip-ascend-plugin: enabled",
    Family.A850: "put pods without chips into a job of their own",
    Family.RACKS: "pods without chips may stay as they are",
}


@dataclass(frozen=True, slots=True)
class BlockShape:
    """How a job is cut: `blocks` blocks of `nodes_per_block` nodes, one pod on each node."""

    nodes_per_block: int
    blocks: int

    @property
    def pods(self) -> int:
        return self.nodes_per_block * self.blocks


def check_block(
    chips_per_node: int,
    sp_block: str | int | None,
    requests: Sequence[int],
    super_pod_size: int,
    family: Family,
    exempt: Sequence[bool] = (),
) -> BlockShape | Reason:
    """Rules P1 and P6: how the job is cut into blocks, or why it cannot be.

    `requests` are the chips of every pod. `exempt` marks pods that may ask for none
    (`volcano.sh/task-spec: scheduler` or `huawei.com/skip-ascend-plugin: enabled`).
    Without `sp_block` the whole job is one block.
    """
    total = sum(requests)
    asking = [request for request in requests if request]
    if not asking and sp_block is None:
        # No pod requests chips: there is nothing to cut, but a pod that should request some is still wrong.
        return check_pods(chips_per_node, requests, family, exempt) or BlockShape(1, 0)
    chips = total if sp_block is None else block_chips(sp_block, chips_per_node, total)
    if isinstance(chips, Reason):
        return chips
    # The pods come first: a wrong pod is a better explanation than the wrong total that follows from it.
    problem = (
        check_one_pod(chips_per_node, chips, asking[0], family)
        if len(asking) == 1
        else check_pods(chips_per_node, requests, family, exempt)
    )
    if problem is not None:
        return problem
    nodes = block_nodes(chips_per_node, chips, total, family)
    if isinstance(nodes, Reason):
        return nodes
    problem = check_size(chips_per_node, chips, nodes, super_pod_size)
    if problem is None and len(asking) == 1:
        return BlockShape(1, 1)
    problem = problem or check_division(chips_per_node, chips, asking)
    return BlockShape(nodes, len(asking) // nodes) if problem is None else problem


def check_size(chips_per_node: int, chips: int, nodes: int, super_pod_size: int) -> Reason | None:
    """A block of so many chips and nodes must fit into a SuperPoD."""
    if nodes <= super_pod_size:
        return None
    return SP_BLOCK_ABOVE_SUPERPOD(
        sp_block=chips,
        block_nodes=nodes,
        super_pod_size=super_pod_size,
        largest=super_pod_size * chips_per_node,
    )


def check_division(chips_per_node: int, chips: int, asking: Sequence[int]) -> Reason | None:
    """The pods must fill whole blocks of so many chips."""
    total = sum(asking)
    if not total % chips:
        return None
    return BLOCKS_DO_NOT_DIVIDE(
        total=total, pods=len(asking), sp_block=chips, left=total % chips, chips_per_node=chips_per_node
    )


def check_pods(
    chips_per_node: int, requests: Sequence[int], family: Family, exempt: Sequence[bool] = ()
) -> Reason | None:
    """In a job of several pods each takes a whole node; only A3 allows pods without chips."""
    wrong = [
        request
        for position, request in enumerate(requests)
        if request != chips_per_node
        and not (request == 0 and family is Family.A3 and position < len(exempt) and exempt[position])
    ]
    if not wrong:
        return None
    return POD_NOT_WHOLE_NODE(
        chips_per_node=chips_per_node,
        wrong_pods=len(wrong),
        pods=len(requests),
        wrong_requests=sorted(set(wrong)),
        zero_fix=_ZERO_FIXES[family],
    )


def check_not_combined(tor_affinity: str | None, sp_block: str | None) -> Reason | None:
    """Rule S12: a job with both `tor-affinity` and `sp-block` is refused, since both choose the nodes."""
    if sp_block is None or not asks_for_switches(tor_affinity):
        return None
    return SWITCH_AND_SUPERPOD(tor_affinity=tor_affinity, sp_block=sp_block)


def block_chips(sp_block: str | int, chips_per_node: int, total: int) -> int | Reason:
    """The chips of a block as they are written."""
    chips = whole_number(sp_block) if isinstance(sp_block, str) else sp_block
    example = max(total, chips_per_node)
    if chips is None:
        return SP_BLOCK_NOT_A_NUMBER(sp_block=sp_block, chips_per_node=chips_per_node, example=example)
    if chips < 1:
        return SP_BLOCK_NOT_POSITIVE(
            sp_block=chips, chips_per_node=chips_per_node, example=example, total=total
        )
    return chips


def check_one_pod(chips_per_node: int, block_chips: int, request: int, family: Family) -> Reason | None:
    """What the only pod of a job may request: its block has as many chips."""
    in_range = 1 <= request <= chips_per_node
    if family is Family.A3:
        # Cards have two chips; one chip alone is allowed, half cards beside whole ones are not.
        allowed = "1 or an even number up to " + str(chips_per_node)
        valid = in_range and (request == 1 or request % 2 == 0)
    else:
        allowed = f"1 to {chips_per_node}"
        valid = in_range
    if not valid:
        return ONE_POD_REQUEST(request=request, allowed=allowed)
    if block_chips != request:
        return ONE_POD_BLOCK(request=request, sp_block=block_chips)
    return None


def block_nodes(chips_per_node: int, block_chips: int, total: int, family: Family) -> int | Reason:
    """The nodes of a block; one of fewer chips than a node has is one node."""
    if block_chips < chips_per_node:
        if family is Family.A3 and block_chips != total:
            return SP_BLOCK_BELOW_NODE(sp_block=block_chips, chips_per_node=chips_per_node, total=total)
        return 1
    nodes, rest = divmod(block_chips, chips_per_node)
    if rest:
        return SP_BLOCK_NOT_WHOLE_NODES(
            sp_block=block_chips,
            chips_per_node=chips_per_node,
            below=nodes * chips_per_node,
            above=(nodes + 1) * chips_per_node,
        )
    return nodes
