"""Where a question about a cluster gets its cluster from: the options, and the scheduler behind them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ringwise.apps.source import Source, from_bundle
from ringwise.cli.output import complain, stop
from ringwise.cli.place import load_bundle, load_catalog, load_configuration

NO_CLUSTER = "ringwise: no cluster to ask: give -f PATH with manifests, as `kubectl get -o yaml` prints them"

Command = TypeVar("Command", bound=Callable[..., Any])


_FILES = click.option("-f", "--file", "files", multiple=True, help="File, folder, or - for stdin.")
_CONFIG = click.option("--config", type=click.Path(path_type=Path), help="A volcano-scheduler.conf.")
_BOARDS = click.option(
    "--board-file", "boards", multiple=True, type=click.Path(path_type=Path), help="A board of your own."
)
_KEEP_GOING = click.option("--keep-going", is_flag=True, help="Skip bad documents and go on with the rest.")
_NOW = click.option(
    "--now", type=int, help="Nanoseconds since 1970; default: the newest timestamp in the input."
)


def source_options(*, keep_going: bool = True) -> Callable[[Command], Command]:
    """`-f`, `--config`, `--board-file`, `--keep-going` and `--now`, as `place` has them."""

    def add(command: Command) -> Command:
        for option in (_NOW, *([_KEEP_GOING] if keep_going else []), _BOARDS, _CONFIG, _FILES):
            command = option(command)
        return command

    return add


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
    if not files:
        raise stop(
            "ringwise: no cluster to ask: give -f PATH with its manifests (kubectl get -o yaml prints them)"
        )
    bundle = load_bundle(files, keep_going)
    source = from_bundle(bundle, load_configuration(config), load_catalog(boards), now=now, decide=decide)
    if source.errors and not keep_going:
        raise stop(*source.errors)
    complain(*source.errors)
    return source
