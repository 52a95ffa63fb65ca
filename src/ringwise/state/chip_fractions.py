"""How many chips a pod uses, with shares and vNPUs as fractions of a chip (rule V18)."""

from __future__ import annotations

import re
from fractions import Fraction

from ringwise.state.allocation_modes import UNITS_OF_A_CHIP, NodeMode
from ringwise.state.model import DYNAMIC, SOFT, STATIC, Node, PartRequest, PodClass
from ringwise.state.part_requests import requested
from ringwise.topology.policy import is_chip_resource, is_static_part
from ringwise.wellknown import NPU_CORE, SERVER_TYPE_LABEL

#: The cores in `huawei.com/Ascend310P-2c.1cpu`, and in the label `servertype`: `Ascend310P-8`.
_CORES_OF_PART = re.compile(r".*-([0-9]{1,3})c", re.ASCII)
_CORES_OF_CHIP = re.compile(r".*-([1-9][0-9]{0,2})", re.ASCII)


def chips_used(cls: PodClass, node: Node | None, mode: NodeMode) -> int | Fraction:
    """The chips of a pod on its node; of one without a node what its queue counts."""
    part = cls.part
    if part is None:
        return cls.chips
    return _of_share(part, mode) if part.mode == SOFT else _of_vnpu(part, node, mode)


def chip_resource(cls: PodClass, mode: NodeMode) -> str:
    """The resource that counts the chips on which a pod is."""
    resource = requested(cls)[0] or ""
    if cls.part is not None and cls.part.mode == STATIC:
        return resource.rpartition("-")[0]
    return mode.resource or resource


def shared_resource(node: Node, mode: NodeMode) -> str:
    """The resource of the chips of a node that shares or divides them; empty for other nodes."""
    if mode.mode == SOFT:
        return next(filter(is_chip_resource, node.chips_capacity), "")
    if mode.mode == STATIC:
        part = next(filter(is_static_part, node.chips_capacity), "")
        return part.rpartition("-")[0]
    return mode.resource


def chips_of_node(node: Node, resource: str, mode: NodeMode) -> int:
    """How many chips of a resource a node has, whatever its allocation mode."""
    if mode.divided is not None:
        return node.chips_capacity.get(NPU_CORE, 0) // mode.divided.cores
    if mode.mode == STATIC and node.devices is not None:
        return len(node.devices)
    count = max(node.chips_allocatable.get(resource, 0), node.chips_capacity.get(resource, 0))
    return count // UNITS_OF_A_CHIP if mode.mode == SOFT else count


def _of_share(part: PartRequest, mode: NodeMode) -> Fraction:
    if not mode.chip_memory:
        return Fraction(part.hundredths, UNITS_OF_A_CHIP)
    by_memory = -(-part.mb * UNITS_OF_A_CHIP // mode.chip_memory)
    return Fraction(max(part.count, by_memory), UNITS_OF_A_CHIP)


def _of_vnpu(part: PartRequest, node: Node | None, mode: NodeMode) -> Fraction:
    cores = mode.divided.cores if mode.divided is not None else 0
    if not cores and node is not None:
        label = _CORES_OF_CHIP.fullmatch(node.labels.get(SERVER_TYPE_LABEL, ""))
        cores = int(label[1]) if label is not None else 0
    if part.mode == DYNAMIC:
        return Fraction(part.count, cores) if cores else Fraction(1)
    name = _CORES_OF_PART.match(part.resource)
    return Fraction(int(name[1]) * part.count, cores) if cores and name is not None else Fraction(part.count)
