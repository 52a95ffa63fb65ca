"""Simulated kubelets and device plugins: what becomes of a pod once it is bound to a node.

Pure: from a pod, what is known of its life and the state of its node follows what
happens next and when. The cluster carries it out.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from ringwise.embed.simulated import Habits, NotSimulatableError, Plan, plan_of
from ringwise.state.model import ENDED, Pod

#: The largest unsigned number: these chips have been given out, never match this pod again.
GIVEN_OUT = str(2**64 - 1)


class Step(enum.Enum):
    START = "start"
    END = "end"
    VANISH = "vanish"


@dataclass(frozen=True, slots=True)
class Life:
    """What the pod object does not tell: when things happened to it. Nanoseconds."""

    bound: int
    started: int | None = None
    asked_to_go: int | None = None


@dataclass(frozen=True, slots=True)
class Next:
    at: int
    step: Step


def plan_or_failure(pod: Pod, habits: Habits) -> Plan:
    """A script that cannot be read fails the pod at once, as a container that cannot start would."""
    try:
        return plan_of(pod.annotations, habits)
    except NotSimulatableError:
        return Plan(0, 128)


def next_step(pod: Pod, life: Life, node_ready: bool, habits: Habits) -> Next | None:
    """What happens to a bound pod next. Nothing moves on a node whose kubelet does not answer."""
    if not node_ready or pod.node is None:
        return None
    if life.asked_to_go is not None:
        return Next(life.asked_to_go + (0 if pod.phase in ENDED else habits.grace), Step.VANISH)
    if pod.phase == "Pending":
        return Next(life.bound + habits.start_delay, Step.START)
    if pod.phase == "Running" and life.started is not None:
        length = plan_or_failure(pod, habits).duration
        return None if length is None else Next(life.started + length, Step.END)
    return None


@dataclass(slots=True)
class ChipBook:
    """Who has which chip of one resource on one node, from the binding until the pod ends or is gone."""

    #: chip -> pods that were given it; more than one is a fault of the scheduler.
    given: dict[int, list[str]] = field(default_factory=dict)
    #: Chips mounted into a container, by pod.
    mounted: dict[str, int] = field(default_factory=dict)

    def give(self, uid: str, chips: tuple[int, ...]) -> tuple[int, ...]:
        """Note the chips of a pod; returns those another live pod has already."""
        twice = []
        for chip in chips:
            pods = self.given.setdefault(chip, [])
            if uid in pods:
                continue
            if pods:
                twice.append(chip)
            pods.append(uid)
        return tuple(twice)

    def others(self, uid: str, chips: tuple[int, ...]) -> tuple[str, ...]:
        """Pods that were given one of these chips before this one."""
        found = []
        for chip in chips:
            for holder in self.given.get(chip, ()):
                if holder == uid:
                    break
                found.append(holder)
        return tuple(dict.fromkeys(found))

    def take_back(self, uid: str, chips: tuple[int, ...]) -> None:
        for chip in chips:
            pods = self.given.get(chip)
            if pods and uid in pods:
                pods.remove(uid)
                if not pods:
                    del self.given[chip]
        self.mounted.pop(uid, None)

    @property
    def in_use(self) -> int:
        """Mounted chips: what a device plugin knows to be taken."""
        mask = 0
        for chips in self.mounted.values():
            mask |= chips
        return mask
