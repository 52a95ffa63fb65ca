"""What Huawei's components read: faulty nodes, retries that are left, and why jobs were rescheduled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ringwise.durations import SECOND
from ringwise.messages.commands import Publish
from ringwise.messages.events import LeaderRecordRead
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, on
from ringwise.scheduler.faults.handler import FaultHandler
from ringwise.scheduler.faults.records import entries_within
from ringwise.state.fleet import HOSTS
from ringwise.state.node_health import NodeStatus
from ringwise.topology.chips import chip_names, chips_of
from ringwise.topology.natural import natural_key
from ringwise.wellknown import (
    FAULT_NODE_KEY,
    FAULT_NODES_CONFIG_MAP,
    MINDX_DL,
    REMAINING_RETRIES_KEY,
    RESCHEDULE_REASON_CONFIG_MAP,
    RESCHEDULE_RECORDS_KEY,
    VOLCANO_SYSTEM,
)

#: Bytes of the document of nodes. The ConfigMap has another key; it holds 1 MiB.
MAX_DOCUMENT = 800 * 1024


class FaultRecordsPublisher(Component):
    name = "fault records"

    def __init__(self, context: Context, faults: FaultHandler) -> None:
        super().__init__(context)
        self._faults = faults
        #: Nodes that are not healthy, as users of Huawei's plugin find them (`fault-node`).
        self._entries: dict[str, dict[str, Any]] = {}
        #: Whether that document has to be written again.
        self._nodes_changed = False
        #: What was written last, by data key. A cluster without faults writes nothing.
        self._written: dict[str, str] = {FAULT_NODE_KEY: "[]"}
        #: The changes of the retries that were written last.
        self._retries = 0

    @on(LeaderRecordRead)
    def _read(self, event: LeaderRecordRead, now: int) -> None:
        """What cannot be read is ignored: faults that still exist are found again."""
        self._faults.records.read(event.records, self._book.jobs)
        if event.fault_nodes:
            self._written[FAULT_NODE_KEY] = event.fault_nodes
            self._nodes_changed = True

    def record(self, now: int) -> list[Publish]:
        shown: dict[str, str] = {}
        records: dict[str, str] = {}
        faults = self._faults
        if faults.records.changed:
            records[RESCHEDULE_RECORDS_KEY] = faults.records.document()
        if faults.retries.owners.changes != self._retries:
            self._retries = faults.retries.owners.changes
            shown[REMAINING_RETRIES_KEY] = faults.retries.document()
        if self._nodes_changed:
            self._nodes_changed = False
            shown[FAULT_NODE_KEY] = self._faulty_nodes()
        return [
            *self._write(MINDX_DL, RESCHEDULE_REASON_CONFIG_MAP, records),
            *self._write(VOLCANO_SYSTEM, FAULT_NODES_CONFIG_MAP, shown),
        ]

    def _write(self, namespace: str, name: str, data: Mapping[str, str]) -> list[Publish]:
        new = {key: text for key, text in data.items() if self._written.get(key) != text}
        self._written |= new
        return [Publish(namespace, name, new)] if new else []

    # -- nodes -----------------------------------------------------------------------------------

    @on(ie.NodeChanged)
    def _node_changed(self, event: ie.NodeChanged, now: int) -> None:
        """Constant time, also for the many reports that change nothing."""
        name = event.name
        entry = self._entry(name)
        before = self._entries.get(name)
        if entry is None:
            if before is not None:
                del self._entries[name]
                self._nodes_changed = True
            return
        entry["UpdateTime"] = before["UpdateTime"] if before is not None else now // SECOND
        if entry != before:
            entry["UpdateTime"] = now // SECOND
            self._entries[name] = entry
            self._nodes_changed = True

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

    def _faulty_nodes(self) -> str:
        """The value of the data key, in natural order of the names; what does not fit is left out."""
        names = sorted(self._entries, key=natural_key)
        texts = (
            (name, json.dumps(self._entries[name], separators=(",", ":"), ensure_ascii=False))
            for name in names
        )
        return f"[{','.join(entries_within(MAX_DOCUMENT, texts).values())}]"


def _names(resource: str, mask: int) -> list[str]:
    return [chip_names(resource, (chip,)) for chip in chips_of(mask)] if mask else []
