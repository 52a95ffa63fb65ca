"""How the kinds of `views/kinds.py` are drawn: the table of a list, and all fields of one object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from ringwise.records import dataclass


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
