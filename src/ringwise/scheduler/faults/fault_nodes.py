"""Nodes that are not healthy, as users of Huawei's plugin find them (`fault-node`)."""

from __future__ import annotations

import json
from typing import Any

from ringwise.durations import SECOND
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, Handlers
from ringwise.state.fleet import HOSTS
from ringwise.state.node_health import NodeStatus
from ringwise.topology.chips import chip_names, chips_of
from ringwise.topology.natural import natural_key

#: Bytes of the document. The ConfigMap has another key; it holds 1 MiB.
MAX_DOCUMENT = 800 * 1024


class FaultNodes(Component):
    def __init__(self, context: Context) -> None:
        super().__init__(context)
        #: By node, as written.
        self._entries: dict[str, dict[str, Any]] = {}
        #: Whether the document has to be written again.
        self.changed = False

    def handlers(self) -> Handlers:
        return {ie.NodeChanged: self._node_changed}

    def _node_changed(self, event: ie.NodeChanged, now: int) -> None:
        """Constant time, also for the many reports that change nothing."""
        name = event.name
        entry = self._entry(name)
        before = self._entries.get(name)
        if entry is None:
            if before is not None:
                del self._entries[name]
                self.changed = True
            return
        entry["UpdateTime"] = before["UpdateTime"] if before is not None else now // SECOND
        if entry != before:
            entry["UpdateTime"] = now // SECOND
            self._entries[name] = entry
            self.changed = True

    def _entry(self, name: str) -> dict[str, Any] | None:
        state = self._state
        number = state.node_id.get(name)
        node = None if number is None else state.nodes[number]
        if number is None or node is None:
            return None
        unhealthy: list[str] = []
        network: list[str] = []
        for resource, fleet in state.fleets.items():
            if resource != HOSTS:
                unhealthy += _names(resource, fleet.unhealthy[number])
                network += _names(resource, max(0, fleet.network[number]))
        if not node.ready or state.node_status.get(number) is NodeStatus.UNHEALTHY:
            health = "NodeUnhealthy"
        elif unhealthy:
            health = "CardUnhealthy"
        elif network:
            health = "CardNetworkUnhealthy"
        else:
            return None
        return {
            "NodeName": name,
            "UpdateTime": 0,
            "UnhealthyNPU": unhealthy,
            "NetworkUnhealthyNPU": network,
            "NodeHealthState": health,
            "FaultDeviceList": self._devices(name),
        }

    def _devices(self, name: str) -> list[dict[str, str]]:
        """Fault codes by chip and level."""
        codes: dict[tuple[str, str, bool], list[str]] = {}
        for resource in self._state.fleets:
            report = self._state.report_of(name, resource) if resource != HOSTS else None
            for fault in () if report is None else report.faults:
                key = chip_names(resource, (fault.chip,)), fault.level, fault.network
                codes.setdefault(key, []).append(fault.code)
        return [
            {
                "fault_type": "CardNetworkUnhealthy" if network else "CardUnhealthy",
                "npu_name": chip,
                "fault_level": level,
                "fault_handling": level,
                "large_model_fault_level": level,
                "fault_code": ",".join(entries),
            }
            for (chip, level, network), entries in codes.items()
        ]

    def document(self) -> str:
        """The value of the data key, in natural order of the names; what does not fit is left out."""
        room = MAX_DOCUMENT
        texts: list[str] = []
        for name in sorted(self._entries, key=natural_key):
            text = json.dumps(self._entries[name], separators=(",", ":"), ensure_ascii=False)
            room -= len(text.encode()) + 1
            if room < 0:
                break
            texts.append(text)
        return f"[{','.join(texts)}]"


def _names(resource: str, mask: int) -> list[str]:
    return [chip_names(resource, (chip,)) for chip in chips_of(mask)] if mask else []
