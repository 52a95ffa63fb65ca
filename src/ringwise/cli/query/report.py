"""`ringwise report`: what jobs held, lost and waited for, from the accounting documents."""

from __future__ import annotations

import csv
import io
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, cast

import click
import msgspec
from click.core import ParameterSource

from ringwise.cli.options import DIRECTORY, flag, option, output_choice, target_options
from ringwise.cli.output import complain, stop
from ringwise.cli.query.queries import ask, asks_clusters, find_cluster, lab_client, show, talking_to_cluster
from ringwise.wellknown import VOLCANO_SYSTEM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ringwise.views.documents.accounting import GroupBy, ReportDocument


@click.command("report")
@option(
    "--since --last",
    "Start: a duration before now, such as 30d, or a day, such as 2026-01-31. Days are UTC days.",
    default="7d",
)
@option("--days", "Same as --since with this number of days.", click.IntRange(1))
@option("--until", "End, in the same format.  [default: today]", default="")
@option(
    "--group-by --by group_by",
    "Group rows by this field.",
    click.Choice(["queue", "namespace", "user", "job", "board"]),
    "queue",
)
@flag("--idle", "Show allocated chips with low utilization instead (requires utilization metrics).")
@option(
    "--shadow",
    "Show shadow-mode decisions that differ instead; FILE is the log of the scheduler, or -.",
    click.File(encoding="utf-8", errors="replace"),
    metavar="FILE",
)
@output_choice("table", "json", "yaml", "csv")
@option(
    "--accounting-dir",
    "Accounting directory of the scheduler (its --accounting-dir).",
    DIRECTORY,
    metavar="DIRECTORY",
)
@target_options
@option("-n --namespace", "Only jobs of this namespace.  [default: all]")
@option(
    "--accounting-namespace",
    f"Namespace of the accounting ConfigMaps of a cluster.  [default: {VOLCANO_SYSTEM}]",
)
def report_command(
    since: str,
    days: int | None,
    until: str,
    group_by: str,
    idle: bool,
    shadow: TextIO | None,
    output: str,
    accounting_dir: Path | None,
    namespace: str | None,
    **options: Any,
) -> None:
    """Show allocated and lost chip-hours, and failures."""
    if shadow is not None:
        _show_shadow(shadow, output)
        return
    if idle:
        if accounting_dir is not None:
            raise stop("ringwise: --idle and --accounting-dir cannot be combined")
        _show_idle(output, namespace, options)
        return
    question = _Question(since if days is None else f"{days}d", until, cast("GroupBy", group_by), namespace)
    document = _ask(question, accounting_dir, options)
    complain(*_notes(document))
    if output == "csv":
        click.echo(_csv(document), nl=False)
        return
    show(document, output, "report.draw_report")


def _show_shadow(log: TextIO, output: str) -> None:
    from ringwise.views.shadow import shadow_report

    context = click.get_current_context()
    source = context.get_parameter_source
    names = {name for name in context.params if source(name) is ParameterSource.COMMANDLINE}
    if output == "csv" or names - {"shadow", "output"}:
        raise stop("ringwise: --shadow can only be combined with -o table, json or yaml")
    document = shadow_report(log)
    if not document.pods:
        raise stop("ringwise: no comparisons of pods found; expected the log of a scheduler in shadow mode")
    show(document, output, "report.draw_shadow_report")


def _show_idle(output: str, namespace: str | None, options: dict[str, Any]) -> None:
    document = ask({**options, "namespace": None}, lambda source: source.idle())
    if namespace is not None:
        from ringwise.views.idle import idle_of_namespace

        document = idle_of_namespace(document, namespace)
    if output == "csv":
        click.echo(_table_text(list(_IDLE_COLUMNS), document.jobs), nl=False)
        return
    show(document, output, "report.draw_idle")


_IDLE_COLUMNS = (
    *("namespace", "name", "queue", "user", "verified"),
    *("chips", "idle_chips", "unknown_chips", "utilization_percent"),
)


def _table_text(columns: list[str], rows: Sequence[object]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_plain(getattr(row, name)) for name in columns] for row in rows)
    return text.getvalue()


class _Question(NamedTuple):
    since: str
    until: str
    by: GroupBy
    namespace: str | None

    def answer(self, documents: Callable[[], Iterable[tuple[str, str]]]) -> ReportDocument:
        """Return the report; the documents are read only if the query is valid."""
        from ringwise.views.report import parse_period, report_document

        try:
            period = parse_period(self.since, self.until, time.time_ns())
        except ValueError as error:
            raise stop(f"ringwise: {error}") from None
        return report_document(documents(), period, self.by, namespace=self.namespace)


def _ask(question: _Question, accounting_dir: Path | None, options: dict[str, Any]) -> ReportDocument:
    lab, cluster = options.get("lab"), any(options.get(name) for name in ("kubeconfig", "context"))
    if accounting_dir is not None:
        if lab is not None or cluster:
            raise stop("ringwise: --accounting-dir cannot be combined with --lab, --kubeconfig or --context")
        return _of_folder(accounting_dir, question)
    if lab is not None and cluster:
        raise stop("ringwise: --lab cannot be combined with --kubeconfig or --context")
    if cluster or (lab is None and asks_clusters()):
        return _of_cluster(options, question)
    if options.get("accounting_namespace"):
        raise stop("ringwise: --accounting-namespace requires a cluster")
    from ringwise.apps.sources.lab import LabSource

    hint = ", or give --accounting-dir DIRECTORY; kubectl ringwise report asks a cluster"
    with lab_client(lab, "querying the lab", hint=hint) as client:
        document: ReportDocument = LabSource(client).report(*question)
    return document


def _of_folder(folder: Path, question: _Question) -> ReportDocument:
    from ringwise.apps.accounting import AccountFolder

    if not folder.is_dir():
        raise stop(f"ringwise: {folder} is not a directory")
    return question.answer(AccountFolder(folder).read)


def _of_cluster(options: dict[str, Any], question: _Question) -> ReportDocument:
    from ringwise.apps.live_accounts import read_accounts

    namespace = options.get("accounting_namespace") or VOLCANO_SYSTEM
    hint = "docs/reference/rbac.md says how a user gets the right to read them"
    with talking_to_cluster(hint):
        return question.answer(lambda: read_accounts(find_cluster(options), namespace))


def _notes(document: ReportDocument) -> list[str]:
    return [*document.notes, *(f"omitted: {line}" for line in document.unreadable)]


#: Names of a row, as far as it has them.
_NAMES = ("queue", "namespace", "user", "verified", "job", "uid", "board")
_AMOUNTS = (
    "allocated_chip_hours",
    "uncertain_chip_hours",
    "pending_hours",
    "uncertain_pending_hours",
    "starts",
    "failures",
    "clamped",
)


def _csv(document: ReportDocument) -> str:
    """One line for each row, and a column for each cause of loss that occurs."""
    rows = [msgspec.structs.asdict(row) for row in document.rows]
    causes = sorted({cause for row in rows for cause in row["lost_chip_hours"]})
    names = [name for name in _NAMES if any(row[name] is not None for row in rows)] or [document.group_by]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*names, *_AMOUNTS, *(f"lost_to_{cause}_chip_hours" for cause in causes)])
    for row in rows:
        lost = [row["lost_chip_hours"].get(cause, 0.0) for cause in causes]
        writer.writerow([*(_plain(row[name]) for name in names), *(row[name] for name in _AMOUNTS), *lost])
    return text.getvalue()


def _plain(value: object) -> object:
    """A spreadsheet computes what begins like a formula: a name must not."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"'{value}" if isinstance(value, str) and value[:1] in "=+-@\t\r" and value else value
