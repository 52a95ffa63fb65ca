"""`ringwise topology show`: switches and SuperPoDs, drawn."""

from __future__ import annotations

from typing import Any

import click

from ringwise.apps.topology import superpod_pictures, switch_picture, topology_problems
from ringwise.cli.output import complain, output_option, print_document, stdout_console, stop
from ringwise.cli.source import source_options, source_scheduler
from ringwise.cli.switch_drawing import switch_rows
from ringwise.cli.topology_pictures import print_superpods, print_switches
from ringwise.manifests.errors import one_line
from ringwise.scheduler.machine import Scheduler

_SHOWN_PROBLEMS = 8


@click.command("show")
@source_options()
@output_option
def show_command(output: str, **options: Any) -> None:
    """Draw leaf switches and SuperPoDs as they are: free nodes, states, jobs, blocks."""
    scheduler = source_scheduler(**options, decide=False).scheduler
    problems = topology_problems(scheduler)
    complain(*(f"problem: {one_line(problem.message)}" for problem in problems[:_SHOWN_PROBLEMS]))
    if len(problems) > _SHOWN_PROBLEMS:
        complain(f"{len(problems) - _SHOWN_PROBLEMS} more problems; ringwise doctor lists them")
    if output != "table":
        print_document(_document(scheduler), output)
        return
    console = stdout_console()
    drawn = [print_switches(console, scheduler), print_superpods(console, scheduler)]
    if not any(drawn):
        raise stop("the input has no ConfigMap kube-system/basic-tor-node-cm and no SuperPoD ids")


def _document(scheduler: Scheduler) -> dict[str, Any]:
    picture = switch_picture(scheduler)
    switches = None
    if picture is not None:
        switches = switch_rows(picture.resolved, picture.states, picture.free_nodes, picture.jobs_of_node)
    return {
        "switches": switches,
        "superpods": [one.as_json() for one in superpod_pictures(scheduler)],
        "problems": [problem.as_json() for problem in topology_problems(scheduler)],
    }
