"""`ringwise why`, `capacity`, `limits` and `doctor`: queries that explain a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ringwise.cli.completion import job_argument, optional_job_argument
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

Recorded = TypeVar("Recorded")


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
    option(
        "--journal journals",
        "Read this journal instead; can be repeated, oldest first.",
        PATH,
        multiple=True,
    ),
    source_options,
    output_option,
)


@click.command("events")
@optional_job_argument
@option(
    "--limit",
    "Maximum number of events of all jobs, the newest; 0 for all.",
    click.IntRange(min=0),
    500,
)
@_history_options
def events_command(
    job: str | None, limit: int, journals: tuple[Path, ...], output: str, **options: Any
) -> None:
    """List the events of a job, or of all jobs.

    The events are read from the journal of the lab, or from the Events of the cluster: of all jobs, the
    newest are last, and in a cluster only jobs that still exist have events.
    """
    if job is not None:
        _show_history(_history_of(job, journals, options), output)
        return
    namespace = namespace_of(options)
    _check_history_options(journals, options)
    if journals:
        from ringwise.apps.job_history import histories_of
        from ringwise.views.history import events_document

        recorded = _read_journals(lambda: histories_of(journals))
        document = events_document(recorded.histories, recorded.until, namespace, limit, recorded.notes)
    else:
        document = ask(options, lambda source: source.events(namespace, limit))
    complain(*(f"note: {note}" for note in document.notes))
    where = "" if namespace is None else f" in namespace {namespace}"
    show(document, output, "history.print_events", none=f"there are no events{where}")


@click.command("history")
@job_argument
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
    _check_history_options(journals, options)
    if not journals:
        return ask(options, lambda source: source.history(job, namespace))
    from ringwise.apps.job_history import history_of
    from ringwise.views.history import history_document
    from ringwise.views.names import qualified

    recorded = _read_journals(lambda: history_of(qualified(job, namespace), journals))
    return history_document(recorded.history, recorded.until, recorded.notes)


def _check_history_options(journals: Sequence[Path], options: dict[str, Any]) -> None:
    if options["files"]:
        raise stop("ringwise: manifests have no history; use --journal FILE, or query a lab")
    if journals and options["lab"] is not None:
        raise stop("ringwise: --journal and --lab cannot be combined")


def _read_journals(read: Callable[[], Recorded]) -> Recorded:
    from ringwise.apps.journal.format import JournalError

    try:
        with spinner("reading the journal"):
            return read()
    except (JournalError, LookupError) as error:
        raise stop(f"ringwise: {error}") from None


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
