"""What leaves the scheduler for accounting: which pod held which chips from when to when, and who waited.

Each is identified by the uid of its pod or job, so it counts once, even if it is sent several times. Times
are nanoseconds, and those that the objects have themselves.

None is changed after it was sent. Those that the deciding thread makes for every pod and start are not frozen
all the same: frozen ones take eight times as long.
"""

from __future__ import annotations

import re
from fractions import Fraction
from numbers import Rational
from typing import TYPE_CHECKING, Any

from ringwise.messages.command import Command
from ringwise.records import dataclass

#: Chips, or their seconds. A `Fraction` if shares or vNPUs are among them, even if the sum is whole.
if TYPE_CHECKING:
    ChipAmount = int | Fraction
else:
    # msgspec reads one type with a hook, but no union with one; int and Fraction are both rational.
    ChipAmount = Rational
#: As text: `3/8`, and `900/1` if a sum with fractions is whole.
_FRACTION = re.compile(r"([0-9]{1,500})/([1-9][0-9]{0,499})", re.ASCII)


def read_chip_amount(_kind: type, value: Any) -> ChipAmount:
    """Return the amount that JSON has: a hook of msgspec. Raises ValueError."""
    if type(value) is int and value >= 0:
        return value
    match = _FRACTION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("expected a number that is not negative, or a fraction such as 3/8")
    return Fraction(int(match[1]), int(match[2]))


def chip_amount_text(amount: Fraction) -> str:
    return f"{amount.numerator}/{amount.denominator}"


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
class PodHeld(Command):
    """A pod holds chips. Sent again when it is known why the pod will lose them."""

    job: AccountedJob
    queue: str
    board: str
    chips: ChipAmount
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
class HoldEnded(Command):
    """The pod no longer holds its chips."""

    pod: str
    until: int
    #: It certainly held them until then. Less than `until` if its end was not observed.
    sure: int
    #: When the pod ended by its own status; 0 if the status does not say.
    told: int = 0
    #: Why its work is lost (`EvictionCause`); empty: it is not.
    cause: str = ""
    #: From when on it is; of a pod that failed, from when on it would be if hardware was why. 0: all of it.
    lost_since: int = 0
    #: It failed by itself.
    failed: bool = False
    clamped: bool = False


@dataclass(slots=True)
class JobWaits(Command):
    """The job has no node and waits for one."""

    job: AccountedJob
    queue: str
    since: int


@dataclass(slots=True)
class WaitEnded(Command):
    """The job got nodes, or it no longer waits."""

    job: AccountedJob
    queue: str
    #: Of the nodes that it got; empty: none.
    board: str
    since: int
    until: int
    sure: int
    started: bool


@dataclass(frozen=True, slots=True)
class FailureExcused(Command):
    """Hardware, not the job, is why its pods failed: what they did counts as lost to the fault."""

    job: AccountedJob


@dataclass(frozen=True, slots=True)
class AccountClosed(Command):
    """The job is gone: no further command is about it."""

    job: AccountedJob


AccountCommand = PodHeld | HoldEnded | JobWaits | WaitEnded | FailureExcused | AccountClosed
