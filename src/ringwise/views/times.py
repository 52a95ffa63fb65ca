"""Times and durations as text."""

from __future__ import annotations

from datetime import UTC, datetime


def time_text(nanoseconds: int) -> str:
    return datetime.fromtimestamp(nanoseconds // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def duration_text(nanoseconds: int) -> str:
    """`2 h 5 min`, the two largest units."""
    seconds = max(0, nanoseconds // 1_000_000_000)
    parts = []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"
