"""Objects of the API that could not be read. They stop nobody; `doctor` lists them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import structlog

_LOG = structlog.get_logger("ringwise.kube")

#: Objects remembered. A cluster with more broken objects than this has another problem.
MOST = 10_000


@dataclass(frozen=True, slots=True)
class BadObject:
    kind: str
    #: `namespace/name`, or the name alone.
    key: str
    problems: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind} {self.key}: {'; '.join(self.problems)}"


class Malformed:
    """The register of bad objects. An object that is mended or deleted leaves it."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], BadObject] = {}

    def __iter__(self) -> Iterator[BadObject]:
        return iter(sorted(self._found.values(), key=lambda bad: (bad.kind, bad.key)))

    def __len__(self) -> int:
        return len(self._found)

    def put(self, kind: str, key: str, problems: tuple[str, ...]) -> None:
        """Warn once about each new problem, not with every update of the object."""
        bad = BadObject(kind, key, problems)
        if self._found.get((kind, key)) == bad:
            return
        if len(self._found) < MOST:
            self._found[kind, key] = bad
        _LOG.warning("object ignored", kind=kind, object=key, problems=list(problems))

    def mended(self, kind: str, key: str) -> None:
        self._found.pop((kind, key), None)
