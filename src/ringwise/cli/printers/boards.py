"""Boards as tables and drawings of their rings."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from ringwise.cli.output import WIDE
from ringwise.cli.printers.lines import print_line, print_lines
from ringwise.cli.printers.tables import Column, Table
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
from ringwise.views.documents.reference import BoardDocument, BoardsDocument


def print_boards(console: Console, _document: BoardsDocument, catalog: BoardCatalog) -> None:
    columns = [
        Column("board", "name"),
        Column("chips", "chips_per_node", right=True),
        Column("links", rings_text),
        Column("one pod", lambda board: counts_text(board.one_pod), wraps=True),
        Column("several pods", multi_pod_text, wraps=True),
    ]
    # What chooses a board is long; where there is no width for it, `boards show` has it.
    if console.width >= WIDE:
        columns.append(Column("selected by", lambda board: ", ".join(chosen_by_words(board)), wraps=True))
    Table.of(columns, list(catalog)).print(console)


def print_board(console: Console, _document: BoardDocument, board: Board) -> None:
    spec = RULE_SPECS[board.rule]
    print_line(console, f"[bold]{escape(board.name)}[/bold]  {escape(board.title)}")
    console.print()
    for line in ring_picture(board):
        console.print(line, markup=False, soft_wrap=True)
    console.print()
    facts = {
        "serves": ", ".join(board.resources),
        "selected by": "; ".join(chosen_by(board)),
        "links": rings_text(board),
        "one pod": counts_text(board.one_pod),
        "several pods": multi_pod_text(board),
    }
    if board.multi_pod_vendor != board.multi_pod:
        facts["several pods"] += f" (multi-pod-requests: vendor: {counts_text(board.multi_pod_vendor)})"
    if board.node_labels:
        facts["node labels"] = ", ".join(f"{key}={value}" for key, value in board.node_labels)
    facts["network faults"] = "not assigned to jobs with several pods" if board.checks_network else "ignored"
    facts |= {"rule": spec.name, "fits": spec.fits, "raw score": spec.score, "chips": spec.chooses}
    listing = Table([Column(""), Column("", wraps=True)], gap=2, headings=False)
    for heading, fact in facts.items():
        listing.add(heading + ":", fact)
    listing.print(console)
    for table in chip_rule(board).tables():
        console.print()
        print_lines(console, f"{table.title}; columns: {table.columns}")
        _score_table(table).print(console)


def _score_table(table: ScoreTable) -> Table:
    columns, rows = table_grid(table)
    drawn = Table([Column("request", right=True), *(Column(str(free), right=True) for free in columns)])
    for request, row in rows:
        drawn.add(str(request), *("-" if value >= table.no_fit_value else str(value) for value in row))
    return drawn
