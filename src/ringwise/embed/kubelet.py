"""Simulated kubelets: when a bound pod starts, how long it runs, how it ends, and who holds which chip.

Everything here follows from a pod, its timeline and the state of its node; `cluster` carries it out.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import field
from heapq import heappop, heappush

import msgspec

from ringwise.durations import SECOND, plain_duration
from ringwise.grammar import quoted
from ringwise.manifests.text.quantities import NotReadableError, duration
from ringwise.records import dataclass
from ringwise.state.model import ENDED, Pod
from ringwise.wellknown import EXPECTED_DURATION, SIMULATE

#: The largest unsigned number: the chips are mounted, so this pod is never matched again.
ALLOCATED_TIME = str(2**64 - 1)

_SCRIPT = re.compile(
    r"(?P<what>succeed|fail|forever)(?:@(?P<at>[0-9]{1,9}(?:\.[0-9]{1,9})?))?(?::(?P<code>[0-9]{1,3}))?",
    re.ASCII,
)


# -- how pods run


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """How simulated nodes behave. Times in nanoseconds."""

    #: From the binding to the start.
    start_delay: int = 2 * SECOND
    #: From the deletion request to the end.
    grace: int = 2 * SECOND
    #: How long a pod without annotations runs; None: until it is deleted.
    default_duration: int | None = None
    #: From the end of the containers of a deleted pod, which its phase says, to its removal.
    removal_delay: int = 0


@dataclass(frozen=True, slots=True)
class PodScript:
    """How long a pod runs (None: until it is deleted), and its exit code."""

    duration: int | None
    exit_code: int = 0


class NotSimulatableError(ValueError):
    """An annotation for the simulation that cannot be read."""


def seconds_or_duration(text: str) -> int:
    """`90`, `90s`, `1h30m`, `2d` in nanoseconds."""
    stripped = text.strip()
    result = plain_duration(stripped)
    if result is not None:
        return result
    if stripped.isascii() and stripped.isdigit() and len(stripped) <= 12:
        return int(stripped) * SECOND
    try:
        return duration(stripped)
    except NotReadableError as problem:
        raise NotSimulatableError(f"{EXPECTED_DURATION}: {problem}, got {quoted(text)}") from None


def script_of(
    annotations: Mapping[str, str], settings: SimulationSettings, estimate: int | None = None
) -> PodScript:
    """From the annotation `simulate`, else the expected duration, else the default of the cluster.

    `estimate`: the `runningEstimate` of its vcjob, stronger than the annotation, as in the scheduler.
    """
    length = settings.default_duration if estimate is None else estimate
    if EXPECTED_DURATION in annotations and estimate is None:
        length = seconds_or_duration(annotations[EXPECTED_DURATION])
    script = annotations.get(SIMULATE)
    if not script:
        return PodScript(length)
    match = _SCRIPT.fullmatch(script.strip())
    if match is None:
        raise NotSimulatableError(
            f"{SIMULATE}: must be succeed, fail or forever, as in 'fail@30:137' (after 30 seconds, "
            f"exit code 137), got {quoted(script)}"
        )
    if match["what"] == "forever":
        return PodScript(None)
    if match["at"] is not None:
        whole, _, part = match["at"].partition(".")
        length = int(whole) * SECOND + int(part.ljust(9, "0") or 0)
    elif length is None:
        # Without a time the pod ends at once; otherwise it would never end.
        length = 0
    code = int(match["code"]) if match["code"] else 1
    return PodScript(length, code if match["what"] == "fail" else 0)


def script_or_failure(pod: Pod, settings: SimulationSettings, estimate: int | None = None) -> PodScript:
    """An annotation that cannot be read fails the pod at once, like a container that cannot start."""
    try:
        return script_of(pod.annotations, settings, estimate)
    except NotSimulatableError:
        return PodScript(0, 128)


# -- what happens to a pod next

#: The exit code of a container that SIGTERM ended.
TERMINATED = 143


class PodTimeline(msgspec.Struct, frozen=True):
    """Times of a pod that its object does not contain, in nanoseconds. Stored in lab files."""

    bound: int
    started: int | None = None
    deletion_requested: int | None = msgspec.field(default=None, name="asked_to_go")


class PodTransition(enum.Enum):
    START = "start"
    END = "end"
    TERMINATE = "terminate"
    REMOVE = "remove"
    #: The device plugin writes which vNPU it has.
    REPORT = "report"


@dataclass(frozen=True, slots=True)
class DueTransition:
    at: int
    transition: PodTransition


def next_transition(
    pod: Pod,
    timeline: PodTimeline,
    node_ready: bool,
    settings: SimulationSettings,
    estimate: int | None = None,
    report_delay: int | None = None,
) -> DueTransition | None:
    """What happens to a bound pod next; nothing on a node that is not ready."""
    if not node_ready or pod.node is None:
        return None
    if timeline.deletion_requested is not None:
        if pod.phase in ENDED:
            return DueTransition(pod.ended + settings.removal_delay, PodTransition.REMOVE)
        return DueTransition(timeline.deletion_requested + settings.grace, PodTransition.TERMINATE)
    if pod.phase == "Pending":
        return DueTransition(timeline.bound + settings.start_delay, PodTransition.START)
    if pod.phase == "Running" and timeline.started is not None:
        length = script_or_failure(pod, settings, estimate).duration
        if report_delay is not None and (length is None or report_delay < length):
            return DueTransition(timeline.started + report_delay, PodTransition.REPORT)
        return None if length is None else DueTransition(timeline.started + length, PodTransition.END)
    return None


class PodTimers:
    """One timer per pod. Those of the same time expire in the order in which they were set."""

    def __init__(self) -> None:
        self._queue: list[tuple[int, int, str]] = []
        self._current: dict[str, tuple[int, DueTransition]] = {}
        self._number = 0

    def set(self, uid: str, due: DueTransition | None) -> None:
        """Replace the pod's timer; None removes it."""
        self._current.pop(uid, None)
        if due is not None:
            self._number += 1
            self._current[uid] = (self._number, due)
            heappush(self._queue, (due.at, self._number, uid))

    def next(self) -> int | None:
        while self._queue:
            at, number, uid = self._queue[0]
            current = self._current.get(uid)
            if current is not None and current[0] == number:
                return at
            heappop(self._queue)
        return None

    def pop(self) -> tuple[str, PodTransition]:
        """The pod and the transition of the next timer, which must exist."""
        _, _, uid = heappop(self._queue)
        _, due = self._current.pop(uid)
        return uid, due.transition


# -- chips


@dataclass(slots=True)
class ChipAssignments:
    """Which pod holds which chip of one resource on one node, from its binding until its end or deletion."""

    #: chip -> pods it was assigned to; more than one is a fault of the scheduler.
    assigned: dict[int, list[str]] = field(default_factory=dict)
    #: Mask of the chips mounted into a container, by pod.
    mounted: dict[str, int] = field(default_factory=dict)

    def assign(self, uid: str, chips: tuple[int, ...]) -> tuple[int, ...]:
        """Record the chips of a pod; returns those that another live pod holds."""
        twice = []
        for chip in chips:
            pods = self.assigned.setdefault(chip, [])
            if uid in pods:
                continue
            if pods:
                twice.append(chip)
            pods.append(uid)
        return tuple(twice)

    def others(self, uid: str, chips: tuple[int, ...]) -> tuple[str, ...]:
        """Pods that were assigned one of these chips before this pod."""
        holders = []
        for chip in chips:
            for holder in self.assigned.get(chip, ()):
                if holder == uid:
                    break
                holders.append(holder)
        return tuple(dict.fromkeys(holders))

    def release(self, uid: str, chips: tuple[int, ...]) -> None:
        for chip in chips:
            pods = self.assigned.get(chip)
            if pods and uid in pods:
                pods.remove(uid)
                if not pods:
                    del self.assigned[chip]
        self.mounted.pop(uid, None)

    @property
    def in_use(self) -> int:
        """Mask of the mounted chips: those that a device plugin knows to be used."""
        mask = 0
        for chips in self.mounted.values():
            mask |= chips
        return mask
