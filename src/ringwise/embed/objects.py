"""Objects with resource versions, and watches that replay every change.

The table knows nothing about scheduling. An object is never changed in place: a writer puts a new one. All
writers are on one thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TypeVar

from ringwise.records import dataclass

Stored = TypeVar("Stored")

#: Changes kept for watches. A watch that falls further behind lists everything again.
HISTORY = 100_000


class ConflictError(Exception):
    """The object has another uid than the writer expects."""


class TooOldError(Exception):
    """The changes since that version are no longer kept; the watch must list again."""


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """An object from this version on; with `gone`, its last state before it was deleted."""

    version: int
    kind: str
    key: str
    object: object
    gone: bool = False


class ObjectTable:
    """All objects by kind and key. One counter numbers all changes."""

    def __init__(self, history: int = HISTORY) -> None:
        self._objects: dict[str, dict[str, ObjectChange]] = {}
        self._history: deque[ObjectChange] = deque(maxlen=history)
        self.version = 0
        #: Changes up to this version are no longer kept.
        self._forgotten = 0

    # -- reading -----------------------------------------------------------------------

    def get(self, kind: str, key: str) -> object | None:
        entry = self._objects.get(kind, {}).get(key)
        return None if entry is None else entry.object

    def kind(self, kind: str) -> Iterator[object]:
        """Objects of a kind in the order of their creation."""
        for change in list(self._objects.get(kind, {}).values()):
            yield change.object

    def find(self, kind: type[Stored], key: str) -> Stored | None:
        """The object of a kind that is named like the type of its objects."""
        found = self.get(kind.__name__, key)
        return found if isinstance(found, kind) else None

    def each(self, kind: type[Stored]) -> list[Stored]:
        """All objects of such a kind."""
        return [one for one in self.kind(kind.__name__) if isinstance(one, kind)]

    def count(self, kind: str) -> int:
        return len(self._objects.get(kind, {}))

    def all(self) -> Iterator[ObjectChange]:
        """Every object with its version, kinds and keys in the order of their creation."""
        for objects in self._objects.values():
            yield from objects.values()

    def since(self, version: int) -> list[ObjectChange]:
        """Every change after that version, in order."""
        if version < self._forgotten:
            raise TooOldError(f"version {version} is too old: the oldest available is {self._forgotten}")
        behind = self.version - version
        if behind <= 0:
            return []
        # Versions have no gaps, so the newest `behind` entries are exactly those wanted.
        result = []
        for change in reversed(self._history):
            if change.version <= version:
                break
            result.append(change)
        result.reverse()
        return result

    # -- writing -----------------------------------------------------------------------

    def put(self, kind: str, key: str, value: object) -> int:
        """Write an object and return its version."""
        change = self._record(ObjectChange(self.version + 1, kind, key, value))
        self._objects.setdefault(kind, {})[key] = change
        return change.version

    def remove(self, kind: str, key: str) -> object | None:
        """Delete an object and return it; None when there was none."""
        before = self._objects.get(kind, {}).pop(key, None)
        if before is None:
            return None
        self._record(ObjectChange(self.version + 1, kind, key, before.object, gone=True))
        return before.object

    def restore(self, version: int, changes: Iterable[ObjectChange]) -> None:
        """Load the content of a store. A watch cannot start before its version."""
        self._objects.clear()
        self._history.clear()
        for change in changes:
            self._objects.setdefault(change.kind, {})[change.key] = change
        self.version = self._forgotten = version

    def _record(self, change: ObjectChange) -> ObjectChange:
        history = self._history
        if history.maxlen == 0:
            self._forgotten = change.version
        elif len(history) == history.maxlen:
            self._forgotten = history[0].version
        history.append(change)
        self.version = change.version
        return change


class TableWatch:
    """Follows the table. It knows the objects it has returned, so that a new list shows what was deleted."""

    def __init__(self, table: ObjectTable, version: int | None = None) -> None:
        """From a version on; without one, all existing objects come first."""
        self._table = table
        self.version = -1 if version is None else version
        self._seen: dict[tuple[str, str], ObjectChange] = {}
        #: How often it fell too far behind and listed again.
        self.relists = 0

    def poll(self) -> list[ObjectChange]:
        """The changes since the last call."""
        try:
            changes = self._listed() if self.version < 0 else self._table.since(self.version)
        except TooOldError:
            self.relists += 1
            changes = self._listed()
        self.version = self._table.version
        for change in changes:
            if change.gone:
                self._seen.pop((change.kind, change.key), None)
            else:
                self._seen[change.kind, change.key] = change
        return changes

    def _listed(self) -> list[ObjectChange]:
        present = {(change.kind, change.key): change for change in self._table.all()}
        gone = [
            ObjectChange(self._table.version, change.kind, change.key, change.object, gone=True)
            for name, change in self._seen.items()
            if name not in present
        ]
        # All objects are returned, also unchanged ones: a repeated event has no effect.
        return gone + sorted(present.values(), key=lambda change: change.version)
