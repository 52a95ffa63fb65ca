"""Natural order: node-2 before node-10. The last tie-break everywhere."""

from __future__ import annotations

import re
from functools import lru_cache

_DIGITS = re.compile(r"(\d+)")
_MAX_DIGITS = 300


@lru_cache(maxsize=1 << 9)
def natural_key(text: str) -> tuple[tuple[tuple[int, int, str], ...], str]:
    """Sort key that compares runs of digits as numbers; the text itself breaks the last tie."""
    parts = _DIGITS.split(text)
    return (
        tuple(
            # A run longer than any number in use compares as text: Python converts no 5,000 digits.
            (0, int(part), "") if position % 2 and len(part) <= _MAX_DIGITS else (1, 0, part)
            for position, part in enumerate(parts)
            if part
        ),
        text,
    )
