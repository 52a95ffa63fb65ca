"""How many chips a pod uses, with shares and vNPUs as fractions of a chip (rule V18)."""

from __future__ import annotations

import re
from fractions import Fraction

from ringwise.state.allocation_modes import UNITS_OF_A_CHIP, NodeMode
from ringwise.state.model import DYNAMIC, SOFT, Node, PartRequest, PodClass
from ringwise.wellknown import SERVER_TYPE_LABEL

#: The cores in `huawei.com/Ascend310P-2c.1cpu`, and in the label `servertype`: `Ascend310P-8`.
_CORES_OF_PART = re.compile(r".*-([0-9]{1,3})c", re.ASCII)
_CORES_OF_CHIP = re.compile(r".*-([1-9][0-9]{0,2})", re.ASCII)


def chips_used(cls: PodClass, node: Node | None, mode: NodeMode) -> int | Fraction:
    """The chips of a pod on its node; of one without a node what its queue counts."""
    part = cls.part
    if part is None:
        return cls.chips
    found = _of_share(part, mode) if part.mode == SOFT else _of_vnpu(part, node, mode)
    return int(found) if found.denominator == 1 else found


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
