"""What the node's ConfigMap says: `DeviceInfoCfg` and its check code, switch faults, separated chips.

All of it is text in a fixed form: components of others compare it byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ringwise.device.cards import Chip
from ringwise.device.health.levels import (
    SWITCH_LEVELS,
    SWITCH_SEPARATE,
    switch_node_status,
)
from ringwise.device.health.tracker import (
    AUTOFILL_CODE,
    BY_AUTOFILL,
    NO_FAULT,
    NO_NETWORK_FAULT,
    ChipFault,
    Escalation,
)
from ringwise.device.rank_tables import Levels
from ringwise.manifests.text.go_json import compact, digest
from ringwise.records import dataclass
from ringwise.wellknown import (
    CHIP_RESOURCE_PREFIX,
    FAULT_SUFFIX,
    NETWORK_UNHEALTHY_SUFFIX,
    RECOVERING_SUFFIX,
    UNHEALTHY_SUFFIX,
)

#: Seconds after which the report is written although nothing changed.
REFRESH = 300
#: Seconds between two reports at least.
BETWEEN = 1.0

DESCRIPTION = (
    "huawei.com/xxx lists the free chips of this node. The field will be removed: "
    "by default the scheduler computes free chips itself (self-maintain-available-card)."
)
#: Ports of one switch chip to the second layer; when all are down the node is cut off.
_UPLINKS = 16
_L2 = 2
_PEERS = {0: "cpu", 1: "npu", _L2: "L2"}
#: The port of an alarm that concerns a whole switch chip.
NO_PORT = 0xFFFFFFFF
_FAULT_TIME = re.compile(r'"fault_time":\d+,')


def check_code(device_list: Mapping[str, str] | None, update_time: int) -> str:
    """The checksum over `DeviceInfo` alone, that ClusterD verifies."""
    ordered = None if device_list is None else dict(sorted(device_list.items()))
    return digest({"DeviceList": ordered, "UpdateTime": update_time})


@dataclass(frozen=True, slots=True)
class ChipReport:
    """One chip: its health and the faults behind it."""

    name: str
    healthy: bool = True
    network_healthy: bool = True
    recovering: bool = False
    fault: ChipFault = NO_FAULT
    network_fault: ChipFault = NO_NETWORK_FAULT
    #: Taken out of use by an operator, which makes it no less healthy (rule F4).
    isolated: bool = False


def device_list(resource: str, chips: Sequence[ChipReport], used: Collection[str]) -> dict[str, str]:
    """Free, unhealthy and recovering chips and their faults (rules D2, N7, F4). Lists are sorted as text."""

    def names(wanted: Iterable[ChipReport]) -> str:
        return ",".join(sorted(chip.name for chip in wanted))

    lists = {
        resource: names(
            chip for chip in chips if chip.healthy and not chip.isolated and chip.name not in used
        ),
        resource + UNHEALTHY_SUFFIX: names(chip for chip in chips if not chip.healthy),
    }
    fault_key = resource + FAULT_SUFFIX
    if resource.endswith(("/Ascend910", "/npu")):
        lists[resource + NETWORK_UNHEALTHY_SUFFIX] = names(chip for chip in chips if not chip.network_healthy)
        lists[resource + RECOVERING_SUFFIX] = names(chip for chip in chips if chip.recovering)
    elif resource.endswith("/Ascend310"):
        # Readers look for the faults of 310 chips under the name of the 310P.
        fault_key = CHIP_RESOURCE_PREFIX + "Ascend310P" + FAULT_SUFFIX
    lists[fault_key] = compact(_faults(chips))
    return dict(sorted(lists.items()))


def _faults(chips: Sequence[ChipReport]) -> list[dict[str, Any]]:
    result = []
    for chip in chips:
        for kind, healthy, fault in (
            ("CardNetworkUnhealthy", chip.network_healthy, chip.network_fault),
            ("CardUnhealthy", chip.healthy, chip.fault),
        ):
            if fault.codes or not healthy:
                result.append(
                    {
                        "fault_type": kind,
                        "npu_name": chip.name,
                        "large_model_fault_level": fault.level,
                        "fault_level": fault.level,
                        "fault_handling": fault.level,
                        "fault_code": ",".join(fault.codes),
                        "fault_time_and_level_map": {
                            code: {"fault_time": time, "fault_level": level}
                            for code, (time, level) in sorted(fault.times.items())
                        },
                    }
                )
    return result


def device_info_cfg(
    lists: Mapping[str, str],
    update_time: int,
    superpod: int,
    server_index: int,
    rack: int | None = None,
) -> str:
    """The value of `DeviceInfoCfg`; `update_time` in Unix seconds."""
    document: dict[str, Any] = {
        "DeviceInfo": {"DeviceList": dict(sorted(lists.items())), "UpdateTime": update_time},
        "SuperPodID": superpod,
        "ServerIndex": server_index,
        "CheckCode": check_code(lists, update_time),
    }
    if rack is not None:
        document["RackID"] = rack
    return compact(document)


def same_device_list(old: Mapping[str, str] | None, new: Mapping[str, str] | None) -> bool:
    """Whether two lists differ only in the times of faults, or not at all."""
    if old is None or new is None:
        return old is new
    return {key: _FAULT_TIME.sub("", value) for key, value in old.items()} == {
        key: _FAULT_TIME.sub("", value) for key, value in new.items()
    }


def is_due(since_last: float, changed: bool, between: float = BETWEEN) -> bool:
    """Whether the report is written now: on change, at least every 5 minutes, at most once a second."""
    return since_last >= between and (changed or since_last >= REFRESH)


# -- switches of the node ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SwitchFault:
    """One alarm of an interconnect chip of an A3 node."""

    event: int
    code: int
    sub_type: str
    peer_device: int
    peer_port: int
    chip: int
    port: int
    severity: int
    assertion: int
    raised: int

    @property
    def assembled(self) -> str:
        peer = "na" if NO_PORT in (self.peer_port, self.port) else _PEERS.get(self.peer_device, "na")
        return f"[0x{self.code:08x},{self.sub_type or 'na'},{peer},na]"


def switch_info_cfg(faults: Sequence[SwitchFault], levels: Mapping[str, str], update_time: int) -> str:
    """The value of `SwitchInfoCfg`; codes without a level are not reported."""
    listed = [fault for fault in faults if fault.assembled in levels]
    present = {levels[fault.assembled] for fault in listed}
    level = next((level for level in SWITCH_LEVELS if level in present), "")
    if uplinks_down(faults):
        level = SWITCH_SEPARATE
    return compact(
        {
            "FaultCode": [
                compact(
                    {
                        "EventType": fault.event,
                        "AssembledFaultCode": fault.assembled,
                        "PeerPortDevice": fault.peer_device,
                        "PeerPortId": fault.peer_port,
                        "SwitchChipId": fault.chip,
                        "SwitchPortId": fault.port,
                        "Severity": fault.severity,
                        "Assertion": fault.assertion,
                        "AlarmRaisedTime": fault.raised,
                    }
                )
                for fault in listed
            ],
            "FaultLevel": level,
            "UpdateTime": update_time,
            "NodeStatus": switch_node_status(level),
            "FaultTimeAndLevelMap": {
                f"{fault.assembled}_{fault.chip}_{fault.port}": {
                    "fault_time": fault.raised,
                    "fault_level": levels[fault.assembled],
                }
                for fault in sorted(listed, key=lambda one: (one.assembled, one.chip, one.port))
            },
        }
    )


#: A5 nodes have no such switches.
EMPTY_SWITCH_INFO = compact(
    {"FaultCode": None, "FaultLevel": "", "UpdateTime": 0, "NodeStatus": "", "FaultTimeAndLevelMap": None}
)


def uplinks_down(faults: Sequence[SwitchFault]) -> bool:
    """Whether all ports of one switch chip to the second layer are down."""
    ports: dict[int, set[int]] = {}
    for fault in faults:
        if fault.peer_device == _L2 and fault.assertion == 1 and fault.peer_port != NO_PORT:
            ports.setdefault(fault.chip, set()).add(fault.port)
    return any(len(one) >= _UPLINKS for one in ports.values())


# -- other keys -------------------------------------------------------------------------------------------


def upgrade_fault_reason(escalations: Mapping[str, Sequence[Escalation]], spelling: Mapping[int, str]) -> str:
    """The value of `UpgradeFaultReason`: why chips have a level that outlives their faults."""
    return compact(
        {
            chip: [
                {
                    "upgrade_time": one.at,
                    "fault_code": AUTOFILL_CODE
                    if one.kind == BY_AUTOFILL
                    else spelling.get(one.code, f"{one.code:x}").lower(),
                    "fault_level": one.level,
                    "upgrade_type": one.kind,
                }
                for one in reasons
            ]
            for chip, reasons in sorted(escalations.items())
        }
    )


def base_device_infos(
    names: Mapping[int, str],
    chips: Sequence[Chip],
    *,
    with_logic_id: bool,
    levels: Mapping[int, Levels] | None = None,
) -> str:
    """The value of the Node annotation `baseDeviceInfos`; `names` and `levels` by physical id."""
    infos: dict[str, dict[str, Any]] = {}
    for chip in chips:
        info: dict[str, Any] = {"IP": chip.ip, "SuperDeviceID": chip.super_device}
        if with_logic_id:
            info["DeviceID"] = chip.logic
        if levels and levels.get(chip.physical):
            info["levelList"] = levels[chip.physical]
        infos[names[chip.physical]] = info
    return compact(dict(sorted(infos.items())))
