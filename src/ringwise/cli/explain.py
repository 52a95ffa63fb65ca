"""`ringwise why`, `ringwise capacity`, `ringwise doctor`: queries that explain a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ringwise.cli.completion import LabName
from ringwise.cli.exit_codes import ExitCode, code_of_outcomes
from ringwise.cli.output import exit_code_option, output_option, stop
from ringwise.cli.queries import (
    QueryResult,
    answer_query,
    query_lab,
    reads_files,
    show_result,
    source_options,
)

if TYPE_CHECKING:
    from rich.console import Console

    from ringwise.apps.source import Source
    from ringwise.apps.story import ToldStory
    from ringwise.scheduler.explain.doctor import Diagnosis


@click.command("why")
@click.argument("job", type=LabName("job"), metavar="[NAMESPACE/]JOB")
@click.option("--story", is_flag=True, help="Tell its life so far, from the journal of the lab.")
@click.option(
    "--journal",
    "journals",
    multiple=True,
    type=click.Path(path_type=Path),
    help="With --story: read this journal instead; may be repeated, oldest first.",
)
@source_options()
@output_option
@exit_code_option
def why_command(
    job: str, story: bool, journals: tuple[Path, ...], output: str, exit_code: bool, **options: Any
) -> None:
    """Explain why JOB waits or where it runs, and what would change that.

    Every cure in the result was tried on the state of the cluster, and undone.
    """
    if story or journals:
        _tell_story(job, journals, output, **options)
        return
    answer_query(
        "why",
        lambda source: why_result(source, job, exit_code),
        output,
        parameters={"job": job, "exit_code": exit_code},
        **options,
    )


def _tell_story(job: str, journals: tuple[Path, ...], output: str, lab: Path | None, **options: Any) -> None:
    if options["files"]:
        raise stop("ringwise: manifests hold no story: give --journal FILE, or query a lab")
    if not journals:
        query_lab(lab, "story", output, job=job)
        return
    if lab is not None:
        raise stop("ringwise: --journal reads files and --lab queries a lab: give one of them")
    tell_journals(job, journals, output)


def tell_journals(job: str, journals: Sequence[Path], output: str) -> None:
    """Show the story of a job from journals."""
    from ringwise.apps.journal.format import JournalError

    try:
        result = story_result(job, journals)
    except (JournalError, LookupError) as error:
        raise stop(f"ringwise: {error}") from None
    show_result(result, output)


def story_result(job: str, journals: Sequence[Path]) -> QueryResult:
    """Raises JournalError and UnknownStoryError."""
    from ringwise.apps.story import story_of

    return told_result(story_of(job, journals))


def told_result(told: ToldStory) -> QueryResult:
    from ringwise.views.story import story_document

    def draw(console: Console) -> None:
        from ringwise.cli.drawing.story import print_story

        print_story(console, told.story, told.until)

    notes = [f"note: {note}" for note in told.notes]
    return QueryResult(story_document(told.story, told.until), draw, notes)


def why_result(source: Source, name: str, exit_code: bool = False) -> QueryResult:
    """Raises UnknownJobError."""
    from ringwise.apps.queries import explain_job
    from ringwise.views.explain import explanation_document

    explanation = explain_job(source, name)

    def draw(console: Console) -> None:
        from ringwise.cli.drawing.explain import print_explanation

        print_explanation(console, source, explanation)

    code = code_of_outcomes([explanation.outcome]) if exit_code else 0
    return QueryResult(explanation_document(explanation), draw, code=code)


@click.command("capacity")
@source_options()
@click.option("--queue", help="Count only what this queue may still use.")
@output_option
def capacity_command(queue: str | None, output: str, **options: Any) -> None:
    """Count how many more jobs of each shape would start now, and what fragmentation costs.

    The jobs are placed on the state of the cluster, and undone.
    """
    answer_query(
        "capacity",
        lambda source: capacity_result(source, queue),
        output,
        parameters={"queue": queue},
        **options,
    )


def capacity_result(source: Source, queue: str | None) -> QueryResult:
    """Raises UnknownQueueError."""
    from ringwise.apps.queries import count_capacity
    from ringwise.views.explain import capacity_document

    counted = count_capacity(source, queue)

    def draw(console: Console) -> None:
        from ringwise.cli.drawing.explain import print_capacity

        print_capacity(console, counted)

    return QueryResult(capacity_document(counted), draw)


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
    from ringwise.cli.inputs import load_catalog, load_configuration, read_files, tell_notes

    # Bad documents are findings: reading always goes on.
    bundle = read_files(options["files"], keep_going=True)
    configuration, catalog = load_configuration(options["config"], bundle), load_catalog(options["boards"])
    tell_notes(bundle)
    show_result(diagnosis_result(examine(bundle, configuration, catalog, now=options["now"])), output)


def diagnosis_result(diagnosis: Diagnosis) -> QueryResult:
    from ringwise.views.explain import diagnosis_document

    def draw(console: Console) -> None:
        from ringwise.cli.drawing.explain import print_diagnosis

        print_diagnosis(console, diagnosis)

    return QueryResult(diagnosis_document(diagnosis), draw, code=ExitCode.FAILED if diagnosis.errors else 0)
