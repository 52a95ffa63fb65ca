"""Allocation modes of nodes: whole chips, soft shares, static or dynamic vNPUs (rule V1)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from ringwise.grammar import counted
from ringwise.reasons import Reason
from ringwise.state.model import DYNAMIC, SOFT, STATIC, WHOLE, DeviceReport, Node
from ringwise.state.reasons import (
    CHIP_MEMORY_MISSING,
    CHIP_MEMORY_UNREADABLE,
    CORES_NOT_WHOLE_CHIPS,
    MODES_MIXED,
    NO_TEMPLATES,
    NODE_LABEL_NOT_SET,
    NODE_OFFERS_NO_CHIPS,
    SHARES_WITHOUT_SOFT_LABEL,
    SOFT_CAPACITY_DIFFERS,
)
from ringwise.topology.policy import is_chip_resource, is_static_part
from ringwise.topology.vnpu_templates import FAMILIES, DividedChip, divided_chip
from ringwise.wellknown import (
    ACCELERATOR,
    CHIP_MEMORY_LABEL,
    CHIP_NAME_LABEL,
    CHIP_RESOURCE_PREFIX,
    NPU_CORE,
    SERVER_TYPE_LABEL,
    SOFT_SHARING_LABEL,
)

#: No node has more chips, so a larger capacity counts shares.
MAX_WHOLE_CHIPS = 64
#: Kubernetes counts a shared chip as so many: one for each percent.
UNITS_OF_A_CHIP = 100
_MEMORY = re.compile(r"[1-9][0-9]{0,5}G?", re.ASCII)
#: The chip resource whose report lists the chips of a node with dynamic vNPUs.
_CHIPS_OF_FAMILY = {family: f"{CHIP_RESOURCE_PREFIX}Ascend{family}" for family in FAMILIES.values()}


class NodeMode(NamedTuple):
    """The allocation mode of a node; `closed` if it takes no pod that requests chips or vNPUs."""

    mode: str
    closed: Reason | None = None
    #: Of soft nodes: memory of each chip in MB.
    chip_memory: int = 0
    #: Of dynamic nodes: the kind of their chips, and the resource under which these are reported.
    divided: DividedChip | None = None
    resource: str = ""


NO_CHIPS = NodeMode("")


def mode_of(node: Node, reports: Iterable[DeviceReport]) -> NodeMode:
    """Rule V1, from the labels of the node and the resources whose capacity is above 0."""
    offered = {name: count for name, count in node.chips_capacity.items() if count}
    chips = {name: count for name, count in offered.items() if is_chip_resource(name)}
    parts = [name for name in offered if is_static_part(name)]
    soft = node.labels.get(SOFT_SHARING_LABEL) == "true"
    if NPU_CORE in offered:
        return _dynamic(node, offered[NPU_CORE], mixed=bool(chips or parts or soft))
    if parts and soft:
        return NodeMode(STATIC, MODES_MIXED(node=node.name))
    if chips and soft:
        return _soft(node, chips, reports)
    if chips:
        shared = _unlimited_shares(node, chips)
        if shared is not None:
            return NodeMode(WHOLE, shared)
    if parts:
        return NodeMode(STATIC)
    return NodeMode(WHOLE) if chips else NO_CHIPS


def offers_no_chips(node: Node) -> Reason:
    return NODE_OFFERS_NO_CHIPS(node=node.name)


def _dynamic(node: Node, cores: int, *, mixed: bool) -> NodeMode:
    if mixed:
        return NodeMode(DYNAMIC, MODES_MIXED(node=node.name))
    labels = node.labels
    family = FAMILIES.get(labels.get(ACCELERATOR, ""))
    if family is None:
        allowed = " or ".join(sorted(FAMILIES))
        return NodeMode(DYNAMIC, NODE_LABEL_NOT_SET(node=node.name, label=ACCELERATOR, allowed=allowed))
    for label in (SERVER_TYPE_LABEL, CHIP_NAME_LABEL):
        if not labels.get(label):
            return NodeMode(DYNAMIC, NODE_LABEL_NOT_SET(node=node.name, label=label, allowed="set"))
    chip = divided_chip(labels[SERVER_TYPE_LABEL], labels[CHIP_NAME_LABEL], family)
    if chip is None:
        kind = f"{labels[SERVER_TYPE_LABEL]} {labels[CHIP_NAME_LABEL]}"
        return NodeMode(DYNAMIC, NO_TEMPLATES(node=node.name, kind=kind))
    if cores % chip.cores:
        return NodeMode(DYNAMIC, CORES_NOT_WHOLE_CHIPS(node=node.name, cores=cores, of_chip=chip.cores))
    return NodeMode(DYNAMIC, None, 0, chip, _CHIPS_OF_FAMILY[family])


def _soft(node: Node, chips: dict[str, int], reports: Iterable[DeviceReport]) -> NodeMode:
    capacity = sum(chips.values())
    if node.devices is not None:
        expected = UNITS_OF_A_CHIP * len(node.devices)
        fits = capacity == expected
    else:
        listed = sum(
            (one.free | one.unhealthy | one.recovering | (one.network_unhealthy or 0)).bit_count()
            for one in reports
            if one.resource in chips
        )
        expected = UNITS_OF_A_CHIP * listed
        fits = capacity % UNITS_OF_A_CHIP == 0 and capacity >= expected
    if not fits:
        return NodeMode(SOFT, SOFT_CAPACITY_DIFFERS(node=node.name, capacity=capacity, expected=expected))
    memory = node.labels.get(CHIP_MEMORY_LABEL)
    if memory is None:
        return NodeMode(SOFT, CHIP_MEMORY_MISSING(node=node.name))
    if _MEMORY.fullmatch(memory) is None:
        return NodeMode(SOFT, CHIP_MEMORY_UNREADABLE(node=node.name, value=memory))
    return NodeMode(SOFT, None, int(memory.removesuffix("G")) * 1024)


def _unlimited_shares(node: Node, offered: dict[str, int]) -> Reason | None:
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
