"""`ringwise doctor`: what is wrong with a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape

from ringwise.apps.doctor import examine
from ringwise.cli.output import output_option
from ringwise.cli.place import load_catalog, load_configuration, read_files
from ringwise.cli.queries import Answer, ask_lab, show
from ringwise.cli.source import OR_FILES, asks_files, source_options
from ringwise.scheduler.explain.doctor import ERROR, NOTE, WARNING, Diagnosis

_COLOURS = {ERROR: "red", WARNING: "yellow", NOTE: "cyan"}


@click.command("doctor")
@source_options(keep_going=False)
@output_option
def doctor_command(output: str, lab: Path | None, **options: Any) -> None:
    """Check a cluster: nodes, chips, reports, switches, SuperPoDs, queues, jobs.

    Exit code 1 when errors were found. Objects that cannot be read are findings too.
    """
    if not asks_files(lab, **options):
        ask_lab(lab, "doctor", output, OR_FILES)
        return
    # Bad documents are what a doctor looks for: reading always goes on.
    bundle = read_files(options["files"], keep_going=True)
    configuration, catalog = load_configuration(options["config"]), load_catalog(options["boards"])
    show(diagnosis_answer(examine(bundle, configuration, catalog, now=options["now"])), output)


def diagnosis_answer(diagnosis: Diagnosis) -> Answer:
    code = 1 if diagnosis.errors else 0
    return Answer(diagnosis.as_json(), lambda console: print_diagnosis(console, diagnosis), code=code)


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
