"""The state of every leaf switch (rule S2), computed from the live pods and nothing else.

Each pod of a common or foundation-model job carries how its switch was taken
(`isSharedTor`). The states follow from these marks: shared beats exclusive,
exclusive beats idle, and a shared switch is unhealthy while some job under it
uses more shared switches than allowed. No history is kept and no order matters:
after a restart or a recovery, and for any order of pods, the result is the same.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import replace

from ringwise.placement.switches.classes import SwitchClass
from ringwise.records import dataclass


class SwitchState(enum.IntEnum):
    """Rule S2, with the numbers that `IsSharedTor` publishes."""

    IDLE = 0
    SHARED = 1
    EXCLUSIVE = 2

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class SwitchJob:
    """A running job: for each live pod under a switch, that switch and the pod's mark (0, 1 or 2)."""

    key: str
    job_class: SwitchClass
    pods: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class SwitchFacts:
    """Everything the rules read about one switch."""

    state: SwitchState = SwitchState.IDLE
    healthy: bool = True
    #: No foundation-model job under it.
    only_common: bool = True
    #: How many shared switches the owner of this exclusive switch uses.
    owner_shared: int = 0
    #: A common or foundation-model job is under it, whatever its mark: not idle for version 1.0.
    labeled: bool = False
    #: A foundation-model job is under it that has pods under other switches too.
    cross_model: bool = False


IDLE = SwitchFacts()


def as_version1(facts: SwitchFacts) -> SwitchFacts:
    """Rule S8: version 1.0 has idle and not idle, whatever the marks; not idle is shown as exclusive."""
    return replace(facts, state=SwitchState.EXCLUSIVE if facts.labeled else SwitchState.IDLE, healthy=True)


class _JobUse:
    """The use that one job makes of its switches."""

    __slots__ = ("marks", "model", "shared")

    def __init__(self, job: SwitchJob) -> None:
        self.model = job.job_class is SwitchClass.FOUNDATION_MODEL
        self.marks: dict[int, int] = {}
        for switch, mark in job.pods:
            # One bit per mark that occurs: 1 for mark 0, 2 for mark 1, 4 for mark 2.
            self.marks[switch] = self.marks.get(switch, 0) | (1 << mark if mark in (1, 2) else 1)
        self.shared = 0


def switch_states(switches: int, jobs: Iterable[SwitchJob], shared_limit: int) -> list[SwitchFacts]:
    """Rule S2: the state of each of `switches` switches, in time linear in the pods."""
    usages = [_JobUse(job) for job in jobs if job.job_class is not SwitchClass.PADDING]
    marks = [0] * switches
    for usage in usages:
        for switch, seen in usage.marks.items():
            marks[switch] |= seen
    for usage in usages:
        usage.shared = sum(1 for switch in usage.marks if marks[switch] & 2)
    unhealthy = [False] * switches
    model = [False] * switches
    cross = [False] * switches
    owner_shared = [0] * switches
    for usage in usages:
        for switch, seen in usage.marks.items():
            unhealthy[switch] |= usage.shared > shared_limit
            model[switch] |= usage.model
            cross[switch] |= usage.model and len(usage.marks) > 1
            if seen & 4:
                owner_shared[switch] = max(owner_shared[switch], usage.shared)
    result: list[SwitchFacts] = []
    for switch, seen in enumerate(marks):
        if not seen:
            result.append(IDLE)
            continue
        state = SwitchState.SHARED if seen & 2 else SwitchState.EXCLUSIVE if seen & 4 else SwitchState.IDLE
        result.append(
            SwitchFacts(
                state=state,
                healthy=not (state is SwitchState.SHARED and unhealthy[switch]),
                only_common=not model[switch],
                owner_shared=owner_shared[switch],
                labeled=True,
                cross_model=cross[switch],
            )
        )
    return result
