"""Draws limits and their use."""

from __future__ import annotations

from rich.console import Console

from ringwise.cli.printers.lines import print_lines
from ringwise.cli.printers.tables import Column, Table
from ringwise.durations import seconds_text, time_text
from ringwise.views.documents.limits import LimitFields, LimitsDocument, LimitUseFields


def print_limits(console: Console, document: LimitsDocument) -> None:
    if not document["limits"] and not document["max_run_times"]:
        print_lines(console, "no limits are set")
    if document["limits"]:
        columns = [Column(name, right=True) for name in ("chips", "burst", "running", "waiting", "held up")]
        table = Table([Column("limit of"), *columns])
        for row in document["limits"]:
            table.add(
                _name(row),
                _use(row["chips"]),
                f"{row['lent']} of {row['burst']}" if row["burst"] else "",
                _use(row["running"]),
                _use(row["waiting"]),
                str(row["waits"]) if row["waits"] else "",
            )
        table.print(console)
    if document["max_run_times"]:
        if document["limits"]:
            console.print()
        table = Table([Column("longest run time of"), Column("time"), Column("then"), Column("next end")])
        for one in document["max_run_times"]:
            end = one["next_end"]
            table.add(
                f"queue {one['queue']}",
                seconds_text(one["seconds"]),
                one["on_timeout"],
                "" if end is None else time_text(end),
            )
        table.print(console)
    if document["problems"]:
        console.print()
    for problem in document["problems"]:
        print_lines(console, f"problem: {problem}")


def _name(row: LimitFields) -> str:
    user = f" user {row['user']}" if row["user"] else ""
    kind = "queue" if row["of"] == "user" else row["of"]
    return f"{kind} {row['name']}{user}"


def _use(use: LimitUseFields) -> str:
    return f"{use['used']} of {use['limit']}" if use["limit"] is not None else str(use["used"])
