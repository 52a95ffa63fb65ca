"""`ringwise reserve`, `ringwise unreserve`: nodes for a queue or a namespace from one time to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ringwise.cli.change.targets import change_target
from ringwise.cli.completion import LabName
from ringwise.cli.output import (
    board_option,
    complain,
    configuration_option,
    confirm,
    output_option,
    with_options,
)
from ringwise.cli.query.queries import (
    ask,
    namespace_options,
    show,
    show_text,
    source_of,
    target_options,
)
from ringwise.grammar import agrees, counted

if TYPE_CHECKING:
    from rich.console import Console

    from ringwise.views.documents.reservations import (
        ReservationFields,
    )

#: Jobs and notes that are told.
_NAMED = 8


@click.command("reserve")
@click.argument(
    "targets",
    nargs=-1,
    required=True,
    type=LabName("node"),
    metavar="NODE|switch/ADDRESS|superpod/ID...|NUMBER",
)
@click.option(
    "--for",
    "holder",
    required=True,
    metavar="QUEUE|NAMESPACE",
    help="Whose jobs may use them: queue=NAME or namespace=NAME, or a name that only one of them has.",
)
@click.option(
    "--from",
    "start",
    default="now",
    show_default=True,
    metavar="TIME",
    help="When it begins, like 2026-01-31T08:00:00Z, or 90m or +2h from now.",
)
@click.option("--to", "end", required=True, metavar="TIME", help="When it ends by itself.")
@click.option("--name", default="", help="Its name.  [default: the holder and the time]")
@click.option("--board", default="", help="With a number of nodes: of this board.")
@click.option("--reason", default="", metavar="TEXT", help="Reason to record in the reservation.")
@click.option("--plan", is_flag=True, help="Only show which nodes it would have, and who still runs there.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@target_options
@with_options(namespace_options)
@configuration_option
@board_option
@output_option
def reserve_command(
    targets: tuple[str, ...],
    holder: str,
    start: str,
    end: str,
    name: str,
    board: str,
    reason: str,
    plan: bool,
    yes: bool,
    output: str,
    **options: Any,
) -> None:
    """Keep nodes for the jobs of a queue or of a namespace from one time to another.

    Before it begins, the nodes take jobs of others that end before, as with `drain --at`. Jobs that still run
    there then stay; they are named before a question. With a NUMBER those nodes are taken that are free
    soonest.
    """
    from ringwise.apps.lab.requests import ReserveRequest
    from ringwise.apps.reservations import ReservationRequest

    source_of(options)
    wish = ReservationRequest(targets, holder, start, end, name, board, reason)
    target = None if plan else change_target(options)
    planned = ask(options, lambda source: source.reservation_plan(wish))
    wanted, now = planned["reservation"], planned["now"]
    if target is None:

        def draw(console: Console) -> None:
            from ringwise.cli.printers.lines import print_lines

            print_lines(console, "\n".join(_plan_lines(wanted, now)))

        show(planned, output, draw)
        return
    if not yes:
        complain(*_plan_lines(wanted, now))
        confirm(f"reserve {counted(wanted['nodes'], 'node')}?", "reserves")
    document = target.change("reserve", ReserveRequest(wanted))
    later = f"to delete it sooner: {target.program} unreserve {wanted['name']}"
    show_text(document, output, f"{_title(wanted)}\n{later}")


@click.command("unreserve")
@click.argument("name", type=LabName("reservation"))
@target_options
@with_options(namespace_options)
@output_option
def unreserve_command(name: str, output: str, **options: Any) -> None:
    """Cancel the reservation NAME: its nodes take jobs of all again."""
    from ringwise.apps.lab.requests import UnreserveRequest

    document = change_target(options).change("unreserve", UnreserveRequest(name))
    show_text(document, output, f"reservation {name} cancelled")


def _title(one: ReservationFields) -> str:
    from ringwise.durations import time_text

    holder = f"queue {one['queue']}" if one["queue"] else f"namespace {one['namespace']}"
    return (
        f"reservation {one['name']}: {counted(one['nodes'], 'node')} for {holder} from "
        f"{time_text(one['start'])} to {time_text(one['end'])}"
    )


def _plan_lines(one: ReservationFields, now: int) -> list[str]:
    from ringwise.cli.printers.name_lists import name_list
    from ringwise.durations import duration_text, time_text

    lines = [_title(one), f"  {name_list(one['nodes'])}"]
    lines += [f"  note: {trouble['why']}" for trouble in one["problems"][:_NAMED]]
    running = one["running"]
    if running:
        lines.append(
            f"  {counted(running, 'job')} of others {agrees(len(running), 'is', 'are')} not known to end "
            "before; no pod is evicted:"
        )
    for job in running[:_NAMED]:
        ends = "it does not say when it ends"
        if job["ends"] is not None:
            ends = f"it ends at {time_text(job['ends'])}, in {duration_text(job['ends'] - now)}"
        lines.append(f"    {job['job']}: {counted(job['pods'], 'pod')} there; {ends}")
    if len(running) > _NAMED:
        lines.append(f"    and {counted(len(running) - _NAMED, 'more job')}")
    return lines
