"""Why something is refused or waits, as values.

A reason is raised nowhere and parsed nowhere: it is a value that carries a kind
and the numbers that belong to it. Its sentence and its cures are made from the
kind's templates only where a person reads them. The kind also says which events
can cure it, so the same table that explains a wait decides when to try again.

This is the lowest room of the house: every other room may import it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


class Stage(enum.Enum):
    """Where in a job's way it was stopped; the PodGroup condition's reason word."""

    VALIDATE = "JobValidateFailed"
    ENQUEUE = "JobEnqueueFailed"
    PREDICATE = "NodePredicateFailed"
    PLAN = "BatchOrderFailed"
    GANG = "NotEnoughResources"


class Event(enum.Enum):
    """What can happen in a cluster that may cure a reason."""

    # Sets of events are touched with every job that waits or starts.
    __hash__ = object.__hash__

    CHIPS_FREED = "chips freed"
    NODE_ADDED = "node added or uncordoned"
    NODE_CHANGED = "node labels, taints or resources changed"
    HEALTH_CHANGED = "chip health changed"
    JOB_CHANGED = "the job itself changed"
    JOB_ENDED = "another job ended"
    QUEUE_CHANGED = "queue changed"
    TOPOLOGY_CHANGED = "switch or SuperPoD topology changed"
    CONFIGURATION_CHANGED = "configuration changed"
    TIME_PASSED = "time passed"


#: Events that can only help a job that lacks room.
ROOM = frozenset(
    {Event.CHIPS_FREED, Event.NODE_ADDED, Event.NODE_CHANGED, Event.HEALTH_CHANGED, Event.JOB_ENDED}
)
#: Events that can help a job that is wrong in itself.
MENDED = frozenset({Event.JOB_CHANGED, Event.CONFIGURATION_CHANGED})


@dataclass(frozen=True, slots=True)
class ReasonKind:
    """One way of being refused: a code, the sentence, its cures, what can cure it."""

    code: str
    stage: Stage
    sentence: str
    cures: tuple[str, ...] = ()
    cured_by: frozenset[Event] = ROOM

    def __call__(self, **details: Any) -> Reason:
        return Reason(self, details)


@dataclass(frozen=True, slots=True)
class Reason:
    """A kind with its numbers. Equal kinds with equal details are equal reasons."""

    kind: ReasonKind
    details: Mapping[str, Any] = field(default_factory=dict)
    #: Cures found for this very case, beside those of the kind.
    found_cures: tuple[str, ...] = ()

    @property
    def code(self) -> str:
        return self.kind.code

    @property
    def message(self) -> str:
        return self.kind.sentence.format_map(_Readable(self.details))

    @property
    def cures(self) -> tuple[str, ...]:
        readable = _Readable(self.details)
        return (*self.found_cures, *(cure.format_map(readable) for cure in self.kind.cures))

    def with_cures(self, cures: Iterable[str]) -> Reason:
        return Reason(self.kind, self.details, tuple(cures))

    def as_json(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "message": self.message,
            "details": {key: _plain(value) for key, value in self.details.items()},
            "cures": list(self.cures),
        }

    def __hash__(self) -> int:
        return hash((self.kind.code, tuple(sorted((k, str(v)) for k, v in self.details.items()))))


class _Readable(dict[str, str]):
    """Details as a person reads them: lists joined, nothing missing."""

    def __init__(self, details: Mapping[str, Any]) -> None:
        super().__init__({key: _text(value) for key, value in details.items()})

    def __missing__(self, key: str) -> str:
        return f"({key} unknown)"


def _text(value: Any) -> str:
    if isinstance(value, (set, frozenset)):
        value = sorted(value)
    if isinstance(value, (list, tuple)):
        return ", ".join(str(item) for item in value) if value else "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {item}" for key, item in value.items()) if value else "none"
    return str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return value


def kinds_in(namespace: Mapping[str, Any]) -> tuple[ReasonKind, ...]:
    """The kinds a module defines, for the reference page and the registry test."""
    return tuple(value for value in namespace.values() if isinstance(value, ReasonKind))
