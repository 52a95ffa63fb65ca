"""A stand-in for Huawei's ClusterD, and for the part that its operator has in a hot switch.

`ClusterD` makes the ConfigMaps that the real one writes from those of device plugins and NodeD. `HotSwitch`
plays the protocol that replaces a pod on sub-healthy hardware by a backup. Neither knows where the objects
are: tests in virtual time and on a real control plane use the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from ringwise.device.report import check_code
from ringwise.records import dataclass
from ringwise.wellknown import (
    BACKUP_NEW_POD,
    BACKUP_SOURCE_POD,
    CLUSTER_INFO_PREFIX,
    CLUSTER_NODE_INFO,
    CLUSTER_REPORT_LABEL,
    CLUSTER_SWITCH_INFO_PREFIX,
    DEVICE_INFO_KEY,
    DEVICE_INFO_PREFIX,
    FAULT_SUFFIX,
    FAULT_TYPE,
    IN_HOT_SWITCH,
    MINDX_DL,
    NEED_VOLCANO_OPERATION,
    NODE_INFO_KEY,
    NODE_INFO_PREFIX,
    POD_TYPE,
    SWITCH_INFO_KEY,
    SWITCH_INFO_PREFIX,
    UNHEALTHY_SUFFIX,
)

Object = dict[str, Any]

#: Bytes at which the real one begins the next ConfigMap.
CHUNK = 800 * 1024
#: What ClusterD asks its operator to do with a pod: `create` a backup of it, or `delete` it.
NEED_OPERATOR_OPERATION = "needOperatorOpe"


@dataclass(frozen=True, slots=True)
class PublicFault:
    """A fault of a chip that another program told ClusterD; no device plugin reports it."""

    node: str
    chip: str
    code: str
    level: str


class ClusterD:
    def __init__(self, chunk: int = CHUNK) -> None:
        self._chunk = chunk
        #: ConfigMaps that were written: those that are no longer needed are written empty.
        self._written: set[str] = set()
        self.public_faults: list[PublicFault] = []

    def aggregates(self, config_maps: Iterable[Object]) -> list[Object]:
        """The ConfigMaps for these of all nodes. A report with a wrong check code does not count."""
        devices: Object = {}
        switches: Object = {}
        nodes: Object = {}
        for one in config_maps:
            name, data = one["metadata"]["name"], one["data"]
            if name.startswith(DEVICE_INFO_PREFIX):
                node = name.removeprefix(DEVICE_INFO_PREFIX)
                info = self._device(name, node, json.loads(data[DEVICE_INFO_KEY]))
                if info is not None:
                    devices[name] = info
                if data.get(SWITCH_INFO_KEY):
                    entry = f"{SWITCH_INFO_PREFIX}{node}"
                    switches[entry] = {**json.loads(data[SWITCH_INFO_KEY]), "CmName": entry}
            elif name.startswith(NODE_INFO_PREFIX):
                inner = json.loads(data[NODE_INFO_KEY])["NodeInfo"]
                nodes[name] = {**inner, "CmName": name, "UpdateTime": 1_760_000_000_000}
        made = {
            **self._chunks(CLUSTER_INFO_PREFIX, devices),
            **self._chunks(CLUSTER_SWITCH_INFO_PREFIX, switches),
            CLUSTER_NODE_INFO: json.dumps(nodes) if nodes else "",
        }
        made |= dict.fromkeys(self._written - made.keys(), "")
        self._written |= made.keys()
        return [_config_map(name, text) for name, text in sorted(made.items())]

    def _device(self, name: str, node: str, report: Object) -> Object | None:
        info = report["DeviceInfo"]
        if report.get("CheckCode") != check_code(info["DeviceList"], info["UpdateTime"]):
            return None
        return {
            "DeviceList": self._with_public_faults(node, info["DeviceList"]),
            "UpdateTime": info["UpdateTime"],
            "CmName": name,
            "SuperPodID": report.get("SuperPodID", -2),
            "RackID": report.get("RackID", 0),
            "ServerIndex": report.get("ServerIndex", -2),
        }

    def _with_public_faults(self, node: str, lists: Mapping[str, str]) -> dict[str, str]:
        changed = dict(lists)
        resource = min(lists, key=len)
        for fault in self.public_faults:
            if fault.node != node:
                continue
            listed = json.loads(changed.get(f"{resource}{FAULT_SUFFIX}") or "[]")
            levels = dict.fromkeys(("fault_level", "fault_handling", "large_model_fault_level"), fault.level)
            listed.append(
                {"fault_type": "PublicFault", "npu_name": fault.chip, "fault_code": fault.code, **levels}
            )
            changed[f"{resource}{FAULT_SUFFIX}"] = json.dumps(listed)
            if fault.level == "SeparateNPU":
                bad = f"{resource}{UNHEALTHY_SUFFIX}"
                changed[bad] = ",".join(filter(None, [changed.get(bad, ""), fault.chip]))
                free = (chip for chip in changed[resource].split(",") if chip != fault.chip)
                changed[resource] = ",".join(free)
        return changed

    def _chunks(self, prefix: str, entries: Object) -> dict[str, str]:
        chunks: list[Object] = []
        size = 0
        for key, entry in entries.items():
            length = len(json.dumps({key: entry}))
            if not chunks or size + length > self._chunk:
                chunks.append({})
                size = 0
            chunks[-1][key] = entry
            size += length
        return {f"{prefix}{number}": json.dumps(chunk) for number, chunk in enumerate(chunks)}


def _config_map(name: str, text: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": MINDX_DL, "labels": {CLUSTER_REPORT_LABEL: "true"}},
        "data": {name: text},
    }


class Pods(Protocol):
    """The pods of one job, wherever they are."""

    def phase(self, name: str) -> str | None:
        """None: there is no such pod."""

    def patch(
        self, name: str, annotations: Mapping[str, str | None], labels: Mapping[str, str] | None = None
    ) -> None:
        """None as a value removes the annotation."""

    def copy(self, name: str, to: str, annotations: Mapping[str, str]) -> None:
        """A new pod from the template of this one, with its rank."""

    def delete(self, name: str) -> None:
        """By force."""


class HotSwitch:
    """One pod is replaced by a backup. Each method is one act of ClusterD with the operator's answer."""

    def __init__(self, pods: Pods, source: str, backup: str) -> None:
        self._pods = pods
        self.source, self.backup = source, backup

    def begin(self) -> None:
        """ClusterD asks for a backup, and the operator creates it."""
        self._pods.patch(self.source, {IN_HOT_SWITCH: "true", NEED_OPERATOR_OPERATION: "create"})
        marks = {IN_HOT_SWITCH: "true", POD_TYPE: "backup", BACKUP_SOURCE_POD: self.source}
        self._pods.copy(self.source, self.backup, marks)
        self._pods.patch(self.source, {BACKUP_NEW_POD: self.backup})

    @property
    def is_ready(self) -> bool:
        return self._pods.phase(self.backup) == "Running"

    def take_over(self) -> None:
        """The training is paused: ClusterD lets the scheduler delete the old pod."""
        assert self.is_ready
        self._pods.patch(self.source, {NEED_VOLCANO_OPERATION: "delete"}, {FAULT_TYPE: "SubHealth"})

    @property
    def is_over(self) -> bool:
        return self._pods.phase(self.source) is None

    def finish(self) -> None:
        """The old pod is gone: the backup is a pod like any other."""
        assert self.is_over
        self._pods.patch(self.backup, {POD_TYPE: None, BACKUP_SOURCE_POD: None})
        self._pods.patch(self.backup, {IN_HOT_SWITCH: None})

    def give_up(self) -> None:
        """The backup did not run in time: the old pod goes on."""
        marks = dict.fromkeys((IN_HOT_SWITCH, BACKUP_NEW_POD, NEED_OPERATOR_OPERATION))
        self._pods.patch(self.source, marks)
        self._pods.patch(self.backup, {NEED_OPERATOR_OPERATION: "delete"})
        self._pods.delete(self.backup)

    def stop_the_job(self, first: str) -> None:
        """The training could not be paused: the pod of rank 0 goes, which restarts the job."""
        self._pods.patch(first, {NEED_VOLCANO_OPERATION: "delete"}, {FAULT_TYPE: "SubHealth"})
