"""Spans of time as Go programs write them: "90s", "1h30m", "250ms"."""

from __future__ import annotations

import re
from itertools import pairwise

_SECOND = 1_000_000_000
#: No longer text is a duration; it may come from a hostile annotation.
_LONGEST = 64
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|h)", re.ASCII)
_UNITS = {
    "ns": 1,
    "us": 1000,
    "µs": 1000,
    "ms": 10**6,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}


def go_duration(text: str) -> int | None:
    """The duration in nanoseconds; None for anything else."""
    if text == "0":
        return 0
    parts = list(_PART.finditer(text)) if len(text) <= _LONGEST else []
    joined = all(left.end() == right.start() for left, right in pairwise(parts))
    if not parts or parts[0].start() or parts[-1].end() != len(text) or not joined:
        return None
    return sum(_nanoseconds(match[1], match[2]) for match in parts)


def _nanoseconds(amount: str, unit: str) -> int:
    whole, _, part = amount.partition(".")
    scale: int = 10 ** len(part)
    return int(whole + part) * _UNITS[unit] // scale
