"""Objects with resource versions, and watches that replay every change.

The table knows nothing about scheduling. An object is never changed in place: a writer
puts a new one, with the version it read, and loses when somebody was faster.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

#: Changes kept for watchers. Who falls further behind lists everything again.
HISTORY = 100_000


class ConflictError(Exception):
    """The object is not what the writer believes it is: another version, another uid, or gone."""


class TooOldError(Exception):
    """The changes since that version are no longer known; the watcher must list again."""


@dataclass(frozen=True, slots=True)
class Change:
    """An object as it is from this version on; where `gone`, as it was last."""

    version: int
    kind: str
    key: str
    object: object
    gone: bool = False


class ObjectTable:
    """All objects by kind and key. One counter gives every change its version."""

    def __init__(self, history: int = HISTORY) -> None:
        self._objects: dict[str, dict[str, Change]] = {}
        self._history: deque[Change] = deque(maxlen=history)
        self.version = 0
        #: Changes up to this one are forgotten.
        self._forgotten = 0

    # -- reading -----------------------------------------------------------------------

    def get(self, kind: str, key: str) -> object | None:
        found = self._objects.get(kind, {}).get(key)
        return None if found is None else found.object

    def version_of(self, kind: str, key: str) -> int | None:
        found = self._objects.get(kind, {}).get(key)
        return None if found is None else found.version

    def kind(self, kind: str) -> Iterator[object]:
        """Objects of a kind in the order of their creation."""
        for change in list(self._objects.get(kind, {}).values()):
            yield change.object

    def count(self, kind: str) -> int:
        return len(self._objects.get(kind, {}))

    def all(self) -> Iterator[Change]:
        """Every object with its version, kinds and keys in the order of their creation."""
        for objects in self._objects.values():
            yield from objects.values()

    def since(self, version: int) -> list[Change]:
        """Every change after that version, in order."""
        if version < self._forgotten:
            raise TooOldError(f"version {version} is too old: the oldest known is {self._forgotten}")
        behind = self.version - version
        if behind <= 0:
            return []
        # Versions have no gaps, so the newest `behind` entries are exactly those wanted.
        found = []
        for change in reversed(self._history):
            if change.version <= version:
                break
            found.append(change)
        found.reverse()
        return found

    # -- writing -----------------------------------------------------------------------

    def put(self, kind: str, key: str, value: object, expected: int | None = None) -> int:
        """Write an object and return its version. `expected` 0: it must be new."""
        objects = self._objects.setdefault(kind, {})
        before = objects.get(key)
        self._check(kind, key, before, expected)
        change = self._record(Change(self.version + 1, kind, key, value))
        objects[key] = change
        return change.version

    def remove(self, kind: str, key: str, expected: int | None = None) -> object | None:
        """Remove an object and return it; None when there was none."""
        before = self._objects.get(kind, {}).get(key)
        self._check(kind, key, before, expected)
        if before is None:
            return None
        del self._objects[kind][key]
        self._record(Change(self.version + 1, kind, key, before.object, gone=True))
        return before.object

    def restore(self, version: int, changes: Iterable[Change]) -> None:
        """Take over what a store kept. Nobody can watch from before that."""
        self._objects.clear()
        self._history.clear()
        for change in changes:
            self._objects.setdefault(change.kind, {})[change.key] = change
        self.version = self._forgotten = version

    def _check(self, kind: str, key: str, before: Change | None, expected: int | None) -> None:
        found = 0 if before is None else before.version
        if expected is not None and expected != found:
            what = f"is at version {found}" if found else "does not exist"
            raise ConflictError(f"{kind} {key} {what}, the writer read version {expected}")

    def _record(self, change: Change) -> Change:
        history = self._history
        if history.maxlen == 0:
            self._forgotten = change.version
        elif len(history) == history.maxlen:
            self._forgotten = history[0].version
        history.append(change)
        self.version = change.version
        return change


class Watch:
    """Follows the table. It remembers what it has seen, so that a new listing tells what vanished."""

    def __init__(self, table: ObjectTable, version: int | None = None) -> None:
        """From a version on; without one, everything there is comes first."""
        self._table = table
        self.version = -1 if version is None else version
        self._seen: dict[tuple[str, str], Change] = {}
        #: How often it fell too far behind.
        self.relists = 0

    def poll(self) -> list[Change]:
        """What happened since the last call."""
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

    def _listed(self) -> list[Change]:
        present = {(change.kind, change.key): change for change in self._table.all()}
        gone = [
            Change(self._table.version, change.kind, change.key, change.object, gone=True)
            for name, change in self._seen.items()
            if name not in present
        ]
        # Everything is told, also what did not change: an event that comes twice changes nothing.
        return gone + sorted(present.values(), key=lambda change: change.version)
