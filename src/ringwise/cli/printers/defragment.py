"""Plans to move jobs, job by job."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from ringwise.cli.printers.lines import print_line
from ringwise.cli.printers.tables import Column, Table
from ringwise.durations import seconds_text
from ringwise.grammar import counted
from ringwise.views.documents.maintenance import (
    DefragPlanDocument,
    MovePlanFields,
    PlannedMoveFields,
    PlannedPodFields,
)

#: Pods of a job, and nodes, that are listed.
_SHOWN = 8


def print_move_plans(console: Console, document: DefragPlanDocument, *, tried: bool = True) -> None:
    plans = document["plans"]
    if not plans and not document["without_plan"]:
        print_line(console, Text("no job waits for holes: no moves would start one"))
    for number, plan in enumerate(plans):
        if number:
            console.print()
        _print_plan(console, plan, follows=number > 0)
    for job in document["without_plan"]:
        print_line(console, Text(f"{job['namespace']}/{job['name']}: {job['reason']['message']}"))
    for sentence in document.get("omitted", ()):
        print_line(console, Text(f"not looked at: {sentence}", "yellow"))
    if plans and tried:
        print_line(console, Text("nothing was changed: the plan was tried on a copy", "dim"))


def _print_plan(console: Console, plan: MovePlanFields, *, follows: bool) -> None:
    name = f"{plan['namespace']}/{plan['name']}"
    moved = counted(plan["moved_jobs"], "job")
    then = "then " if follows else ""
    title = f"{then}moving {moved} ({counted(plan['moved_chips'], 'chip')}) starts {name}"
    print_line(console, Text(f"{title} ({counted(plan['chips'], 'chip')}) now"))
    table = Table([Column("job"), Column("chips"), Column("cost"), Column("where to", wraps=True)])
    for move in plan["moves"]:
        where = ", ".join(map(_where, move["pods"][:_SHOWN])) + (" ..." if len(move["pods"]) > _SHOWN else "")
        table.add(f"{move['namespace']}/{move['name']}", str(move["chips"]), _cost(move), where)
    table.print(console)
    nodes = list(dict.fromkeys(pod["node"] for pod in plan["reservation"]))
    shown = ", ".join(nodes[:_SHOWN]) + (f" and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else "")
    print_line(console, Text(f"{name} gets {shown}; {_total(plan)}"))


def _cost(move: PlannedMoveFields) -> str:
    return seconds_text(move["cost_chip_seconds"])


def _total(plan: MovePlanFields) -> str:
    return f"the moves cost {seconds_text(plan['cost_chip_seconds'])} of one chip"


def _where(pod: PlannedPodFields) -> str:
    if pod["from"] == pod["to"]:
        return f"{pod['from']}: chips {_chips(pod['from_chips'])} -> {_chips(pod['chips'])}"
    return f"{pod['from']} -> {pod['to']}"


def _chips(chips: list[int]) -> str:
    return ",".join(map(str, chips)) or "none"
