"""`ringwise capacity`: how many more jobs of each shape would start now."""

from __future__ import annotations

from typing import Any

import click
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ringwise.apps.capacity import as_json, count
from ringwise.apps.source import Source
from ringwise.cli.output import output_option
from ringwise.cli.queries import Answer
from ringwise.cli.source import answer_question, source_options
from ringwise.scheduler.explain.capacity import BoardCapacity


@click.command("capacity")
@source_options()
@click.option("--queue", help="Count only what this queue may still use.")
@output_option
def capacity_command(queue: str | None, output: str, **options: Any) -> None:
    """Say how many more jobs of each shape would start now, and what fragmentation costs.

    The jobs are really placed on the cluster's state, and undone.
    """
    answer_question(
        "capacity",
        lambda source: capacity_answer(source, queue),
        output,
        parameters={"queue": queue},
        **options,
    )


def capacity_answer(source: Source, queue: str | None) -> Answer:
    """Raises UnknownQueueError."""
    answers = count(source, queue)

    def draw(console: Console) -> None:
        for answer in answers:
            print_capacity(console, answer)
        if not answers:
            console.print("no node offers a chip that a board serves")

    return Answer(as_json(answers), draw)


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
