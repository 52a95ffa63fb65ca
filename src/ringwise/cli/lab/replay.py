"""`ringwise replay`: decide a journal again, and compare."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from ringwise.apps.journal.format import JournalFile, open_journal
from ringwise.apps.lab.folder import LabFolder, default_folder
from ringwise.apps.replay import replay
from ringwise.cli.exit_codes import ExitCode
from ringwise.cli.inputs import BUNDLE_SUFFIXES, load_catalog
from ringwise.cli.options import board_option, lab_option, output_option
from ringwise.cli.output import complain, spinner, stop
from ringwise.cli.query.queries import show
from ringwise.durations import time_text
from ringwise.grammar import counted
from ringwise.views.documents.reference import ReplayDocument

_SHOWN = 400


@click.command("replay")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@lab_option
@board_option
@output_option
def replay_command(file: Path | None, lab: Path | None, boards: tuple[Path, ...], output: str) -> None:
    """Replay a journal and compare the decisions.

    FILE defaults to the journal of the lab. Rotated files (FILE.1, ...) are read first. FILE can be a support
    bundle with a journal.

    Exit code 1 if the decisions differ.
    """
    file = file or LabFolder(lab or default_folder()).journal
    try:
        with spinner("deciding again"), _journal(file) as opened:
            answer = replay(opened, load_catalog(boards))
    except ValueError as error:
        # Of a journal, or of a support bundle.
        raise stop(f"ringwise: {error}") from None
    complain(*([f"note: {answer.note}"] if answer.note else ()))
    code = ExitCode.OK if answer.difference is None else ExitCode.FAILED
    show(answer, output, lambda _console, answer: _print(answer), code)


@contextmanager
def _journal(file: Path) -> Iterator[JournalFile]:
    """Raises JournalError and BundleError."""
    if not file.name.endswith(BUNDLE_SUFFIXES):
        yield open_journal(file)
        return
    from ringwise.apps.support.bundle_file import JOURNAL, unpacked_bundle

    with unpacked_bundle(file, lambda name: name.startswith(JOURNAL), "does not contain a journal") as folder:
        yield open_journal(folder / JOURNAL)


def _print(answer: ReplayDocument) -> None:
    words = (
        f"{counted(answer.batches, 'batch')}, {counted(answer.events, 'event')}, "
        f"{counted(answer.commands, 'command')}"
    )
    difference = answer.difference
    if difference is None:
        click.echo(f"identical: {words}")
        return
    click.echo(f"different after {words}")
    click.echo(
        f"  {difference.file}: line {difference.line}, {time_text(difference.now)}, "
        f"command {difference.command}"
    )
    click.echo(f"  recorded: {_text(difference.recorded)}\n  decided:  {_text(difference.decided)}")


def _text(command: Any) -> str:
    text = "nothing" if command is None else json.dumps(command, ensure_ascii=False)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
