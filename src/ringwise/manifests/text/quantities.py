"""Kubernetes quantities ("100m", "1Gi", "1e3"), timestamps and durations: read exactly, and written."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache

from ringwise.durations import go_duration, unix_nanoseconds

_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?:[eE](?P<exponent>[+-]?[0-9]{1,3})|(?P<suffix>[numkMGTPE]|[KMGTPE]i)?)",
    re.ASCII,
)
_SUFFIXES: dict[str, tuple[int, int]] = {
    "n": (1, 10**9),
    "u": (1, 10**6),
    "m": (1, 1000),
    "": (1, 1),
    **{suffix: (1000**power, 1) for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{letter}i": (1024**power, 1) for power, letter in enumerate("KMGTPE", start=1)},
}
#: Longer texts are not quantities, and arithmetic with big numbers costs time.
_LONGEST = 64
#: Kubernetes keeps a quantity in an int64.
_LARGEST = 2**63 - 1

NANOSECONDS = 10**9


class NotReadableError(ValueError):
    """The text has no valid value; the message says what is allowed."""


@lru_cache(maxsize=512)
def quantity(value: str | int | float, scale: int = 1) -> int:
    """The quantity times `scale` (1000 for milli), rounded up like Kubernetes does."""
    numerator, denominator = _fraction(value)
    return -((-numerator * scale) // denominator)


@lru_cache(maxsize=512)
def whole_quantity(value: str | int | float) -> int:
    """A quantity of whole things, such as chips."""
    numerator, denominator = _fraction(value)
    if numerator % denominator:
        raise NotReadableError("must be a whole number of 0 or more")
    return numerator // denominator


def written(resource: str, amount: int | Decimal) -> str:
    """An amount of the core (cpu in milli, shares of chips in hundredths) as a quantity."""
    if resource in ("cpu", "requests.cpu", "limits.cpu"):
        return f"{amount}m"
    return str(amount) if isinstance(amount, int) else f"{int(amount * 1000)}m"


def _fraction(value: str | int | float) -> tuple[int, int]:
    text = value if isinstance(value, str) else repr(value)
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None or not (match["whole"] or match["part"]):
        raise NotReadableError('must be a quantity of 0 or more, like 2, "500m" or "1Gi"')
    part = match["part"] or ""
    numerator, denominator = int((match["whole"] or "0") + part), 10 ** len(part)
    if match["exponent"]:
        power = int(match["exponent"])
        if abs(power) > _LONGEST:
            raise NotReadableError("must be a quantity below 2^63")
        numerator, denominator = numerator * 10 ** max(power, 0), denominator * 10 ** max(-power, 0)
    else:
        times, over = _SUFFIXES[match["suffix"] or ""]
        numerator, denominator = numerator * times, denominator * over
    if match["sign"] == "-" and numerator:
        raise NotReadableError("must not be negative")
    if numerator > _LARGEST * denominator:
        raise NotReadableError("must be a quantity below 2^63")
    return numerator, denominator


def nanoseconds(text: str) -> int:
    """An RFC 3339 time as Unix nanoseconds; 0 for the zero time of Go."""
    result = unix_nanoseconds(text)
    if result is None:
        raise NotReadableError("must be a time like 2025-01-31T08:00:00Z")
    return result


def rfc3339(now: int, *, exact: bool = False) -> str:
    """Unix nanoseconds as Kubernetes' Time, in whole seconds; with `exact` to the nanosecond."""
    seconds, rest = divmod(now, NANOSECONDS)
    text = _written_second(seconds)
    return f"{text}.{rest:09d}Z" if exact and rest else f"{text}Z"


@lru_cache(maxsize=64)
def _written_second(seconds: int) -> str:
    """Thousands of objects are written in one second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def micro_time(now: int) -> str:
    """Unix nanoseconds as Kubernetes' MicroTime."""
    return datetime.fromtimestamp(now / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def duration(text: str) -> int:
    """A Go duration ("1h30m", "90s") in nanoseconds. Go has none of 2^63 nanoseconds or more, 292 years."""
    result = go_duration(text)
    if result is None or result > _LARGEST:
        raise NotReadableError('must be a duration like "90s" or "1h30m"')
    return result
