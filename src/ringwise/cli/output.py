"""How commands print: the answer to stdout, everything else to stderr, errors in one line each."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click
import yaml
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

Command = TypeVar("Command", bound=Callable[..., Any])

#: Exit code for input that cannot be read or understood.
BAD_INPUT = 2


def output_option(command: Command) -> Command:
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json", "yaml"]),
        default="table",
        show_default=True,
        help="How to print the answer.",
    )(command)


def print_document(document: Any, output: str) -> None:
    """Print an answer as JSON or YAML; equal answers are equal bytes."""
    if output == "json":
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        click.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), nl=False)


def stdout_console() -> Console:
    """Tables keep their width in a pipe, so that a file looks like the screen."""
    width = None if sys.stdout.isatty() else 120
    return Console(width=width, highlight=False, soft_wrap=False)


def complain(*lines: object) -> None:
    for line in lines:
        click.echo(str(line), err=True)


def stop(*lines: object, code: int = BAD_INPUT) -> click.exceptions.Exit:
    """Say what is wrong, one line each; the caller raises what this returns."""
    complain(*lines)
    return click.exceptions.Exit(code)


@contextmanager
def reading_progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr for anything large; silent where nobody looks."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda done, total: None
        return
    bar = Progress(
        TextColumn(what),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    with bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
