"""F1: writes what has to survive a restart, whenever it changed.

The document of ours is written before the commands of the same turn are carried out or after, in any order: a
deletion that was asked for and is not in the document is found again as a fault, and one that is in the
document and never arrived is asked for again.
"""

from __future__ import annotations

from ringwise.messages.commands import Publish
from ringwise.scheduler.faults.document import write
from ringwise.scheduler.faults.handler import FaultHandler
from ringwise.scheduler.faults.previous_placements import PreviousPlacements
from ringwise.wellknown import (
    FAULT_NODES_CONFIG_MAP,
    MINDX_DL,
    REMAINING_RETRIES_KEY,
    RESCHEDULE_REASON_CONFIG_MAP,
    RESCHEDULE_RECORDS_KEY,
    RESCHEDULING_CONFIG_MAP,
    RESCHEDULING_KEY,
    VOLCANO_SYSTEM,
)


class ReschedulingPublisher:
    def __init__(self, faults: FaultHandler, previous: PreviousPlacements) -> None:
        self._faults = faults
        self._previous = previous
        #: What was written last, by ConfigMap. A cluster without faults writes nothing.
        self._written: dict[str, str] = {RESCHEDULING_CONFIG_MAP: write((), {}, ())}

    def changes(self) -> list[Publish]:
        faults, previous = self._faults, self._previous
        if not (faults.changed or previous.changed):
            return []
        faults.changed = previous.changed = False
        commands = self._write(
            VOLCANO_SYSTEM,
            RESCHEDULING_CONFIG_MAP,
            RESCHEDULING_KEY,
            write(faults.jobs.values(), faults.retries.owners, previous.plain()),
        )
        if faults.retries.owners or FAULT_NODES_CONFIG_MAP in self._written:
            text = faults.retries.document()
            commands += self._write(VOLCANO_SYSTEM, FAULT_NODES_CONFIG_MAP, REMAINING_RETRIES_KEY, text)
        if len(faults.records):
            text = faults.records.document()
            commands += self._write(MINDX_DL, RESCHEDULE_REASON_CONFIG_MAP, RESCHEDULE_RECORDS_KEY, text)
        return commands

    def _write(self, namespace: str, name: str, key: str, text: str) -> list[Publish]:
        if self._written.get(name) == text:
            return []
        self._written[name] = text
        return [Publish(namespace, name, {key: text})]
