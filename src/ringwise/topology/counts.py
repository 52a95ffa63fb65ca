"""Sets of chip counts as text: `1-8,10,12`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ringwise.grammar import quoted

_PART = re.compile(r"\s*(\d{1,4})\s*(?:-\s*(\d{1,4})\s*)?")


def parse_counts(text: str) -> frozenset[int]:
    """The counts in a text. An empty text is the empty set; an invalid one raises ValueError."""
    counts: set[int] = set()
    if not text.strip():
        return frozenset()
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(f"{quoted(part.strip())} is neither a count nor a range like 1-8")
        low = int(match.group(1))
        high = int(match.group(2) or low)
        if high < low:
            raise ValueError(f"the range {low}-{high} is descending")
        counts.update(range(low, high + 1))
    return frozenset(counts)


def counts_text(counts: Iterable[int]) -> str:
    """The shortest text for a set of counts: runs of three and more become ranges."""
    ordered = sorted(counts)
    parts: list[str] = []
    start = 0
    while start < len(ordered):
        end = start
        while end + 1 < len(ordered) and ordered[end + 1] == ordered[end] + 1:
            end += 1
        if end - start >= 2:
            parts.append(f"{ordered[start]}-{ordered[end]}")
        else:
            parts.extend(str(count) for count in ordered[start : end + 1])
        start = end + 1
    return ", ".join(parts) if parts else "none"
