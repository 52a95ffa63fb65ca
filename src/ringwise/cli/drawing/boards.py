"""Boards as tables and drawings of their rings."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ringwise.placement.rules import ScoreTable, chip_rule
from ringwise.topology.board import Board
from ringwise.topology.boards import BoardCatalog
from ringwise.topology.counts import counts_text
from ringwise.topology.rule_specs import RULE_SPECS
from ringwise.views.boards import (
    chosen_by,
    chosen_by_words,
    multi_pod_text,
    ring_picture,
    rings_text,
    table_grid,
)

#: From this width on the table has all columns.
_WIDE = 120


def print_boards(catalog: BoardCatalog) -> None:
    console = Console(highlight=False)
    # The column with what selects a board is wide; `show` has it too.
    wide = console.width >= _WIDE
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("board", no_wrap=True)
    table.add_column("chips", justify="right", no_wrap=True)
    table.add_column("links", no_wrap=True)
    for heading in ("one pod", "several pods", *(("chosen by",) if wide else ())):
        table.add_column(heading)
    for board in catalog:
        row = [board.name, str(board.chips_per_node), rings_text(board)]
        row += [counts_text(board.one_pod), multi_pod_text(board)]
        if wide:
            row.append(", ".join(chosen_by_words(board)))
        table.add_row(*map(escape, row))
    console.print(table)


def print_board(board: Board) -> None:
    console = Console(highlight=False)
    spec = RULE_SPECS[board.rule]
    console.print(f"[bold]{escape(board.name)}[/bold]  {escape(board.title)}")
    console.print()
    for line in ring_picture(board):
        console.print(line, markup=False)
    console.print()
    facts = {
        "serves": ", ".join(board.resources),
        "chosen by": "; ".join(chosen_by(board)),
        "links": rings_text(board),
        "one pod": counts_text(board.one_pod),
        "several pods": multi_pod_text(board),
    }
    if board.multi_pod_vendor != board.multi_pod:
        facts["several pods"] += f" (multi-pod-requests: vendor: {counts_text(board.multi_pod_vendor)})"
    if board.node_labels:
        facts["node labels"] = ", ".join(f"{key}={value}" for key, value in board.node_labels)
    facts["network faults"] = "withheld from jobs of several pods" if board.watches_network else "ignored"
    facts |= {"rule": spec.name, "fits": spec.fits, "raw score": spec.score, "chips": spec.chooses}
    listing = Table(box=None, show_header=False, pad_edge=False)
    listing.add_column(no_wrap=True)
    listing.add_column(overflow="fold")
    for heading, fact in facts.items():
        listing.add_row(heading + ":", escape(fact))
    console.print(listing)
    for table in chip_rule(board).tables():
        console.print(f"\n{table.title}; columns: {table.columns}", markup=False)
        console.print(_rich_table(table))


def _rich_table(table: ScoreTable) -> Table:
    columns, rows = table_grid(table)
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    drawn.add_column("request", justify="right")
    for free in columns:
        drawn.add_column(str(free), justify="right")
    for request, row in rows:
        drawn.add_row(str(request), *("-" if value >= table.unfit else str(value) for value in row))
    return drawn
