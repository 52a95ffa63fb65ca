"""Drills: a timeline and a verdict for each."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from ringwise.apps.drill.run import FAILS, HOLDS, START, STEP, DrillResult
from ringwise.cli.drawing.lines import print_line
from ringwise.cli.drawing.story import story_table
from ringwise.durations import duration_text
from ringwise.grammar import counted

_STYLES = {STEP: "bold", HOLDS: "green", FAILS: "bold red"}


def print_drills(console: Console, results: list[DrillResult], quiet: bool) -> None:
    for result in results:
        if not quiet:
            _timeline(console, result)
        _verdict(console, result)
        if not quiet and result is not results[-1]:
            console.print()
    if len(results) > 1:
        failed = [result for result in results if not result.passed]
        passed = f"{len(results) - len(failed)} of {counted(results, 'drill')} passed"
        console.print()
        print_line(console, f"[{'red' if failed else 'green'}]{passed}[/]")


def _timeline(console: Console, result: DrillResult) -> None:
    print_line(console, f"[bold]{escape(result.drill.title)}[/] ({escape(str(result.drill.path))})")
    jobs = {one.job for one in result.timeline if one.job}
    rows = [(START, one.job.partition("/")[2] if len(jobs) > 1 else "", one.entry) for one in result.timeline]
    story_table(rows, _STYLES).print(console)


def _verdict(console: Console, result: DrillResult) -> None:
    expected = [step for step in result.steps if step.holds is not None]
    failed = [step for step in expected if not step.holds]
    span = duration_text(result.end - START)
    name = escape(result.drill.path.name)
    if not failed:
        held = counted(expected, "expectation holds", "expectations hold")
        print_line(console, f"[green]passed[/]: {name}: {held}, {span} of virtual time")
        return
    print_line(
        console, f"[bold red]failed[/]: {name}: {len(failed)} of {counted(expected, 'expectation')} failed"
    )
    for step in failed:
        print_line(console, f"  step {step.number}: {escape(step.text)}: {escape('; '.join(step.problems))}")
