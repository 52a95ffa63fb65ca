"""The document of `why --story`: the life of one job."""

from __future__ import annotations

from ringwise.durations import time_text
from ringwise.scheduler.explain.story import PLACED, JobStory, PodStep, StoryEntry
from ringwise.views.documents.explain import PodStepFields, StoryDocument, StoryEntryFields

_SECOND = 1_000_000_000


def story_document(story: JobStory, until: int) -> StoryDocument:
    """What `ringwise why JOB --story -o json` prints; `until` is the end of what is known."""
    return {
        "schema": "ringwise.io/story/v1",
        "namespace": story.namespace,
        "name": story.name,
        "until": time_text(until),
        "faults": story.faults,
        "moved_pods": story.moved,
        "waited_seconds": seconds(story.time_in(PLACED)),
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


def step_fields(step: PodStep) -> PodStepFields:
    return {
        "name": step.pod,
        "rank": step.rank,
        "from": step.before,
        "to": step.after,
        "chips": list(step.chips),
    }


def seconds(nanoseconds: int) -> float:
    return round(nanoseconds / _SECOND, 3)
