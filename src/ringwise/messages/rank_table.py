"""The fragment of the rank table that a pod carries, for every board (rule D1).

Collective communication needs the chips of all ranks before any of them starts. A pod
whose chips are certain (it takes the whole node, or an operator created it) gets its part
of that table from the scheduler; the others get it from the device plugin.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ringwise.records import dataclass
from ringwise.wellknown import NPU, RANK_TABLE_910, RANK_TABLE_NPU

#: What Huawei's components write for a node that is in no SuperPoD.
NO_SUPERPOD = -2
NO_SERVER_INDEX = "-2"


@dataclass(frozen=True, slots=True)
class RankTableDevice:
    chip: int
    ip: str = ""
    super_device_id: str = ""
    #: A5: by which addresses the chip is reached on each layer of the network.
    levels: Sequence[Mapping[str, Any]] = ()


def rank_table_key(resource: str) -> str:
    """The annotation's name; boards that serve `huawei.com/npu` have one of their own."""
    return RANK_TABLE_NPU if resource == NPU else RANK_TABLE_910


def carries_rank_table(operator_name: str | None, chips: int, allocatable: int, devices_listed: int) -> bool:
    """An operator's pod, or one that takes all allocatable chips of a node that lists as many."""
    return bool(operator_name) or (chips > 0 and chips == allocatable == devices_listed)


def rank_table_fragment(
    *,
    pod_name: str,
    pod_uid: str,
    node_ip: str,
    devices: Iterable[RankTableDevice],
    superpod: int | None = None,
    rack: int = 0,
    server_index: str = "",
) -> str:
    """The annotation's value: one JSON object without blanks, devices by ascending chip.

    `server_id` is the pod's uid, because two pods may share a node; both addresses
    are the node's.
    """
    fragment = {
        "pod_name": pod_name,
        "server_id": pod_uid,
        "host_ip": node_ip,
        "super_pod_id": NO_SUPERPOD if superpod is None else superpod,
        "devices": [_device(device) for device in sorted(devices, key=lambda device: device.chip)],
        "rack_id": rack,
        "server_index": server_index or NO_SERVER_INDEX,
        "server_ip": node_ip,
    }
    return json.dumps(fragment, separators=(",", ":"), ensure_ascii=False)


def _device(device: RankTableDevice) -> dict[str, Any]:
    entry: dict[str, Any] = {"device_id": str(device.chip), "device_ip": device.ip}
    if device.super_device_id:
        entry["super_device_id"] = device.super_device_id
    if device.levels:
        entry["levelList"] = device.levels
    return entry
