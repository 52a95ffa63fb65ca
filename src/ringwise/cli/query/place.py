"""`ringwise place`: where the jobs of manifests would be placed, and why not."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import UNSET

from ringwise.cli.exit_codes import ExitCode, code_of_outcomes
from ringwise.cli.inputs import load_bundle
from ringwise.cli.options import (
    PATH,
    board_option,
    configuration_option,
    exit_code_option,
    files_option,
    flag,
    namespace_options,
    now_option,
    option,
    output_option,
    target_options,
)
from ringwise.cli.output import complain, spinner, stop
from ringwise.cli.query.queries import FROM_LAB, ask, files_source, reading_objects, show, source_of
from ringwise.scheduler.journal import Journal

if TYPE_CHECKING:
    from ringwise.apps.sources.files import FilesSource
    from ringwise.views.documents.place import PlaceDocument

#: Options of a cluster that is described by manifests.
_OF_FILES = {"everything": "--all", "keep_going": "--keep-going", "now": "--now", "journal": "--journal"}


@click.command("place")
@files_option("Manifests to schedule: file, directory or - (stdin).", required=True)
@output_option
@flag("--scores", "Show the score of every candidate node for the first pod of each job.")
@target_options
@namespace_options
@configuration_option
@board_option
@flag("--all everything", "Also list running jobs.")
@flag("--keep-going", "Skip invalid documents and place the rest (exit code 2).")
@exit_code_option
@now_option
@option("--journal", "Write a journal for `ringwise replay` to this file.", PATH)
@flag("--dashboard", "Serve the result on a dashboard until Ctrl-C.")
def place_command(files: tuple[str, ...], output: str, scores: bool, exit_code: bool, **options: Any) -> None:
    """Show where the jobs of manifests would be scheduled.

    Nothing is changed. The manifests must contain the nodes. With --lab, --kubeconfig or --context, and as
    `kubectl ringwise place`, the nodes are those of the lab or cluster, and its pending jobs are included.
    """
    where = {name: options[name] for name in ("lab", "kubeconfig", "context", "config", "boards")}
    of_files = where["lab"] is None and source_of({**where, "config": None, "boards": ()}) == FROM_LAB
    bad = False
    if of_files:
        source, document = _place_files(files, scores, output == "table", **options)
        bad = bool(source.bundle.errors or source.bad_pods)
    else:
        flags = {**_OF_FILES, "dashboard": "--dashboard"}.items()
        if flag_names := [flag for name, flag in flags if options[name]]:
            raise stop(f"ringwise: {', '.join(flag_names)} cannot be combined with a lab or a cluster")
        manifests = load_bundle(files, keep_going=False, may_skip=False)
        document = ask(where, lambda one: one.place(manifests, scores=scores, pictures=output == "table"))
        source = None
    document = _of_namespace(document, None if options["all_namespaces"] else options["namespace"])
    show(document, output, "place.print_placements", scores=scores)
    if options["dashboard"] and source is not None and source.placed is not None:
        from ringwise.apps.web.snapshot import snapshot_dashboard
        from ringwise.cli.query.web import AFTER_DECISION, serve

        complain(AFTER_DECISION)
        serve(snapshot_dashboard(source.placed, source.now, "file", " ".join(files)), None)
    if bad:
        raise click.exceptions.Exit(ExitCode.BAD_INPUT)
    if exit_code and (code := code_of_outcomes([job.state for job in document.jobs])):
        raise click.exceptions.Exit(code)


def _place_files(
    files: tuple[str, ...], scores: bool, pictures: bool, **options: Any
) -> tuple[FilesSource, PlaceDocument]:
    source = files_source(
        files,
        options["config"],
        options["boards"],
        options["keep_going"],
        options["now"],
        # `place` tells them after what is wrong.
        print_notes=False,
    )
    journal: Path | None = options["journal"]
    recorded = Journal(source.configuration) if journal is not None else None
    with reading_objects(may_skip=True), spinner("placing"):
        document = source.place(
            source.bundle,
            scores=scores,
            pictures=pictures,
            everything=options["everything"],
            journal=recorded,
        )
    if journal is not None and recorded is not None and source.placed is not None:
        _write_journal(journal, recorded, source.placed.scheduler_names)
    return source, document


def _of_namespace(document: PlaceDocument, namespace: str | None) -> PlaceDocument:
    if namespace is None:
        return document
    numbers = [number for number, job in enumerate(document.jobs) if job.namespace == namespace]
    document.jobs = [document.jobs[number] for number in numbers]
    if (pictures := document.pictures) is not UNSET:
        pictures.jobs = [pictures.jobs[number] for number in numbers]
    return document


def _write_journal(path: Path, journal: Journal, scheduler_names: Iterable[str]) -> None:
    from ringwise.apps.journal.format import JournalWriter

    try:
        with path.open("wb") as file:
            writer = JournalWriter(file, journal.configuration, scheduler_names)
            for batch in journal:
                writer(batch)
    except OSError as error:
        raise stop(f"{path}: {error.strerror or error}") from None
