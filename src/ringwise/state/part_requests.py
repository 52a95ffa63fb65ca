"""Requests for shares of chips and vNPUs, and what bound pods have of chips (rules V2 to V4)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple
from weakref import WeakValueDictionary

from ringwise.state.model import DYNAMIC, SOFT, STATIC, PartRequest, Pod, PodClass
from ringwise.topology.policy import SOFT_SHARE_POLICY, is_chip_resource, is_static_part
from ringwise.topology.vnpu_templates import LOW, SHARED_DVPP
from ringwise.wellknown import (
    AICORE_QUOTA,
    ASCEND_REAL,
    HBM_QUOTA,
    JOB_NAME,
    NPU_CORE,
    OPERATOR_JOB_NAME,
    RING_CONTROLLER,
    SCHEDULE_POLICY,
    SHARE_POLICIES,
    SHARE_POLICY,
    VNPU_DVPP,
    VNPU_LEVEL,
)

SHARE_LABELS = (AICORE_QUOTA, HBM_QUOTA, SHARE_POLICY)
_QUOTA = re.compile(r"[0-9]{1,9}", re.ASCII)
_VNPU = re.compile(r"(0|[1-9][0-9]{0,3})-(vir\w+)", re.ASCII)
_CHIPS = re.compile(r"(?:0|[1-9][0-9]{0,3})(?:,(?:0|[1-9][0-9]{0,3}))*", re.ASCII)
#: `Ascend910-2`, or a vNPU on a chip: `Ascend310P-2c.1cpu-105-0_3`.
_MOUNTED = re.compile(
    r"[A-Za-z][A-Za-z0-9]*-(?:[0-9]+c[.\w]*-[0-9]+-)?(0|[1-9][0-9]{0,3})(?:_([0-9]{1,3}))?", re.ASCII
)
_classes: WeakValueDictionary[tuple[PodClass, PartRequest | None], PodClass] = WeakValueDictionary()


class PartBinding(NamedTuple):
    """What a pod was bound with: its chips and, of a share, memory and policy, or of a vNPU its template."""

    chips: tuple[int, ...]
    mb: int = 0
    policy: str = ""
    template: str = ""


#: Of a pod that was bound with whole chips.
WHOLE_CHIPS = PartBinding(())


class MountedPart(NamedTuple):
    """What `huawei.com/AscendReal` names: chips, and the vgroup of a vNPU."""

    chips: tuple[int, ...]
    vgroup: str = ""


def quota(text: str | None) -> int | None:
    """The number of a quota label or annotation; None if it is not 1 to 9 digits."""
    return int(text) if text is not None and _QUOTA.fullmatch(text) else None


def with_part(
    pod: Pod,
    group_labels: Mapping[str, str],
    group_annotations: Mapping[str, str],
    smallest_memory: int,
    bound: PartBinding | None = None,
) -> Pod:
    """The pod with a class that says whether it requests a share or a vNPU (rule V2).

    Policy and labels of the PodGroup count if the pod has none. `smallest_memory`: the chip memory in MB by
    which queues count shares (rule V18). `bound`: what a pod was bound with, if it is on a node with soft
    shares or has whole chips.
    """
    cls = pod.cls
    if cls.part is None and not cls.chips:
        return pod
    resource, count = requested(cls)
    part: PartRequest | None = None
    policy = pod.annotations.get(SCHEDULE_POLICY) or group_annotations.get(SCHEDULE_POLICY)
    if resource is None or "+" in resource:
        pass
    elif resource == NPU_CORE or is_static_part(resource):
        mode = DYNAMIC if resource == NPU_CORE else STATIC
        labels = {**group_labels, **pod.labels} if mode == DYNAMIC else {}
        part = PartRequest(
            mode,
            resource,
            count,
            dvpp=labels.get(VNPU_DVPP, SHARED_DVPP),
            level=labels.get(VNPU_LEVEL, LOW),
            ring=labels.get(RING_CONTROLLER, ""),
        )
    elif not is_chip_resource(resource):
        pass
    elif bound is not WHOLE_CHIPS and (
        policy == SOFT_SHARE_POLICY or (bound is not None and is_bound_share(bound, count))
    ):
        labels = {**group_labels, **pod.labels}
        mb = quota(labels.get(HBM_QUOTA)) or 0
        name = labels.get(SHARE_POLICY, "")
        if bound is not None and bound.policy:
            mb, name = bound.mb, bound.policy
        part = PartRequest(
            SOFT, resource, count, mb, name, folder_of(pod), hundredths_of(count, mb, smallest_memory)
        )
    if part == cls.part:
        return pod
    return replace(pod, cls=_class(cls, resource, count, part))


def hundredths_of(percent: int, mb: int, chip_memory: int) -> int:
    """Rule V18: what a share counts in hundredths of a chip; `chip_memory` in MB, 0 if it is not known."""
    return max(percent, -(-mb * 100 // chip_memory) if chip_memory else 0)


def is_bound_share(bound: PartBinding, count: int) -> bool:
    """Whether a pod on a node with soft shares has a share: other pods name all chips that they request."""
    return (len(bound.chips) == 1 and bool(bound.policy)) or len(bound.chips) < count


def requested(cls: PodClass) -> tuple[str | None, int]:
    """The chip, core or part resource that a pod requests, and how much of it."""
    return (cls.part.resource, cls.part.count) if cls.part is not None else (cls.resource, cls.chips)


def _class(cls: PodClass, resource: str | None, count: int, part: PartRequest | None) -> PodClass:
    key = (cls, part)
    result = _classes.get(key)
    if result is None:
        if part is None:
            result = replace(cls, resource=resource, chips=count, part=None)
        else:
            result = replace(cls, resource=None, chips=0, part=part)
        _classes[key] = result
    return result


def folder_of(pod: Pod) -> str:
    """Rule V19: the folder in which the device plugin keeps the files of a pod's shares."""
    labels, owner = pod.labels, pod.owner
    controller = owner.name if owner is not None and not owner.loose else ""
    name = labels.get(OPERATOR_JOB_NAME) or labels.get(JOB_NAME) or controller or pod.name
    return f"{pod.namespace}.{name}"


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def mounted_part(pod: Pod) -> MountedPart:
    """What the device plugin wrote: no chips if there is nothing that can be read."""
    names = [_MOUNTED.fullmatch(name) for name in _names(pod.annotations.get(ASCEND_REAL))[:_MOST_NAMES]]
    if not names or any(match is None for match in names):
        return MountedPart(())
    matches = [match for match in names if match is not None]
    chips = tuple(dict.fromkeys(int(match[1]) for match in matches))
    return MountedPart(chips, matches[0][2] or "")


def binding_of(pod: Pod) -> PartBinding | None:
    """What the annotations of a bound pod say that it was bound with; None if they name no chip."""
    resource, _ = requested(pod.cls)
    if resource is None:
        return None
    text = pod.annotations.get(resource, "").strip()
    if resource == NPU_CORE:
        match = _VNPU.fullmatch(text)
        if match is not None:
            return PartBinding((int(match[1]),), template=match[2])
        if not _CHIPS.fullmatch(text) or len(text) > _MOST_NAMES * 5:
            return None
        return PartBinding(tuple(dict.fromkeys(map(int, text.split(",")))))
    names = _names(text)[:_MOST_NAMES]
    prefix = resource.rpartition("/")[2] + "-"
    numbers = [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
    if not names or len(numbers) < len(names) or not all(_CHIPS.fullmatch(one) for one in numbers):
        return None
    chips = tuple(dict.fromkeys(map(int, numbers)))
    percent, mb = (quota(pod.annotations.get(key)) for key in (AICORE_QUOTA, HBM_QUOTA))
    policy = pod.annotations.get(SHARE_POLICY, "")
    readable = percent is not None and 1 <= percent <= 100 and mb and policy in SHARE_POLICIES
    return PartBinding(chips, mb or 0, policy) if readable else PartBinding(chips)


#: Names that are read of one list: no node has more chips.
_MOST_NAMES = 64
