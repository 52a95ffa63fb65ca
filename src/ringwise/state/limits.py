"""Limits of namespaces, of queues and of the users of a queue, and the longest run time of a queue.

Those of a queue are annotations of the Queue, those of namespaces are in the ConfigMap `ringwise-limits`: one
place for each. A limit that cannot be read is named as a problem; what was in force before stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field

from ringwise.durations import plain_duration
from ringwise.records import dataclass
from ringwise.topology.nearest import did_you_mean
from ringwise.topology.numbers import INT32, whole_number
from ringwise.wellknown import (
    AT_RUN_TIME_END,
    BURST_CHIPS,
    BURST_CHIPS_PER_USER,
    LONGEST_RUN_TIME,
    MAX_CHIPS,
    MAX_CHIPS_PER_USER,
    MAX_RUNNING_JOBS,
    MAX_RUNNING_JOBS_PER_USER,
    MAX_WAITING_JOBS,
    MAX_WAITING_JOBS_PER_USER,
    RINGWISE_PREFIX,
)

END, REQUEUE = "end", "requeue"
AT_END = (END, REQUEUE)
#: The entry that holds for each namespace without one of its own.
ANY_NAMESPACE = "*"
#: Names of the limits, as the ConfigMap has them and as annotations without prefix and `-per-user`.
CHIPS, RUNNING, WAITING, BURST = "max-chips", "max-running-jobs", "max-waiting-jobs", "burst-chips"
NAMES = (CHIPS, BURST, RUNNING, WAITING)
NUMBER_TEXT = f"a whole number from 0 to {INT32}"
DURATION_TEXT = "a duration such as 90s, 30m, 12h or 7d, below 10 years"


@dataclass(frozen=True, slots=True)
class Limits:
    """Each None: unlimited."""

    chips: int | None = None
    running: int | None = None
    waiting: int | None = None
    #: Chips beyond the limit while nobody else can use them.
    burst: int = 0

    def __bool__(self) -> bool:
        return self != NO_LIMITS

    @classmethod
    def named(cls, values: Mapping[str, int]) -> Limits:
        """By the names that people write."""
        return cls(values.get(CHIPS), values.get(RUNNING), values.get(WAITING), values.get(BURST, 0))


NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """The annotations of a Queue."""

    all_jobs: Limits = NO_LIMITS
    per_user: Limits = NO_LIMITS
    #: Nanoseconds.
    longest_run_time: int | None = None
    at_end: str = END
    #: One sentence for each annotation that cannot be read.
    problems: tuple[str, ...] = ()


NO_QUEUE_LIMITS = QueueLimits()

_ALL_JOBS = {CHIPS: MAX_CHIPS, BURST: BURST_CHIPS, RUNNING: MAX_RUNNING_JOBS, WAITING: MAX_WAITING_JOBS}
_PER_USER = {
    CHIPS: MAX_CHIPS_PER_USER,
    BURST: BURST_CHIPS_PER_USER,
    RUNNING: MAX_RUNNING_JOBS_PER_USER,
    WAITING: MAX_WAITING_JOBS_PER_USER,
}
ANNOTATIONS = (*_ALL_JOBS.values(), *_PER_USER.values(), LONGEST_RUN_TIME, AT_RUN_TIME_END)
#: How annotations begin that are meant as limits.
_MEANT = tuple(f"{RINGWISE_PREFIX}{start}" for start in ("max-", "burst-", "longest-run", "at-run-time"))


@dataclass(frozen=True, slots=True)
class NamespaceLimits:
    """The ConfigMap."""

    by_namespace: Mapping[str, Limits] = field(default_factory=dict, hash=False)

    def of(self, namespace: str) -> Limits:
        found = self.by_namespace.get(namespace)
        return self.by_namespace.get(ANY_NAMESPACE, NO_LIMITS) if found is None else found


def annotation_of(name: str, *, per_user: bool) -> str:
    return (_PER_USER if per_user else _ALL_JOBS)[name]


def annotation_problems(annotations: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Each annotation of a Queue that is meant as a limit and is none, with the sentence that says so."""
    for key, value in annotations.items():
        if key not in ANNOTATIONS:
            # Only names that begin like one of ours: others may have annotations of their own.
            if key.startswith(_MEANT) and (near := did_you_mean(key, ANNOTATIONS)):
                yield key, f"annotation {key} is no limit{near}"
        elif key == AT_RUN_TIME_END:
            if value not in AT_END:
                near = did_you_mean(value[:40], AT_END)
                yield key, f"annotation {key} must be one of {', '.join(AT_END)}, got {_shown(value)}{near}"
        elif key == LONGEST_RUN_TIME:
            if plain_duration(value) is None:
                yield key, f"annotation {key} must be {DURATION_TEXT}, got {_shown(value)}"
        elif _number(value) is None:
            yield key, f"annotation {key} must be {NUMBER_TEXT}, got {_shown(value)}"


def queue_limits(annotations: Mapping[str, str], before: QueueLimits = NO_QUEUE_LIMITS) -> QueueLimits:
    """An annotation that cannot be read leaves what was in force `before`."""
    if not any(key.startswith(_MEANT) for key in annotations):
        return NO_QUEUE_LIMITS
    longest = before.longest_run_time
    if (text := annotations.get(LONGEST_RUN_TIME)) is None:
        longest = None
    elif (duration := plain_duration(text)) is not None:
        longest = duration
    at_end = annotations.get(AT_RUN_TIME_END, END)
    return QueueLimits(
        _limits(annotations, _ALL_JOBS, before.all_jobs),
        _limits(annotations, _PER_USER, before.per_user),
        longest,
        at_end if at_end in AT_END else before.at_end,
        tuple(problem for _, problem in annotation_problems(annotations)),
    )


def _limits(annotations: Mapping[str, str], names: Mapping[str, str], before: Limits) -> Limits:
    kept = {CHIPS: before.chips, BURST: before.burst, RUNNING: before.running, WAITING: before.waiting}
    found: dict[str, int] = {}
    for name, key in names.items():
        text = annotations.get(key)
        if text is None:
            continue
        number = _number(text)
        number = kept[name] if number is None else number
        if number is not None:
            found[name] = number
    return Limits.named(found)


def _number(text: str) -> int | None:
    return whole_number(text, 0, INT32)


def _shown(text: str) -> str:
    return repr(text) if len(text) <= 40 else f"{text[:40]!r}... ({len(text)} characters)"
