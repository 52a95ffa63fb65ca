"""`ringwise why`, `capacity`, `limits` and `doctor`: queries that explain a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ringwise.cli.completion import job_argument
from ringwise.cli.exit_codes import ExitCode, code_of_outcomes
from ringwise.cli.options import (
    PATH,
    check_options,
    exit_code_option,
    flag,
    option,
    output_option,
    query_options,
    source_options,
    with_options,
)
from ringwise.cli.output import complain, spinner, stop
from ringwise.cli.query.queries import ask, namespace_of, show

if TYPE_CHECKING:
    from ringwise.views.documents.explain import HistoryDocument


@click.command("why")
@job_argument
@flag("--history", "Show the job history, from the journal of the lab or the Events of the cluster.")
@option(
    "--journal journals",
    "Read the history from this journal; can be repeated, oldest first.",
    PATH,
    multiple=True,
)
@query_options
@exit_code_option
def why_command(
    job: str, history: bool, journals: tuple[Path, ...], output: str, exit_code: bool, **options: Any
) -> None:
    """Explain why a job is pending, or why it runs where it runs.

    Every fix in the answer was verified on a copy of the cluster.
    """
    namespace = namespace_of(options)
    if history or journals:
        _show_history(_history_of(job, journals, options), output)
        return
    document = ask(options, lambda source: source.why(job, namespace, pictures=output == "table"))

    show(
        document,
        output,
        "explain.print_explanation",
        code_of_outcomes([document.state]) if exit_code else ExitCode.OK,
    )


_history_options = with_options(
    job_argument,
    option(
        "--journal journals",
        "Read this journal instead; can be repeated, oldest first.",
        PATH,
        multiple=True,
    ),
    query_options,
)


@click.command("events")
@_history_options
def events_command(job: str, journals: tuple[Path, ...], output: str, **options: Any) -> None:
    """List the events of a job: pending, scheduled, faults, end.

    The events are read from the journal of the lab, or from the Events of the cluster.
    """
    _show_history(_history_of(job, journals, options), output)


@click.command("history")
@_history_options
def history_command(job: str, journals: tuple[Path, ...], output: str, **options: Any) -> None:
    """List the runs of a job, as sacct does.

    For each run, its start, end and nodes and the reason why it ended are shown. They are read from the
    journal of the lab, or from the Events of the cluster.
    """
    document = _history_of(job, journals, options)

    complain(*(f"note: {note}" for note in document.notes))
    show(document, output, "history.print_runs")


def _history_of(job: str, journals: Sequence[Path], options: dict[str, Any]) -> HistoryDocument:
    namespace = namespace_of(options)
    if options["files"]:
        raise stop("ringwise: manifests have no history; use --journal FILE, or query a lab")
    if journals:
        return _history_of_journals(job, namespace, journals, options)
    return ask(options, lambda source: source.history(job, namespace))


def _history_of_journals(
    job: str, namespace: str | None, journals: Sequence[Path], options: dict[str, Any]
) -> HistoryDocument:
    from ringwise.apps.job_history import history_of
    from ringwise.apps.journal.format import JournalError
    from ringwise.views.history import history_document
    from ringwise.views.names import qualified

    if options["lab"] is not None:
        raise stop("ringwise: --journal and --lab cannot be combined")
    try:
        with spinner("reading the journal"):
            recorded = history_of(qualified(job, namespace), journals)
    except (JournalError, LookupError) as error:
        raise stop(f"ringwise: {error}") from None
    return history_document(recorded.history, recorded.until, recorded.notes)


def _show_history(document: HistoryDocument, output: str) -> None:
    complain(*(f"note: {note}" for note in document.notes))
    show(document, output, "history.print_history")


@click.command("capacity")
@source_options
@option("--queue", "Count only what this queue can still use.")
@output_option
def capacity_command(queue: str | None, output: str, **options: Any) -> None:
    """Show how many more jobs of each shape would fit now.

    The jobs are scheduled in a transaction that is rolled back. Pending pods are ignored.
    """
    document = ask(options, lambda source: source.capacity(queue))
    show(document, output, "explain.print_capacity")


@click.command("limits")
@query_options
def limits_command(output: str, **options: Any) -> None:
    """Show usage limits and their current usage.

    Limits are UsageLimit objects of the cluster.
    """
    document = ask(options, lambda source: source.limits())
    show(document, output, "limits.print_limits")


@click.command("doctor")
@check_options
def doctor_command(output: str, **options: Any) -> None:
    """Check the cluster for problems.

    Nodes, chips, device reports, switches, SuperPoDs, queues and jobs are checked. Invalid objects are
    reported, too. Exit code 1 if errors are found.
    """
    document = ask(options, lambda source: source.doctor(), read_on=True)
    show(document, output, "explain.print_diagnosis", ExitCode.FAILED if document.errors else ExitCode.OK)
