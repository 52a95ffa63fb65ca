"""How much more fits, as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ringwise.scheduler.explain.capacity import BoardCapacity


def print_capacity(console: Console, counted: Sequence[BoardCapacity]) -> None:
    for board in counted:
        _print_board(console, board)
    if not counted:
        console.print("no node offers a chip that a board serves")


def _print_board(console: Console, answer: BoardCapacity) -> None:
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
