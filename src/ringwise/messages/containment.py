"""Containment: an object that raises is left out, and everything else continues without it.

Readers check every value before it becomes an event, so an exception is a defect of Ringwise. The last good
version of the object stays in force, what depends on it is computed again, and a command reports the error.
It is forgotten when the same succeeds, and when the object is gone.
"""

from __future__ import annotations

from collections.abc import Callable

from ringwise.messages.commands import SetAside

#: Objects that are set aside at the same time and remembered; more are only counted.
MAX_OBJECTS = 1000


class Containment:
    """Objects that raised, and what is to be reported about them."""

    def __init__(self) -> None:
        #: By kind, key and what was done with it: the problem, and the uid of the object.
        self._forked_queries: dict[tuple[str, str, str], tuple[str, str]] = {}
        self._commands: list[SetAside] = []
        #: How often anything raised, since the start.
        self.count = 0

    def failed(self, kind: str, key: str, error: Exception, uid: str = "", work: str = "") -> None:
        """Record an error; `work` is the operation that raised it if there are several for the object."""
        self.count += 1
        problem = describe(error)
        place = kind, key, work
        if place in self._forked_queries and self._forked_queries[place][0] == problem:
            return
        if len(self._forked_queries) < MAX_OBJECTS or place in self._forked_queries:
            self._forked_queries[place] = problem, uid
        self._commands.append(SetAside(kind, key, problem, uid))

    def attempt(
        self, kind: str, key: str, action: Callable[[], object], uid: str = "", work: str = ""
    ) -> bool:
        """Whether the action, which is about this object alone, ends without an error."""
        try:
            action()
        except Exception as error:
            self.failed(kind, key, error, uid, work)
            return False
        self.succeeded(kind, key, work)
        return True

    def succeeded(self, kind: str, key: str, work: str = "") -> None:
        if self._forked_queries:
            self._forked_queries.pop((kind, key, work), None)

    def forget(self, key: str) -> None:
        """Forget a deleted object, given its key or uid."""
        for place, (_, uid) in list(self._forked_queries.items()):
            if key in (place[1], uid):
                del self._forked_queries[place]

    def commands(self) -> list[SetAside]:
        commands, self._commands = self._commands, []
        return commands

    @property
    def objects(self) -> list[tuple[str, str, str]]:
        """Kind, key and problem of everything that is set aside now."""
        return sorted((kind, key, problem) for (kind, key, _), (problem, _) in self._forked_queries.items())


def describe(error: Exception) -> str:
    """One short line; an exception may quote the hostile value that caused it."""
    text = f"{type(error).__name__}: {error}".replace("\n", " ")
    return text if len(text) <= 300 else f"{text[:300]}..."
