"""What Huawei's components read: faulty nodes, retries that are left, and why jobs were rescheduled."""

from __future__ import annotations

from collections.abc import Mapping

from ringwise.messages.commands import Publish
from ringwise.messages.events import LeaderRecordRead
from ringwise.scheduler.cache.component import Component, Context, Handlers
from ringwise.scheduler.faults.fault_nodes import FaultNodes
from ringwise.scheduler.faults.handler import FaultHandler
from ringwise.wellknown import (
    FAULT_NODE_KEY,
    FAULT_NODES_CONFIG_MAP,
    MINDX_DL,
    REMAINING_RETRIES_KEY,
    RESCHEDULE_REASON_CONFIG_MAP,
    RESCHEDULE_RECORDS_KEY,
    VOLCANO_SYSTEM,
)


class FaultRecordsPublisher(Component):
    name = "fault records"

    def __init__(self, context: Context, faults: FaultHandler, nodes: FaultNodes) -> None:
        super().__init__(context)
        self._faults = faults
        self._nodes = nodes
        #: What was written last, by data key. A cluster without faults writes nothing.
        self._written: dict[str, str] = {FAULT_NODE_KEY: "[]"}
        #: The changes of the retries that were written last.
        self._retries = 0

    def handlers(self) -> Handlers:
        return {LeaderRecordRead: self._read}

    def _read(self, event: LeaderRecordRead, now: int) -> None:
        """What cannot be read is ignored: faults that still exist are found again."""
        self._faults.records.read(event.records, self._book.jobs)
        if event.fault_nodes:
            self._written[FAULT_NODE_KEY] = event.fault_nodes
            self._nodes.changed = True

    def record(self, now: int) -> list[Publish]:
        shown: dict[str, str] = {}
        records: dict[str, str] = {}
        faults = self._faults
        if faults.records.changed:
            faults.records.changed = False
            records[RESCHEDULE_RECORDS_KEY] = faults.records.document()
        if faults.retries.owners.changes != self._retries:
            self._retries = faults.retries.owners.changes
            shown[REMAINING_RETRIES_KEY] = faults.retries.document()
        if self._nodes.changed:
            self._nodes.changed = False
            shown[FAULT_NODE_KEY] = self._nodes.document()
        return [
            *self._write(MINDX_DL, RESCHEDULE_REASON_CONFIG_MAP, records),
            *self._write(VOLCANO_SYSTEM, FAULT_NODES_CONFIG_MAP, shown),
        ]

    def _write(self, namespace: str, name: str, data: Mapping[str, str]) -> list[Publish]:
        new = {key: text for key, text in data.items() if self._written.get(key) != text}
        self._written |= new
        return [Publish(namespace, name, new)] if new else []
