"""`ringwise topology show`: switches and SuperPoDs, drawn."""

from __future__ import annotations

from typing import Any

import click
from rich.console import Console

from ringwise.cli.output import output_option
from ringwise.cli.queries import Answer
from ringwise.cli.source import answer_question, source_options
from ringwise.cli.switch_drawing import switch_rows
from ringwise.cli.topology_pictures import print_superpods, print_switches
from ringwise.manifests.errors import one_line
from ringwise.scheduler.view import SchedulerView
from ringwise.views.topology import superpod_pictures, switch_picture, topology_problems

_SHOWN_PROBLEMS = 8


class NothingToDrawError(LookupError):
    """There are neither switches nor SuperPoDs."""


@click.command("show")
@source_options()
@output_option
def show_command(output: str, **options: Any) -> None:
    """Draw leaf switches and SuperPoDs as they are: free nodes, states, jobs, blocks."""
    answer_question(
        "topology",
        lambda source: topology_answer(source.view, output),
        output,
        parameters={},
        decide=False,
        **options,
    )


def topology_answer(view: SchedulerView, output: str) -> Answer:
    """Raises NothingToDrawError for a drawing that would be empty."""
    problems = topology_problems(view)
    notes = [f"problem: {one_line(problem.message)}" for problem in problems[:_SHOWN_PROBLEMS]]
    if len(problems) > _SHOWN_PROBLEMS:
        notes.append(f"{len(problems) - _SHOWN_PROBLEMS} more problems; ringwise doctor lists them")
    document = _document(view)
    if output == "table" and document["switches"] is None and not document["superpods"]:
        words = "there is no usable ConfigMap kube-system/basic-tor-node-cm and no SuperPoD id"
        raise NothingToDrawError("; ".join([words, *notes]))

    def draw(console: Console) -> None:
        print_switches(console, view)
        print_superpods(console, view)

    return Answer(document, draw, notes)


def _document(view: SchedulerView) -> dict[str, Any]:
    picture = switch_picture(view)
    switches = None
    if picture is not None:
        switches = switch_rows(picture.resolved, picture.states, picture.free_nodes, picture.jobs_of_node)
    return {
        "switches": switches,
        "superpods": [one.as_json() for one in superpod_pictures(view)],
        "problems": [problem.as_json() for problem in topology_problems(view)],
    }
