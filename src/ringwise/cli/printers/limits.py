"""Draws limits and their use."""

from __future__ import annotations

from rich.console import Console

from ringwise.cli.printers.cluster import amounts_text
from ringwise.cli.printers.lines import print_lines
from ringwise.cli.printers.tables import Column, KindTable, Table
from ringwise.durations import seconds_text, time_text
from ringwise.grammar import amount_text
from ringwise.views.documents.limits import (
    LimitsDocument,
    LimitUseFields,
    UsageLimitFields,
)


def print_limits(console: Console, document: LimitsDocument) -> None:
    if not document.limits and not document.max_run_times:
        print_lines(console, "no limits are set")
    if document.limits:
        columns = [Column(name, right=True) for name in ("used", "borrowed", "blocked jobs")]
        table = Table([Column("limit"), Column("subject"), Column("resource"), *columns])
        for row in document.limits:
            first = row.name, _subject(row.user, row.namespace, row.queue)
            blocked = str(row.blocked_jobs) if row.blocked_jobs else ""
            for use in row.use:
                table.add(*first, use.name.rpartition("/")[2], *_use(use), blocked)
                first, blocked = ("", ""), ""
        table.print(console)
    if document.max_run_times:
        if document.limits:
            console.print()
        run_times = (
            Column("limit", "name"),
            Column("subject", lambda one: _subject(one.user, one.namespace, one.queue)),
            Column("max run time", lambda one: seconds_text(one.max_run_time_seconds)),
            Column("on timeout", "on_timeout"),
            Column("next end", lambda one: "" if one.next_end is None else time_text(one.next_end)),
        )
        Table.of(run_times, document.max_run_times).print(console)
    if document.problems:
        console.print()
    for problem in document.problems:
        print_lines(console, f"problem: {problem}")


def _subject(user: str | None, namespace: str | None, queue: str | None) -> str:
    parts = (("user", user), ("namespace", namespace), ("queue", queue))
    return ", ".join(f"{kind} {name}" for kind, name in parts if name)


def _max_run_time(one: UsageLimitFields, _now: int) -> str:
    seconds = one["max_run_time_seconds"]
    return "-" if seconds is None else f"{seconds_text(seconds)}, {one['on_timeout']}"


USAGE_LIMITS = KindTable(
    (
        Column("limit", "name"),
        Column("subject", lambda one, now: _subject(one["user"], one["namespace"], one["queue"])),
        Column("hard", lambda one, now: amounts_text(one["hard"])),
        Column("borrowing limit", lambda one, now: amounts_text(one["borrowing_limit"])),
        Column("max run time", _max_run_time),
    )
)


def _use(use: LimitUseFields) -> tuple[str, str]:
    name = use.name
    used = f"{amount_text(name, use.used)} of {amount_text(name, use.hard)}"
    if not use.borrowing_limit:
        return used, ""
    borrowed = amount_text(name, use.borrowed)
    return used, f"{borrowed} of {amount_text(name, use.borrowing_limit)}"
