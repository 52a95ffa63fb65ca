"""Containment: an object that raises is set aside, and everything else goes on as without it.

Readers check every value before it becomes an event, so nothing here should ever be needed. If an
event raises all the same, the last good version of its object stays in force, what depends on it
is computed again, and a command reports the object.
"""

from __future__ import annotations

from collections.abc import Callable

from ringwise.messages.commands import SetAside

#: Objects that are set aside at the same time and remembered; more are only counted.
MAX_OBJECTS = 1000


class Containment:
    """Objects that raised, and what is to be reported about them."""

    def __init__(self) -> None:
        self._aside: dict[tuple[str, str], str] = {}
        self._commands: list[SetAside] = []
        #: How often anything raised, since the start.
        self.count = 0

    def failed(self, kind: str, key: str, error: Exception, uid: str = "") -> None:
        self.count += 1
        problem = describe(error)
        if self._aside.get((kind, key)) == problem:
            return
        if len(self._aside) < MAX_OBJECTS or (kind, key) in self._aside:
            self._aside[kind, key] = problem
        self._commands.append(SetAside(kind, key, problem, uid))

    def attempt(self, kind: str, key: str, action: Callable[[], object], uid: str = "") -> bool:
        """Whether the action, which is about this object alone, ends without an error."""
        try:
            action()
        except Exception as error:
            self.failed(kind, key, error, uid)
            return False
        self.succeeded(kind, key)
        return True

    def succeeded(self, kind: str, key: str) -> None:
        if self._aside:
            self._aside.pop((kind, key), None)

    def commands(self) -> list[SetAside]:
        commands, self._commands = self._commands, []
        return commands

    @property
    def objects(self) -> list[tuple[str, str, str]]:
        """Kind, key and problem of everything that is set aside now."""
        return sorted((kind, key, problem) for (kind, key), problem in self._aside.items())


def describe(error: Exception) -> str:
    """One short line; an exception may quote the hostile value that caused it."""
    text = f"{type(error).__name__}: {error}".replace("\n", " ")
    return text if len(text) <= 300 else f"{text[:300]}..."
