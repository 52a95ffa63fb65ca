"""The document of `ringwise drill`."""

from __future__ import annotations

from collections.abc import Iterable

from ringwise.durations import time_text
from ringwise.scheduler.explain.story import StoryEntry
from ringwise.views.documents.maintenance import DrillEntryFields
from ringwise.views.story import seconds, step_fields


def timeline_fields(start: int, entries: Iterable[tuple[str, StoryEntry]]) -> list[DrillEntryFields]:
    """What happened, with the job that it happened to."""
    return [
        {
            "time": time_text(entry.at),
            "nanoseconds": entry.at,
            "after_seconds": seconds(entry.at - start),
            "job": job or None,
            "kind": entry.kind,
            "text": entry.text,
            "took_seconds": None if entry.took is None else seconds(entry.took),
            "pods": [step_fields(step) for step in entry.pods],
        }
        for job, entry in entries
    ]
