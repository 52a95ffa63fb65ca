"""`ringwise capacity`: how many more jobs of each shape would start now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ringwise.cli.output import output_option
from ringwise.cli.queries import QueryResult, answer_query, source_options

if TYPE_CHECKING:
    from rich.console import Console

    from ringwise.apps.source import Source


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
        from ringwise.cli.drawing.capacity import print_capacity

        print_capacity(console, counted)

    return QueryResult(capacity_document(counted), draw)
