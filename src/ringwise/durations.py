"""Durations as Go programs write them ("90s", "1h30m", "250ms"), and human-readable times and durations."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

#: Times are counted in nanoseconds.
SECOND = 1_000_000_000
DAY = 86_400 * SECOND
#: No longer text is a duration; it may come from a hostile annotation.
_LONGEST = 64
#: The last one of the year 9999.
_LAST_SECOND = 253_402_300_799
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|h)", re.ASCII)
_TIMESTAMP = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2})"
    r"(?:\.([0-9]{1,9}))?([Zz]|[+-][0-9]{2}:[0-9]{2})",
    re.ASCII,
)
_DAYS = re.compile(r"([0-9]{1,5})d", re.ASCII)
#: As Slurm writes them: hours, minutes and seconds, after days.
_CLOCK = re.compile(r"(?:([0-9]{1,4})-)?([0-9]{1,5}):([0-9]{2}):([0-9]{2})", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = {
    "ns": 1,
    "us": 1000,
    "µs": 1000,
    "ms": 10**6,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
#: Units of human-readable durations, in seconds.
_SHOWN = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def earliest(*times: int | None) -> int | None:
    """Return the first of the times that are known."""
    return min((time for time in times if time is not None), default=None)


class ExponentialBackoff(NamedTuple):
    """Pauses in seconds: each is twice as long as the one before, up to a limit."""

    initial: int
    limit: int

    def seconds(self, failures: int) -> int:
        """Return the pause after so many failures in a row, at least one."""
        return min(self.initial << min(failures - 1, 16), self.limit)


def go_duration(text: str) -> int | None:
    """The duration in nanoseconds; None for anything else."""
    if text == "0":
        return 0
    parts = list(_PART.finditer(text)) if len(text) <= _LONGEST else []
    joined = all(left.end() == right.start() for left, right in pairwise(parts))
    if not parts or parts[0].start() or parts[-1].end() != len(text) or not joined:
        return None
    return sum(_nanoseconds(match[1], match[2]) for match in parts)


def plain_duration(text: str) -> int | None:
    """`90`, `90s`, `15m`, `2h`, `1d`, `1h30m`, `3d4h` in nanoseconds; None for anything else."""
    units = {unit: size for size, unit in _SHOWN}
    factor = units.get(text[-1:], 0)
    number = text[:-1] if factor else text
    try:
        total = float(number) * (factor or 1) * SECOND
    except ValueError:
        days = _DAYS.match(text)
        total = go_duration(text[days.end() :] if days else text) or 0
        if days and total:
            total += int(days[1]) * 86400 * SECOND
    return int(total) if 0 < total < 10 * 366 * 86400 * SECOND else None


def clock_duration(text: str) -> int | None:
    """`2:00:00`, `1-12:00:00` in nanoseconds; None for anything else."""
    match = _CLOCK.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return days * DAY + (hours * 3600 + minutes * 60 + seconds) * SECOND


def with_zone(text: str) -> str:
    """A UTC day or a time without a zone as an RFC 3339 time in UTC; anything else as it is."""
    return text + "0000-00-00T00:00:00Z"[len(text) :] if len(text) in (10, 16, 19) else text


@lru_cache(maxsize=512)
def unix_nanoseconds(text: str) -> int | None:
    """An RFC 3339 time as Unix nanoseconds, 0 for the zero time of Go; None for anything else."""
    match = _TIMESTAMP.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        return None
    seconds, fraction, zone = match.groups()
    try:
        moment = datetime.fromisoformat(seconds.upper() + ("+00:00" if zone in "Zz" else zone))
        since = moment - _EPOCH
    except (ValueError, OverflowError):
        return None
    whole = since.days * 86400 + since.seconds
    return max(0, whole * SECOND + int((fraction or "0").ljust(9, "0")))


def _nanoseconds(amount: str, unit: str) -> int:
    whole, _, part = amount.partition(".")
    scale: int = 10 ** len(part)
    return int(whole + part) * _UNITS[unit] // scale


def time_text(nanoseconds: int) -> str:
    """Of later times, which tenants make who say that their jobs run for ages, the last one with a name."""
    seconds = min(nanoseconds // SECOND, _LAST_SECOND)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def duration_text(nanoseconds: int, *, units: int = 2, up: bool = False) -> str:
    """`45s`, `5m`, `2h10m`, `3d4h`: the largest unit and the next smaller one, as kubectl shows ages.

    Every human-readable duration and age uses this format; the dashboard implements the same in JavaScript.
    `units=4` omits nothing. `up` rounds up, which is required for a latest time.
    """
    seconds = max(0, -(-nanoseconds // SECOND) if up else nanoseconds // SECOND)
    largest = next((place for place, (size, _) in enumerate(_SHOWN) if seconds >= size), len(_SHOWN) - 1)
    smallest = _SHOWN[min(largest + units, len(_SHOWN)) - 1][0]
    seconds = (-(-seconds // smallest) if up else seconds // smallest) * smallest
    text = ""
    for size, unit in _SHOWN:
        count, seconds = divmod(seconds, size)
        text += f"{count}{unit}" if count else ""
    return text or "0s"


def seconds_text(seconds: float, *, up: bool = False) -> str:
    """Return a number of seconds in the format of `duration_text`."""
    return duration_text(round(seconds * SECOND), up=up)
