"""What a pod does on a simulated node: how long it runs and how it ends."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ringwise.embed.clock import SECOND
from ringwise.manifests.quantities import NotReadableError, duration
from ringwise.wellknown import EXPECTED_DURATION, SIMULATE

_SCRIPT = re.compile(
    r"(?P<what>succeed|fail|forever)(?:@(?P<at>[0-9]{1,9}(?:\.[0-9]{1,9})?))?(?::(?P<code>[0-9]{1,3}))?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Plan:
    """How long a pod runs (None: until it is deleted), and with what exit code it ends."""

    duration: int | None
    exit_code: int = 0


@dataclass(frozen=True, slots=True)
class Habits:
    """How simulated nodes behave. Times in nanoseconds."""

    start_delay: int = 2 * SECOND
    #: How long a pod takes to end once it is asked to.
    grace: int = 2 * SECOND
    #: How long a pod runs that says nothing; None: until it is deleted.
    default_duration: int | None = None


class NotSimulatableError(ValueError):
    """An annotation for the simulation that cannot be understood."""


def seconds_or_duration(text: str) -> int:
    """`90`, `90s`, `1h30m` in nanoseconds."""
    stripped = text.strip()
    if stripped.isascii() and stripped.isdigit() and len(stripped) <= 12:
        return int(stripped) * SECOND
    try:
        return duration(stripped)
    except NotReadableError as problem:
        raise NotSimulatableError(f"{EXPECTED_DURATION}: {problem}, got {text!r}") from None


def plan_of(annotations: Mapping[str, str], habits: Habits) -> Plan:
    """The pod's own script wins, then its expected duration, then the habit of the cluster."""
    length = habits.default_duration
    if EXPECTED_DURATION in annotations:
        length = seconds_or_duration(annotations[EXPECTED_DURATION])
    script = annotations.get(SIMULATE)
    if not script:
        return Plan(length)
    match = _SCRIPT.fullmatch(script.strip())
    if match is None:
        raise NotSimulatableError(
            f"{SIMULATE}: must be succeed, fail or forever, as in 'fail@30:137' (after 30 seconds, "
            f"exit code 137), got {script!r}"
        )
    if match["what"] == "forever":
        return Plan(None)
    if match["at"] is not None:
        whole, _, part = match["at"].partition(".")
        length = int(whole) * SECOND + int(part.ljust(9, "0") or 0)
    elif length is None:
        # A script without a time means the end itself; it would never come otherwise.
        length = 0
    code = int(match["code"]) if match["code"] else 1
    return Plan(length, code if match["what"] == "fail" else 0)
