"""What leaves the scheduler for accounting: which pod held which chips from when to when, and who waited.

Each is identified by the uid of its pod or job, so it counts once, whoever tells it and however often. Times
are nanoseconds, and those that the objects have themselves.

Nobody changes one that was told. Those that the deciding thread makes for every pod and start are not frozen
all the same: frozen ones take it eight times as long.
"""

from __future__ import annotations

from ringwise.records import dataclass


@dataclass(frozen=True, slots=True)
class AccountedJob:
    namespace: str
    #: Of its vcjob or other owner, PodGroup or bare pod.
    name: str
    #: Of the same object.
    uid: str
    user: str = ""
    #: Admission wrote the user; otherwise a label says so.
    verified: bool = False


@dataclass(slots=True)
class PodHeld:
    """A pod holds chips. Told again when it is known why it will lose them."""

    job: AccountedJob
    queue: str
    board: str
    chips: int
    #: Its uid.
    pod: str
    #: When it got its node.
    since: int
    #: Why the scheduler ends it (`EvictionCause`); empty: it does not.
    cause: str = ""
    #: From when on its work is lost then: when it got its node, or its checkpoint if the queue believes it.
    lost_since: int = 0
    #: Whether the times it says cannot be right, and `since` is the nearest that can be.
    clamped: bool = False


@dataclass(slots=True)
class HoldEnded:
    """The pod holds its chips no more."""

    pod: str
    until: int
    #: It surely held them until then. Less than `until` where nobody saw when it ended.
    sure: int
    #: The end that the pod itself says; 0: none.
    told: int = 0
    #: Why its work is lost (`EvictionCause`); empty: it is not.
    cause: str = ""
    #: From when on it is; of a pod that failed, from when on it would be if hardware was why. 0: all of it.
    lost_since: int = 0
    #: It failed by itself.
    failed: bool = False
    clamped: bool = False


@dataclass(slots=True)
class JobWaits:
    """The job has no node and waits for one."""

    job: AccountedJob
    queue: str
    since: int


@dataclass(slots=True)
class WaitEnded:
    """The job got nodes, or it does not wait any more."""

    job: AccountedJob
    queue: str
    #: Of the nodes that it got; empty: none.
    board: str
    since: int
    until: int
    sure: int
    started: bool


@dataclass(frozen=True, slots=True)
class FailureExcused:
    """Hardware, not the job, is why its pods failed: what they did counts as lost to the fault."""

    job: AccountedJob


@dataclass(frozen=True, slots=True)
class AccountClosed:
    """The job is gone: nothing more will be told of it."""

    job: AccountedJob


AccountCommand = PodHeld | HoldEnded | JobWaits | WaitEnded | FailureExcused | AccountClosed
