"""F1: what the next leader has to know: a table for each subject, written whenever it changed.

A component creates its tables when it is built, and gets their entries of the previous leader in the hook
`restore`. All tables share one limit. If they exceed it, entries of jobs that no longer exist are dropped
first, then the oldest ones of the namespace that has most. Entries that enforce a limit, a retry budget or a
hold are not dropped while their job or its owner exists; if they exceed one object, the record continues in
others.

The record is written before the commands of the same turn are executed or after, in any order: a deletion
that was sent and is not in the record is found again as a fault, and one that is in the record and never
arrived is sent again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from ringwise.grammar import counted
from ringwise.messages.commands import Command, Publish
from ringwise.messages.events import Event, LeaderRecordRead
from ringwise.scheduler.cache.component import Component, Components, Context, on
from ringwise.scheduler.cache.record_tables import RecordTable, RestoredRecord, read_tables, table_of
from ringwise.wellknown import RECORD_CONFIG_MAPS, UNREAD_RECORD_CONFIG_MAP, VOLCANO_SYSTEM

#: Bytes in one object: a ConfigMap holds 1 MiB with its metadata.
MAX_OBJECT = 900 * 1024
#: Bytes of the JSON around the entries of a table.
_FRAME = 64


class LeaderRecord(Component):
    name = "leader record"

    def __init__(self, context: Context, components: Components) -> None:
        super().__init__(context)
        self._tables = context.record.all
        self._components = components
        #: By position of the object and data key, what was written last. Without entries nothing is written.
        self._written: dict[tuple[int, str], str] = {}
        #: Entries that no object has room for.
        self.omitted = 0
        #: By data key: why it was not read.
        self.unread: dict[str, str] = {}
        self._copies: list[Command] = []
        #: A record was read: what of it is no longer valid is removed.
        self._was_read = False

    def current_events(self) -> Iterable[Event]:
        for table in self._tables:
            table.refresh()
        tables = {_data_key(table): next(table.parts(table.size, 0))[1] for table in self._tables if table}
        return (LeaderRecordRead(tables, takes_over=False),) if tables else ()

    # -- reading ---------------------------------------------------------------------------------

    @on(LeaderRecordRead)
    def _read(self, event: LeaderRecordRead, now: int) -> None:
        """Restore what the previous leader wrote, table by table; what cannot be read is copied."""
        entries, problems = read_tables(event.tables)
        self.unread.update(problems)
        names = {table.name for table in self._tables}
        restored = RestoredRecord(entries, event.takes_over)
        self._components.restore(restored, now)
        for key in event.tables:
            name = table_of(key)
            if bad := restored.unreadable.get(name):
                self.unread[key] = f"{counted(bad, 'entry', 'entries')} cannot be read"
            elif key not in self.unread and name not in names:
                self.unread[key] = "is not a table of this version"
        if event.takes_over:
            self._written = {(_object_of(key), key): text for key, text in event.tables.items() if text}
            self._was_read = True
            unread = {key: event.tables[key] for key in self.unread if key in event.tables}
            if unread:
                self._copies.append(Publish(VOLCANO_SYSTEM, UNREAD_RECORD_CONFIG_MAP, unread))

    # -- writing ---------------------------------------------------------------------------------

    def record(self, now: int) -> Sequence[Command]:
        changed = [table for table in self._tables if table.refresh()]
        if not changed and not self._was_read:
            return ()
        commands, self._copies, self._was_read = self._copies, [], False
        if sum(table.size for table in self._tables) > MAX_OBJECT:
            self._drop()
        new = self._data()
        for place in self._written.keys() - new.keys():
            new[place] = ""
        for number, name in enumerate(RECORD_CONFIG_MAPS):
            data = {
                key: text
                for (position, key), text in new.items()
                if position == number and self._written.get((position, key), "") != text
            }
            if data:
                commands.append(Publish(VOLCANO_SYSTEM, name, data))
        self._written = {place: text for place, text in new.items() if text}
        return commands

    def _data(self) -> dict[tuple[int, str], str]:
        """Return the texts by position of the object and data key."""
        result: dict[tuple[int, str], str] = {}
        number, room, self.omitted = 0, MAX_OBJECT, 0
        for table in self._tables:
            for position, (count, part) in enumerate(table.parts(room - _FRAME, MAX_OBJECT - _FRAME)):
                if position:
                    number, room = number + 1, MAX_OBJECT
                if number >= len(RECORD_CONFIG_MAPS):
                    self.omitted += count
                elif part:
                    result[number, _data_key(table, number)] = part
                room -= len(part.encode()) + _FRAME if part else 0
        return result

    def _drop(self) -> None:
        """Drop entries until the rest fits into one object, or none may be dropped."""
        present = self._subjects()
        of_namespace: dict[str, list[tuple[RecordTable[Any], str]]] = {}
        sizes: Counter[str] = Counter()
        for table in self._tables:
            for key, entry in list(table.items()):
                if key not in table:
                    # It was dropped with another one.
                    continue
                subject = table.subject(key, entry)
                if subject and subject not in present:
                    if not self._fits():
                        _forget(table, key)
                elif table.droppable(entry):
                    namespace = subject.partition("/")[0]
                    of_namespace.setdefault(namespace, []).append((table, key))
                    sizes[namespace] += table.size_of(key)
        for entries in of_namespace.values():
            entries.reverse()
        while sizes and not self._fits():
            namespace = max(sizes, key=lambda name: (sizes[name], name))
            table, key = of_namespace[namespace].pop()
            if key in table:
                sizes[namespace] -= table.size_of(key)
                _forget(table, key)
            if not of_namespace[namespace]:
                del sizes[namespace]

    def _fits(self) -> bool:
        return sum(table.size for table in self._tables) <= MAX_OBJECT

    def _subjects(self) -> set[str]:
        """Return the keys of jobs, and their owners as `namespace/uid`."""
        result = set(self._book.jobs)
        for job in self._book.jobs.values():
            owners = (
                job.group.owner if job.group is not None else None,
                *(pod.owner for pod in job.pods.values()),
            )
            result.update(f"{job.namespace}/{owner.uid}" for owner in owners if owner is not None)
        result.update(f"{vcjob.namespace}/{vcjob.uid}" for vcjob in self._book.vcjobs.values())
        return result


def _forget(table: RecordTable[Any], key: str) -> None:
    table.forget(key)
    table.refresh()


def _data_key(table: RecordTable[Any], number: int = 0) -> str:
    """Return the data key of a table; the objects after the first have keys of their own."""
    return f"{table.name}.{number + 1}.json" if number else f"{table.name}.json"


def _object_of(key: str) -> int:
    """Return the position of the object that has a data key."""
    number = key.split(".")[1:2]
    return int(number[0]) - 1 if number and number[0].isdecimal() else 0
