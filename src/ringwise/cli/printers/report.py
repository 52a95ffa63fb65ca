"""The report of accounting as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringwise.cli.printers.lines import print_lines
from ringwise.cli.printers.tables import Column, Table
from ringwise.durations import duration_text, seconds_text, time_text
from ringwise.grammar import counted
from ringwise.views.documents.accounting import (
    BoardTotalFields,
    IdleDocument,
    IdleFields,
    ReportDocument,
    ReportRowFields,
)

if TYPE_CHECKING:
    from rich.console import Console

    from ringwise.views.documents.shadow import ShadowReportDocument

_NONE = "-"


def draw_report(console: Console, document: ReportDocument) -> None:
    days = document.days
    span = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    until = f", until {time_text(document.now)}" if document.now else ""
    print_lines(console, f"chip-hours of {span} (UTC){until}")
    rows = document.rows
    if not rows:
        print_lines(console, "no usage was recorded on these days")
    else:
        _table(document).print(console)
    for remark in _remarks(document):
        print_lines(console, remark)


def _table(document: ReportDocument) -> Table:
    by, places = document.group_by, _places(document)
    several = by != "board" and len({row.board for row in document.rows if row.board}) > 1
    columns = [
        Column(by, lambda row: _name(row, by)),
        *([Column("board", "board")] if several else ()),
        *([Column("user", _user, moves=True)] if by == "job" else ()),
        Column("held", lambda row: _held(row, places), right=True),
        Column("lost", lambda row: f"{sum(row.lost_chip_hours.values()):.{places}f}", right=True),
        Column("waited", lambda row: seconds_text(row.pending_hours * 3600), right=True),
        Column("starts", "starts", right=True),
        Column("failed", "failures", right=True),
    ]
    # Chips of different boards are never added.
    totals = document.totals if by != "board" and len(document.rows) > len(document.totals) else []
    return Table.of(columns, [*document.rows, *totals])


def _name(row: ReportRowFields | BoardTotalFields, by: str) -> str:
    if isinstance(row, BoardTotalFields):
        return "total"
    match by:
        case "job":
            return f"{row.namespace}/{row.job}" if row.job else f"{row.namespace}/ (merged)"
        case "user":
            return _user(row)
        case "queue":
            return row.queue or _NONE
        case "namespace":
            return row.namespace or _NONE
    return row.board or "no node"


def _user(row: ReportRowFields | BoardTotalFields | IdleFields) -> str:
    if isinstance(row, BoardTotalFields):
        return ""
    if not row.user:
        return _NONE
    return row.user if row.verified else f"{row.user} (unverified)"


def _places(document: ReportDocument) -> int:
    """Return how many decimals chip-hours have."""
    return 2 if document.has_chip_fractions else 1


def _held(amounts: ReportRowFields | BoardTotalFields, places: int) -> str:
    held, uncertain = f"{amounts.allocated_chip_hours:.{places}f}", amounts.uncertain_chip_hours
    return f"{held} (-{uncertain:.{places}f})" if uncertain >= 0.05 else held


def _remarks(document: ReportDocument) -> list[str]:
    remarks = []
    losses = [total for total in document.totals if total.lost_chip_hours]
    places = _places(document)
    for total in losses:
        causes = ", ".join(f"{cause} {work:.{places}f}" for cause, work in total.lost_chip_hours.items())
        board = f" ({total.board})" if len(document.totals) > 1 else ""
        remarks.append(f"lost to{board}: {causes}")
    if any(total.uncertain_chip_hours >= 0.05 for total in document.totals):
        remarks.append(
            "(-N): the end of the pods was not observed; at most N chip-hours of these were not allocated"
        )
    remarks += [
        f"no scheduler wrote from {time_text(gap.since)} to {time_text(gap.until)}: pods that came and "
        "went then are missing"
        for gap in document.gaps
    ]
    if document.merged_jobs:
        remarks.append(f"{counted(document.merged_jobs, 'job')} merged into rows of their namespaces")
    given_up = document.discarded_before
    if given_up:
        remarks.append(f"documents of days before {given_up} were discarded for lack of space")
    return remarks


def draw_idle(console: Console, document: IdleDocument) -> None:
    """Jobs with idle chips; of the others their number, and why nothing is known of some."""
    idle = [row for row in document.jobs if row.idle_chips]
    if idle:
        columns = (
            Column("job", lambda row: f"{row.namespace}/{row.name}"),
            Column("user", _user, moves=True),
            Column("queue", lambda row: row.queue, moves=True),
            Column("chips", "chips", right=True),
            Column("idle", "idle_chips", right=True),
            Column("use", _use, right=True),
        )
        Table.of(columns, idle).print(console)
    below, measured = f"{document.threshold_percent:g} %", document.min_measured_seconds * 1_000_000_000
    held = counted(document.chips, "chip")
    print_lines(
        console, f"of {held} that jobs hold, {document.idle_chips} idle: used less than {below} on average"
    )
    unknown = document.unknown_chips
    if unknown:
        print_lines(
            console,
            f"unknown: {unknown}; no driver reports how much they are used, or not for "
            f"{duration_text(measured)} yet",
        )


def _use(row: IdleFields) -> str:
    return _NONE if row.utilization_percent is None else f"{row.utilization_percent:.1f} %"


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
