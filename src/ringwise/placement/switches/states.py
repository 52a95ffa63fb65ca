"""The state of every leaf switch, from the pods that run now and nothing else.

Each pod of a common or foundation-model job remembers how its switch was taken
(`isSharedTor`). From these marks the states follow: shared beats exclusive,
exclusive beats idle, and a shared switch is unhealthy while some job under it
uses more shared switches than allowed. There is no history and no order, so a
restart, a healed switch and a different list order all give the same answer.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ringwise.placement.switches.classes import SwitchClass


class State(enum.IntEnum):
    """Numbers as `IsSharedTor` publishes them."""

    IDLE = 0
    SHARED = 1
    EXCLUSIVE = 2

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class PlacedJob:
    """A running job: for each live pod under a switch, that switch and the pod's mark (0, 1 or 2)."""

    key: str
    job_class: SwitchClass
    pods: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class SwitchState:
    """All that the rules ask about one switch."""

    state: State = State.IDLE
    healthy: bool = True
    #: No foundation-model job under it.
    only_common: bool = True
    #: How many shared switches the owner of this exclusive switch uses.
    owner_shared: int = 0
    #: A common or foundation-model job is under it, whatever its mark: not idle for version 1.0.
    labelled: bool = False
    #: A foundation-model job is under it that has pods under other switches too.
    cross_model: bool = False


IDLE = SwitchState()


def as_version1(facts: SwitchState) -> SwitchState:
    """Version 1.0 knows idle or not, whatever the marks say; what is not idle is shown as exclusive."""
    return replace(facts, state=State.EXCLUSIVE if facts.labelled else State.IDLE, healthy=True)


class _Usage:
    """What one job does under its switches."""

    __slots__ = ("marks", "model", "shared")

    def __init__(self, job: PlacedJob) -> None:
        self.model = job.job_class is SwitchClass.FOUNDATION_MODEL
        self.marks: dict[int, int] = {}
        for switch, mark in job.pods:
            # One bit per mark that occurs: 1 for mark 0, 2 for mark 1, 4 for mark 2.
            self.marks[switch] = self.marks.get(switch, 0) | (1 << mark if mark in (1, 2) else 1)
        self.shared = 0


def switch_states(switches: int, jobs: Iterable[PlacedJob], shared_limit: int) -> list[SwitchState]:
    """The state of each of `switches` switches. Costs one step per pod."""
    usages = [_Usage(job) for job in jobs if job.job_class is not SwitchClass.PADDING]
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
    found: list[SwitchState] = []
    for switch, seen in enumerate(marks):
        if not seen:
            found.append(IDLE)
            continue
        state = State.SHARED if seen & 2 else State.EXCLUSIVE if seen & 4 else State.IDLE
        found.append(
            SwitchState(
                state=state,
                healthy=not (state is State.SHARED and unhealthy[switch]),
                only_common=not model[switch],
                owner_shared=owner_shared[switch],
                labelled=True,
                cross_model=cross[switch],
            )
        )
    return found
