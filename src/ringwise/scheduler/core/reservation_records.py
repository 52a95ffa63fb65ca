"""Reservations and throttled namespaces as a document, for commands and what-ifs outside of the scheduler.

Only the scheduler knows what is reserved for a long-pending job or for a preemptor. What-ifs, and commands
that read the objects of a cluster, get it from this document and do not use it for other jobs. The next
leader does not read it: it makes its own reservations.

Throttled namespaces are named without their processor time: equal events must give equal documents.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from ringwise.messages.commands import Command, Publish
from ringwise.messages.events import Event, ReschedulingRead
from ringwise.scheduler.cache.component import Component, Context, Handlers
from ringwise.scheduler.core.turns import FairTurns
from ringwise.scheduler.defragment import moves
from ringwise.scheduler.faults import previous_placements
from ringwise.state.loads import NO_LOAD, Load
from ringwise.state.reservations import Reservation
from ringwise.versions import RECORD_VERSION, read_record
from ringwise.wellknown import RESCHEDULING_CONFIG_MAP, RESERVATIONS_KEY, VOLCANO_SYSTEM

#: Characters: a gang of 400 nodes. The ConfigMap has other documents, too.
MAX_DOCUMENT = 32 * 1024
#: The maximum number of throttled namespaces in the document, and the minimum time between two changes of
#: them in nanoseconds.
MAX_THROTTLED = 20
THROTTLED_PAUSE = 10_000_000_000
#: Reservations that follow from documents of their own (S9, M1).
_ELSEWHERE = frozenset({previous_placements.WHY, moves.WHY})


class ReservationRecords(Component):
    name = "reservation records"

    def __init__(self, context: Context, turns: FairTurns) -> None:
        super().__init__(context)
        self._turns = turns
        #: The numbers of the reservations in what was written last, and that text.
        self._numbers: tuple[int, ...] = ()
        self._written = ""
        #: The throttled namespaces in it, and the time before which they are not written again.
        self._throttled: tuple[str, ...] = ()
        self._pause_ends = 0

    def hears(self) -> Handlers:
        return {ReschedulingRead: self._read}

    def known(self) -> Iterable[Event]:
        if not self._recorded() and not self._throttled:
            return ()
        return (ReschedulingRead(reservations=self.document(), takes_over=False),)

    def deadline(self) -> int | None:
        return self._pause_ends if self._to_name() != self._throttled else None

    def publish(self, now: int) -> Sequence[Command]:
        numbers = tuple(one.number for one in self._recorded()) if len(self._reservations) else ()
        throttled = self._to_name() if now >= self._pause_ends else self._throttled
        if numbers == self._numbers and throttled == self._throttled:
            return ()
        self._numbers = numbers
        if throttled != self._throttled:
            self._throttled, self._pause_ends = throttled, now + THROTTLED_PAUSE
        text = self.document()
        if text == self._written:
            return ()
        self._written = text
        return (Publish(VOLCANO_SYSTEM, RESCHEDULING_CONFIG_MAP, {RESERVATIONS_KEY: text}),)

    def _recorded(self) -> list[Reservation]:
        return [one for one in self._reservations if one.why not in _ELSEWHERE]

    def _to_name(self) -> tuple[str, ...]:
        return tuple(self._turns.throttled)[:MAX_THROTTLED]

    def document(self) -> str:
        """Return the document, with as many reservations as fit."""
        throttled = json.dumps(self._throttled, separators=(",", ":"))
        named = f'"throttled":{throttled},' if self._throttled else ""
        frame = f'{{"version":{RECORD_VERSION},{named}"reservations":[]}}'
        room, lines = MAX_DOCUMENT - len(frame), list[str]()
        for one in self._recorded():
            line = json.dumps(self._plain(one), separators=(",", ":"))
            room -= len(line) + 1
            if room >= 0:
                lines.append(line)
        return f"{frame[:-2]}{','.join(lines)}]}}"

    def _plain(self, one: Reservation) -> list[Any]:
        names, job = self._state.names, self._book.jobs.get(one.owner)
        nodes = []
        for node in one.nodes:
            load = one.loads.get(node, NO_LOAD)
            amounts = [load.cpu_milli, load.memory, load.pods, [list(pair) for pair in load.extended]]
            # As text: JSON readers need not know integers of more than 64 bits.
            nodes.append([names[node], f"{one.chips.get(node, 0):x}", amounts])
        return [
            one.owner,
            one.resource,
            None if job is None else job.waiting_since,
            one.expires,
            one.starts,
            one.why,
            one.evicting,
            nodes,
            sorted(one.awaited),
            [[uid, names[node]] for uid, node in one.nominated.items()],
        ]

    def _read(self, event: ReschedulingRead, now: int) -> None:
        """Restore the reservations; those that cannot be read are ignored."""
        if event.takes_over:
            if event.reservations:
                # Written by the previous leader; replaced by the reservations of this one.
                self._written, self._numbers = event.reservations, (0,)
            return
        found, _ = read_record(event.reservations)
        if not found:
            return
        throttled = found.get("throttled")
        names = throttled[:MAX_THROTTLED] if isinstance(throttled, list) else []
        self._turns.restore((name for name in names if isinstance(name, str)), now)
        for given in found.get("reservations") or () if isinstance(found.get("reservations"), list) else ():
            try:
                self._restore(given, now)
            except (TypeError, ValueError, OverflowError):
                continue

    def _restore(self, given: Any, now: int) -> None:
        owner, resource, since, expires, starts, why, evicting, nodes, awaited, nominated = given
        job, numbers = self._book.jobs.get(str(owner)), self._state.node_id
        reservation = Reservation(
            str(owner),
            str(resource),
            awaited=frozenset(map(str, awaited)),
            nominated={str(uid): numbers[node] for uid, node in nominated if node in numbers},
            expires=None if expires is None else int(expires),
            starts=None if starts is None else int(starts),
            why=str(why),
            evicting=bool(evicting),
        )
        for name, chips, (cpu, memory, pods, extended) in nodes:
            number = numbers.get(name)
            if number is None:
                continue
            if mask := int(chips, 16):
                reservation.chips[number] = mask
            load = Load(
                int(cpu), int(memory), int(pods), tuple((str(one), int(two)) for one, two in extended)
            )
            if load != NO_LOAD:
                reservation.loads[number] = load
        over = reservation.expires is not None and reservation.expires <= now
        known = reservation.resource in self._state.fleets
        if job is None or over or not known or self._reservations.of(job.key) is not None:
            return
        if job.waiting_since is None and since is not None:
            job.waiting_since = min(int(since), now)
        self._reservations.make(reservation)
