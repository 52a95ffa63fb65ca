"""Tables of a lab's nodes, jobs, queues and pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ringwise.apps.lab.jobs import JobView
from ringwise.apps.lab.lab import LiveLab
from ringwise.apps.why import duration_text
from ringwise.cli.chip_pictures import chip_list, chip_picture

_COLOURS = {
    "Running": "green",
    "Completed": "dim",
    "Succeeded": "dim",
    "Failed": "red",
    "Aborted": "red",
    "Terminated": "red",
    "Pending": "yellow",
    "Inqueue": "yellow",
    "Terminating": "magenta",
}
_GIB = 1 << 30


def table_of(*columns: str, wrapped: str = "") -> Table:
    table = Table(box=box.SIMPLE, pad_edge=False, show_edge=False, padding=(0, 2))
    for column in columns:
        table.add_column(column, no_wrap=column != wrapped)
    return table


def node_picture(live: LiveLab, node: str, chips: Mapping[str, Any]) -> str:
    state = live.view.cluster
    fleet, number = state.fleets[chips["resource"]], state.node_id[node]
    board = live.catalog.get(chips["board"]) if chips["board"] else None
    return chip_picture(fleet, number, board, free=fleet.free_mask[number])


def node_state(node: Mapping[str, Any]) -> str:
    words = [] if node["ready"] else ["not ready"]
    return ", ".join([*words, "cordoned"] if node["cordoned"] else words) or "ready"


def draw_nodes(console: Console, live: LiveLab, nodes: Iterable[Mapping[str, Any]]) -> None:
    shown = list(nodes)
    columns = ["node", "state", "chips", "free", "faulty", "board", "pods"]
    switches = any(node["switch"] for node in shown)
    superpods = any(node["superpod"] is not None for node in shown)
    columns += ["switch"] if switches else []
    columns += ["SuperPoD"] if superpods else []
    table = table_of(*columns)
    for node in shown:
        chips = node["chips"]
        row = [
            node["name"],
            node_state(node),
            " ".join(node_picture(live, node["name"], one) for one in chips),
            ", ".join(str(len(one["free"])) for one in chips),
            ", ".join(chip_list(one["faulty"]) for one in chips if one["faulty"]),
            ", ".join(one["board"] or "-" for one in chips),
            str(node["pods"]),
        ]
        row += [node["switch"] or "-"] if switches else []
        row += ["-" if node["superpod"] is None else str(node["superpod"])] if superpods else []
        table.add_row(*map(escape, row))
    console.print(table)


def draw_jobs(console: Console, views: Iterable[JobView], now: int) -> None:
    table = table_of("job", "queue", "phase", "pods", "chips", "age", "why it waits", wrapped="why it waits")
    for view in views:
        reason = view.reason.message if view.reason is not None else ""
        table.add_row(
            escape(view.key),
            escape(view.queue),
            "[red]refused[/]" if view.never else phase_text(view.phase),
            f"{view.placed}/{view.wanted}",
            str(view.chips),
            duration_text(now - view.created),
            escape(reason),
        )
    console.print(table)


def draw_queues(console: Console, queues: Iterable[Mapping[str, Any]]) -> None:
    table = table_of("queue", "state", "weight", "used", "at most", "jobs", "waiting", wrapped="used")
    for queue in queues:
        table.add_row(
            escape(queue["name"]),
            queue["state"],
            str(queue["weight"]),
            escape(amounts_text(queue["used"])),
            escape(amounts_text(queue["capability"])),
            str(queue["jobs"]),
            str(queue["waiting"]),
        )
    console.print(table)


def draw_pods(console: Console, pods: Iterable[Mapping[str, Any]], now: int) -> None:
    table = table_of("pod", "phase", "node", "asks", "chips", "rank", "age")
    for pod in pods:
        table.add_row(
            escape(f"{pod['namespace']}/{pod['name']}"),
            phase_text(pod["phase"]),
            escape(pod["node"] or "-"),
            str(pod["asks"]),
            chip_list(pod["chips"]),
            "-" if pod["rank"] is None else str(pod["rank"]),
            duration_text(now - pod["created"]),
        )
    console.print(table)


def phase_text(phase: str) -> str:
    colour = _COLOURS.get(phase)
    return f"[{colour}]{escape(phase)}[/]" if colour else escape(phase)


def amounts_text(amounts: Mapping[str, int]) -> str:
    """`16 Ascend910, 4 cpu, 8 GiB`"""
    parts = []
    for name, amount in sorted(amounts.items(), key=lambda item: (item[0] in ("cpu", "memory"), item[0])):
        if name == "cpu":
            parts.append(f"{amount / 1000:g} cpu")
        elif name == "memory":
            parts.append(f"{amount / _GIB:g} GiB")
        else:
            parts.append(f"{amount} {name.rpartition('/')[2]}")
    return ", ".join(parts) or "-"
