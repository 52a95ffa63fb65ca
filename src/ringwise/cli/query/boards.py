"""`ringwise boards`: the boards that jobs can be placed on."""

from __future__ import annotations

from pathlib import Path

import click

from ringwise.cli.completion import CompletedName, shipped_board_names
from ringwise.cli.exit_codes import ExitCode
from ringwise.cli.options import PATH, OutputFormat, option, with_options
from ringwise.cli.output import stop
from ringwise.cli.query.queries import show as show_document
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.manifests.text.errors import DocumentError
from ringwise.topology.boards import BoardCatalog
from ringwise.topology.nearest import did_you_mean
from ringwise.views.boards import board_document, boards_document


class InputError(click.ClickException):
    """Input that cannot be used: one line, exit code 2."""

    exit_code = ExitCode.BAD_INPUT


#: Options of every form of the command.
_options = with_options(
    option("-o --output", "Output format.  [default: table]", OutputFormat("table", "json", "yaml")),
    option("--board-file board_files", "Custom board profile; can be repeated.", PATH, multiple=True),
)


@click.group(invoke_without_command=True)
@_options
@click.pass_context
def boards_command(context: click.Context, output: str | None, board_files: tuple[Path, ...]) -> None:
    """List boards: chips, rings and valid requests."""
    context.obj = (output, board_files)
    if context.invoked_subcommand is None:
        _print_list(_catalog(board_files), output)


@boards_command.command("list")
@_options
@click.pass_obj
def list_boards(
    group: tuple[str | None, tuple[Path, ...]], output: str | None, board_files: tuple[Path, ...]
) -> None:
    """List all boards."""
    _print_list(_catalog((*group[1], *board_files)), output or group[0])


@boards_command.command()
@click.argument("name", type=CompletedName(shipped_board_names))
@_options
@click.pass_obj
def show(
    group: tuple[str | None, tuple[Path, ...]], name: str, output: str | None, board_files: tuple[Path, ...]
) -> None:
    """Show one board: rings, valid requests, rule and tables."""
    catalog = _catalog((*group[1], *board_files))
    board = catalog.get(name)
    if board is None:
        names = [one.name for one in catalog]
        raise InputError(
            f'board "{name}" not found; must be one of {", ".join(names)}{did_you_mean(name, names)}'
        )
    document = board_document(board)
    show_document(document, output or group[0] or "table", "boards.print_board", board=board)


def _catalog(board_files: tuple[Path, ...]) -> BoardCatalog:
    try:
        return shipped_catalog(board_files)
    except DocumentError as error:
        raise stop(error) from None


def _print_list(catalog: BoardCatalog, output: str | None) -> None:
    show_document(boards_document(catalog), output or "table", "boards.print_boards", catalog=catalog)
