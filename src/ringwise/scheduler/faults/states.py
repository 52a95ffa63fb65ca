"""The states of a job that a fault affects, and its transitions: data, drawn in docs/guides/rescheduling.md.

`FaultHandler` decides which event happened; this table says what follows. Every state can be read back after
a restart of the scheduler (F1).
"""

from __future__ import annotations

import enum

from ringwise.records import dataclass


class State(enum.Enum):
    HEALTHY = "Healthy"
    FAULTY = "Faulty"
    DELETING = "Deleting"
    WAITING = "Waiting"
    RECOVERED = "Recovered"
    BLOCKED = "Blocked"
    FORGOTTEN = "Forgotten"


class StateEvent(enum.Enum):
    """What moves a job from one state to another."""

    FAULT_FOUND = "a pod is faulty"
    DRAINED = "a pod is evicted because its node is drained"
    ALLOWED = "the policy allows the deletion of pods"
    REFUSED = "the policy does not allow it, or no retries are left"
    FAULT_GONE = "no pod is faulty"
    GRACE_OVER = "grace-over-time has passed"
    PODS_GONE = "all pods to be deleted are gone, or terminate for longer than grace-over-time"
    NEXT_LEVEL = "the time of the level has passed"
    PLACED = "minAvailable pods have a node"
    JOB_GONE = "the job was deleted, has ended, or has another owner"


@dataclass(frozen=True, slots=True)
class Transition:
    state: State
    happened: StateEvent
    to: State
    does: str


TRANSITIONS: tuple[Transition, ...] = (
    Transition(State.HEALTHY, StateEvent.FAULT_FOUND, State.FAULTY, "records the faulty pods and the causes"),
    Transition(State.HEALTHY, StateEvent.DRAINED, State.WAITING, "waits for its replacement"),
    Transition(
        State.FAULTY, StateEvent.ALLOWED, State.DELETING, "deletes the pods of the level and writes a record"
    ),
    Transition(State.FAULTY, StateEvent.REFUSED, State.BLOCKED, "reports the reason"),
    Transition(State.BLOCKED, StateEvent.FAULT_FOUND, State.FAULTY, "checks the policy again"),
    Transition(State.BLOCKED, StateEvent.FAULT_GONE, State.RECOVERED, "removes the record"),
    Transition(State.BLOCKED, StateEvent.ALLOWED, State.DELETING, "continues with pods that it lost before"),
    Transition(State.DELETING, StateEvent.FAULT_FOUND, State.FAULTY, "adds the new faulty pods"),
    Transition(State.DELETING, StateEvent.GRACE_OVER, State.DELETING, "force-deletes the remaining pods"),
    Transition(State.DELETING, StateEvent.FAULT_GONE, State.RECOVERED, "removes the record and annotations"),
    Transition(State.DELETING, StateEvent.PODS_GONE, State.WAITING, "waits for their replacements"),
    Transition(State.WAITING, StateEvent.FAULT_FOUND, State.FAULTY, "adds the new faulty pods"),
    Transition(State.WAITING, StateEvent.NEXT_LEVEL, State.DELETING, "deletes the pods of the next level"),
    Transition(State.WAITING, StateEvent.PLACED, State.RECOVERED, "removes the record, keeps the retries"),
    *(
        Transition(state, StateEvent.JOB_GONE, State.FORGOTTEN, "removes the record")
        for state in (State.FAULTY, State.BLOCKED, State.DELETING, State.WAITING)
    ),
)

_TABLE: dict[tuple[State, StateEvent], State] = {(one.state, one.happened): one.to for one in TRANSITIONS}
#: A job in one of these is not kept.
ENDED = frozenset({State.RECOVERED, State.FORGOTTEN})


class UndefinedTransition(Exception):
    """The handler saw an event that the table does not know in this state: a defect."""


def next_state(state: State, happened: StateEvent) -> State:
    result = _TABLE.get((state, happened))
    if result is None:
        raise UndefinedTransition(f"{state.value}: {happened.value}")
    return result
