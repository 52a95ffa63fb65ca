"""Where a question about a cluster gets its cluster from: the options, and the scheduler behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from ringwise.apps.source import Source, from_bundle
from ringwise.cli.output import complain, stop
from ringwise.cli.place import load_bundle, load_catalog, load_configuration
from ringwise.cli.queries import Answer, ask_lab, lab_option, show

OR_FILES = ", or give -f PATH with manifests"

Command = TypeVar("Command", bound=Callable[..., Any])


_OPTION_NAMES = {"config": "config", "boards": "board-file", "keep_going": "keep-going", "now": "now"}
_FILES = click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    help="File, folder, or - for stdin. Without it the running lab is asked.",
)
_CONFIG = click.option("--config", type=click.Path(path_type=Path), help="A volcano-scheduler.conf.")
_BOARDS = click.option(
    "--board-file", "boards", multiple=True, type=click.Path(path_type=Path), help="A board of your own."
)
_KEEP_GOING = click.option("--keep-going", is_flag=True, help="Skip bad documents and go on with the rest.")
_NOW = click.option(
    "--now", type=int, help="Nanoseconds since 1970; default: the newest timestamp in the input."
)


def source_options(*, keep_going: bool = True) -> Callable[[Command], Command]:
    """`-f`, `--config`, `--board-file`, `--keep-going` and `--now`, as `place` has them; `--lab` without."""

    def add(command: Command) -> Command:
        for option in (_NOW, *([_KEEP_GOING] if keep_going else []), _BOARDS, _CONFIG, _FILES):
            command = option(command)
        return lab_option(command)

    return add


def answer_question(
    question: str,
    answering: Callable[[Source], Answer],
    output: str,
    lab: Path | None,
    parameters: Mapping[str, Any],
    *,
    decide: bool = True,
    **options: Any,
) -> None:
    """Answer from the files, or let the running lab answer where there are none."""
    if not asks_files(lab, **options):
        ask_lab(lab, question, output, OR_FILES, **parameters)
        return
    try:
        answer = answering(source_scheduler(**options, decide=decide))
    except LookupError as error:
        raise stop(f"ringwise: {error}") from None
    show(answer, output)


def asks_files(lab: Path | None, files: tuple[str, ...], **options: Any) -> bool:
    """Whether the question is about files and not about a lab; both at once is an error."""
    if files and lab is not None:
        raise stop("ringwise: -f asks about files and --lab about a lab: give one of them")
    given = [f"--{_OPTION_NAMES[name]}" for name, value in options.items() if value not in (None, (), False)]
    if not files and given:
        raise stop(f"ringwise: {', '.join(given)} goes with -f; a lab has its own")
    return bool(files)


def source_scheduler(
    files: tuple[str, ...],
    config: Path | None = None,
    boards: tuple[Path, ...] = (),
    keep_going: bool = False,
    now: int | None = None,
    *,
    decide: bool = True,
) -> Source:
    """A scheduler that has read the files and, unless told otherwise, decided once."""
    bundle = load_bundle(files, keep_going)
    source = from_bundle(bundle, load_configuration(config), load_catalog(boards), now=now, decide=decide)
    if source.errors and not keep_going:
        raise stop(*source.errors)
    complain(*source.errors)
    return source
