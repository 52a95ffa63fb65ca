"""Nodes that offer shares of chips: no pod that asks for whole chips may use them (rule V1)."""

from __future__ import annotations

from ringwise.grammar import counted
from ringwise.reasons import Reason
from ringwise.state.model import Node
from ringwise.state.reasons import SHARES_WITHOUT_SOFT_LABEL, SOFT_SHARING_NODE
from ringwise.topology.policy import is_part_of_a_chip
from ringwise.wellknown import CHIP_RESOURCE_FAMILIES, SOFT_SHARING_LABEL

#: No node has more chips, so a larger capacity counts shares.
MAX_WHOLE_CHIPS = 64


def sharing_reason(node: Node) -> Reason | None:
    """Why the node takes no NPU pod: its chips are shared; None for a node with whole chips (V1.3, V1.4)."""
    offered = {
        resource: capacity
        for resource, capacity in node.chips_capacity.items()
        if capacity and resource.startswith(CHIP_RESOURCE_FAMILIES) and not is_part_of_a_chip(resource)
    }
    if not offered:
        return None
    if node.labels.get(SOFT_SHARING_LABEL) == "true":
        return SOFT_SHARING_NODE(node=node.name)
    capacity, chips = sum(offered.values()), len(node.devices or ())
    is_multiple = bool(chips) and capacity > chips and capacity % chips == 0
    if capacity <= MAX_WHOLE_CHIPS and not is_multiple:
        return None
    return SHARES_WITHOUT_SOFT_LABEL(
        node=node.name,
        capacity=capacity,
        resource=" and ".join(sorted(offered)),
        chips=counted(chips, "chip") if is_multiple else f"at most {MAX_WHOLE_CHIPS} chips",
    )
