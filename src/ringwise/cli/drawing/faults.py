"""Faults of the lab: what changed, and what there is."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from ringwise.cli.drawing.lines import print_line
from ringwise.cli.drawing.tables import Column, Table
from ringwise.views.documents.cluster import FaultFields
from ringwise.views.documents.maintenance import FaultChangeDocument, ListedFaultFields


def print_changes(console: Console, answer: FaultChangeDocument) -> None:
    """One line for each fault that began or ended."""
    for row in answer["cleared"]:
        print_line(console, Text(f"{_place(row)} healthy"))
    for row in answer["injected"]:
        print_line(console, Text(f"{_place(row)} faulty ({_words(row)})"))
    if not answer["cleared"] and not answer["injected"]:
        print_line(console, Text("nothing changed"))


def print_faults(console: Console, rows: list[ListedFaultFields]) -> None:
    if not rows:
        print_line(console, Text("there are no faults"))
        return
    table = Table([Column("node"), Column("what"), Column("chip"), Column("level or status"), Column("code")])
    for row in rows:
        table.add(row["node"], row["kind"], row["chip"] or "", row["level"], row["code"] or "")
    table.print(console)


def _place(row: FaultFields) -> str:
    match row["kind"]:
        case "chip":
            return f"node {row['node']}: {row['chip']}"
        case "network":
            return f"node {row['node']}: network of {row['chip']}"
        case "switch":
            return f"node {row['node']}: its switches"
    return f"node {row['node']}:"


def _words(row: FaultFields) -> str:
    return f"{row['level']}, code {row['code']}" if row["code"] else str(row["level"])
