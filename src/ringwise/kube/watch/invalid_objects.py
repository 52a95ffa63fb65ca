"""API objects that cannot be read.

They are ignored; `doctor` lists them, and events report them on the object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ringwise.log import Logger
from ringwise.records import dataclass

_LOG = Logger()

#: The key of objects whose name cannot be read.
UNNAMED = "(without a name)"
#: Objects remembered, so that a flood of broken objects does not fill the memory.
MAX_OBJECTS = 10_000


@dataclass(frozen=True, slots=True)
class BadObject:
    kind: str
    #: `namespace/name`, or the name alone.
    key: str
    problems: tuple[str, ...]
    uid: str = ""

    @property
    def is_named(self) -> bool:
        return self.key != UNNAMED

    def __str__(self) -> str:
        return f"{self.kind} {self.key}: {'; '.join(self.problems)}"


class InvalidObjects:
    """The objects that cannot be read now. One that is corrected or deleted is removed."""

    def __init__(self) -> None:
        self._objects: dict[tuple[str, str], BadObject] = {}
        self._listener: Callable[[BadObject], None] | None = None

    def __iter__(self) -> Iterator[BadObject]:
        return iter(sorted(self._objects.values(), key=lambda bad: (bad.kind, bad.key)))

    def __len__(self) -> int:
        return len(self._objects)

    def listen(self, listener: Callable[[BadObject], None]) -> None:
        """Call the listener with every bad object there is, and later with new ones and new problems."""
        self._listener = listener
        for bad in self:
            listener(bad)

    def put(self, kind: str, key: str, problems: tuple[str, ...], uid: str = "") -> None:
        """Warn once about each problem, not with every update of the object."""
        bad = BadObject(kind, key, problems, uid)
        before = self._objects.get((kind, key))
        if before == bad:
            return
        if before is not None or len(self._objects) < MAX_OBJECTS:
            self._objects[kind, key] = bad
            if self._listener is not None:
                reported = before.problems if before is not None and before.uid == uid else ()
                self._listener(replace(bad, problems=tuple(p for p in problems if p not in reported)))
        _LOG.warning("object ignored", kind=kind, object=key, problems=list(problems))

    def remove(self, kind: str, key: str) -> None:
        self._objects.pop((kind, key), None)
