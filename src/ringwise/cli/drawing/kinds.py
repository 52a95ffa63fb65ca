"""How the kinds of `views/kinds.py` are drawn: the table of a list, and all fields of one object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.console import Console

from ringwise.cli.drawing.cluster import (
    Only,
    draw_chips,
    draw_hyper_nodes,
    draw_jobs,
    draw_nodes,
    draw_pods,
    draw_queues,
    draw_reservations,
)
from ringwise.cli.drawing.describe import print_hyper_node, print_job, print_node, print_pod, print_queue
from ringwise.records import dataclass


@dataclass(frozen=True, slots=True)
class Drawing:
    """`draw` gets the rows of a list and, if its document has one, the time of it."""

    draw: Callable[[Console, Any, int, Only], None]
    describe: Callable[[Console, Any], None] | None = None


DRAWINGS = {
    "job": Drawing(draw_jobs, print_job),
    "node": Drawing(draw_nodes, print_node),
    "queue": Drawing(draw_queues, print_queue),
    "pod": Drawing(draw_pods, print_pod),
    "chip": Drawing(draw_chips),
    "reservation": Drawing(draw_reservations),
    "hypernode": Drawing(draw_hyper_nodes, print_hyper_node),
}
