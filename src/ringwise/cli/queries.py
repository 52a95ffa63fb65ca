"""Questions and their answers: put to a lab in its own process, or answered here from files, alike."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console

from ringwise.apps.lab.client import LabClient, NoLabError, RefusedByLabError
from ringwise.apps.lab.folder import default_folder
from ringwise.cli.output import complain, print_document, stdout_console, stop

Command = TypeVar("Command", bound=Callable[..., Any])

_WIDEST = 500


@dataclass(slots=True)
class Answer:
    """What a question gives: a document for programs, and how to draw it for a person."""

    document: Any
    draw: Callable[[Console], None]
    #: For stderr.
    notes: list[str] = field(default_factory=list)
    code: int = 0


def lab_option(command: Command) -> Command:
    return click.option(
        "--lab",
        "lab",
        type=click.Path(path_type=Path, file_okay=False),
        help="Folder of the lab to ask.  [default: $RINGWISE_LAB, else the user's state folder]",
    )(command)


def show(answer: Answer, output: str) -> None:
    """Print an answer that was found here."""
    complain(*answer.notes)
    if output == "table":
        answer.draw(stdout_console())
    else:
        print_document(answer.document, output)
    if answer.code:
        raise click.exceptions.Exit(answer.code)


def render(answer: Answer, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """An answer as the lab sends it: drawn for the asker's screen where a person asks."""
    sent: dict[str, Any] = {"notes": answer.notes, "code": answer.code}
    if parameters.get("output", "table") != "table":
        return {**sent, "document": answer.document}
    width = parameters.get("width", 120)
    colour = parameters.get("colour") is True
    text = io.StringIO()
    console = Console(
        file=text,
        width=min(width, _WIDEST) if isinstance(width, int) and width > 0 else 120,
        force_terminal=colour,
        no_color=not colour,
        color_system="standard" if colour else None,
        highlight=False,
        legacy_windows=False,
        _environ={},
    )
    answer.draw(console)
    return {**sent, "text": text.getvalue()}


def screen() -> dict[str, Any]:
    """What the lab must know to draw for this screen."""
    console = stdout_console()
    return {"width": console.width, "colour": sys.stdout.isatty() and not os.environ.get("NO_COLOR")}


def ask_lab(lab: Path | None, question: str, output: str, hint: str = "", **parameters: Any) -> None:
    """Put a question to the running lab and print what it says; the hint is for those who have none."""
    with talking("asking the lab", hint) as client:
        answer = client(lab).ask(question, output=output, **screen(), **parameters)
    show_sent(answer, output)


def show_sent(answer: Mapping[str, Any], output: str) -> None:
    complain(*answer["notes"])
    if output == "table":
        click.echo(answer["text"], nl=False)
    else:
        print_document(answer["document"], output)
    if answer["code"]:
        raise click.exceptions.Exit(answer["code"])


@contextmanager
def talking(words: str, hint: str = "") -> Iterator[Callable[[Path | None], LabClient]]:
    """Talk to a lab: something moves on stderr meanwhile, and a refusal is one clear line."""
    console = Console(stderr=True)
    try:
        if console.is_terminal:
            with console.status(words):
                yield lambda lab: LabClient(lab or default_folder())
        else:
            yield lambda lab: LabClient(lab or default_folder())
    except NoLabError as error:
        raise stop(f"ringwise: {error}{hint}") from None
    except RefusedByLabError as error:
        raise stop(*(f"ringwise: {line}" for line in str(error).splitlines())) from None
