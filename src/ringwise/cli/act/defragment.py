"""`ringwise defrag`: which jobs would move where so that jobs start that wait for holes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ringwise.cli.ask.queries import ask, namespace_of, show, source_of, source_options
from ringwise.cli.completion import LabName
from ringwise.cli.output import output_option

if TYPE_CHECKING:
    from rich.console import Console


@click.command("defrag")
@click.option("--plan", is_flag=True, help="Show which jobs would move where, and what it costs.")
@click.option(
    "--for",
    "job",
    type=LabName("job"),
    metavar="JOB",
    help="Only so that this job starts.  [default: every job that waits for holes, in queue order]",
)
@source_options()
@output_option
def defrag_command(plan: bool, job: str | None, output: str, **options: Any) -> None:
    """Move running jobs so that a job starts that waits for holes between them.

    Enough chips are free for such a job, but in the wrong places: a whole node is wanted, and each has a pod.

    --plan tries it on a copy and changes nothing. Jobs that must not be moved stay: those with
    `ringwise.io/movable: "false"` or `volcano.sh/preemptable: "false"`, those that nothing starts again, that
    a policy would end, or that a disruption budget protects.
    """
    if not plan:
        raise click.UsageError("give --plan: it shows the moves and changes nothing")
    source_of(options)
    document = ask(options, lambda source: source.defrag_plan(job, namespace_of(options)))

    def draw(console: Console) -> None:
        from ringwise.cli.drawing.defragment import print_move_plans

        print_move_plans(console, document)

    show(document, output, draw)
