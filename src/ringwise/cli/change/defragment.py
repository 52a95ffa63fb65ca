"""`ringwise defrag`: which jobs would move where so that jobs start that wait for holes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ringwise.cli.completion import LabName
from ringwise.cli.options import flag, option, output_option, source_options
from ringwise.cli.output import document_text
from ringwise.cli.query.queries import ask, namespace_of, show, source_of

if TYPE_CHECKING:
    pass


@click.command("defrag")
@flag("--plan --dry-run", "Only show which jobs would move where, and the cost.")
@flag("--apply", "Move the jobs, after confirmation.")
@flag("-y --yes", "Do not ask for confirmation; requires --apply.")
@option(
    "--for job",
    "Job to start.  [default: all jobs blocked by fragmentation, in queue order]",
    LabName("job"),
    metavar="JOB",
)
@source_options
@output_option
def defrag_command(plan: bool, apply: bool, yes: bool, job: str | None, output: str, **options: Any) -> None:
    """Move running jobs so that a blocked job can start.

    Enough chips are free for a blocked job, but not where it needs them: for example, it requires whole
    nodes, and each node runs a pod.

    --plan computes the moves on a copy of the cluster and changes nothing. With -o yaml it prints MovePlans
    that are not approved, for kubectl apply or ringwise submit. Jobs are never moved if they have
    `ringwise.io/movable: "false"` or `volcano.sh/preemptable: "false"`, if their pods would not be created
    again, if a policy would end them, or if a PodDisruptionBudget protects them.

    --apply reserves the new placements, evicts the pods with their termination grace period, and follows the
    plan to its end; the owners create the pods again. If a step fails, the plan ends and jobs return to
    their previous nodes if these are free.
    """
    if plan == apply:
        raise click.UsageError("--plan, which shows the moves and changes nothing, or --apply is required")
    source_of(options)
    if apply:
        from ringwise.cli.change.moving import apply_moves

        apply_moves(job, yes, output, options)
        return
    if output == "yaml":
        plans = ask(options, lambda source: source.move_plans(job, namespace_of(options)))
        click.echo("---\n".join(document_text(one, output) for one in plans.objects), nl=False)
        return
    document = ask(options, lambda source: source.defrag_plan(job, namespace_of(options)))
    show(document, output, "defragment.print_move_plans")
