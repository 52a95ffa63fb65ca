"""`ringwise config`: questions about a configuration file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ringwise.cli.exit_codes import ExitCode
from ringwise.cli.output import (
    FILES,
    output_option,
    print_document,
    stdout_console,
    stop,
)

if TYPE_CHECKING:
    from ringwise.manifests.settings.configuration import ConfigurationCheck


@click.group("config")
def config() -> None:
    """Check a volcano-scheduler.conf or a volcano-controller.conf."""


@config.command("check")
@click.argument("file", type=FILES)
@output_option
def check(file: str, output: str) -> None:
    """Show what each line of FILE does here.

    FILE is a volcano-scheduler.conf or volcano-controller.conf, a ConfigMap that holds one, or - for stdin.
    Queues and the ConfigMap ringwise-limits in it are checked as well. Exit code 2 when the scheduler or the
    controller would refuse it; warnings do not count.
    """
    from ringwise.apps.extensions import check_user_configuration
    from ringwise.views.documents.reference import ConfigurationDocument

    checked = check_user_configuration(_read(file), "stdin" if file == "-" else file)
    if output == "table":
        _print(checked)
    else:
        print_document(
            ConfigurationDocument.of(
                checked,
                file=checked.origin,
                warnings=checked.count("warning"),
                errors=checked.count("error"),
            ),
            output,
        )
    if not checked.loads:
        raise click.exceptions.Exit(ExitCode.BAD_INPUT)


def _read(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        with open(file, "rb") as opened:
            return opened.read()
    except OSError as error:
        raise stop(f"{file}: {error.strerror or error}") from None


def _print(checked: ConfigurationCheck) -> None:
    from ringwise.cli.drawing.lines import print_lines
    from ringwise.cli.drawing.tables import Column, Table

    console = stdout_console()
    table = Table([Column("line", right=True), Column("what"), Column("here")], note="effect")
    for line in checked.lines:
        table.add(str(line.line or ""), line.what, line.verdict, note=line.effect)
    table.print(console)
    errors, warnings = checked.count("error"), checked.count("warning")
    if errors:
        reader = "controller" if checked.of_controller else "scheduler"
        verdict = f"{_counted(errors, 'error')}: the {reader} refuses this file"
    elif warnings:
        verdict = f"it loads, with {_counted(warnings, 'warning')}"
    else:
        verdict = "it loads"
    print_lines(console, f"\n{checked.origin}: {verdict}")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
