"""Faults of the lab: what changed, and what there is."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from ringwise.cli.printers.lines import print_line
from ringwise.cli.printers.tables import Column, Table
from ringwise.durations import duration_text
from ringwise.grammar import listed
from ringwise.views.documents.cluster import FaultFields
from ringwise.views.documents.maintenance import FaultChangeDocument, FaultsDocument, ListedFaultFields

_SHOWN_JOBS = 5


def print_changes(console: Console, answer: FaultChangeDocument) -> None:
    """One line for each fault that began or ended."""
    for row in answer.cleared:
        print_line(console, Text(f"{_place(row)} healthy"))
    for row in answer.injected:
        print_line(console, Text(f"{_place(row)} faulty ({_words(row)})"))
    if not answer.cleared and not answer.injected:
        print_line(console, Text("nothing changed"))


def print_faults(console: Console, document: FaultsDocument) -> None:
    rows = document.faults
    if not rows:
        print_line(console, Text("there are no faults"))
        return
    columns = (
        Column("node", "node"),
        Column("kind", "kind"),
        Column("chip", lambda row: row["chip"] or ""),
        Column("level or status", "level"),
        Column("code", lambda row: row["code"] or ""),
        Column("for", lambda row: "" if row["since"] is None else duration_text(document.now - row["since"])),
    )
    Table.of(columns, rows, note="jobs", notes=_affected).print(console)


def _affected(row: ListedFaultFields) -> str:
    jobs = row["affected_jobs"]
    return f"affects {listed(jobs, _SHOWN_JOBS)}" if jobs else ""


def _place(row: FaultFields) -> str:
    match row["kind"]:
        case "chip":
            return f"node {row['node']}: {row['chip']}"
        case "network":
            return f"node {row['node']}: network of {row['chip']}"
        case "switch":
            return f"node {row['node']}: switches"
    return f"node {row['node']}:"


def _words(row: FaultFields) -> str:
    return f"{row['level']}, code {row['code']}" if row["code"] else str(row["level"])
