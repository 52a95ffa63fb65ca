"""`ringwise drill`: run scripted faults in virtual time, and say whether the expectations hold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ringwise.cli.exit_codes import ExitCode
from ringwise.cli.options import flag, output_option
from ringwise.cli.output import spinner, stop
from ringwise.cli.query.queries import show
from ringwise.views.documents.maintenance import DrillDocument, DrillFields, DrillStepFields

if TYPE_CHECKING:
    from ringwise.apps.drill.run import DrillResult


@click.command("drill")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@flag("-q --quiet", "Print only the results, without timelines.")
@output_option
def drill_command(files: tuple[Path, ...], quiet: bool, output: str) -> None:
    """Run drills: scripted faults with expectations.

    Every drill has its own embedded cluster and runs in virtual time. If FILE is a directory, all drills in
    it are run.

    Exit code 1 if an expectation is not met.
    """
    from ringwise.apps.drill.file import read_drill
    from ringwise.apps.drill.run import DrillStepError, run_drill
    from ringwise.manifests.text.errors import DocumentError

    try:
        drills = [read_drill(path) for path in _drill_files(files)]
    except DocumentError as error:
        raise stop(*error.errors) from None
    results: list[DrillResult] = []
    with spinner("running drills") as show_text:
        for drill in drills:
            show_text(f"running {drill.path}")
            try:
                results.append(run_drill(drill))
            except DrillStepError as error:
                raise stop(*str(error).splitlines()) from None
    passed = all(result.passed for result in results)

    document = _document(results, passed)
    show(document, output, "drill.print_drills", ExitCode.OK if passed else ExitCode.FAILED, quiet=quiet)


def _drill_files(files: tuple[Path, ...]) -> list[Path]:
    from ringwise.topology.natural import natural_key

    result: list[Path] = []
    for path in files:
        if path.is_dir():
            inside = [one for one in path.iterdir() if one.suffix in (".yaml", ".yml")]
            if not inside:
                raise stop(f"{path}: the directory does not contain .yaml or .yml files")
            result += sorted(inside, key=lambda one: natural_key(one.name))
        else:
            result.append(path)
    return result


def _document(results: list[DrillResult], passed: bool) -> DrillDocument:
    return DrillDocument(passed=passed, drills=[_fields(result) for result in results])


def _fields(result: DrillResult) -> DrillFields:
    from ringwise.apps.drill.run import START
    from ringwise.durations import time_text
    from ringwise.views.history import seconds, timeline_fields

    return DrillFields(
        file=str(result.drill.path),
        title=result.drill.title,
        passed=result.passed,
        virtual_seconds=seconds(result.end - START),
        steps=[
            DrillStepFields(
                number=step.number,
                kind=step.kind,
                message=step.text,
                time=time_text(step.at),
                passed=step.holds,
                problems=step.problems,
            )
            for step in result.steps
        ],
        timeline=timeline_fields(START, ((one.job, one.entry) for one in result.timeline)),
    )
