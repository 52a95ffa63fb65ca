"""Plans to move jobs, job by job."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from ringwise.cli.printers.lines import print_line
from ringwise.cli.printers.tables import Column, KindTable, Table
from ringwise.durations import duration_text, seconds_text
from ringwise.grammar import counted
from ringwise.views.documents.maintenance import (
    DefragPlanDocument,
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


MOVE_PLANS = KindTable(
    (
        Column("plan", "name"),
        Column("job", "job"),
        Column("moved", lambda one, now: f"{counted(one['moved'], 'job')}, {counted(one['chips'], 'chip')}"),
        Column("approval", "approval"),
        Column("state", "state", moves=True),
        Column("age", lambda one, now: duration_text(now - one["created"])),
    ),
    lambda plans: "message",
    lambda one, now: one["message"],
)


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
    columns = (
        Column("job", lambda move: f"{move.namespace}/{move.name}"),
        Column("chips", "chips"),
        Column("cost", lambda move: seconds_text(move.cost_chip_seconds)),
        Column("move", _moves, wraps=True),
    )
    Table.of(columns, plan.moves).print(console)
    nodes = list(dict.fromkeys(pod.node for pod in plan.reservation))
    shown = ", ".join(nodes[:_SHOWN]) + (f" and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else "")
    cost = seconds_text(plan.cost_chip_seconds)
    print_line(console, Text(f"{name} gets {shown}; the moves cost {cost} of one chip"))


def _moves(move: PlannedMoveFields) -> str:
    return ", ".join(map(_where, move.pods[:_SHOWN])) + (" ..." if len(move.pods) > _SHOWN else "")


def _where(pod: PlannedPodFields) -> str:
    if pod.source == pod.to:
        return f"{pod.source}: chips {_chips(pod.from_chips)} -> {_chips(pod.chips)}"
    return f"{pod.source} -> {pod.to}"


def _chips(chips: list[int]) -> str:
    return ",".join(map(str, chips)) or "none"
