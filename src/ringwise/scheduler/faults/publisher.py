"""F1: writes what has to survive a restart, whenever it changed.

The document of ours is written before the commands of the same turn are carried out or after, in any order: a
deletion that was asked for and is not in the document is found again as a fault, and one that is in the
document and never arrived is asked for again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from ringwise.messages.commands import Publish
from ringwise.messages.events import Event, ReschedulingRead
from ringwise.scheduler.cache.component import Component, Context, Handlers
from ringwise.scheduler.faults.document import WrittenDocument, read, write
from ringwise.scheduler.faults.fault_nodes import FaultNodes
from ringwise.scheduler.faults.handler import FaultHandler
from ringwise.scheduler.faults.previous_placements import PreviousPlacements
from ringwise.scheduler.faults.share_records import ShareRecords
from ringwise.wellknown import (
    COOL_DOWNS_KEY,
    FAULT_NODE_KEY,
    FAULT_NODES_CONFIG_MAP,
    MINDX_DL,
    MOVES_KEY,
    OVERRUNS_KEY,
    REMAINING_RETRIES_KEY,
    RESCHEDULE_REASON_CONFIG_MAP,
    RESCHEDULE_RECORDS_KEY,
    RESCHEDULING_CONFIG_MAP,
    RESCHEDULING_KEY,
    RUN_TIMES_KEY,
    VOLCANO_SYSTEM,
)


class Kept(Protocol):
    """What another part keeps: plans of moves and their reservations (M1), since when jobs run."""

    changed: bool

    def document(self) -> str: ...

    def restore(self, text: str, now: int) -> None: ...


class ReschedulingPublisher(Component):
    name = "rescheduling record"

    def __init__(
        self,
        context: Context,
        faults: FaultHandler,
        previous: PreviousPlacements,
        shares: ShareRecords,
        nodes: FaultNodes,
        moves: Kept,
        run_times: Kept,
        overruns: Kept,
    ) -> None:
        super().__init__(context)
        self._faults = faults
        self._previous = previous
        self._shares = shares
        self._nodes = nodes
        self._moves = moves
        self._run_times = run_times
        self._overruns = overruns
        #: Entries of the document for which there was no room when it was written last.
        self.left_out = 0
        #: What was written last, by data key. A cluster without faults writes nothing.
        self._written: dict[str, str] = {RESCHEDULING_KEY: write((), {}, {}, ()).text, FAULT_NODE_KEY: "[]"}
        self._no_records = self._records()

    def hears(self) -> Handlers:
        return {ReschedulingRead: self._read}

    def known(self) -> Iterable[Event]:
        """What is held and kept for jobs that are being rescheduled (S9, F6), and what they avoid (F3)."""
        found = self._records()
        return () if found == self._no_records else (found,)

    def _records(self) -> ReschedulingRead:
        return ReschedulingRead(
            self._document().text,
            cool_downs=self._faults.cool_downs.document(),
            takes_over=False,
        )

    def _document(self) -> WrittenDocument:
        faults = self._faults
        return write(
            faults.jobs.values(),
            faults.clocks.by_job,
            faults.retries.owners,
            self._previous.plain(),
            faults.detector.plain_tolerated(),
            faults.rejected.counts.items(),
            self._shares.plain(),
            faults.restarts.owners,
        )

    def _read(self, event: ReschedulingRead, now: int) -> None:
        """What the previous leader wrote. What cannot be read is as if it were not there; faults that still
        exist are found again.
        """
        self._faults.read_records(event.records)
        if event.fault_nodes:
            self._written[FAULT_NODE_KEY] = event.fault_nodes
            self._nodes.changed = True
        if event.document or event.cool_downs:
            found = read(event.document)
            self._faults.restore(found, event.cool_downs, now)
            self._previous.restore(found.placements, now)
            self._shares.restore(found.shares, now)
        self._moves.restore(event.moves, now)
        self._run_times.restore(event.run_times, now)
        self._overruns.restore(event.overruns, now)
        if event.takes_over:
            self._faults.find_lost_pods(now)

    def changes(self, now: int) -> list[Publish]:
        faults, previous, shares = self._faults, self._previous, self._shares
        own: dict[str, str] = {}
        shown: dict[str, str] = {}
        records: dict[str, str] = {}
        clocks = faults.clocks
        changing = (faults, clocks, previous, shares, faults.detector, faults.rejected)
        if any(part.changed for part in changing):
            for part in changing:
                part.changed = False
            document = self._document()
            own[RESCHEDULING_KEY], self.left_out = document.text, document.left_out
        if faults.cool_downs.changed:
            faults.cool_downs.changed = False
            own[COOL_DOWNS_KEY] = faults.cool_downs.document()
        if self._moves.changed:
            self._moves.changed = False
            own[MOVES_KEY] = self._moves.document()
        if self._run_times.changed:
            self._run_times.changed = False
            own[RUN_TIMES_KEY] = self._run_times.document()
        if self._overruns.changed:
            self._overruns.changed = False
            own[OVERRUNS_KEY] = self._overruns.document()
        if faults.records.changed:
            faults.records.changed = False
            records[RESCHEDULE_RECORDS_KEY] = faults.records.document()
        if faults.retries.changed:
            faults.retries.changed = False
            shown[REMAINING_RETRIES_KEY] = faults.retries.document()
        if self._nodes.changed:
            self._nodes.changed = False
            shown[FAULT_NODE_KEY] = self._nodes.document()
        return [
            *self._write(VOLCANO_SYSTEM, RESCHEDULING_CONFIG_MAP, own),
            *self._write(MINDX_DL, RESCHEDULE_REASON_CONFIG_MAP, records),
            *self._write(VOLCANO_SYSTEM, FAULT_NODES_CONFIG_MAP, shown),
        ]

    def _write(self, namespace: str, name: str, data: Mapping[str, str]) -> list[Publish]:
        new = {key: text for key, text in data.items() if self._written.get(key) != text}
        self._written |= new
        return [Publish(namespace, name, new)] if new else []
