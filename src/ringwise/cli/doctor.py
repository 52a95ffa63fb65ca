"""`ringwise doctor`: what is wrong with a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ringwise.cli.output import output_option
from ringwise.cli.queries import QueryResult, query_lab, reads_files, show_result, source_options

if TYPE_CHECKING:
    from rich.console import Console

    from ringwise.scheduler.explain.doctor import Diagnosis


@click.command("doctor")
@source_options(keep_going=False)
@output_option
def doctor_command(output: str, lab: Path | None, **options: Any) -> None:
    """Check a cluster: nodes, chips, reports, switches, SuperPoDs, queues, jobs.

    Exit code 1 when errors were found. Objects that cannot be read are findings too.
    """
    if not reads_files(lab, **options):
        query_lab(lab, "doctor", output, or_files=True)
        return
    from ringwise.apps.queries import examine
    from ringwise.cli.inputs import load_catalog, load_configuration, read_files

    # Bad documents are findings: reading always goes on.
    bundle = read_files(options["files"], keep_going=True)
    configuration, catalog = load_configuration(options["config"]), load_catalog(options["boards"])
    show_result(diagnosis_result(examine(bundle, configuration, catalog, now=options["now"])), output)


def diagnosis_result(diagnosis: Diagnosis) -> QueryResult:
    from ringwise.views.explain import diagnosis_document

    def draw(console: Console) -> None:
        from ringwise.cli.drawing.doctor import print_diagnosis

        print_diagnosis(console, diagnosis)

    return QueryResult(diagnosis_document(diagnosis), draw, code=1 if diagnosis.errors else 0)
