"""Plans to move jobs, job by job."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from ringwise.cli.printers.cluster import Only
from ringwise.cli.printers.lines import print_line
from ringwise.cli.printers.tables import Column, Table
from ringwise.durations import duration_text, seconds_text
from ringwise.grammar import counted
from ringwise.views.documents.maintenance import (
    DefragPlanDocument,
    ListedMovePlanFields,
    MovePlanDocument,
    MovePlanFields,
    PlannedMoveFields,
    PlannedPodFields,
)

#: Pods of a job, and nodes, that are listed.
_SHOWN = 8


def print_move_plans(console: Console, document: DefragPlanDocument, *, tried: bool = True) -> None:
    plans = document.plans
    if not plans and not document.without_plan:
        print_line(console, Text("no job is blocked by fragmentation: no moves are needed"))
    for number, plan in enumerate(plans):
        if number:
            console.print()
        _print_plan(console, plan, follows=number > 0)
    for job in document.without_plan:
        print_line(console, Text(f"{job.namespace}/{job.name}: {job.reason['message']}"))
    for sentence in document.omitted:
        print_line(console, Text(f"not checked: {sentence}", "yellow"))
    if plans and tried:
        print_line(console, Text("nothing was changed: the plan was tried on a copy", "dim"))


def draw_listed_plans(
    console: Console, shown: Sequence[ListedMovePlanFields], now: int, only: Only = None
) -> None:
    columns = ("plan", "job", "moved", "approval", "state", "age")
    table = Table([Column(name, moves=name == "state") for name in columns], note="message")
    for one in shown:
        moved = f"{counted(one['moved'], 'job')}, {counted(one['chips'], 'chip')}"
        age = duration_text(now - one["created"])
        table.add(one["name"], one["job"], moved, one["approval"], one["state"], age, note=one["message"])
    table.print(console, only)


def print_listed_plan(console: Console, one: MovePlanDocument) -> None:
    print_line(console, Text(f"MovePlan {one['name']}", "bold"))
    facts = {"state": one["state"], "message": one["message"], "approval": one["approval"]}
    facts |= {"created by": one["created_by"], "approved by": one["approved_by"]}
    for name, text in facts.items():
        if text:
            print_line(console, Text(f"  {name}: {text}"))
    _print_plan(console, one["plan"], follows=False)


def _print_plan(console: Console, plan: MovePlanFields, *, follows: bool) -> None:
    name = f"{plan.namespace}/{plan.name}"
    moved = counted(plan.moved_jobs, "job")
    then = "then " if follows else ""
    title = f"{then}moving {moved} ({counted(plan.moved_chips, 'chip')}) starts {name}"
    print_line(console, Text(f"{title} ({counted(plan.chips, 'chip')}) now"))
    table = Table([Column("job"), Column("chips"), Column("cost"), Column("move", wraps=True)])
    for move in plan.moves:
        where = ", ".join(map(_where, move.pods[:_SHOWN])) + (" ..." if len(move.pods) > _SHOWN else "")
        table.add(f"{move.namespace}/{move.name}", str(move.chips), _cost(move), where)
    table.print(console)
    nodes = list(dict.fromkeys(pod.node for pod in plan.reservation))
    shown = ", ".join(nodes[:_SHOWN]) + (f" and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else "")
    print_line(console, Text(f"{name} gets {shown}; {_total(plan)}"))


def _cost(move: PlannedMoveFields) -> str:
    return seconds_text(move.cost_chip_seconds)


def _total(plan: MovePlanFields) -> str:
    return f"the moves cost {seconds_text(plan.cost_chip_seconds)} of one chip"


def _where(pod: PlannedPodFields) -> str:
    if pod.source == pod.to:
        return f"{pod.source}: chips {_chips(pod.from_chips)} -> {_chips(pod.chips)}"
    return f"{pod.source} -> {pod.to}"


def _chips(chips: list[int]) -> str:
    return ",".join(map(str, chips)) or "none"
