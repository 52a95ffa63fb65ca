"""Queries about a cluster: answered here from files, or by the process of a running lab.

Both use the same function, which makes a `QueryResult`: a document for programs, a drawing for people.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ringwise.cli.output import (
    FILES,
    WIDE,
    board_option,
    complain,
    configuration_option,
    print_document,
    spinner,
    stdout_console,
    stop,
    warn_of_plugins,
    with_options,
)
from ringwise.grammar import counted
from ringwise.records import dataclass

if TYPE_CHECKING:
    from rich.console import Console

    from ringwise.apps.lab.client import LabClient
    from ringwise.apps.source import Source

Command = TypeVar("Command", bound=Callable[..., Any])

_MAX_WIDTH = 500
_OR_FILES = ", or give -f PATH with manifests"


@dataclass(slots=True)
class QueryResult:
    """The document that `-o json` prints, and the function that draws it as a table."""

    document: Any
    draw: Callable[[Console], None]
    #: For stderr.
    notes: list[str] = field(default_factory=list)
    code: int = 0


# -- options -------------------------------------------------------------------------------------

lab_option = click.option(
    "--lab",
    "lab",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the lab.  [default: $RINGWISE_LAB, else the user's state folder]",
)
_OPTION_NAMES = {"config": "config", "boards": "board-file", "keep_going": "keep-going", "now": "now"}
_FILES = click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    type=FILES,
    help="File, folder, or - for stdin. Without it the running lab is queried.",
)
_KEEP_GOING = click.option("--keep-going", is_flag=True, help="Skip bad documents and go on with the rest.")
now_option = click.option(
    "--now", type=int, help="Nanoseconds since 1970; default: the newest timestamp in the input."
)


def source_options(*, keep_going: bool = True) -> Callable[[Command], Command]:
    """`-f` with `--config`, `--board-file`, `--keep-going` and `--now`; or `--lab`."""
    skipping = (_KEEP_GOING,) if keep_going else ()
    return with_options((lab_option, _FILES, configuration_option, board_option, *skipping, now_option))


def reads_files(lab: Path | None, files: tuple[str, ...], **options: Any) -> bool:
    """Whether the query is about files, not about a lab; options for both at once are an error."""
    if files and lab is not None:
        raise stop("ringwise: -f reads files and --lab queries a lab: give one of them")
    given = [f"--{_OPTION_NAMES[name]}" for name, value in options.items() if value not in (None, (), False)]
    if not files and given:
        raise stop(f"ringwise: {', '.join(given)} goes with -f; a lab has its own")
    return bool(files)


# -- answering -----------------------------------------------------------------------------------


def answer_query(
    query: str,
    answer: Callable[[Source], QueryResult],
    output: str,
    lab: Path | None,
    parameters: Mapping[str, Any],
    *,
    decide: bool = True,
    **options: Any,
) -> None:
    """Answer from the files, or let the running lab answer where there are none."""
    if not reads_files(lab, **options):
        query_lab(lab, query, output, **parameters, or_files=True)
        return
    try:
        result = answer(load_source(**options, decide=decide))
    except LookupError as error:
        raise stop(f"ringwise: {error}") from None
    show_result(result, output)


def load_source(
    files: tuple[str, ...],
    config: Path | None = None,
    boards: tuple[Path, ...] = (),
    keep_going: bool = False,
    now: int | None = None,
    *,
    decide: bool = True,
    may_skip: bool = True,
) -> Source:
    """A scheduler that has read the files and, unless `decide` is false, has run one cycle.

    `may_skip`: whether the command has the option --keep-going.
    """
    from ringwise.apps.source import from_bundle
    from ringwise.cli.inputs import load_bundle, load_catalog, load_configuration, skippable, tell_notes

    bundle = load_bundle(files, keep_going=keep_going, may_skip=may_skip)
    configuration, catalog = load_configuration(config, bundle), load_catalog(boards)
    source = from_bundle(bundle, configuration, catalog, now=now, decide=decide)
    if source.errors and not keep_going:
        raise stop(*(skippable(source.errors) if may_skip else source.errors))
    complain(*source.errors)
    tell_notes(bundle)
    return source


def show_result(result: QueryResult, output: str) -> None:
    complain(*result.notes)
    if output == "table":
        result.draw(stdout_console())
    else:
        print_document(result.document, output)
    if result.code:
        raise click.exceptions.Exit(result.code)


# -- the running lab -------------------------------------------------------------------------------


def query_lab(
    lab: Path | None, query: str, output: str, *, or_files: bool = False, **parameters: Any
) -> None:
    """Send a query to the running lab and print the result."""
    with lab_client(lab, "querying the lab", hint=_OR_FILES if or_files else "") as client:
        answer = client.ask(query, output=output, **terminal(), **parameters)
    complain(*answer["notes"])
    if output == "table":
        click.echo(answer["text"], nl=False)
    else:
        print_document(answer["document"], output)
    if answer["code"]:
        raise click.exceptions.Exit(answer["code"])


@contextmanager
def lab_client(lab: Path | None, text: str, hint: str = "") -> Iterator[LabClient]:
    """A client of the running lab, with a spinner; errors are one clear line each."""
    from ringwise.apps.lab.client import LabClient, NoLabError, RefusedByLabError
    from ringwise.apps.lab.folder import default_folder

    try:
        client = LabClient(lab or default_folder())
        with spinner(text) as show_text:
            if sys.stderr.isatty():
                client.on_progress = lambda tried: show_text(
                    f"{text}: tried {counted(f'{tried:,}', 'placement')}" if tried else text
                )
            yield client
        warn_of_plugins(client.plugin_problems)
    except NoLabError as error:
        raise stop(f"ringwise: {error}{hint}") from None
    except RefusedByLabError as error:
        raise stop(*(f"ringwise: {line}" for line in str(error).splitlines())) from None


def terminal() -> dict[str, Any]:
    """What the lab needs to draw for this terminal."""
    return {
        "width": stdout_console().width,
        "colour": sys.stdout.isatty() and not os.environ.get("NO_COLOR"),
    }


def render_result(result: QueryResult, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A result as the lab sends it: drawn for the client's terminal where the output is a table."""
    from rich.console import Console

    sent: dict[str, Any] = {"notes": result.notes, "code": result.code}
    if parameters.get("output", "table") != "table":
        return {**sent, "document": result.document}
    width = parameters.get("width", WIDE)
    colour = parameters.get("colour") is True
    text = io.StringIO()
    console = Console(
        file=text,
        width=min(width, _MAX_WIDTH) if isinstance(width, int) and width > 0 else WIDE,
        force_terminal=colour,
        no_color=not colour,
        color_system="standard" if colour else None,
        highlight=False,
        legacy_windows=False,
        _environ={},
    )
    result.draw(console)
    return {**sent, "text": text.getvalue()}
