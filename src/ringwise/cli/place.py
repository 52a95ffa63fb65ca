"""`ringwise place`: where the jobs of manifests would be placed, and why not."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from ringwise.apps.loading import assumed_chips, queue_notes
from ringwise.apps.place import place
from ringwise.cli.exit_codes import ExitCode, code_of_outcomes
from ringwise.cli.inputs import load_bundle, load_catalog, load_configuration, skippable, tell_notes
from ringwise.cli.output import (
    FILES,
    board_option,
    complain,
    configuration_option,
    exit_code_option,
    output_option,
    print_document,
    stdout_console,
    stop,
)
from ringwise.cli.queries import now_option
from ringwise.grammar import counted
from ringwise.scheduler.journal import Journal
from ringwise.views.place import place_document


@click.command("place")
@click.option(
    "-f", "--file", "files", multiple=True, required=True, type=FILES, help="File, folder, or - for stdin."
)
@output_option
@click.option("--scores", is_flag=True, help="Show every candidate node of each job's first pod.")
@configuration_option
@board_option
@click.option("--all", "everything", is_flag=True, help="List running jobs too.")
@click.option("--keep-going", is_flag=True, help="Skip bad documents and place the rest; exit code 2.")
@exit_code_option
@now_option
@click.option("--journal", type=click.Path(path_type=Path), help="Write a journal for `ringwise replay`.")
@click.option("--view", is_flag=True, help="Show the result on a dashboard of this machine, until Ctrl-C.")
def place_command(
    files: tuple[str, ...],
    output: str,
    scores: bool,
    config: Path | None,
    boards: tuple[Path, ...],
    everything: bool,
    keep_going: bool,
    exit_code: bool,
    now: int | None,
    journal: Path | None,
    view: bool,
) -> None:
    """Show where the jobs of manifests would be placed; nothing is changed."""
    catalog = load_catalog(boards)
    bundle = load_bundle(files, keep_going=keep_going)
    configuration = load_configuration(config, bundle)
    recorded = Journal(configuration) if journal is not None else None
    answer = place(
        bundle, configuration, catalog, now=now, scores=scores, everything=everything, journal=recorded
    )
    if answer.errors and not keep_going:
        raise stop(*skippable(answer.errors))
    if journal is not None and recorded is not None:
        _write_journal(journal, recorded, answer.view.scheduler_names)
    complain(*answer.errors)
    tell_notes(bundle)
    complain(*(f"note: {note}" for note in queue_notes(bundle)))
    refused = [(job, why) for job in answer.view.jobs.values() for why in job.refused_classes.values()]
    complain(*(f"note: job {job.namespace}/{job.name}: {why}" for job, why in refused))
    if answer.not_searched:
        complain(
            f"note: no cures were tried for {counted(answer.not_searched, 'job')}; "
            "ringwise why JOB -f ... tries them"
        )
    assumed = assumed_chips(answer.view.cluster)
    if assumed:
        shown = ", ".join(assumed[:3]) + (", ..." if len(assumed) > 3 else "")
        complain(
            f"note: {counted(assumed, 'node lists', 'nodes list')} no chips, 0..n-1 are assumed: {shown}"
        )
    if output == "table":
        from ringwise.cli.drawing.place import print_placements

        print_placements(stdout_console(), answer, scores)
    else:
        print_document(place_document(answer), output)
    if view:
        from ringwise.apps.web.still import still_dashboard
        from ringwise.cli.web import show

        moment = bundle.newest_timestamp if now is None else now
        show(still_dashboard(answer.view, moment, "file", " ".join(files)), None)
    if bundle.errors or answer.errors:
        raise click.exceptions.Exit(ExitCode.BAD_INPUT)
    if exit_code and (code := code_of_outcomes([job.outcome for job in answer.jobs])):
        raise click.exceptions.Exit(code)


def _write_journal(path: Path, journal: Journal, scheduler_names: Iterable[str]) -> None:
    from ringwise.apps.journal.format import JournalWriter

    try:
        with path.open("wb") as file:
            writer = JournalWriter(file, journal.configuration, scheduler_names)
            for batch in journal:
                writer(batch)
    except OSError as error:
        raise stop(f"{path}: {error.strerror or error}") from None
