"""What a job wants to happen after a fault: its labels and annotations as checked values.

A bad value never stops a job: it counts as absent, and one note says what is allowed.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import field
from typing import TypeVar

from ringwise.grammar import agrees, quoted
from ringwise.placement.racks.levels import Level
from ringwise.records import dataclass
from ringwise.state.failures import MAX_RETRIES, retries_of
from ringwise.topology.numbers import whole_number
from ringwise.wellknown import (
    APP,
    FAULT_RETRY_TIMES,
    FAULT_SCHEDULING,
    FILTER_FAULT_CODE,
    FILTER_FAULT_LEVEL,
    INFERENCE_SERVICE,
    MANUALLY_SEPARATE_KEY,
    POD_RESCHEDULING,
    PROCESS_RECOVER_ENABLE,
    PROCESS_RECOVER_STRATEGY,
    RECOVER_POLICY_PATH,
    SUB_HEALTHY_STRATEGY,
)

DEFAULT_WINDOW = 60
MAX_WINDOW = 86400
#: Entries of one annotation that are read; the fault codes of Huawei's hardware are a few hundred.
MAX_ENTRIES = 1000
#: Levels that faults of chips have.
LEVELS = (
    "NotHandleFault",
    "SubHealthFault",
    "RestartRequest",
    "RestartBusiness",
    "FreeRestartNPU",
    "RestartNPU",
    "PreSeparateNPU",
    "SeparateNPU",
    MANUALLY_SEPARATE_KEY,
)
_LEVELS = frozenset(level.lower() for level in LEVELS)


@dataclass(frozen=True, slots=True)
class FaultMasks:
    """Seconds by fault code and by fault level, both in lower case."""

    codes: Mapping[str, int] = field(default_factory=dict, hash=False)
    levels: Mapping[str, int] = field(default_factory=dict, hash=False)

    def __bool__(self) -> bool:
        return bool(self.codes or self.levels)

    def window(self, code: str, level: str) -> int:
        """Seconds for which a fault is tolerated; 0 where it is not."""
        by_code = self.codes.get(code.lower())
        return self.levels.get(level.lower(), 0) if by_code is None else by_code


NO_MASKS = FaultMasks()


def read_masks(codes: str | None, levels: str | None, notes: list[str]) -> FaultMasks:
    """The masks that two annotations write. Bad entries are left out, with one note for each annotation."""
    if codes is None and levels is None:
        return NO_MASKS
    by_code = _read(FILTER_FAULT_CODE, codes, notes)
    return FaultMasks(by_code, _read(FILTER_FAULT_LEVEL, levels, notes, _LEVELS))


def _read(
    key: str, text: str | None, notes: list[str], allowed: frozenset[str] | None = None
) -> dict[str, int]:
    result: dict[str, int] = {}
    wrong = unknown = ""
    entries = [entry.strip() for entry in (text or "").split(",", MAX_ENTRIES)]
    for entry in entries[:MAX_ENTRIES]:
        name, colon, seconds = (part.strip() for part in entry.partition(":"))
        window = whole_number(seconds, 0, MAX_WINDOW) if colon else DEFAULT_WINDOW
        if window is None or (not name and entry):
            wrong = wrong or entry
        elif name and allowed is not None and name.lower() not in allowed:
            unknown = unknown or name
        elif name:
            result[name.lower()] = window
    if len(entries) > MAX_ENTRIES:
        notes.append(f"annotation {key} has more than {MAX_ENTRIES} entries; the others are ignored")
    if unknown:
        notes.append(
            f"annotation {key} must be a comma-separated list of chip fault levels ({', '.join(LEVELS)}), "
            f"got {shown(unknown)}; such entries are ignored"
        )
    if wrong:
        notes.append(
            f"annotation {key} must be `code[:seconds],...` with 0 to {MAX_WINDOW} seconds, "
            f"got {shown(wrong)}; such entries are ignored"
        )
    return result


def shown(text: str | None) -> str:
    """A value of a user for a message; a very long one is cut."""
    text = text or ""
    return quoted(text, 40)


#: Applications of which only faulty pods are replaced, as if `huawei.com/recover_policy_path` were `pod`.
_POD_ONLY_APPS = frozenset({"mindie-ms-controller", "mindie-ms-coordinator"})


class Mode(enum.Enum):
    """`fault-scheduling`: how the pods of a faulty job are deleted."""

    OFF = "off"
    #: With the pods' own grace period; what is still there after `grace-over-time` is deleted by force.
    GRACE = "grace"
    FORCE = "force"
    #: Faulty pods are only marked; another component deletes them.
    EXTERNAL_GRACE = "external-grace"
    EXTERNAL_FORCE = "external-force"

    @property
    def external(self) -> bool:
        return self in (Mode.EXTERNAL_GRACE, Mode.EXTERNAL_FORCE)


class SubHealth(enum.Enum):
    """`subHealthyStrategy`: what is done with pods on hardware that works, but not well."""

    IGNORE = "ignore"
    GRACE_EXIT = "graceExit"
    FORCE_EXIT = "forceExit"
    HOT_SWITCH = "hotSwitch"


class ProcessRecovery(enum.Enum):
    """`process-recover-enable`: Huawei's components restart processes in place."""

    OFF = "off"
    ON = "on"
    #: It failed: the job is handled as with `pod-rescheduling: on`.
    PAUSE = "pause"


@dataclass(frozen=True, slots=True)
class FaultPolicy:
    mode: Mode = Mode.OFF
    sub_health: SubHealth = SubHealth.IGNORE
    process_recovery: ProcessRecovery = ProcessRecovery.OFF
    #: Faulty pods are replaced first; larger parts of the job follow with time (F2).
    pod_level: bool = False
    #: Healthy pods are never deleted.
    only_pods: bool = False
    #: How often the job is restarted after a pod failed; 0: failed pods are left to their controller.
    retries: int = 0
    #: Another component handles the faults of this job; nothing is deleted.
    handled_elsewhere: bool = False
    masks: FaultMasks = NO_MASKS
    #: What is wrong with `fault-scheduling`, so that nothing is done.
    unknown_mode: str = ""
    #: What could not be read, or acts differently here.
    notes: tuple[str, ...] = ()

    @property
    def restarts_as_a_whole(self) -> bool:
        """The first answer to a fault is to restart every pod."""
        recovers = self.process_recovery is not ProcessRecovery.OFF
        return not (self.only_pods or self.pod_level or recovers)

    @property
    def first_level(self) -> Level:
        return Level.JOB if self.restarts_as_a_whole else Level.POD

    @property
    def escalates(self) -> bool:
        """F4: whether the clock of F2 runs, too, where a drained pod of the job finds no place."""
        deletes = self.mode in (Mode.GRACE, Mode.FORCE) and not self.handled_elsewhere
        return deletes and self.pod_level and not self.only_pods

    def refusal(self, retries_left: int) -> str:
        """Why no pod may be deleted; empty where that is allowed. Broken hardware needs no retries."""
        if self.mode is Mode.OFF:
            return self.unknown_mode or "fault-scheduling is off"
        if self.handled_elsewhere:
            return "its annotation ProcessRecoverStrategy leaves faults to another component"
        if retries_left <= 0:
            restarts = f"all {self.retries} restarts" if self.retries != 1 else "the one restart"
            return f"{restarts} that fault-retry-times allows {agrees(self.retries, 'is', 'are')} used up"
        return ""


def read_fault_policy(
    labels: Mapping[str, str], annotations: Mapping[str, str], *, clusterd: bool = True
) -> FaultPolicy:
    """The policy of a job. `clusterd`: whether Huawei's ClusterD runs, which two values need."""
    notes: list[str] = []
    recovery = _choice(ProcessRecovery, labels, PROCESS_RECOVER_ENABLE, ProcessRecovery.OFF, notes)
    pod_level = _is_on(labels, POD_RESCHEDULING, notes)
    if not clusterd and recovery is not ProcessRecovery.OFF:
        # `pause` is ClusterD's word, too: without ClusterD it is a leftover.
        recovery, pod_level = ProcessRecovery.OFF, True
        notes.append(f"label {PROCESS_RECOVER_ENABLE} needs ClusterD, which does not run; {_AS_POD_LEVEL}")
    only_pods = _only_pods(labels, annotations, notes)
    if FAULT_SCHEDULING not in labels:
        # Nothing is deleted. How far lost pods may move, the other labels say all the same (F2).
        return FaultPolicy(process_recovery=recovery, pod_level=pod_level, only_pods=only_pods)
    wrong: list[str] = []
    mode = _choice(Mode, labels, FAULT_SCHEDULING, Mode.OFF, wrong)
    unknown_mode = wrong[0] if wrong else ""
    sub_health = _choice(SubHealth, labels, SUB_HEALTHY_STRATEGY, SubHealth.IGNORE, wrong)
    notes = wrong + notes
    if not clusterd and sub_health is SubHealth.HOT_SWITCH:
        sub_health, pod_level = SubHealth.FORCE_EXIT, True
        notes.append(
            f"label {SUB_HEALTHY_STRATEGY}: hotSwitch needs ClusterD, which does not run; {_AS_POD_LEVEL}"
        )
    return FaultPolicy(
        mode=mode,
        sub_health=sub_health,
        process_recovery=recovery,
        pod_level=pod_level,
        only_pods=only_pods,
        retries=_retries(labels, notes),
        handled_elsewhere=PROCESS_RECOVER_STRATEGY in annotations,
        masks=read_masks(annotations.get(FILTER_FAULT_CODE), annotations.get(FILTER_FAULT_LEVEL), notes),
        unknown_mode=unknown_mode,
        notes=tuple(notes),
    )


_AS_POD_LEVEL = f"the job is handled as with {POD_RESCHEDULING}: on"


Choice = TypeVar("Choice", bound=enum.Enum)


def _choice(
    kind: type[Choice], labels: Mapping[str, str], key: str, default: Choice, notes: list[str]
) -> Choice:
    text = labels.get(key)
    if text is None:
        return default
    for one in kind:
        if one.value == text:
            return one
    allowed = ", ".join(str(one.value) for one in kind)
    notes.append(f"label {key} must be one of {allowed}, got {shown(text)}; taken as {default.value}")
    return default


def _is_on(labels: Mapping[str, str], key: str, notes: list[str]) -> bool:
    text = labels.get(key, "off")
    if text not in ("on", "off"):
        notes.append(f"label {key} must be on or off, got {shown(text)}; taken as off")
    return text == "on"


def _only_pods(labels: Mapping[str, str], annotations: Mapping[str, str], notes: list[str]) -> bool:
    if INFERENCE_SERVICE in labels or labels.get(APP) in _POD_ONLY_APPS:
        return True
    text = annotations.get(RECOVER_POLICY_PATH)
    if text not in (None, "pod", "job", "pod,job"):
        notes.append(
            f"annotation {RECOVER_POLICY_PATH} must be pod, job or pod,job, got {shown(text)}; it is ignored"
        )
    return text == "pod"


def _retries(labels: Mapping[str, str], notes: list[str]) -> int:
    number = retries_of(labels)
    if number is None:
        got = shown(labels[FAULT_RETRY_TIMES])
        notes.append(
            f"label {FAULT_RETRY_TIMES} must be a whole number from 0 to {MAX_RETRIES}, got {got}; taken as 0"
        )
    return number or 0
