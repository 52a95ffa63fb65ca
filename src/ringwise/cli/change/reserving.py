"""`ringwise reserve`, `ringwise unreserve`: nodes for a queue or a namespace from one time to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ringwise.cli.change.targets import change_target
from ringwise.cli.completion import LabName
from ringwise.cli.options import (
    flag,
    node_options,
    option,
    plan_options,
)
from ringwise.cli.output import complain, confirm
from ringwise.cli.query.queries import ask, show_text, source_of
from ringwise.grammar import counted, quoted

if TYPE_CHECKING:
    from ringwise.views.documents.reservations import (
        ReservationFields,
    )

#: Jobs and notes that are printed.
_NAMED = 8


@click.command("reserve")
@click.argument(
    "targets",
    nargs=-1,
    type=LabName("node"),
    metavar="NODE|switch/ADDRESS|superpod/ID...|NUMBER",
)
@option("--nodes", "Nodes to reserve, as in Slurm.", default="", metavar="NODE,...|NUMBER")
@option(
    "--for holder",
    "Queue or namespace whose jobs can use the nodes: queue=NAME, namespace=NAME, or a unique name.",
    default="",
    metavar="QUEUE|NAMESPACE",
)
@option(
    "--from --start start",
    "Start of the reservation, such as 2026-01-31T08:00:00Z, 18:00, tomorrow or now+2hours.",
    default="now",
    metavar="TIME",
)
@option(
    "--to --end end",
    "End of the reservation; 2h is two hours from now, +2h two hours after its start, 18:00 the next 18:00 "
    "after it.",
    default="",
    metavar="TIME",
)
@option("--duration", "Same as --to +DURATION; a number is minutes.", default="", metavar="DURATION")
@option("--queue", "Same as --for queue=QUEUE.", LabName("queue"), "")
@option("--name", "Name of the reservation.  [default: from queue or namespace and time]", default="")
@option("--board", "Board of the nodes; requires NUMBER.", default="")
@option("--reason", "Reason to record in the reservation.", default="", metavar="TEXT")
@flag("--plan --dry-run", "Only show the nodes and the jobs that would still run there.")
@flag("-y --yes", "Do not ask for confirmation.")
@plan_options
def reserve_command(
    targets: tuple[str, ...],
    nodes: str,
    holder: str,
    start: str,
    end: str,
    duration: str,
    queue: str,
    name: str,
    board: str,
    reason: str,
    plan: bool,
    yes: bool,
    output: str,
    **options: Any,
) -> None:
    """Reserve nodes for a queue or namespace.

    Until the reservation starts, its nodes accept other jobs only if they end before the start, as with
    `drain --at`. Jobs that are still running there at the start continue; they are listed before the
    confirmation. With a NUMBER, the nodes that become free first are reserved.
    """
    from ringwise.apps.lab.requests import ReserveRequest
    from ringwise.apps.reservations import ReservationRequest
    from ringwise.apps.targets import span_of

    source_of(options)
    targets = tuple(target for text in (*targets, nodes) for target in text.split(",") if target)
    if not targets:
        raise click.UsageError("nodes, or a number of nodes, are required")
    if bool(holder) == bool(queue):
        raise click.UsageError("one of --for and --queue is required")
    if bool(end) == bool(duration):
        raise click.UsageError("one of --to and --duration is required")
    # As in Slurm, a number is minutes.
    duration += "m" if duration.isdecimal() else ""
    if duration and span_of(duration) is None:
        raise click.BadParameter(
            f"invalid duration {quoted(duration)}: expected 90m, 1h30m, 7d, 2:00:00, 1-12:00:00 or minutes",
            param_hint="--duration",
        )
    holder, end = holder or f"queue={queue}", end or f"+{duration}"
    request = ReservationRequest(targets, holder, start, end, name, board, reason)
    target = None if plan else change_target(options)
    planned = ask(options, lambda source: source.reservation_plan(request))
    wanted, now = planned["reservation"], planned["now"]
    if target is None:
        show_text(planned, output, "\n".join(_plan_lines(wanted, now)))
        return
    if not yes:
        complain(*_plan_lines(wanted, now))
        confirm(f"reserve {counted(wanted['nodes'], 'node')}?", "reserves")
    document = target.change("reserve", ReserveRequest(wanted))
    later = f"to delete it sooner: {target.program} unreserve {wanted['name']}"
    show_text(document, output, f"{_title(wanted)}\n{later}")


@click.command("unreserve")
@click.argument("name", type=LabName("reservation"))
@node_options
def unreserve_command(name: str, output: str, **options: Any) -> None:
    """Delete a reservation and release its nodes."""
    from ringwise.apps.lab.requests import UnreserveRequest

    document = change_target(options).change("unreserve", UnreserveRequest(name))
    show_text(document, output, f"reservation {name} deleted")


def _title(one: ReservationFields) -> str:
    from ringwise.cli.printers.name_lists import holder_text
    from ringwise.durations import time_text

    return (
        f"reservation {one['name']}: {counted(one['nodes'], 'node')} for {holder_text(one)} from "
        f"{time_text(one['start'])} to {time_text(one['end'])}"
    )


def _plan_lines(one: ReservationFields, now: int) -> list[str]:
    from ringwise.cli.printers.name_lists import name_list
    from ringwise.durations import duration_text, time_text

    lines = [_title(one), f"  {name_list(one['nodes'])}"]
    lines += [f"  note: {trouble['message']}" for trouble in one["problems"][:_NAMED]]
    running = one["running"]
    if running:
        lines.append(f"  {counted(running, 'job')} of others may still be running then; no pod is evicted:")
    for job in running[:_NAMED]:
        ends = "it has no expected duration"
        if job["ends"] is not None:
            ends = f"it ends at {time_text(job['ends'])}, in {duration_text(job['ends'] - now)}"
        lines.append(f"    {job['job']}: {counted(job['pods'], 'pod')} there; {ends}")
    if len(running) > _NAMED:
        lines.append(f"    and {counted(len(running) - _NAMED, 'more job')}")
    return lines
