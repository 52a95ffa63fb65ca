"""`ringwise bench NAME`: a command of the package ringwise-bench, which users do without."""

from __future__ import annotations

from importlib.metadata import entry_points

import click

from ringwise.cli.output import stop
from ringwise.wellknown import COMMAND_ENTRY_POINTS


def find_bench() -> click.Command:
    """The benchmarks where they are installed, and else a command that says what is missing."""
    for entry in entry_points(group=COMMAND_ENTRY_POINTS, name="bench"):
        command = entry.load()
        assert isinstance(command, click.Command)
        return command
    return _without_package


#: Whatever is asked of the benchmarks, one sentence is the answer.
_ANY_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True}


@click.command("bench", add_help_option=False, context_settings=_ANY_ARGUMENTS)
def _without_package() -> None:
    """Run a benchmark.

    Exit code 1 if a goal is not met.
    """
    raise stop(
        "the benchmarks require the package ringwise-bench, which is not installed: run `make "
        "setup` or `pip install ./bench` in a checkout of Ringwise"
    )


bench_command = find_bench()
