"""Why a job waits or sits where it sits, for people and programs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from ringwise.apps.source import Source
from ringwise.scheduler.explain.why import Explanation, explain, find_job


def why(source: Source, name: str) -> Explanation:
    """Raises UnknownJobError for a job nobody knows."""
    return explain(source.view, find_job(source.view, name), source.now)


def as_json(answer: Explanation) -> dict[str, Any]:
    document = answer.as_json()
    if answer.expected is not None:
        document["expected_start"]["time"] = time_text(answer.expected.starts)
    return document


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
