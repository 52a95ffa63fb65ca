"""`ringwise doctor`: what is wrong with a cluster."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape

from ringwise.apps.doctor import examine
from ringwise.cli.output import output_option, print_document, stdout_console, stop
from ringwise.cli.place import load_catalog, load_configuration, read_files
from ringwise.cli.source import NO_CLUSTER, source_options
from ringwise.scheduler.doctor import ERROR, NOTE, WARNING, Diagnosis

_COLOURS = {ERROR: "red", WARNING: "yellow", NOTE: "cyan"}


@click.command("doctor")
@source_options(keep_going=False)
@output_option
def doctor_command(
    files: tuple[str, ...], config: Path | None, boards: tuple[Path, ...], now: int | None, output: str
) -> None:
    """Check a cluster: nodes, chips, reports, switches, SuperPoDs, queues, jobs.

    Exit code 1 when errors were found. Objects that cannot be read are findings too.
    """
    if not files:
        raise stop(NO_CLUSTER)
    # Bad documents are what a doctor looks for: reading always goes on.
    diagnosis = examine(
        read_files(files, keep_going=True), load_configuration(config), load_catalog(boards), now=now
    )
    if output == "table":
        print_diagnosis(stdout_console(), diagnosis)
    else:
        print_document(diagnosis.as_json(), output)
    if diagnosis.errors:
        raise click.exceptions.Exit(1)


def print_diagnosis(console: Console, diagnosis: Diagnosis) -> None:
    for finding in diagnosis.findings:
        colour = _COLOURS[finding.severity]
        console.print(
            f"[{colour}]{finding.severity}[/] {escape(finding.where)}: {escape(finding.what)} "
            f"[dim]\\[{finding.code}][/]",
            soft_wrap=True,
        )
        if finding.cure:
            console.print(f"  -> {escape(finding.cure)}", style="dim", soft_wrap=True)
    counts = [(diagnosis.count(kind), kind) for kind in (ERROR, WARNING, NOTE)]
    words = ", ".join(f"{count} {kind}{'s' if count != 1 else ''}" for count, kind in counts)
    console.print(f"{diagnosis.nodes} nodes, {diagnosis.jobs} jobs: {words}", soft_wrap=True)
