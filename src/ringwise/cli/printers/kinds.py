"""How the kinds of `views/kinds.py` are drawn: the table of a list, and all fields of one object."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from typing import Any

from rich.console import Console

from ringwise.cli.printers.cluster import (
    amounts_text,
    draw_chips,
    draw_hyper_nodes,
    draw_isolations,
    draw_jobs,
    draw_nodes,
    draw_pods,
    draw_queues,
    draw_reservations,
)
from ringwise.cli.printers.defragment import draw_listed_plans, print_listed_plan
from ringwise.cli.printers.describe import print_hyper_node, print_job, print_node, print_pod, print_queue
from ringwise.cli.printers.limits import draw_usage_limits
from ringwise.cli.printers.name_lists import name_list
from ringwise.grammar import counted
from ringwise.messages.expected_start import TOO_MUCH_AHEAD
from ringwise.records import dataclass
from ringwise.views.kinds import ShownKind


@dataclass(frozen=True, slots=True)
class Drawing:
    """`draw` gets the rows of a list and, if its document has one, the time of it."""

    draw: Callable[..., None]
    describe: Callable[[Console, Any], None] | None = None
    #: More columns, for `-o wide`: a fifth argument of `draw`.
    wide: Mapping[str, Callable[[Any], str]] = field(default_factory=dict)


DRAWINGS = {
    "job": Drawing(
        draw_jobs,
        print_job,
        {
            "kind": lambda row: row["kind"],
            "user": lambda row: row["user"] or "-",
            "priority": lambda row: str(row["priority"]),
            "nodes": lambda row: name_list(row["nodes"]) or "-",
        },
    ),
    "node": Drawing(
        draw_nodes,
        print_node,
        {
            "address": lambda row: row["address"] or "-",
            "rack": lambda row: "-" if row["rack"] is None else str(row["rack"]),
        },
    ),
    "queue": Drawing(
        draw_queues,
        print_queue,
        {
            "guarantee": lambda row: amounts_text(row["guarantee"]),
            "reclaimable": lambda row: "yes" if row["reclaimable"] else "no",
        },
    ),
    "pod": Drawing(
        draw_pods,
        print_pod,
        {
            "job": lambda row: row["job"] or "-",
            "exit code": lambda row: "-" if row["exit_code"] is None else str(row["exit_code"]),
        },
    ),
    "chip": Drawing(draw_chips),
    "reservation": Drawing(draw_reservations),
    "isolation": Drawing(draw_isolations),
    "moveplan": Drawing(draw_listed_plans, print_listed_plan),
    "usagelimit": Drawing(draw_usage_limits),
    "hypernode": Drawing(draw_hyper_nodes, print_hyper_node),
}


def print_list(
    console: Console,
    document: Any,
    kind: ShownKind,
    only: Collection[int] | None = None,
    none: str = "",
    *,
    wide: bool = False,
) -> None:
    """A table of objects; where there is none, a line that says so. `none`: that line, of a part of them."""
    rows = document[kind.plural]
    if not rows and (none or kind.name != "chip"):
        console.print(none or f"there are no {kind.plural}")
    else:
        drawing = DRAWINGS[kind.name]
        drawing.draw(console, rows, document.get("now", 0), only, *filter(None, [wide and drawing.wide]))
    if old := sum("reason_from_last_attempt" in row for row in rows):
        console.print(
            f"too many to try all: the reasons of {counted(old, kind.word)} are of the last attempt"
        )
    if ahead := sum((row.get("expected_start") or {}).get("reason") == TOO_MUCH_AHEAD for row in rows):
        console.print(f"search limit reached: no start was estimated for {counted(ahead, kind.word)}")
    if "remaining_item_count" in document:
        console.print(f"and {document['remaining_item_count']:,} more; --limit 0 shows all")


def print_object(console: Console, document: Any, kind: str) -> None:
    describe = DRAWINGS[kind].describe
    assert describe is not None
    describe(console, document)
