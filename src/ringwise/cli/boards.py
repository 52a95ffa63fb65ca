"""`ringwise boards`: the boards that jobs can be placed on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import yaml
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ringwise.placement.rules import ScoreTable, chip_rule
from ringwise.topology.board import Board, BoardError
from ringwise.topology.boards import BoardCatalog, shipped_catalog
from ringwise.topology.counts import counts_text
from ringwise.topology.nearest import did_you_mean
from ringwise.topology.rule_specs import RULE_SPECS
from ringwise.views.boards import (
    board_json,
    chosen_by,
    chosen_by_words,
    multi_pod_text,
    ring_picture,
    rings_text,
    table_grid,
)

#: Columns from which on a terminal has room for everything.
_ROOMY = 120

_Command = TypeVar("_Command", bound=Callable[..., Any])


class InputError(click.ClickException):
    """Input that cannot be used: one line, exit code 2."""

    exit_code = 2


def _options(command: _Command) -> _Command:
    """The two options every form of the command takes."""
    command = click.option(
        "--board-file",
        "board_files",
        multiple=True,
        type=click.Path(path_type=Path),
        help="A board profile of your own; may be given several times.",
    )(command)
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json", "yaml"]),
        default=None,
        help="How to print the answer; table is the default.",
    )(command)


@click.group(invoke_without_command=True)
@_options
@click.pass_context
def boards(context: click.Context, output: str | None, board_files: tuple[Path, ...]) -> None:
    """The boards Ringwise knows: chips, rings, valid requests, scores."""
    context.obj = (output, board_files)
    if context.invoked_subcommand is None:
        _print_list(_catalog(board_files), output)


@boards.command("list")
@_options
@click.pass_obj
def list_boards(
    given: tuple[str | None, tuple[Path, ...]], output: str | None, board_files: tuple[Path, ...]
) -> None:
    """All boards, one line each."""
    _print_list(_catalog((*given[1], *board_files)), output or given[0])


@boards.command()
@click.argument("name")
@_options
@click.pass_obj
def show(
    given: tuple[str | None, tuple[Path, ...]], name: str, output: str | None, board_files: tuple[Path, ...]
) -> None:
    """One board: its rings drawn, valid requests, rule and tables."""
    catalog = _catalog((*given[1], *board_files))
    board = catalog.get(name)
    if board is None:
        names = [known.name for known in catalog]
        raise InputError(f"no board is called '{name}'{did_you_mean(name, names)}; known: {', '.join(names)}")
    output = output or given[0]
    if output in ("json", "yaml"):
        _print_data(board_json(board), output)
    else:
        _print_board(board)


def _catalog(board_files: tuple[Path, ...]) -> BoardCatalog:
    try:
        return shipped_catalog(board_files)
    except BoardError as error:
        raise InputError(str(error)) from error


def _print_data(data: object, output: str) -> None:
    if output == "json":
        click.echo(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        click.echo(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), nl=False)


def _print_list(catalog: BoardCatalog, output: str | None) -> None:
    if output in ("json", "yaml"):
        _print_data({"boards": [board_json(board) for board in catalog]}, output)
        return
    console = Console(highlight=False)
    # What chooses a board takes much room; `show` tells it too.
    roomy = console.width >= _ROOMY
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("board", no_wrap=True)
    table.add_column("chips", justify="right", no_wrap=True)
    table.add_column("links", no_wrap=True)
    for heading in ("one pod", "several pods", *(("chosen by",) if roomy else ())):
        table.add_column(heading)
    for board in catalog:
        row = [board.name, str(board.chips_per_node), rings_text(board)]
        row += [counts_text(board.one_pod), multi_pod_text(board)]
        if roomy:
            row.append(", ".join(chosen_by_words(board)))
        table.add_row(*map(escape, row))
    console.print(table)


def _print_board(board: Board) -> None:
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
    if board.multi_pod_field != board.multi_pod:
        facts["several pods"] += f" (multi-pod-requests: vendor: {counts_text(board.multi_pod_field)})"
    if board.node_labels:
        facts["node labels"] = ", ".join(f"{key}={value}" for key, value in board.node_labels)
    facts["network faults"] = (
        "withheld from jobs of several pods" if board.watches_network else "not looked at"
    )
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
