"""A lab at a glance: rings of all nodes, queues, and who waits for what."""

from __future__ import annotations

from typing import Any

from rich.columns import Columns
from rich.console import Console
from rich.markup import escape

from ringwise.apps.lab.jobs import JobView, job_views
from ringwise.apps.lab.lab import LiveLab
from ringwise.apps.lab.views import node_documents, queue_documents, status_document
from ringwise.apps.why import duration_text, time_text
from ringwise.cli.chip_pictures import LEGEND
from ringwise.cli.lab_tables import draw_queues, node_picture
from ringwise.cli.queries import Answer

#: Without a screen to fill, so many nodes are drawn.
_NODES = 200
_WAITING = 10


def top_answer(live: LiveLab, height: Any = None) -> Answer:
    status = status_document(live)
    views = job_views(live)
    nodes = node_documents(live)
    queues = queue_documents(live, views)
    waiting = [view for view in views if view.outcome in ("waiting", "refused")]
    document = {
        "status": status,
        "nodes": nodes,
        "queues": queues,
        "waiting": [view.as_json() for view in waiting],
    }

    def draw(console: Console) -> None:
        console.print(headline(status), soft_wrap=True)
        console.print()
        room = height - len(queues) - min(len(waiting), _WAITING) - 12 if isinstance(height, int) else None
        _draw_nodes(console, live, nodes, room)
        console.print()
        draw_queues(console, queues)
        _draw_waiting(console, waiting, live.now)
        for line in (*status["alarms"], *status["incidents"]):
            console.print(f"[red]{escape(line)}[/]", soft_wrap=True)

    return Answer(document, draw)


def headline(status: dict[str, Any]) -> str:
    speed = status["speed"]
    pace = "time stands still" if speed is None else "" if speed == 1 else f"{speed:g} times as fast"
    used = f"{status['held']} of {status['chips']} chips in use"
    faulty = f", {status['faulty']} faulty" if status["faulty"] else ""
    return (
        f"[bold]{time_text(status['now'])}[/]{', ' + pace if pace else ''}   {status['nodes']} nodes   "
        f"{used}{faulty}   {counts_text(status)}"
    )


def counts_text(status: dict[str, Any]) -> str:
    refused = f", {status['refused']} refused" if status["refused"] else ""
    return f"{status['placed']} jobs placed, {status['waiting']} waiting{refused}"


def _draw_nodes(console: Console, live: LiveLab, nodes: list[dict[str, Any]], rows: int | None) -> None:
    longest = max((len(node["name"]) for node in nodes), default=0)
    cells = []
    for node in nodes[:_NODES]:
        picture = " ".join(node_picture(live, node["name"], chips) for chips in node["chips"])
        mark = " " if node["ready"] and not node["cordoned"] else "!" if not node["ready"] else "-"
        cells.append(f"{node['name']:>{longest}}{mark}{picture}")
    if cells and rows is not None:
        across = max(1, (console.width + 2) // (max(map(len, cells)) + 2))
        cells = cells[: max(1, rows) * across]
    console.print(Columns([escape(cell) for cell in cells], padding=(0, 2)))
    if len(cells) < len(nodes):
        console.print(f"... and {len(nodes) - len(cells)} more nodes", style="dim")
    console.print(f"{LEGEND.replace('  + given now', '')}  (- cordoned  ! not ready)", style="dim")


def _draw_waiting(console: Console, waiting: list[JobView], now: int) -> None:
    if not waiting:
        return
    console.print()
    for view in waiting[:_WAITING]:
        message = view.reason.message if view.reason is not None else ""
        colour, word = ("yellow", f"waits {duration_text(now - view.created)}")
        if view.never:
            colour, word = "red", "can never run"
        console.print(
            f"[{colour}]{escape(view.key)}[/] {word}: {escape(message)}",
            soft_wrap=True,
        )
    if len(waiting) > _WAITING:
        console.print(f"... and {len(waiting) - _WAITING} more jobs wait", style="dim")
