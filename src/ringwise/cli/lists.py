"""Which rows `ringwise get` lists: filters, order, a limit for tables."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from ringwise.cli.completion import LabName
from ringwise.cli.output import stop, with_options

if TYPE_CHECKING:
    from ringwise.views.lists import Listing

#: Rows of a table in a terminal, without `--limit`.
ROWS = 100

list_options = with_options(
    (
        click.option(
            "-l",
            "--selector",
            default="",
            help="Only objects with these labels, as kubectl has it; chips by node.",
        ),
        click.option("--queue", type=LabName("queue"), help="With jobs and pods: only those of this queue."),
        click.option("--state", "states", multiple=True, help="Only those in this state; may be repeated."),
        click.option("--sort-by", default="", help="Name, state, age, ...; -age is the other way round."),
        click.option(
            "--limit",
            type=click.IntRange(min=0),
            help=f"Rows of the table; 0: all.  [default: {ROWS} in a terminal, else all]",
        ),
    )
)


def take_listing(kind: str, output: str, options: dict[str, Any], *, hurt: bool = False) -> Listing:
    """What the options of a list ask for, taken out of them. What cannot be ends the command."""
    from ringwise.views.lists import Choice, ListError, Listing

    states = tuple(
        word for state in options.pop("states") for part in state.split(",") if (word := part.strip())
    )
    limit: int | None = options.pop("limit")
    if limit is not None and output != "table":
        raise stop(f"ringwise: --limit goes with tables; {output} is never cut")
    if limit is None:
        limit = ROWS if output == "table" and _in_terminal() else 0
    listing = Listing(
        options.pop("selector"), options.pop("queue"), states, options.pop("sort_by"), limit, hurt
    )
    try:
        Choice(kind, listing)
    except ListError as error:
        raise stop(f"ringwise: {error}") from None
    return listing


def _in_terminal() -> bool:
    return sys.stdout.isatty()
