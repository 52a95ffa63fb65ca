"""Drills: a timeline and a verdict for each."""

from __future__ import annotations

from pathlib import PurePath

from rich.console import Console
from rich.markup import escape

from ringwise.cli.printers.history import history_table
from ringwise.cli.printers.lines import print_line
from ringwise.durations import SECOND, seconds_text
from ringwise.grammar import counted
from ringwise.views.documents.maintenance import DrillDocument, DrillFields

#: Kinds of entries that a drill adds to what happened to its jobs.
_STYLES = {"step": "bold", "holds": "green", "FAILS": "bold red"}


def print_drills(console: Console, document: DrillDocument, quiet: bool) -> None:
    drills = document.drills
    for drill in drills:
        if not quiet:
            _timeline(console, drill)
        _verdict(console, drill)
        if not quiet and drill is not drills[-1]:
            console.print()
    if len(drills) > 1:
        failed = [drill for drill in drills if not drill.passed]
        passed = f"{len(drills) - len(failed)} of {counted(drills, 'drill')} passed"
        console.print()
        print_line(console, f"[{'red' if failed else 'green'}]{passed}[/]")


def _timeline(console: Console, drill: DrillFields) -> None:
    print_line(console, f"[bold]{escape(drill.title)}[/] ({escape(drill.file)})")
    entries = drill.timeline
    jobs = {entry.job for entry in entries if entry.job}
    rows = [
        (
            entry.nanoseconds - round(entry.after_seconds * SECOND),
            (entry.job or "").partition("/")[2] if len(jobs) > 1 else "",
            entry,
        )
        for entry in entries
    ]
    history_table(rows, _STYLES).print(console)


def _verdict(console: Console, drill: DrillFields) -> None:
    expected = [step for step in drill.steps if step.passed is not None]
    failed = [step for step in expected if not step.passed]
    name = escape(PurePath(drill.file).name)
    if not failed:
        held = counted(expected, "expectation holds", "expectations hold")
        span = seconds_text(drill.virtual_seconds)
        print_line(console, f"[green]passed[/]: {name}: {held}, {span} of virtual time")
        return
    print_line(
        console, f"[bold red]failed[/]: {name}: {len(failed)} of {counted(expected, 'expectation')} failed"
    )
    for step in failed:
        problems = escape("; ".join(step.problems))
        print_line(console, f"  step {step.number}: {escape(step.message)}: {problems}")
