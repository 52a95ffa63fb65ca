"""Reservations and throttled namespaces in the leader record, for commands and what-ifs.

Only the scheduler knows what is reserved for a long-pending job or for a preemptor. What-ifs, and commands
that read the objects of a cluster, get it from the record and do not use it for other jobs. The next leader
does not take it over: it makes its own reservations.

Throttled namespaces are named without their processor time: equal events must give equal records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from types import NoneType

from ringwise.messages.commands import Command
from ringwise.records import dataclass
from ringwise.scheduler.cache.component import Component, Context
from ringwise.scheduler.cache.record_tables import RecordTable, RestoredRecord
from ringwise.scheduler.core.turns import FairTurns
from ringwise.scheduler.defragment import moves
from ringwise.scheduler.faults import previous_placements
from ringwise.state.loads import Load
from ringwise.state.reservations import Reservation

#: Name of the table.
RESERVATIONS = "reservations"
#: The maximum number of throttled namespaces in the record, and the minimum time between two changes of
#: them in nanoseconds.
MAX_THROTTLED = 20
THROTTLED_PAUSE = 10_000_000_000
#: Reservations that follow from tables of their own (S9, M1).
_ELSEWHERE = frozenset({previous_placements.WHY, moves.WHY})


@dataclass(frozen=True, slots=True)
class RecordedReservation:
    """A reservation by names of nodes."""

    resource: str
    why: str = ""
    #: Since when its owner is pending.
    since: int | None = None
    expires: int | None = None
    starts: int | None = None
    evicting: bool = False
    chips: dict[str, int] = field(default_factory=dict)
    loads: dict[str, Load] = field(default_factory=dict)
    awaited: frozenset[str] = frozenset()
    nominated: dict[str, str] = field(default_factory=dict)


class ReservationRecords(Component):
    name = "reservation records"

    def __init__(self, context: Context, turns: FairTurns) -> None:
        super().__init__(context)
        self._turns = turns
        #: By owner.
        self._recorded = context.record.add(
            RecordTable(RESERVATIONS, RecordedReservation, droppable=lambda one: True, source=self._entries)
        )
        self._throttled = context.record.add(
            RecordTable("throttled", NoneType, subject=lambda name, entry: "", droppable=lambda entry: True)
        )
        #: The numbers of the reservations that were read last, and their entries.
        self._read: tuple[tuple[int, ...], dict[str, RecordedReservation]] = (), {}
        #: The time before which throttled namespaces are not written again.
        self._pause_ends = 0

    def deadline(self) -> int | None:
        return self._pause_ends if self._to_name() != list(self._throttled) else None

    def publish(self, now: int) -> Sequence[Command]:
        throttled = self._to_name()
        if throttled != list(self._throttled) and now >= self._pause_ends:
            self._pause_ends = now + THROTTLED_PAUSE
            self._throttled.become({})
            self._throttled.become(dict.fromkeys(throttled))
        return ()

    def _to_name(self) -> list[str]:
        return list(self._turns.throttled)[:MAX_THROTTLED]

    def _entries(self) -> dict[str, RecordedReservation]:
        recorded = [one for one in self._reservations if one.why not in _ELSEWHERE]
        numbers = tuple(one.number for one in recorded)
        if numbers != self._read[0]:
            self._read = numbers, {one.owner: self._entry(one) for one in recorded}
        return self._read[1]

    def _entry(self, one: Reservation) -> RecordedReservation:
        names, job = self._state.names, self._book.jobs.get(one.owner)
        return RecordedReservation(
            one.resource,
            one.why,
            None if job is None else job.waiting_since,
            one.expires,
            one.starts,
            one.evicting,
            {names[node]: mask for node, mask in one.chips.items()},
            {names[node]: load for node, load in one.loads.items()},
            one.awaited,
            {uid: names[node] for uid, node in one.nominated.items()},
        )

    def restore(self, record: RestoredRecord, now: int) -> None:
        if record.takes_over:
            return
        self._turns.restore_throttled(list(record.of(self._throttled))[:MAX_THROTTLED], now)
        for owner, one in record.of(self._recorded).items():
            self._restore(owner, one, now)

    def _restore(self, owner: str, one: RecordedReservation, now: int) -> None:
        job, numbers = self._book.jobs.get(owner), self._state.node_id
        over = one.expires is not None and one.expires <= now
        if job is None or over or one.resource not in self._state.fleets:
            return
        if self._reservations.of(job.key) is not None:
            return
        if job.waiting_since is None and one.since is not None:
            job.waiting_since = min(one.since, now)
        self._reservations.make(
            Reservation(
                owner,
                one.resource,
                {numbers[name]: mask for name, mask in one.chips.items() if name in numbers},
                {numbers[name]: load for name, load in one.loads.items() if name in numbers},
                one.awaited,
                {uid: numbers[name] for uid, name in one.nominated.items() if name in numbers},
                one.expires,
                one.starts,
                one.why,
                one.evicting,
            )
        )
