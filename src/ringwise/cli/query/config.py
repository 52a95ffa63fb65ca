"""`ringwise config`, `options` and `version`: configuration files, and this program itself."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ringwise.cli.exit_codes import ExitCode
from ringwise.cli.options import FILES, advanced_options, output_option
from ringwise.cli.output import stop
from ringwise.cli.query.queries import show, show_text
from ringwise.grammar import counted

if TYPE_CHECKING:
    from rich.console import Console

    from ringwise.manifests.settings.configuration import ConfigurationCheck


@click.group("config")
def config_command() -> None:
    """Check a scheduler or controller configuration."""


@config_command.command("check")
@click.argument("file", type=FILES)
@output_option
def check(file: str, output: str) -> None:
    """Show the effect of each line of a configuration.

    FILE is a volcano-scheduler.conf or volcano-controller.conf, a ConfigMap that contains one, or - for
    stdin. Exit code 2 if the scheduler or the controller would reject it; warnings do not count.
    """
    from ringwise.apps.extensions import check_user_configuration
    from ringwise.views.documents.reference import ConfigurationDocument

    checked = check_user_configuration(_read(file), "stdin" if file == "-" else file)
    document = ConfigurationDocument.of(
        checked, file=checked.origin, warnings=checked.count("warning"), errors=checked.count("error")
    )
    code = ExitCode.OK if checked.valid else ExitCode.BAD_INPUT
    show(document, output, lambda console, _document: _print(console, checked), code)


def _read(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        with open(file, "rb") as opened:
            return opened.read()
    except OSError as error:
        raise stop(f"{file}: {error.strerror or error}") from None


def _print(console: Console, checked: ConfigurationCheck) -> None:
    from ringwise.cli.printers.lines import print_lines
    from ringwise.cli.printers.tables import Column, Table

    columns = (
        Column("line", lambda line: str(line.line or ""), right=True),
        Column("setting", lambda line: line.subject),
        Column("status", "result"),
    )
    Table.of(columns, checked.lines, note="effect", notes=lambda line: line.effect).print(console)
    errors, warnings = checked.count("error"), checked.count("warning")
    if errors:
        reader = "controller" if checked.of_controller else "scheduler"
        verdict = f"{counted(errors, 'error')}: the {reader} rejects this file"
    elif warnings:
        verdict = f"valid, with {counted(warnings, 'warning')}"
    else:
        verdict = "valid"
    print_lines(console, f"\n{checked.origin}: {verdict}")


@click.command("options")
@advanced_options
def options_command(**_options: object) -> None:
    """List the options that are common to many commands."""
    click.echo(click.get_current_context().get_help())


@click.command("version")
@output_option
def version_command(output: str) -> None:
    """Print the version, commit and schema versions."""
    from ringwise import __version__, versions
    from ringwise.apps.journal import format as journal
    from ringwise.device import ledger_file
    from ringwise.embed import store
    from ringwise.manifests.accounts import document as accounts
    from ringwise.views.documents.reference import VersionDocument

    schemas = {
        "documents": versions.DOCUMENT_VERSION,
        "records": versions.RECORD_VERSION,
        "leader record": versions.LEADER_RECORD_VERSION,
        "journal": journal.VERSION,
        "accounting": accounts.VERSION,
        "lab": store.VERSION,
        "ledger of the device plugin": ledger_file.VERSION,
    }
    texts = {name: f"v{str(version).removeprefix('v')}" for name, version in schemas.items()}
    document = VersionDocument(version=__version__, commit=versions.commit(), schemas=texts)
    lines = [f"ringwise {__version__}", f"commit {document.commit or 'unknown (not built from a release)'}"]
    lines += ["schema versions", *(f"  {name}: {version}" for name, version in texts.items())]
    show_text(document, output, "\n".join(lines))
