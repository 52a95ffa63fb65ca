"""Natural order: node-2 before node-10. The last tie-break everywhere."""

from __future__ import annotations

import re
from functools import lru_cache

_DIGITS = re.compile(r"(\d+)")


@lru_cache(maxsize=1 << 16)
def natural_key(text: str) -> tuple[tuple[tuple[int, int, str], ...], str]:
    """Sort key that compares runs of digits as numbers; the text itself breaks the last tie."""
    parts = _DIGITS.split(text)
    return (
        tuple(
            (0, int(part), "") if position % 2 else (1, 0, part)
            for position, part in enumerate(parts)
            if part
        ),
        text,
    )
