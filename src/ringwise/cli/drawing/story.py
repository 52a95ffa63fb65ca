"""The life of a job, line by line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from ringwise.cli.drawing.lines import print_line
from ringwise.cli.drawing.tables import Column, Table
from ringwise.durations import duration_text, time_text
from ringwise.grammar import counted
from ringwise.scheduler.explain.story import (
    BLOCKED,
    DRAIN,
    ENDED_BADLY,
    ENDED_WELL,
    FAILED,
    FAULT,
    GONE,
    PLACED,
    RECOVERED,
    RUNS,
    WAITS,
    JobStory,
    StoryEntry,
)

_STYLES = {
    FAULT: "yellow",
    DRAIN: "yellow",
    BLOCKED: "red",
    FAILED: "red",
    ENDED_BADLY: "red",
    ENDED_WELL: "green",
    RECOVERED: "green",
}
#: What the time at the end of an entry was spent on.
_SPENT = {PLACED: "waited", RUNS: "start took", GONE: "took", ENDED_WELL: "ran", ENDED_BADLY: "ran"}
_SECOND = 1_000_000_000


def print_story(console: Console, story: JobStory, until: int) -> None:
    print_line(console, f"[bold]{escape(story.key)}[/]: {_summary(story)}")
    if story.entries:
        print_line(console, f"[dim]from {time_text(story.entries[0].at)} to {time_text(until)}[/]")
        story_table([(story.entries[0].at, "", entry) for entry in story.entries]).print(console)


def story_table(entries: Iterable[tuple[int, str, StoryEntry]], styles: Mapping[str, str] = _STYLES) -> Table:
    """One row for each entry: time since the start, the job where it is named, what, and the sentence."""
    rows = list(entries)
    named = any(job for _, job, _ in rows)
    columns = [Column("after"), *([Column("job")] if named else []), Column("what"), Column("", wraps=True)]
    table = Table(columns, gap=2, headings=False)
    for begin, job, entry in rows:
        what = Text(entry.kind, {**_STYLES, **styles}.get(entry.kind, ""))
        cells: list[str | Text] = [job] if named else []
        table.add(offset_text(entry.at - begin), *cells, what, entry_text(entry))
    return table


def entry_text(entry: StoryEntry) -> str:
    if entry.took is None or entry.kind not in _SPENT or (entry.kind == PLACED and entry.took < _SECOND):
        return entry.text
    return f"{entry.text} ({_SPENT[entry.kind]} {duration_text(entry.took)})"


def offset_text(nanoseconds: int) -> str:
    """`+0:00:14`: since the start."""
    whole = max(0, nanoseconds // _SECOND)
    days, rest = divmod(whole, 86400)
    clock = f"{rest // 3600}:{rest % 3600 // 60:02}:{rest % 60:02}"
    return f"+{days}d {clock}" if days else f"+{clock}"


def _summary(story: JobStory) -> str:
    words = [f"waited {duration_text(story.time_in(PLACED))}"]
    if story.faults:
        words.append(counted(story.faults, "fault"))
        words.append(f"{counted(story.moved, 'pod')} moved")
    reasons = [entry.code for entry in story.entries if entry.kind == WAITS]
    if reasons and story.waiting_since is not None:
        words.append(f"waits now: {reasons[-1]}")
    return ", ".join(words)
