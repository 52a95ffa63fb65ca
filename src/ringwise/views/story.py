"""The documents of `why --story` and of a drill: the life of jobs."""

from __future__ import annotations

from collections.abc import Iterable

from ringwise.durations import SECOND, time_text
from ringwise.scheduler.explain.story import PLACED, WAITS, JobStory, PodStep, StoryEntry
from ringwise.views.documents.explain import PodStepFields, StoryDocument, StoryEntryFields
from ringwise.views.documents.maintenance import DrillEntryFields


def story_document(story: JobStory, until: int, notes: Iterable[str] = ()) -> StoryDocument:
    """What `ringwise why JOB --story -o json` prints; `until` is the end of what is known."""
    reasons = [entry.code for entry in story.entries if entry.kind == WAITS]
    # What waits now counts until now.
    waits = 0 if story.waiting_since is None else max(0, until - story.waiting_since)
    return {
        "schema": "ringwise.io/story/v1",
        "namespace": story.namespace,
        "name": story.name,
        "until": time_text(until),
        "faults": story.faults,
        "moved_pods": story.moved,
        "waited_seconds": seconds(story.time_in(PLACED) + waits),
        "waits_for": reasons[-1] if reasons and story.waiting_since is not None else None,
        "notes": list(notes),
        "entries": [entry_document(entry) for entry in story.entries],
    }


def entry_document(entry: StoryEntry) -> StoryEntryFields:
    return {
        "time": time_text(entry.at),
        "nanoseconds": entry.at,
        "kind": entry.kind,
        "code": entry.code or None,
        "text": entry.text,
        "took_seconds": None if entry.took is None else seconds(entry.took),
        "pods": [step_fields(step) for step in entry.pods],
    }


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


def step_fields(step: PodStep) -> PodStepFields:
    return {
        "name": step.pod,
        "rank": step.rank,
        "from": step.before,
        "to": step.after,
        "chips": list(step.chips),
    }


def seconds(nanoseconds: int) -> float:
    return round(nanoseconds / SECOND, 3)
