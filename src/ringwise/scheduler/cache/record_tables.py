"""The tables of the leader record (`leader_record.py`): typed entries by key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import takewhile
from typing import Any, Generic, TypeVar

from ringwise.scheduler.cache.entries import UNREADABLE, compact, decode, encode
from ringwise.versions import LEADER_RECORD_VERSION, read_record

T = TypeVar("T")


class RecordTable(dict[str, T], Generic[T]):
    """What the next leader has to know about one subject, the oldest entry first.

    An entry that is changed in place is written only after `touch`. Only entries that changed are encoded.
    """

    #: Returns an entry as JSON.
    encode: Callable[[Any], str] = staticmethod(encode)

    def __init__(
        self,
        name: str,
        entry: type[T],
        *,
        subject: Callable[[str, T], str] = lambda key, entry: key,
        droppable: Callable[[T], bool] = lambda entry: False,
        forget: Callable[[str], object] | None = None,
        is_valid: Callable[[T], bool] = lambda entry: True,
        source: Callable[[], Mapping[str, T]] | None = None,
    ) -> None:
        super().__init__()
        self.name = name
        #: The type of an entry.
        self.entry = entry
        #: The job or the owner (`namespace/uid`) that an entry is about.
        self.subject = subject
        #: Whether an entry may be dropped while its subject exists.
        self.droppable = droppable
        #: Drops an entry, and what its component derived from it.
        self.forget = forget or self.pop
        #: Whether an entry that was read can be used.
        self.is_valid = is_valid
        #: Returns the entries if they are in another place.
        self._source = source
        #: How often it changed.
        self.changes = 0
        self._stale: dict[str, None] = {}
        self._texts: dict[str, str] = {}
        self._text: str | None = ""
        #: Bytes of all entries.
        self.size = 0

    def touch(self, key: str) -> None:
        """The entry was changed in place."""
        self._stale[key] = None
        self.changes += 1

    def __setitem__(self, key: str, entry: T) -> None:
        super().__setitem__(key, entry)
        self.touch(key)

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        self.touch(key)

    def pop(self, key: str, default: T | None = None) -> T | None:  # type: ignore[override]
        if key not in self:
            return default
        self.touch(key)
        return super().pop(key)

    def renew(self, key: str, entry: T) -> None:
        """Put an entry after all others."""
        self.pop(key)
        self[key] = entry

    def drop_oldest(self, is_over: Callable[[T], bool]) -> None:
        """Drop entries up to the first that is not over."""
        for key in list(takewhile(lambda key: is_over(self[key]), self)):
            del self[key]

    def rename(self, before: str, key: str) -> T:
        """Put an entry under another key."""
        entry = self[key] = self[before]
        if key != before:
            del self[before]
        return entry

    def update(self, entries: Mapping[str, T]) -> None:  # type: ignore[override]
        for key, entry in entries.items():
            self[key] = entry

    def become(self, entries: Mapping[str, T]) -> None:
        """Have these entries and no others; those that are equal are not encoded again."""
        if self == entries:
            return
        for key in [key for key in self if key not in entries]:
            del self[key]
        self.update({key: entry for key, entry in entries.items() if key not in self or self[key] != entry})

    # -- as text -------------------------------------------------------------------------------

    def refresh(self) -> bool:
        """Encode the entries that changed; return whether any did."""
        if self._source is not None:
            self.become(self._source())
        if not self._stale:
            return False
        for key in self._stale:
            self.size -= _size(self._texts.pop(key, ""))
            if key in self:
                self._texts[key] = text = f"{compact(key)}:{self.encode(self[key])}"
                self.size += _size(text)
        self._stale.clear()
        self._text = None
        return True

    def texts(self) -> Iterable[str]:
        """Return the entries as JSON, each with its key, in their order."""
        return map(self._texts.__getitem__, self)

    def size_of(self, key: str) -> int:
        return _size(self._texts[key])

    def parts(self, room: int, most: int) -> Iterator[tuple[int, str]]:
        """Return the table as JSON, in parts with their numbers of entries.

        It is one part if it has at most `room` bytes; else the first part has, and the others at most `most`.
        """
        if self.size <= room:
            if self._text is None:
                self._text = _framed(self.texts())
            yield len(self), self._text
            return
        texts: list[str] = []
        for key in self:
            text, size = self._texts[key], self.size_of(key)
            if size > room:
                yield len(texts), _framed(texts)
                texts, room = [], most
            texts.append(text)
            room -= size
        yield len(texts), _framed(texts)


def _size(text: str) -> int:
    """In bytes, with a comma."""
    return len(text.encode()) + 1 if text else 0


def _framed(texts: Iterable[str]) -> str:
    entries = ",".join(texts)
    return f'{{"version":{LEADER_RECORD_VERSION},"entries":{{{entries}}}}}' if entries else ""


class RecordTables:
    """All tables, in the order in which they are written."""

    def __init__(self) -> None:
        self.all: list[RecordTable[Any]] = []

    def add(self, table: RecordTable[T]) -> RecordTable[T]:
        self.all.append(table)
        return table


def read_tables(texts: Mapping[str, str]) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return the entries by table, not decoded yet, and by data key why some texts cannot be read."""
    entries: dict[str, dict[str, Any]] = {}
    problems: dict[str, str] = {}
    for key, text in texts.items():
        content, problem = read_record(text, LEADER_RECORD_VERSION)
        more = content.get("entries", {})
        if problem or not isinstance(more, dict):
            problems[key] = problem or "its entries are not a JSON object"
        else:
            entries.setdefault(table_of(key), {}).update(more)
    return entries, problems


def table_of(key: str) -> str:
    """Return the name of the table with a data key."""
    return key.partition(".")[0]


class RestoredRecord:
    """What was read of a record."""

    def __init__(self, entries: Mapping[str, Mapping[str, Any]], takes_over: bool) -> None:
        self._entries = entries
        #: Whether the reader is the next leader, not a copy.
        self.takes_over = takes_over
        #: By table: how many entries could not be read.
        self.unreadable: dict[str, int] = {}

    def of(self, table: RecordTable[T]) -> dict[str, T]:
        """Return the entries of a table; one that cannot be read costs no other."""
        result: dict[str, T] = {}
        for key, value in self._entries.get(table.name, {}).items():
            try:
                compact(key).encode()
                entry = decode(table.entry, value)
                if not table.is_valid(entry):
                    raise ValueError
                result[key] = entry
            except UNREADABLE:
                self.unreadable[table.name] = self.unreadable.get(table.name, 0) + 1
        return result
