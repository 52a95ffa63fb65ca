"""What a simulation found out: one table of the runs, and one of the waits by size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from ringwise.cli.printers.lines import print_line
from ringwise.cli.printers.tables import Column, Table
from ringwise.durations import seconds_text
from ringwise.grammar import counted
from ringwise.views.documents.simulation import EstimateFields, RunFields, SimulationDocument


def print_simulation(console: Console, document: SimulationDocument) -> None:
    cluster = document.cluster
    print_line(console, f"[bold]{escape(document.title)}[/]")
    span = seconds_text(round(document.virtual_seconds))
    jobs = f"{document.jobs:,}"
    nodes, chips = counted(f"{cluster.nodes:,}", "node"), counted(f"{cluster.chips:,}", "chip")
    print_line(
        console,
        f"{counted(jobs, 'job')} in {span} on {nodes} of {cluster.board} "
        f"({chips}), load {document.load:.2f}, seed {escape(document.seed)}",
    )
    for one in document.omitted:
        print_line(console, f"omitted: {counted(one.jobs, 'job')}: {escape(one.message)}")
    console.print()
    _runs(console, document)
    _moves(console, document)
    _estimates(console, document)
    console.print()
    _sizes(console, document)
    _remarks(console, document)


def _runs(console: Console, document: SimulationDocument) -> None:
    waits: tuple[_Number, ...] = (
        ("mean wait", lambda run: wait_text(run.pending_seconds.mean)),
        ("over bound", lambda run: "-" if run.mean_over_bound is None else f"{run.mean_over_bound:.3f}"),
        ("p50", lambda run: wait_text(run.pending_seconds.p50)),
        ("p90", lambda run: wait_text(run.pending_seconds.p90)),
        ("p99", lambda run: wait_text(run.pending_seconds.p99)),
        ("in use", lambda run: f"{run.utilization:.1%}"),
    )
    _print_runs(console, document.runs, *waits)
    console.print()
    _print_runs(
        console,
        document.runs,
        ("head blocked", lambda run: wait_text(run.head_blocked_hours * 3600)),
        ("idle chip-hours", lambda run: f"{run.idle_chip_hours_while_blocked:,.0f}"),
        ("restarts", lambda run: f"{run.restarts:,}"),
        ("lost chip-hours", lambda run: f"{run.lost_chip_hours:,.0f}"),
    )


#: A heading, and the cell of a run.
_Number = tuple[str, Callable[[Any], str]]


def _print_runs(console: Console, runs: Sequence[RunFields], *numbers: _Number) -> None:
    columns = [Column("run", "name", wraps=True), *(Column(*number, right=True) for number in numbers)]
    Table.of(columns, runs, gap=2).print(console)


def _moves(console: Console, document: SimulationDocument) -> None:
    """Where jobs were moved in any run."""
    runs = [run for run in document.runs if run.kind != "bound"]
    if any(run.moves.plans for run in runs):
        console.print()
        _print_runs(
            console,
            runs,
            ("plans", lambda run: f"{run.moves.plans:,}"),
            ("failed", lambda run: f"{run.moves.failed_plans:,}"),
            ("jobs moved", lambda run: f"{run.moves.jobs:,}"),
            ("chips", lambda run: f"{run.moves.chips:,}"),
            ("restart chip-hours", lambda run: f"{run.moves.cost_chip_hours:,.0f}"),
        )


def _estimates(console: Console, document: SimulationDocument) -> None:
    """Where jobs waited that were asked about."""
    runs = [run for run in document.runs if run.estimates is not None]
    if runs:
        console.print()
        _print_runs(
            console,
            runs,
            ("estimates", lambda run: f"{run.estimates.jobs:,}"),
            ("ranges", lambda run: f"{run.estimates.ranges:,}"),
            ("median error", lambda run: wait_text(run.estimates.median_error_seconds)),
            ("p90", lambda run: wait_text(run.estimates.p90_error_seconds)),
            ("inside", lambda run: inside_text(run.estimates)),
        )


def _sizes(console: Console, document: SimulationDocument) -> None:
    columns = [
        Column("chips", right=True),
        Column("jobs", right=True),
        Column("run", wraps=True),
        *(Column(name, right=True) for name in ("mean wait", "p50", "p90", "p99")),
    ]
    table = Table(columns, gap=2)
    for place, size in enumerate(document.runs[0].sizes):
        names = f"{size.chips}", f"{size.jobs:,}"
        for run in document.runs:
            wait = run.sizes[place].pending_seconds
            numbers = (wait_text(one) for one in (wait.mean, wait.p50, wait.p90, wait.p99))
            table.add(*names, run.name, *numbers)
            names = "", ""
    table.print(console)


def _remarks(console: Console, document: SimulationDocument) -> None:
    for run in document.runs:
        if missing := document.jobs - run.started:
            print_line(
                console,
                f"{escape(run.name)}: {counted(f'{missing:,}', 'job')} did not start{_why(document, run)}",
            )
    if document.interrupted:
        print_line(console, "[bold]interrupted[/]: the last run is not complete, later ones were not begun")


def _why(document: SimulationDocument, run: RunFields) -> str:
    return " until it was interrupted" if document.interrupted and run is document.runs[-1] else ""


def wait_text(seconds: float | None) -> str:
    return "-" if seconds is None else seconds_text(seconds)


def inside_text(figures: EstimateFields | None) -> str:
    inside = None if figures is None else figures.within_range_ratio
    return "-" if inside is None else f"{inside:.0%}"
