"""`ringwise drill`: run scripted faults in virtual time, and say whether the expectations hold."""

from __future__ import annotations

from pathlib import Path

import click

from ringwise.cli.exit_codes import ExitCode
from ringwise.cli.options import flag, output_option
from ringwise.cli.output import spinner, stop
from ringwise.cli.query.queries import show
from ringwise.views.documents.maintenance import DrillDocument, DrillFields


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
    results: list[DrillFields] = []
    with spinner("running drills") as show_text:
        for drill in drills:
            show_text(f"running {drill.path}")
            try:
                results.append(run_drill(drill))
            except DrillStepError as error:
                raise stop(*str(error).splitlines()) from None
    passed = all(result.passed for result in results)

    document = DrillDocument(passed=passed, drills=results)
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
