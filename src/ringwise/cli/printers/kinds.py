"""How the kinds of `views/kinds.py` are drawn: the table of a list, and all fields of one object."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from rich.console import Console

from ringwise.cli.printers.cluster import (
    CHIPS,
    HYPER_NODES,
    ISOLATIONS,
    JOBS,
    NODES,
    PODS,
    QUEUES,
    RESERVATIONS,
)
from ringwise.cli.printers.describe import print_hyper_node, print_job, print_node, print_pod, print_queue
from ringwise.cli.printers.limits import USAGE_LIMITS
from ringwise.cli.printers.maintenance import MOVE_PLANS, print_listed_plan
from ringwise.cli.printers.tables import KindTable
from ringwise.grammar import counted
from ringwise.messages.expected_start import TOO_MUCH_AHEAD
from ringwise.views.kinds import ShownKind


class Drawing(NamedTuple):
    table: KindTable
    describe: Callable[[Console, Any], None] | None = None


DRAWINGS = {
    "job": Drawing(JOBS, print_job),
    "node": Drawing(NODES, print_node),
    "queue": Drawing(QUEUES, print_queue),
    "pod": Drawing(PODS, print_pod),
    "chip": Drawing(CHIPS),
    "reservation": Drawing(RESERVATIONS),
    "isolation": Drawing(ISOLATIONS),
    "moveplan": Drawing(MOVE_PLANS, print_listed_plan),
    "usagelimit": Drawing(USAGE_LIMITS),
    "hypernode": Drawing(HYPER_NODES, print_hyper_node),
}


def print_list(
    console: Console,
    document: Any,
    kind: ShownKind,
    only: Collection[int] | None = None,
    none: str = "",
    *,
    wide: bool = False,
    heads: tuple[str, ...] = (),
    headings: bool = True,
) -> tuple[str, ...]:
    """A table of objects; where there is none, a line that says so. `none`: that line, of a part of them.

    Return the headings of the table. `only` and `heads`: see `KindTable.draw`.
    """
    rows = document[kind.plural]
    if not rows and (none or kind.name != "chip"):
        console.print(none or f"there are no {kind.plural}")
    else:
        table, now = DRAWINGS[kind.name].table, document.get("now", 0)
        heads = table.draw(console, rows, now, only, wide=wide, heads=heads, headings=headings)
    if old := sum("reason_from_last_attempt" in row for row in rows):
        console.print(
            f"too many to try all: the reasons of {counted(old, kind.word)} are of the last attempt"
        )
    if ahead := sum((row.get("expected_start") or {}).get("reason") == TOO_MUCH_AHEAD for row in rows):
        console.print(f"search limit reached: no start was estimated for {counted(ahead, kind.word)}")
    if "remaining_item_count" in document:
        console.print(f"and {document['remaining_item_count']:,} more; --limit 0 shows all")
    return heads


def print_object(console: Console, document: Any, kind: str) -> None:
    describe = DRAWINGS[kind].describe
    assert describe is not None
    describe(console, document)
