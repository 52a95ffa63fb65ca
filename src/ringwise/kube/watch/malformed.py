"""Objects of the API that could not be read. They stop nobody; `doctor` lists them, and events tell it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import structlog

_LOG = structlog.get_logger("ringwise.kube")

#: The key of objects that do not even tell their name.
WITHOUT_A_NAME = "(without a name)"
#: Objects remembered. A cluster with more broken objects than this has another problem.
MOST = 10_000


@dataclass(frozen=True, slots=True)
class BadObject:
    kind: str
    #: `namespace/name`, or the name alone.
    key: str
    problems: tuple[str, ...]
    uid: str = ""

    @property
    def is_named(self) -> bool:
        return self.key != WITHOUT_A_NAME

    def __str__(self) -> str:
        return f"{self.kind} {self.key}: {'; '.join(self.problems)}"


class Malformed:
    """The register of bad objects. An object that is mended or deleted leaves it."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], BadObject] = {}
        self._listener: Callable[[BadObject], None] | None = None

    def __iter__(self) -> Iterator[BadObject]:
        return iter(sorted(self._found.values(), key=lambda bad: (bad.kind, bad.key)))

    def __len__(self) -> int:
        return len(self._found)

    def listen(self, listener: Callable[[BadObject], None]) -> None:
        """Tell of every object that is bad now, and later of those that become so, with what is new."""
        self._listener = listener
        for bad in self:
            listener(bad)

    def put(self, kind: str, key: str, problems: tuple[str, ...], uid: str = "") -> None:
        """Warn once about each new problem, not with every update of the object."""
        bad = BadObject(kind, key, problems, uid)
        before = self._found.get((kind, key))
        if before == bad:
            return
        if before is not None or len(self._found) < MOST:
            self._found[kind, key] = bad
            if self._listener is not None:
                known = before.problems if before is not None and before.uid == uid else ()
                self._listener(replace(bad, problems=tuple(p for p in problems if p not in known)))
        _LOG.warning("object ignored", kind=kind, object=key, problems=list(problems))

    def mended(self, kind: str, key: str) -> None:
        self._found.pop((kind, key), None)
