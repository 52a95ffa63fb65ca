"""Soft shares and dynamic vNPUs on simulated nodes: what kubelet and device plugin do for them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ringwise.durations import SECOND
from ringwise.embed.kubelet import ALLOCATED_TIME
from ringwise.state.allocation_modes import UNITS_OF_A_CHIP, NodeMode, mode_of
from ringwise.state.model import DYNAMIC, SOFT, Node, Pod
from ringwise.state.part_requests import binding_of, mounted_part
from ringwise.topology.policy import is_chip_resource
from ringwise.wellknown import ASCEND_REAL, NPU_CORE, PREDICATE_TIME

#: From the start of a pod with a vNPU until the device plugin writes which one it has.
REPORT_DELAY = 5 * SECOND
_FIRST_VNPU = 100
_LAST_VGROUP = 3
_SUFFIXES = {"nm": "ndvpp", "m": "dvpp"}


def shared_mode(node: Node | None) -> NodeMode | None:
    """The allocation mode of a node with soft shares or dynamic vNPUs; None for other nodes."""
    if node is None:
        return None
    mode = mode_of(node, ())
    return mode if mode.mode in (SOFT, DYNAMIC) and mode.closed is None else None


def reported_chips(node: Node) -> Mapping[str, int]:
    """The resources under which a device plugin reports the chips of a node, with their number."""
    mode = shared_mode(node)
    if mode is None:
        return node.chips_capacity
    if mode.divided is not None:
        return {mode.resource: node.chips_capacity[NPU_CORE] // mode.divided.cores}
    chips = {name: count for name, count in node.chips_capacity.items() if is_chip_resource(name)}
    return {name: count // UNITS_OF_A_CHIP for name, count in chips.items()}


def offered(node: Node, resource: str, unhealthy: int) -> dict[str, int]:
    """What kubelet offers of a resource if so many of its chips are unhealthy."""
    mode = shared_mode(node)
    if mode is not None and mode.divided is not None:
        return {NPU_CORE: node.chips_capacity[NPU_CORE] - unhealthy * mode.divided.cores}
    units = 1 if mode is None else UNITS_OF_A_CHIP
    return {resource: node.chips_capacity.get(resource, 0) - unhealthy * units}


def started(pod: Pod, mode: NodeMode, withheld: int) -> Pod | None:
    """The pod running with its share, or with a vNPU that is reported later; None if it cannot start."""
    bound = binding_of(pod)
    if bound is None or any(withheld >> chip & 1 for chip in bound.chips):
        return None
    added = {PREDICATE_TIME: ALLOCATED_TIME}
    if mode.mode == SOFT:
        if not bound.policy:
            return None
        added[ASCEND_REAL] = pod.annotations[pod.cls.resource or ""]
    return replace(pod, phase="Running", annotations={**pod.annotations, **added})


def awaits_report(pod: Pod) -> bool:
    return pod.cls.resource == NPU_CORE and ASCEND_REAL not in pod.annotations


def reported(pod: Pod, mode: NodeMode, others: Iterable[Pod]) -> Pod:
    """The pod with the name of its vNPU. `others`: pods of the node."""
    bound = binding_of(pod)
    if bound is None:
        return pod
    kind = mode.resource.rpartition("/")[2]
    if not bound.template:
        names = ",".join(f"{kind}-{chip}" for chip in bound.chips)
        return replace(pod, annotations={**pod.annotations, ASCEND_REAL: names})
    present = [one.annotations.get(ASCEND_REAL, "") for one in others if one.live]
    numbers = {int(match[1]) for name in present if (match := _NUMBER.search(name))}
    number = next(at for at in range(_FIRST_VNPU, _FIRST_VNPU + len(numbers) + 1) if at not in numbers)
    parts = [mounted_part(one) for one in others if one.live]
    vgroups = {int(one.vgroup) for one in parts if one.vgroup and bound.chips[0] in one.chips}
    vgroup = next((at for at in range(_LAST_VGROUP + 1) if at not in vgroups), _LAST_VGROUP)
    name = f"{kind}-{vnpu_suffix(bound.template)}-{number}-{bound.chips[0]}_{vgroup}"
    return replace(pod, annotations={**pod.annotations, ASCEND_REAL: name})


_NUMBER = re.compile(r"-([0-9]{3,})-[0-9]+_")


def vnpu_suffix(template: str) -> str:
    """How resources and device plugins name a template: `2c.1cpu` for `vir02_1c`."""
    cores, *rest = template.split("_")
    parts = [f"{int(cores.removeprefix('vir'))}c"]
    parts += [f"{one[:-1]}cpu" if one.endswith("c") else _SUFFIXES.get(one, one) for one in rest]
    return ".".join(parts)
