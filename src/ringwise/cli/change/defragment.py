"""`ringwise defrag`: which jobs would move where so that jobs start that wait for holes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ringwise.cli.change.targets import ChangeTarget, change_target
from ringwise.cli.completion import LabName
from ringwise.cli.exit_codes import ExitCode
from ringwise.cli.options import flag, option, query_options
from ringwise.cli.output import confirm, document_text, stop
from ringwise.cli.query.queries import (
    ask,
    namespace_of,
    show,
    show_text,
    source_of,
)
from ringwise.grammar import counted
from ringwise.messages.move_plan import APPROVED, DONE, REFUSED
from ringwise.views.documents.changes import AppliedPlanFields, MovesDocument

if TYPE_CHECKING:
    from ringwise.views.documents.maintenance import DefragPlanDocument, MovePlanFields


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
@query_options
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
        _apply_moves(job, yes, output, options)
        return
    if output == "yaml":
        plans = ask(options, lambda source: source.move_plans(job, namespace_of(options)))
        click.echo("---\n".join(document_text(one, output) for one in plans.objects), nl=False)
        return
    document = ask(options, lambda source: source.defrag_plan(job, namespace_of(options)))
    show(document, output, "maintenance.print_move_plans")


def _apply_moves(job: str | None, yes: bool, output: str, options: dict[str, Any]) -> None:
    if options.pop("files"):
        raise click.UsageError("--apply requires a lab or a cluster; it cannot be combined with -f")
    target, namespace = change_target(options), namespace_of(options)
    planned = ask(options, lambda source: source.move_plans(job, namespace))
    document = planned.document
    done: list[AppliedPlanFields] = []
    if _before_moving(document, yes):
        for plan, body in zip(document.plans, planned.objects, strict=True):
            done.append(_carry_out(target, plan, body))
            if done[-1].state != DONE:
                break
    _show(document, done, len(document.plans) - len(done), output)


def _carry_out(target: ChangeTarget, plan: MovePlanFields, body: dict[str, Any]) -> AppliedPlanFields:
    from ringwise.apps.lab.requests import MoveRequest

    name = body["metadata"]["name"]
    target.change("move", MoveRequest({**body, "spec": {**body["spec"], "approval": APPROVED}}))
    try:
        state, message = target.follow(name)
    except KeyboardInterrupt:
        raise stop(
            f"ringwise: interrupted: the plan {name} continues without this command",
            f"to follow it: ringwise why --history {_job(plan)}",
            code=ExitCode.INTERRUPTED,
        ) from None
    moved = list(dict.fromkeys(map(_job, plan.moves)))
    return AppliedPlanFields(id=name, job=_job(plan), moved=moved, state=state, message=message)


# -- the question --------------------------------------------------------------------------------


def _before_moving(document: DefragPlanDocument, yes: bool) -> bool:
    """Show on stderr what moves, and ask. False: there is nothing to move. Ends the command without a yes."""
    from rich.console import Console

    from ringwise.cli.printers.maintenance import print_move_plans

    print_move_plans(Console(stderr=True, highlight=False), document, tried=False)
    moves = [move for plan in document.plans for move in plan.moves]
    if moves and not yes:
        pods = sum(len(move.pods) for move in moves)
        confirm(
            f"move {', '.join(dict.fromkeys(map(_job, moves)))} and evict {counted(pods, 'pod')}?", "moves"
        )
    return bool(moves)


def _job(named: Any) -> str:
    return f"{named.namespace}/{named.name}"


def _show(document: DefragPlanDocument, done: list[AppliedPlanFields], left: int, output: str) -> None:
    lines = [_line(one) for one in done]
    if left:
        lines.append(f"{counted(left, 'plan')} not started, because a previous one failed")
    # A job that was asked for by name and is not helped is not a success either.
    failed = any(one.state != DONE for one in done) or bool(not done and document.without_plan)
    text = "\n".join(lines) if lines else "nothing was changed: no moves start a job"
    code = ExitCode.FAILED if failed else ExitCode.OK
    show_text(MovesDocument(plans=done, skipped_plans=left), output, text, code)


def _line(one: AppliedPlanFields) -> str:
    moved = ", ".join(one.moved)
    if one.state == DONE:
        return f"{one.job} has started; moved: {moved}"
    happened = "was rejected" if one.state == REFUSED else "failed"
    return f"{one.job}: the plan {happened}: {one.message}"
