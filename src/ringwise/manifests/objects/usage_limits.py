"""UsageLimits: what a namespace, a queue or a user may use at once, and how long its jobs may run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta

from ringwise.durations import SECOND, go_duration
from ringwise.grammar import quoted
from ringwise.manifests.objects.custom_resources import CustomResourceWire, custom_resource, read_spec
from ringwise.manifests.objects.resources import amount
from ringwise.manifests.text.checking import keyed
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.quantities import written
from ringwise.manifests.text.wire import Quantities, WireStruct
from ringwise.state.limits import JOB_COUNTS, TERMINATE, UsageLimit
from ringwise.topology.numbers import INT32
from ringwise.wellknown import USAGE_LIMITS

#: Entries of `hard`.
MAX_HARD = 64
#: What lasts longer is a mistake.
MAX_RUN_TIME = 10 * 366 * 86_400 * SECOND
_REQUESTS = "requests."
_PLAIN = ("cpu", "memory")
_PARTS = {"namespace": 63, "queue": 253, "user": 1024}
_NAMESPACE = re.compile(r"\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)


class SubjectWire(WireStruct, forbid_unknown_fields=True):
    namespace: str | None = None
    queue: str | None = None
    user: str | None = None


Amounts = Annotated[Quantities, Meta(max_length=MAX_HARD)]


class UsageLimitSpec(WireStruct, forbid_unknown_fields=True):
    subject: SubjectWire
    hard: Amounts | None = None
    borrowing_limit: Amounts | None = None
    max_run_time: str | None = None
    on_timeout: Literal["Terminate", "Requeue"] | None = None


def usage_limit_from_wire(wire: CustomResourceWire, issues: Findings) -> UsageLimit:
    who, spec = read_spec(wire, USAGE_LIMITS, UsageLimitSpec, issues)
    if spec is None:
        return UsageLimit(who.name)
    subject = {name: getattr(spec.subject, name) for name in _PARTS}
    if not any(subject.values()):
        issues.add_error("spec.subject", "must have at least one of namespace, queue, user")
    for name, value in subject.items():
        allowed = f"must have 1 to {_PARTS[name]} characters, or be '*'"
        if value is not None and not 0 < len(value) <= _PARTS[name]:
            issues.invalid(f"spec.subject.{name}", value, allowed)
    if subject["namespace"] and not _NAMESPACE.fullmatch(subject["namespace"]):
        allowed = "must be the name of a namespace, or '*'"
        issues.invalid("spec.subject.namespace", subject["namespace"], allowed)
    hard, borrowing = spec.hard or {}, spec.borrowing_limit or {}
    for name in borrowing:
        if name in JOB_COUNTS or name not in hard:
            allowed = "must be a resource with an entry in spec.hard"
            issues.add_error(keyed("spec.borrowingLimit", name), allowed)
    length = None
    if spec.max_run_time is not None:
        length = go_duration(spec.max_run_time)
        if length is None or not 0 < length <= MAX_RUN_TIME:
            issues.invalid("spec.maxRunTime", spec.max_run_time, "must be a duration such as 90s, 30m or 12h")
    elif spec.on_timeout is not None:
        issues.add_error("spec.onTimeout", "requires spec.maxRunTime")
    return UsageLimit(
        who.name,
        subject["namespace"] or "",
        subject["queue"] or "",
        subject["user"] or "",
        _amounts(hard, "spec.hard", issues),
        _amounts(borrowing, "spec.borrowingLimit", issues),
        length,
        spec.on_timeout or TERMINATE,
        who.created,
        wire.generation,
    )


def usage_limit_body(one: UsageLimit) -> dict[str, Any]:
    """Return the object; fields that it does not have are null."""
    spec = {
        "subject": {part: getattr(one, part) or None for part in _PARTS},
        "hard": _quantities(one.hard),
        "borrowingLimit": _quantities(one.borrowing),
        "maxRunTime": None if one.max_run_time is None else f"{one.max_run_time // 1_000_000}ms",
        "onTimeout": None if one.max_run_time is None else one.on_timeout,
    }
    return custom_resource(USAGE_LIMITS, one.name, spec)


def _quantities(amounts: Mapping[str, int]) -> dict[str, str] | None:
    named = (*JOB_COUNTS, *_PLAIN)
    quantities = {
        name if name in named else f"{_REQUESTS}{name}": written(name, most) for name, most in amounts.items()
    }
    return quantities or None


def _amounts(quantities: Quantities, field: str, issues: Findings) -> dict[str, int]:
    """By resource, without `requests.`."""
    amounts: dict[str, int] = {}
    for name, value in quantities.items():
        if name not in (*JOB_COUNTS, *_PLAIN) and not name.startswith(_REQUESTS):
            allowed = ", ".join((*JOB_COUNTS, *_PLAIN))
            issues.add_error(
                keyed(field, name), f"must be one of {allowed}, or begin with {quoted(_REQUESTS)}"
            )
            continue
        resource = name.removeprefix(_REQUESTS)
        most = amount(resource, value, field, issues)
        if name in JOB_COUNTS and most > INT32:
            issues.invalid(keyed(field, name), value, f"must be a whole number from 0 to {INT32}")
        amounts[resource] = min(most, amounts.get(resource, most))
    return amounts
