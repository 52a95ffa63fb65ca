"""What a simulation found out: one table of the runs, and one of the waits by size."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from ringwise.cli.printers.lines import print_line
from ringwise.cli.printers.tables import Column, Table
from ringwise.durations import seconds_text
from ringwise.grammar import counted
from ringwise.views.documents.simulation import RunFields, SimulationDocument


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
    table = _table("mean wait", "over bound", "p50", "p90", "p99", "in use")
    for run in document.runs:
        wait, over = run.pending_seconds, run.mean_over_bound
        table.add(
            run.name,
            wait_text(wait.mean),
            "-" if over is None else f"{over:.3f}",
            wait_text(wait.p50),
            wait_text(wait.p90),
            wait_text(wait.p99),
            f"{run.utilization:.1%}",
        )
    table.print(console)
    console.print()
    table = _table("head blocked", "idle chip-hours", "restarts", "lost chip-hours")
    for run in document.runs:
        table.add(
            run.name,
            wait_text(run.head_blocked_hours * 3600),
            f"{run.idle_chip_hours_while_blocked:,.0f}",
            f"{run.restarts:,}",
            f"{run.lost_chip_hours:,.0f}",
        )
    table.print(console)


def _table(*numbers: str) -> Table:
    return Table([Column("run", wraps=True), *(Column(name, right=True) for name in numbers)], gap=2)


def _moves(console: Console, document: SimulationDocument) -> None:
    """Where jobs were moved in any run."""
    runs = [run for run in document.runs if run.kind != "bound"]
    if not any(run.moves.plans for run in runs):
        return
    names = ("plans", "failed", "jobs moved", "chips", "restart chip-hours")
    table = _table(*names)
    for run in runs:
        moves = run.moves
        counts = (moves.plans, moves.failed_plans, moves.jobs, moves.chips)
        table.add(run.name, *(f"{one:,}" for one in counts), f"{moves.cost_chip_hours:,.0f}")
    console.print()
    table.print(console)


def _estimates(console: Console, document: SimulationDocument) -> None:
    """Where jobs waited that were asked about."""
    runs = [(run.name, figures) for run in document.runs if (figures := run.estimates) is not None]
    if not runs:
        return
    names = ("estimates", "ranges", "median error", "p90", "inside")
    table = _table(*names)
    for name, figures in runs:
        inside = figures.within_range_ratio
        table.add(
            name,
            f"{figures.jobs:,}",
            f"{figures.ranges:,}",
            wait_text(figures.median_error_seconds),
            wait_text(figures.p90_error_seconds),
            "-" if inside is None else f"{inside:.0%}",
        )
    console.print()
    table.print(console)


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
