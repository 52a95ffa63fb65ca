"""The story of a job from journal files, oldest first."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from ringwise.apps.journal.format import Recorded, open_journal
from ringwise.durations import time_text
from ringwise.messages.events import Decide
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
    """Raises JournalError and UnknownStoryError. Each journal is read with its rotated files."""
    book = StoryBook()
    until = 0
    notes: list[str] = []
    #: The last batch, and the first line of a section that does not continue it.
    before: Recorded | None = None
    gap: Recorded | None = None
    for path in journals:
        journal = open_journal(path, only=EVENTS)
        with closing(journal.batches) as batches:
            for batch in batches:
                section = batch.section
                if not batch.follows(before) and (gap is None or gap.section is not section):
                    gap = batch
                    if before is None or section.scheduler != before.section.scheduler or section.first == 0:
                        book.scheduler_started(batch.now)
                    else:
                        book.turns_missing()
                        notes.append(f"{section.path}: turns before {time_text(batch.now)} are missing")
                if batch.snapshot:
                    if gap is not None and gap.section is section:
                        book.turn(batch.now, batch.events, (), decided=False)
                    continue
                book.turn(batch.now, batch.events, batch.commands, decided=batch.decide is not Decide.NOTHING)
                before, gap = batch, None
                until = batch.now
        notes += journal.notes
    return ToldStory(find_story(book, name), until, tuple(notes))


def find_story(book: StoryBook, name: str, source: str = "the journal tells of") -> JobStory:
    """Raises UnknownStoryError."""
    found = book.find(name)
    if len(found) == 1:
        return found[0]
    if found:
        keys = ", ".join(story.key for story in found[:5])
        raise UnknownStoryError(f"more than one job is called {name}; say which: {keys}")
    known = [*book.jobs, *(story.name for story in book.jobs.values())]
    raise UnknownStoryError(f"{source} no job {name}{did_you_mean(name, known)}")
