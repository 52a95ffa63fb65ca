"""The file of a lab: every object in one SQLite database.

The changes since the last save are written in one transaction, so a process that is killed at any moment
leaves the file as it was before or after a save. See docs/develop/decisions/0007-lab-persistence.md.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import msgspec

from ringwise.embed.containers import PodContainer
from ringwise.embed.kubelet import PodTimeline
from ringwise.embed.objects import ObjectChange, ObjectTable, TooOldError
from ringwise.embed.records import ADDITIONS, CONTAINER, PUBLISHED, TIMELINE, ConfigMap
from ringwise.manifests.kinds import STORED
from ringwise.manifests.text.readable import UNREADABLE
from ringwise.messages.commands import PodAdditions
from ringwise.state.model import Pod, PodClass
from ringwise.versions import unsupported

#: Marks the file as a lab's ("RWlb"), and the number of its format.
APPLICATION = 0x52576C62
VERSION = 1

_TYPES: dict[str, Any] = {
    **{kind.name: kind.value for kind in STORED.values()},
    TIMELINE: PodTimeline,
    PUBLISHED: ConfigMap,
    ADDITIONS: PodAdditions,
    CONTAINER: PodContainer,
}
_DECODERS = {kind: msgspec.json.Decoder(type) for kind, type in _TYPES.items()}
_SCHEMA = """
CREATE TABLE object (
  kind TEXT NOT NULL, key TEXT NOT NULL, version INTEGER NOT NULL, body BLOB NOT NULL,
  place INTEGER NOT NULL, PRIMARY KEY (kind, key)
) WITHOUT ROWID;
CREATE TABLE lab (version INTEGER NOT NULL, now INTEGER NOT NULL, place INTEGER NOT NULL);
INSERT INTO lab VALUES (0, 0, 0);
"""


class StoreError(Exception):
    """The file cannot be used; the message contains path, reason and what to do."""

    def __init__(self, path: Path, why: str, fix: str) -> None:
        super().__init__(f"{path}: {why}; {fix}")
        self.path = path


class Store:
    """The file of one lab. Only one process may have it open."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._saved = 0
        self._place = 0
        self._places: dict[tuple[str, str], int] = {}
        try:
            self._base = sqlite3.connect(self.path, isolation_level=None, timeout=0.2)
        except sqlite3.Error as problem:
            raise StoreError(
                self.path, f"cannot be opened ({problem})", "check the directory and its permissions"
            ) from None
        try:
            self._open()
        except sqlite3.DatabaseError as problem:
            self._base.close()
            raise self._wrong(problem) from None
        except StoreError:
            self._base.close()
            raise

    def _open(self) -> None:
        base = self._base
        # Locked until it is closed: a second lab on this file gets an error at once.
        base.execute("PRAGMA locking_mode = EXCLUSIVE")
        # Before the journal mode, which is written to the file: one that is refused stays as it is.
        is_new = self._check()
        base.execute("PRAGMA journal_mode = WAL")
        base.execute("PRAGMA synchronous = NORMAL")
        base.execute("BEGIN EXCLUSIVE")
        if is_new:
            for statement in filter(str.strip, _SCHEMA.split(";\n")):
                base.execute(statement)
            base.execute(f"PRAGMA application_id = {APPLICATION}")
            base.execute(f"PRAGMA user_version = {VERSION}")
        base.execute("COMMIT")

    def _check(self) -> bool:
        """Return whether the file is empty. Raises StoreError if it is not a lab's file of this version."""
        application = self._number("PRAGMA application_id")
        if application == 0 and self._number("SELECT count(*) FROM sqlite_master") == 0:
            return True
        if application != APPLICATION:
            raise StoreError(self.path, "is a database of another program", "use another file")
        version = self._number("PRAGMA user_version")
        if version != VERSION:
            advice = "use the Ringwise that wrote it, or name another file"
            raise StoreError(self.path, unsupported(version, VERSION), advice)
        return False

    def load(self) -> tuple[ObjectTable, int]:
        """The table and the time of the lab as they were saved last."""
        try:
            version, now, self._place = self._base.execute("SELECT version, now, place FROM lab").fetchone()
            rows = self._base.execute(
                "SELECT kind, key, version, body, place FROM object ORDER BY place"
            ).fetchall()
        except (sqlite3.DatabaseError, TypeError) as problem:
            raise self._wrong(problem) from None
        classes: dict[PodClass, PodClass] = {}
        changes = []
        for kind, key, changed, body, place in rows:
            changes.append(ObjectChange(changed, kind, key, self._object(kind, key, body, classes)))
            self._places[kind, key] = place
        table = ObjectTable()
        table.restore(version, changes)
        self._saved = version
        return table, now

    def save(self, table: ObjectTable, now: int) -> int:
        """Write the changes since the last save; returns the number of objects."""
        try:
            changes: list[ObjectChange] = table.since(self._saved)
            rewrite = False
        except TooOldError:
            changes = list(table.all())
            rewrite = True
        newest: dict[tuple[str, str], ObjectChange] = {}
        for change in changes:
            name = (change.kind, change.key)
            before = newest.get(name)
            if change.gone:
                self._places.pop(name, None)
            elif before is not None and before.gone:
                del newest[name]  # a new object of the same name is ordered behind the existing ones
            newest[name] = change
        try:
            self._write(newest, table.version, now, rewrite)
        except sqlite3.DatabaseError as problem:
            if self._base.in_transaction:
                self._base.execute("ROLLBACK")
            raise StoreError(
                self.path, f"cannot be written ({problem})", "check the free disk space"
            ) from None
        self._saved = table.version
        return len(newest)

    def _write(
        self, newest: dict[tuple[str, str], ObjectChange], version: int, now: int, rewrite: bool
    ) -> None:
        base = self._base
        base.execute("BEGIN IMMEDIATE")
        if rewrite:
            base.execute("DELETE FROM object")
            self._places.clear()
        gone = [name for name, change in newest.items() if change.gone]
        base.executemany("DELETE FROM object WHERE kind = ? AND key = ?", gone)
        base.executemany(
            "INSERT OR REPLACE INTO object VALUES (?, ?, ?, ?, ?)",
            [
                (*name, change.version, msgspec.json.encode(change.object), self._place_of(name))
                for name, change in newest.items()
                if not change.gone
            ],
        )
        base.execute("UPDATE lab SET version = ?, now = ?, place = ?", (version, now, self._place))
        base.execute("COMMIT")

    def _place_of(self, name: tuple[str, str]) -> int:
        """Position in the order of creation, in which objects are loaded."""
        place = self._places.get(name)
        if place is None:
            self._place += 1
            place = self._places[name] = self._place
        return place

    def close(self) -> None:
        self._base.close()

    def _object(self, kind: str, key: str, body: bytes, classes: dict[PodClass, PodClass]) -> object:
        decoder = _DECODERS.get(kind)
        if decoder is None:
            raise self._wrong(f"unknown kind {kind}")
        try:
            value: object = decoder.decode(body)
        except UNREADABLE as problem:
            raise self._wrong(f"{kind} {key}: {problem}") from None
        if isinstance(value, Pod):
            # Pods of one template share one class object.
            value.cls = classes.setdefault(value.cls, value.cls)
        return value

    def _number(self, question: str) -> int:
        row = self._base.execute(question).fetchone()
        return int(row[0])

    def _wrong(self, problem: object) -> StoreError:
        if "locked" in str(problem):
            return StoreError(self.path, "is used by another lab", "stop that lab, or use another file")
        return StoreError(
            self.path, f"is damaged or not a lab file ({problem})", "move it away to start with an empty lab"
        )


class CopiedObjects:
    """In place of a file: the objects of a lab that ends with the question it answers.

    The values are shared: no object of a table is changed in place.
    """

    def __init__(self, table: ObjectTable, now: int) -> None:
        self._table = table
        self._now = now

    def load(self) -> tuple[ObjectTable, int]:
        copied = ObjectTable()
        copied.restore(self._table.version, self._table.all())
        return copied, self._now

    def save(self, table: ObjectTable, now: int) -> int:
        return 0

    def close(self) -> None:
        """There is nothing to close."""
