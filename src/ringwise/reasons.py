"""Why something is refused or waits, as values.

A reason is never raised and never parsed: it is a value that carries a kind and the
details of this case. Its message and its fixes are made from the kind's templates only
where they are shown. The kind also names the triggers that can fix it, so the same
table that explains why a job is pending decides when it is tried again.

This is the lowest layer: every package may import it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Set
from dataclasses import field, replace
from decimal import Decimal
from string import Formatter
from typing import Any, NamedTuple, TypedDict

from ringwise.grammar import Quantity, amount_text, listed
from ringwise.records import dataclass


class Stage(enum.Enum):
    """The step at which a job was stopped; the `reason` of the PodGroup's condition."""

    VALIDATE = "JobValidateFailed"
    ENQUEUE = "JobEnqueueFailed"
    PREDICATE = "NodePredicateFailed"
    PLAN = "BatchOrderFailed"
    GANG = "NotEnoughResources"


class Trigger(enum.Enum):
    """A kind of change in the cluster that may fix a reason and wakes the jobs pending for it."""

    # Sets of triggers are changed for every job that becomes pending or starts: the hash must be cheap.
    __hash__ = object.__hash__

    CHIPS_FREED = "chips freed"
    POD_PLACED = "a pod was scheduled"
    NODE_ADDED = "node added or uncordoned"
    NODE_CHANGED = "node labels, taints or resources changed"
    HEALTH_CHANGED = "chip health changed"
    JOB_CHANGED = "the job itself changed"
    JOB_ENDED = "another job ended"
    CLAIM_FELL = "another job requests less, or released its admitted resources"
    QUEUE_CHANGED = "queue changed"
    QUEUE_MOVED = "a job ahead in the queue started, changed or was deleted"
    NAMESPACE_CHANGED = "labels of a namespace changed"
    QUOTA_CHANGED = "ResourceQuota changed"
    LIMIT_FREED = "a job that counts toward the same limit ended, or the limit changed"
    VOLUME_CHANGED = "a volume, a StorageClass or the volume limit of a node changed"
    TOPOLOGY_CHANGED = "switch or SuperPoD topology changed"
    HYPER_NODES_CHANGED = "HyperNodes changed"
    CONFIGURATION_CHANGED = "configuration changed"
    TIME_PASSED = "time passed"


#: Triggers that can help a job for which there is not enough free capacity.
CAPACITY = frozenset(
    {Trigger.CHIPS_FREED, Trigger.NODE_ADDED, Trigger.NODE_CHANGED, Trigger.HEALTH_CHANGED, Trigger.JOB_ENDED}
)
#: Triggers that can help a job whose own specification is invalid.
SPECIFICATION = frozenset({Trigger.JOB_CHANGED, Trigger.CONFIGURATION_CHANGED})


@dataclass(frozen=True, slots=True)
class ReasonKind:
    """One kind of reason: its code, message template, fix templates, and the triggers that can fix it.

    Templates name their details in braces; words that depend on a number are in the format specification
    (`grammar.Quantity`). A fix that offers a quantity of 0 is left out.
    """

    code: str
    stage: Stage
    sentence: str
    fixes: tuple[str, ...] = ()
    resolved_by: frozenset[Trigger] = CAPACITY

    def __call__(self, **details: Any) -> Reason:
        return Reason(self, details)


class ReasonFamily(NamedTuple):
    """Kinds of reasons of one stage that the same triggers can fix."""

    stage: Stage
    resolved_by: Set[Trigger] = CAPACITY

    def __call__(self, code: str, sentence: str, *fixes: str) -> ReasonKind:
        return ReasonKind(code, self.stage, sentence, fixes, frozenset(self.resolved_by))


class ReasonFields(TypedDict):
    """A reason in a document. docs/reference/reasons.md lists the codes; details: numbers and names."""

    code: str
    message: str
    details: dict[str, Any]
    fixes: list[str]


@dataclass(frozen=True, slots=True)
class Reason:
    """A kind with its details. Equal kinds with equal details are equal reasons."""

    kind: ReasonKind
    details: Mapping[str, Any] = field(default_factory=dict)
    #: Fixes that were tried in this case.
    verified_fixes: tuple[str, ...] = ()
    #: Whether the fixes of the kind are named, too.
    general_fixes: bool = True
    #: What else is known about this case; part of the message.
    hints: tuple[str, ...] = ()

    @property
    def code(self) -> str:
        return self.kind.code

    @property
    def message(self) -> str:
        return "; ".join((self.kind.sentence.format_map(_Readable(self.details)), *self.hints))

    @property
    def fixes(self) -> tuple[str, ...]:
        general = self.kind.fixes if self.general_fixes else ()
        readable = _Readable(self.details)
        offered = (fix.format_map(readable) for fix in general if _offers_something(fix, readable))
        return (*self.verified_fixes, *offered)

    def with_fixes(self, fixes: Iterable[str]) -> Reason:
        """The same reason with fixes that were tried, besides those of its kind."""
        return Reason(self.kind, self.details, tuple(fixes), hints=self.hints)

    def with_only(self, fixes: Iterable[str]) -> Reason:
        """The same reason with these fixes and no others."""
        return Reason(self.kind, self.details, tuple(fixes), general_fixes=False, hints=self.hints)

    def with_hints(self, hints: Iterable[str]) -> Reason:
        """The same reason with more that is known about this case."""
        return replace(self, hints=(*self.hints, *hints))

    def with_details(self, details: Mapping[str, Any]) -> Reason:
        """The same reason with other details."""
        return replace(self, details=details)

    def suggesting(self, word: str | None) -> Reason:
        """The same reason with the word that was probably meant, if there is one."""
        return self.with_hints([f"did you mean {word}?"] if word else ())

    def as_json(self) -> ReasonFields:
        return {
            "code": self.code,
            "message": self.message,
            "details": {key: _plain(value) for key, value in self.details.items()},
            "fixes": list(self.fixes),
        }

    def __hash__(self) -> int:
        return hash((self.kind.code, tuple(sorted((k, str(v)) for k, v in self.details.items()))))


#: Details that are amounts of the detail `resource`.
_AMOUNTS = {
    *("allocatable", "asked", "capacity", "deserved", "free", "limit", "missing", "needed", "promised"),
    *("taken", "used"),
}


#: Items of one list that a message names; the details have all.
_LISTED = 50


class _Readable(dict[str, Quantity]):
    """Details as text: lists are joined, a missing detail is shown as unknown."""

    def __init__(self, details: Mapping[str, Any]) -> None:
        super().__init__({key: Quantity(_text(value)) for key, value in details.items()})
        resource = details.get("resource")
        if isinstance(resource, str):
            for key in _AMOUNTS & details.keys():
                if isinstance(details[key], int):
                    self[key] = Quantity(amount_text(resource, details[key]))

    def __missing__(self, key: str) -> Quantity:
        return Quantity(f"({key} unknown)")


class _Placeholders(dict[str, Quantity]):
    """Every detail as its name in braces."""

    def __missing__(self, key: str) -> Quantity:
        return Quantity(f"{{{key}}}")


def general_form(template: str) -> str:
    """A template for readers: the names of details in braces, words in the plural."""
    return template.format_map(_Placeholders())


def _offers_something(fix: str, details: _Readable) -> bool:
    """Whether no quantity of a fix is 0: to ask for at most 0 chips is not advice."""
    fields = ((name, specification) for _, name, specification, _ in Formatter().parse(fix) if name)
    return not any(specification and details[name] in ("0", "none") for name, specification in fields)


def _text(value: Any) -> str:
    if isinstance(value, (set, frozenset)):
        value = sorted(value)
    if isinstance(value, (list, tuple)):
        return listed(value, _LISTED) or "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_entry(key, item)}" for key, item in value.items()) if value else "none"
    return str(value)


def _entry(key: Any, item: Any) -> str:
    return amount_text(key, item) if isinstance(key, str) and isinstance(item, int) else str(item)


def _plain(value: Any) -> Any:
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return float(value) if isinstance(value, Decimal) else value


def kinds_in(namespace: Mapping[str, Any]) -> tuple[ReasonKind, ...]:
    """The kinds that a module defines, for the reference page and for tests."""
    return tuple(value for value in namespace.values() if isinstance(value, ReasonKind))
