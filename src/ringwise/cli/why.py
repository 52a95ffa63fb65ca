"""`ringwise why`: why a job waits or where it runs, and what would change that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ringwise.cli.output import output_option
from ringwise.cli.queries import QueryResult, answer_query, source_options

if TYPE_CHECKING:
    from rich.console import Console

    from ringwise.apps.source import Source


@click.command("why")
@click.argument("job", metavar="[NAMESPACE/]JOB")
@source_options()
@output_option
def why_command(job: str, output: str, **options: Any) -> None:
    """Explain why JOB waits or where it runs, and what would change that.

    Every cure in the result was tried on the state of the cluster, and undone.
    """
    answer_query("why", lambda source: why_result(source, job), output, parameters={"job": job}, **options)


def why_result(source: Source, name: str) -> QueryResult:
    """Raises UnknownJobError."""
    from ringwise.apps.queries import explain_job
    from ringwise.views.explain import explanation_document

    explanation = explain_job(source, name)

    def draw(console: Console) -> None:
        from ringwise.cli.drawing.why import print_explanation

        print_explanation(console, source, explanation)

    return QueryResult(explanation_document(explanation), draw)
