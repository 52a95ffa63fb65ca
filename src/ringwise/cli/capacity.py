"""`ringwise capacity`: how many more jobs of each shape would start now."""

from __future__ import annotations

from typing import Any

import click
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ringwise.apps.capacity import UnknownQueueError, as_json, count
from ringwise.cli.output import output_option, print_document, stdout_console, stop
from ringwise.cli.source import source_options, source_scheduler
from ringwise.scheduler.capacity import BoardCapacity


@click.command("capacity")
@source_options()
@click.option("--queue", help="Count only what this queue may still use.")
@output_option
def capacity_command(queue: str | None, output: str, **options: Any) -> None:
    """Say how many more jobs of each shape would start now, and what fragmentation costs.

    The jobs are really placed on the cluster's state, and undone.
    """
    source = source_scheduler(**options)
    try:
        answers = count(source, queue)
    except UnknownQueueError as error:
        raise stop(f"ringwise: {error}") from None
    if output == "table":
        console = stdout_console()
        for answer in answers:
            print_capacity(console, answer)
        if not answers:
            console.print("no node offers a chip that a board serves")
    else:
        print_document(as_json(answers), output)


def print_capacity(console: Console, answer: BoardCapacity) -> None:
    chips = answer.chips
    where = f" on nodes with accelerator-type {answer.selector}" if answer.selector else ""
    console.print(f"[bold]{answer.board}[/] ({answer.resource}){escape(where)}", soft_wrap=True)
    rows = [
        (chips.held, "held"),
        (chips.free, "free"),
        (chips.faulty, "faulty"),
        (chips.reserved, "reserved"),
        (chips.closed, "on closed nodes"),
    ]
    words = ", ".join(f"{number} {word}" for number, word in rows if number or word in ("held", "free"))
    console.print(f"  {chips.nodes} nodes with {chips.chips} chips: {words}", soft_wrap=True)
    if chips.network_faulty:
        console.print(f"  {chips.network_faulty} of the free ones have no network: for one-pod jobs only")
    table = Table(box=box.SIMPLE, pad_edge=False, show_edge=False, padding=(0, 2))
    for column in ("  shape", "jobs that start now", "at best", "free chips it cannot use"):
        table.add_column(column, justify="left" if column == "  shape" else "right")
    for shape in answer.shapes:
        if shape.kind == "switches":
            table.add_row(f"  {shape.form}", f"{shape.pods} pods", "", str(shape.stranded))
        else:
            table.add_row(f"  {shape.form}", str(shape.jobs), str(shape.most), str(shape.stranded))
    console.print(table)
    if answer.largest_gang:
        console.print(f"  largest gang of whole nodes: {answer.largest_gang}", style="dim")
