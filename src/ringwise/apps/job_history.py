"""The history of a job from journal files, oldest first."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from ringwise.apps.journal.format import ReadBatch, open_journal
from ringwise.durations import time_text
from ringwise.grammar import counted
from ringwise.messages.events import Decide
from ringwise.records import dataclass
from ringwise.scheduler.explain.job_history import EVENTS, HistoryBook, JobHistory
from ringwise.topology.nearest import did_you_mean


class UnknownHistoryError(LookupError):
    """The journals tell of no such job, or of more than one."""


@dataclass(frozen=True, slots=True)
class RecordedHistory:
    history: JobHistory
    #: Time of the last turn of the journals, in nanoseconds.
    until: int
    #: Lines that were cut off.
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedHistories:
    """The same of all jobs."""

    histories: Sequence[JobHistory]
    until: int
    notes: tuple[str, ...] = ()


def history_of(name: str, journals: Sequence[Path]) -> RecordedHistory:
    """Raises JournalError and UnknownHistoryError. Each journal is read with its rotated files."""
    book, until, notes = _read(journals)
    return RecordedHistory(find_history(book, name), until, notes)


def histories_of(journals: Sequence[Path]) -> RecordedHistories:
    """Raises JournalError."""
    book, until, notes = _read(journals)
    return RecordedHistories(list(book.jobs.values()), until, notes)


def _read(journals: Sequence[Path]) -> tuple[HistoryBook, int, tuple[str, ...]]:
    book = HistoryBook()
    until = 0
    notes: list[str] = []
    #: The last batch, and the first line of a section that does not continue it.
    before: ReadBatch | None = None
    gap: ReadBatch | None = None
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
    return book, until, tuple(notes)


def find_history(book: HistoryBook, name: str, source: str = "the journal") -> JobHistory:
    """Raises UnknownHistoryError."""
    jobs = book.find(name)
    if len(jobs) == 1:
        return jobs[0]
    if jobs:
        keys = ", ".join(history.key for history in jobs[:5])
        raise UnknownHistoryError(f"{counted(len(jobs), 'job')} are named {name}; use one of {keys}")
    names = [*book.jobs, *(history.name for history in book.jobs.values())]
    raise UnknownHistoryError(f'{source}: job "{name}" not found{did_you_mean(name, names)}')
