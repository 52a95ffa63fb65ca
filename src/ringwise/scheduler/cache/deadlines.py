"""When time alone changes something, by key."""

from __future__ import annotations

from ringwise.durations import earliest


class Deadlines:
    """A table of keys and times. To ask for the first time costs nothing while that one stays."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}
        #: The earliest time; it is computed again where that one was dropped.
        self._first: int | None = None
        self._stale = False

    def __contains__(self, key: str) -> bool:
        return key in self._times

    def of(self, key: str) -> int | None:
        return self._times.get(key)

    def put(self, key: str, time: int) -> None:
        """A key that has a time already keeps its place in the order of those that are due."""
        before = self._times.get(key)
        self._times[key] = time
        if before is not None and before == self._first and time > before:
            self._stale = True
        elif self._first is None or time < self._first:
            self._first = time

    def pop(self, key: str, default: None = None) -> None:
        """Remove a key, if it is there."""
        time = self._times.pop(key, default)
        self._stale |= time is not None and time == self._first

    def clear(self) -> None:
        self._times.clear()
        self._first, self._stale = None, False

    def first(self) -> int | None:
        if self._stale:
            self._first, self._stale = min(self._times.values(), default=None), False
        return self._first

    def due(self, now: int) -> list[str]:
        """The keys whose time has come, in the order in which they were put."""
        first = self.first()
        if first is None or first > now:
            return []
        return [key for key, time in self._times.items() if time <= now]

    def take(self, now: int) -> list[str]:
        """The same, and their deadlines are removed."""
        due = self.due(now)
        for key in due:
            self.pop(key)
        return due

    def take_all(self) -> list[str]:
        """All keys, whatever their time."""
        result = list(self._times)
        self.clear()
        return result


class DeadlineTables:
    """The tables of all components: the first of their times ends the wait for events."""

    def __init__(self) -> None:
        self._tables: list[Deadlines] = []

    def table(self) -> Deadlines:
        """Return a new table."""
        self._tables.append(Deadlines())
        return self._tables[-1]

    def first(self) -> int | None:
        return earliest(*(table.first() for table in self._tables))
