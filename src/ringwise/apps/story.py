"""The story of a job from journal files, oldest first."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from ringwise.apps.replay import open_journal
from ringwise.records import dataclass
from ringwise.scheduler.explain.story import EVENTS, JobStory, StoryBook
from ringwise.topology.nearest import did_you_mean


class UnknownStoryError(LookupError):
    """The journals tell of no such job, or of more than one."""


@dataclass(frozen=True, slots=True)
class ToldStory:
    story: JobStory
    #: Time of the last turn of the journals, in nanoseconds.
    until: int
    #: Lines that were cut off.
    notes: tuple[str, ...] = ()


def story_of(name: str, journals: Sequence[Path]) -> ToldStory:
    """Raises JournalError and UnknownStoryError. Each file is the journal of one scheduler."""
    book = StoryBook()
    until = 0
    notes: list[str] = []
    for path in journals:
        journal = open_journal(path, only=EVENTS)
        first = True
        with closing(journal.batches) as batches:
            for batch in batches:
                if first:
                    book.scheduler_started(batch.now)
                    first = False
                book.turn(batch.now, batch.events, batch.commands)
                until = batch.now
        if journal.note is not None:
            notes.append(f"{path}: {journal.note}")
    return ToldStory(find_story(book, name), until, tuple(notes))


def find_story(book: StoryBook, name: str) -> JobStory:
    """Raises UnknownStoryError."""
    found = book.find(name)
    if len(found) == 1:
        return found[0]
    if found:
        keys = ", ".join(story.key for story in found[:5])
        raise UnknownStoryError(f"more than one job is called {name}; say which: {keys}")
    known = [*book.jobs, *(story.name for story in book.jobs.values())]
    raise UnknownStoryError(f"the journal tells of no job {name}{did_you_mean(name, known)}")
