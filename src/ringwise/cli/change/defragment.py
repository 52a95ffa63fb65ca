"""`ringwise defrag`: which jobs would move where so that jobs start that wait for holes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ringwise.cli.completion import LabName
from ringwise.cli.output import output_option
from ringwise.cli.query.queries import ask, namespace_of, show, source_of, source_options

if TYPE_CHECKING:
    from rich.console import Console


@click.command("defrag")
@click.option("--plan", is_flag=True, help="Show which jobs would move where, and what it costs.")
@click.option("--apply", is_flag=True, help="Move them, after a question that names the jobs.")
@click.option("-y", "--yes", is_flag=True, help="With --apply: do not ask.")
@click.option(
    "--for",
    "job",
    type=LabName("job"),
    metavar="JOB",
    help="Only so that this job starts.  [default: every job that waits for holes, in queue order]",
)
@source_options()
@output_option
def defrag_command(plan: bool, apply: bool, yes: bool, job: str | None, output: str, **options: Any) -> None:
    """Move running jobs so that a job starts that waits for holes between them.

    Enough chips are free for such a job, but in the wrong places: a whole node is wanted, and each has a pod.

    --plan tries it on a copy and changes nothing. Jobs that must not be moved stay: those with
    `ringwise.io/movable: "false"` or `volcano.sh/preemptable: "false"`, those that nothing starts again, that
    a policy would end, or that a disruption budget protects.

    --apply keeps the new places, evicts the pods with their grace, and follows the plan to its end; their
    owners create them again. A step that fails ends the plan and gives old places back where they are free.
    """
    if plan == apply:
        raise click.UsageError("give --plan, which shows the moves and changes nothing, or --apply")
    source_of(options)
    if apply:
        from ringwise.cli.change.moving import apply_moves

        apply_moves(job, yes, output, options)
        return
    document = ask(options, lambda source: source.defrag_plan(job, namespace_of(options)))

    def draw(console: Console) -> None:
        from ringwise.cli.printers.defragment import print_move_plans

        print_move_plans(console, document)

    show(document, output, draw)
