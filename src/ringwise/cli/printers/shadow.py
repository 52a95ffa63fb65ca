"""The report of shadow mode as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringwise.cli.printers.lines import print_lines
from ringwise.cli.printers.tables import Column, Table
from ringwise.durations import seconds_text
from ringwise.grammar import counted

if TYPE_CHECKING:
    from rich.console import Console

    from ringwise.views.documents.shadow import ShadowReportDocument

#: Rows; the JSON document has all.
_MOST = 10
_MEANINGS = {
    "same": "same node and chips",
    "other-chips": "same node, other chips",
    "other-node": "another node",
    "only-theirs": "Ringwise had not placed the pod",
    "only-ours": "deleted before the other scheduler placed it",
}


def draw_shadow_report(console: Console, document: ShadowReportDocument) -> None:
    pods = document.pods
    print_lines(console, f"{counted(pods, 'pod')} compared, {document.since} to {document.until}\n\n")
    table = Table([Column("placement"), Column("pods", right=True), Column("", right=True)])
    for outcome, count in document.outcomes.items():
        table.add(_MEANINGS[outcome], str(count), f"{count / pods:.1%}")
    table.print(console)
    waits, split = document.blocked_jobs, document.split_nodes
    print_lines(console, "\n")
    if waits.pods:
        ours, theirs = (_mean(seconds / waits.pods) for seconds in (waits.ours_seconds, waits.theirs_seconds))
        shorter = counted(waits.shorter, "pod")
        print_lines(console, f"mean wait: {ours} with Ringwise, {theirs} with the other scheduler")
        print_lines(console, f"  shorter with Ringwise for {shorter}, longer for {waits.longer}")
    empty = counted(split["ours"], "empty node")
    print_lines(console, f"split nodes: {empty} with Ringwise, {split['theirs']} with the other scheduler")
    print_lines(console, "  pods on different nodes only")
    rows = document.differences
    if rows:
        print_lines(console, "\n")
        reasons = Table([Column("difference"), Column("pods", right=True), Column("example", moves=True)])
        for row in rows[:_MOST]:
            reasons.add(f"{row.state}: {row.message}", str(row.pods), row.example)
        reasons.print(console)
    if len(rows) > _MOST:
        print_lines(console, f"{len(rows) - _MOST} more; -o json lists all")
    if document.unreadable:
        print_lines(console, f"{counted(document.unreadable, 'line')} could not be read")


def _mean(seconds: float) -> str:
    return f"{seconds:.1f}s" if seconds < 60 else seconds_text(seconds)
