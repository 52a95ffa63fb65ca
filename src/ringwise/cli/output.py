"""How commands print: the result to stdout, everything else to stderr, errors in one line each."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ringwise.cli.exit_codes import ExitCode
from ringwise.cli.options import JSONPATH
from ringwise.durations import seconds_text

if TYPE_CHECKING:
    from rich.console import Console

Command = TypeVar("Command", bound=Callable[..., Any])

#: Width of the output if stdout is not a terminal.
WIDE = 120
#: A command that waits for longer says so.
_SILENT_SECONDS = 2


def print_document(document: Any, output: str) -> None:
    """Print as JSON or YAML a document that names its schema (`views/schemas`), or a Kubernetes object."""
    click.echo(document_text(document, output), nl=False)


def document_text(document: Any, output: str) -> str:
    """Equal documents are equal bytes."""
    import msgspec

    if output.startswith(JSONPATH):
        return values_text(document, output)
    if output == "json":
        return json.dumps(document, indent=2, ensure_ascii=False, default=msgspec.to_builtins) + "\n"
    import yaml

    # Rows may share equal parts: YAML would name the first and refer to it from the others.
    whole = type("Dumper", (yaml.SafeDumper,), {"ignore_aliases": lambda self, data: True})
    return str(yaml.dump(msgspec.to_builtins(document), Dumper=whole, sort_keys=False, allow_unicode=True))


def values_text(value: Any, output: str) -> str:
    """The text of `-o jsonpath=TEMPLATE` for a document, or for an object of one."""
    import msgspec

    from ringwise.cli.jsonpath import JsonPathError, values_of

    try:
        return values_of(output.removeprefix(JSONPATH), msgspec.to_builtins(value))
    except JsonPathError as error:
        raise stop(f"ringwise: {error}") from None


def stdout_console() -> Console:
    """As wide as the terminal. In a pipe as $COLUMNS says, else as wide as `WIDE`."""
    from ringwise.cli.printers.lines import PlainConsole

    fixed = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return PlainConsole(width=None if fixed else WIDE, highlight=False, soft_wrap=False)


def complain(*lines: object) -> None:
    """Print one line each on stderr. In a terminal a longer line is wrapped between words and indented."""
    from ringwise.manifests.text.errors import printable

    for line in lines:
        text = printable(str(line))
        if sys.stderr.isatty():
            import shutil

            from ringwise.cli.printers.folding import fold

            text = fold(text, max(20, shutil.get_terminal_size().columns), "  ")
        click.echo(text, err=True)


def warn_of_plugins(problems: Iterable[str]) -> None:
    """Plugins that could not be loaded or opened, each once: a lab may have the same ones."""
    warned = click.get_current_context().find_root().meta.setdefault("ringwise.plugin-problems", set())
    for problem in problems:
        if problem not in warned:
            warned.add(problem)
            complain(f"warning: {problem}")


def stop(*lines: object, code: int = ExitCode.BAD_INPUT) -> click.exceptions.Exit:
    """Print what is wrong, one line each; the caller raises what this returns."""
    complain(*lines)
    return click.exceptions.Exit(code)


def confirm(question: str, verb: str) -> None:
    """Ask for confirmation. Without it, or if there is no terminal to ask, the command ends."""
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort as abort:
        complain("")
        if isinstance(abort.__context__, KeyboardInterrupt):
            raise stop("nothing was changed", code=ExitCode.INTERRUPTED) from None
        raise stop(
            f"ringwise: nothing was changed: no confirmation; --yes {verb} without confirmation"
        ) from None
    if not agreed:
        raise stop("nothing was changed", code=ExitCode.FAILED)


@contextmanager
def running_component(name: str) -> Iterator[None]:
    """Write the log of a component that runs until a signal. What ends it is printed without a traceback."""
    from ringwise.apps.journal.format import JournalError
    from ringwise.kube.run.leader_election import LeaseSettingsError
    from ringwise.kube.run.runner import CoreFailedError
    from ringwise.kubeclient.credentials import KubeConfigError
    from ringwise.log import configure
    from ringwise.manifests.text.errors import DocumentError
    from ringwise.metrics.endpoints import AddressError

    configure()
    try:
        yield
    except (KubeConfigError, LeaseSettingsError, DocumentError, AddressError, JournalError) as error:
        raise stop(*str(error).splitlines()) from None
    except OSError as error:
        raise stop(f"{error.filename}: {error.strerror}" if error.filename else str(error)) from None
    except CoreFailedError as error:
        raise stop(f"the {name} failed: {error}", code=ExitCode.INTERNAL_ERROR) from None


def has_grpc() -> bool:
    """Whether what the device plugin needs is installed."""
    from importlib.util import find_spec

    return all(find_spec(name) is not None for name in ("grpc", "google.protobuf"))


def require_grpc(command: str) -> None:
    if not has_grpc():
        raise stop(f"{command} requires gRPC, which is not installed: pip install 'ringwise[device]'")


#: Takes a name, the amount that is done, and the total.
ShowProgress = Callable[[str, int, int], None]


@contextmanager
def progress_bars(*, download: bool = False) -> Iterator[ShowProgress]:
    """A bar on stderr for each name; disabled if stderr is not a terminal. They are removed at the end."""
    if not sys.stderr.isatty():
        yield lambda _name, _done, _total: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeRemainingColumn,
    )

    counts = DownloadColumn() if download else MofNCompleteColumn()
    columns = TextColumn("{task.description}"), BarColumn(), counts, TimeRemainingColumn()
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:

        def show(name: str, done: int, total: int) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(name, total=total)
            bar.update(tasks[name], completed=done, total=total)

        yield show


class WaitingText:
    """A text that, after two seconds, says for how long it has been shown."""

    def __init__(self, text: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.text = text
        self._clock = clock
        self._since = clock()

    def __rich__(self) -> str:
        seconds = int(self._clock() - self._since)
        if seconds < _SILENT_SECONDS:
            return self.text
        return f"{self.text} ({seconds_text(seconds)})"


@contextmanager
def spinner(text: str) -> Iterator[Callable[[str], None]]:
    """A spinner on stderr whose text can be changed; disabled if stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield lambda _text: None
        return
    from rich.console import Console

    shown = WaitingText(text)

    def change(new: str) -> None:
        shown.text = new

    with Console(stderr=True).status(shown):
        yield change
