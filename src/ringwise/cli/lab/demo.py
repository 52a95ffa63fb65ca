"""`ringwise demo`: plays drills that show jobs of every kind, and explains what happens.

Time is virtual and nothing is random: every run prints the same.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ringwise.cli.exit_codes import ExitCode
from ringwise.cli.output import has_grpc, stdout_console, stop
from ringwise.grammar import counted

if TYPE_CHECKING:
    from rich.console import Console

    from ringwise.apps.lab.lab import LiveLab


@click.command()
def demo_command() -> None:
    """Show the scheduler at work on sample clusters."""
    from ringwise.apps.drill import run
    from ringwise.apps.drill.file import read_drill
    from ringwise.cli.printers.lines import print_line
    from ringwise.cli.printers.tables import Column, Table

    console = stdout_console()
    labs: dict[int, LiveLab] = {}

    def play(live: LiveLab, action: str, words: str) -> None:
        labs[id(live)] = live
        console.print()
        print_line(console, f"{'==' if action == 'explain' else '> ringwise'} {words}", style="bold")
        if action == "show":
            _show(console, live, words)

    for path in sorted(Path(run.__file__).parent.joinpath("demo").glob("[0-9]*.yaml")):
        drill = read_drill(path)
        if drill.cluster.device_plugin is not None and not has_grpc():
            why = "gRPC is not installed (pip install 'ringwise[device]')"
            print_line(console, f"not shown: {drill.title}: {why}")
            continue
        result = run.run_drill(drill, play)
        failed = [f"{path.name}: {step.message}" for step in result.steps if step.passed is False]
        if failed:
            raise stop(*failed, code=ExitCode.FAILED)
    wrongs = [line for live in labs.values() for line in (*live.cluster.alarms, *live.view.inconsistencies())]
    if wrongs:
        raise stop(*wrongs, code=ExitCode.FAILED)
    bound = sum(live.lab.command_counts.get("Bind", 0) for live in labs.values())
    console.print()
    clusters = counted(labs, "embedded cluster")
    print_line(
        console, f"{counted(bound, 'pod was', 'pods were')} placed on {clusters}; no chip was given twice."
    )
    table = Table([Column(""), Column("", wraps=True)], indent=2, gap=2, headings=False)
    program = command_of_this_program()
    table.add(f"{program} lab", "a cluster of your own, live, in this terminal")
    table.add(f"{program} submit FILE, top", "in another one; see docs/tutorials/lab.md")
    table.add(f"{program} place -f FILE...", "what would be placed where, from manifests alone")
    console.print("Next:")
    table.print(console)


def command_of_this_program() -> str:
    """Return the command to type for this program: its path if it is not on PATH, as after `make demo`."""
    called = Path(sys.argv[0])
    if called.name != "ringwise" or shutil.which("ringwise") is not None:
        return "ringwise"
    here = Path.cwd()
    return str(called.relative_to(here) if called.is_relative_to(here) else called)


def _show(console: Console, live: LiveLab, command: str) -> None:
    """Print what a command of the lab prints."""
    from ringwise.apps.lab.queries import LabAnswers
    from ringwise.cli.printers.explain import print_explanation
    from ringwise.cli.printers.kinds import DRAWINGS, print_object
    from ringwise.views.kinds import BY_PLURAL

    answers = LabAnswers(live)
    match command.split():
        case ["get", kind]:
            DRAWINGS[BY_PLURAL[kind].name].table.draw(console, answers.get(kind)[kind], live.now)
        case ["describe", kind, name]:
            print_object(console, answers.describe(kind, name), kind)
        case ["why", job]:
            print_explanation(console, answers.why(job, pictures=True))
        case _:
            raise AssertionError(f"the demo cannot show {command}")
