"""The life of a job, line by line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from ringwise.cli.printers.lines import print_line
from ringwise.cli.printers.name_lists import name_list
from ringwise.cli.printers.tables import Column, Table
from ringwise.durations import duration_text, seconds_text, time_text
from ringwise.grammar import counted
from ringwise.manifests.text.quantities import nanoseconds
from ringwise.scheduler.explain import job_history
from ringwise.views.documents.explain import EventsDocument, HistoryDocument, HistoryEntryFields
from ringwise.views.documents.maintenance import DrillEntryFields

_STYLES = {
    job_history.FAULT: "yellow",
    job_history.DRAIN: "yellow",
    job_history.MOVE: "yellow",
    job_history.PREEMPT: "yellow",
    job_history.BLOCKED: "red",
    job_history.FAILED: "red",
    job_history.ENDED_BADLY: "red",
    job_history.SUSPENDED: "yellow",
    job_history.ENDED_WELL: "green",
    job_history.RECOVERED: "green",
}
#: What the time at the end of an entry was spent on.
_SPENT = {
    job_history.PLACED: "pending for",
    job_history.RUNS: "start took",
    job_history.GONE: "took",
    job_history.SUSPENDED: "ran",
    job_history.ENDED_WELL: "ran",
    job_history.ENDED_BADLY: "ran",
}

Entry = HistoryEntryFields | DrillEntryFields


def print_history(console: Console, history: HistoryDocument) -> None:
    key = f"{history.namespace}/{history.name}"
    print_line(console, f"[bold]{escape(key)}[/]: {_summary(history)}")
    entries = history.entries
    if entries:
        print_line(console, f"[dim]from {entries[0].time} to {history.until}[/]")
        history_table([(entries[0].nanoseconds, "", entry) for entry in entries]).print(console)


def print_runs(console: Console, history: HistoryDocument) -> None:
    """One row for each run, as `sacct -j` shows them."""
    if not history.runs:
        console.print("it has not run yet")
        return
    until = nanoseconds(history.until)
    columns = (
        Column("start", lambda run: time_text(run.start)),
        Column("end", lambda run: "-" if run.end is None else time_text(run.end)),
        Column("elapsed", lambda run: duration_text((until if run.end is None else run.end) - run.start)),
        Column("state", "state"),
        Column("nodes", lambda run: name_list(run.nodes)),
    )
    Table.of(columns, history.runs, note="reason", notes=attrgetter("reason")).print(console)


def print_events(console: Console, document: EventsDocument, none: str) -> None:
    """One row for each event, as `kubectl get events` shows them."""
    until = nanoseconds(document.until)
    columns = (
        Column("last seen", lambda event: duration_text(until - event.nanoseconds)),
        Column("type", lambda event: Text(event.type, "yellow" if event.type == "Warning" else "")),
        Column("reason", lambda event: event.code or event.kind.capitalize()),
        Column("job", lambda event: f"{event.namespace}/{event.job}"),
    )
    if not document.events:
        console.print(none)
        return
    Table.of(columns, document.events, note="message", notes=entry_text).print(console)
    if document.remaining_item_count:
        console.print(f"and {document.remaining_item_count:,} older; --limit 0 shows all")


def history_table(entries: Iterable[tuple[int, str, Entry]], styles: Mapping[str, str] = _STYLES) -> Table:
    """One row for each entry: time since the start, the job where it is named, what, and the sentence."""
    rows = list(entries)
    named = any(job for _, job, _ in rows)
    columns = [Column("after"), *([Column("job")] if named else []), Column("what"), Column("", wraps=True)]
    table = Table(columns, gap=2, headings=False)
    for begin, job, entry in rows:
        what = Text(entry.kind, {**_STYLES, **styles}.get(entry.kind, ""))
        cells: list[str | Text] = [job] if named else []
        table.add(f"+{duration_text(entry.nanoseconds - begin, units=4)}", *cells, what, entry_text(entry))
    return table


def entry_text(entry: Entry) -> str:
    took, kind = entry.duration_seconds, entry.kind
    if took is None or kind not in _SPENT or (kind == job_history.PLACED and took < 1):
        return entry.message
    return f"{entry.message} ({_SPENT[kind]} {seconds_text(took)})"


def _summary(history: HistoryDocument) -> str:
    words = [f"pending for {seconds_text(history.pending_seconds)}"]
    if history.faults:
        words.append(counted(history.faults, "fault"))
        words.append(f"{counted(history.moved_pods, 'pod')} moved")
    if history.pending_reason:
        words.append(f"pending now: {history.pending_reason}")
    return ", ".join(words)
