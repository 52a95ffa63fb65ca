"""Plans to drain nodes and to move jobs, job by job."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from ringwise.cli.printers.lines import print_line
from ringwise.cli.printers.tables import Column, KindTable, Table
from ringwise.durations import duration_text, seconds_text, time_text
from ringwise.grammar import counted, listed
from ringwise.views.documents.maintenance import (
    DefragPlanDocument,
    DrainedJobFields,
    DrainPlanDocument,
    MovePlanDocument,
    MovePlanFields,
    PlannedMoveFields,
    PlannedPodFields,
)

_KINDS = {"node": "", "switch": "leaf switch ", "superpod": "SuperPoD "}
_RESULTS = {"not-evicted": "not evicted", "not-restarted": "not started again"}


def print_plan(console: Console, plan: DrainPlanDocument) -> None:
    jobs = plan.jobs
    moving = sum(job.result == "moves" for job in jobs)
    nodes = f" ({counted(plan.nodes, 'node')})" if len(plan.nodes) > 1 else ""
    words = f"{counted(jobs, 'job')} with pods there, {moving} of them would move at once"
    at = "" if plan.start is None else f" at {time_text(plan.start)}"
    title = f"draining {_KINDS[plan.kind]}{plan.target}{nodes}{at}"
    print_line(console, Text(f"{title}: {words if jobs else 'no job has pods there'}"))
    if not jobs:
        return
    columns = (
        Column("job", lambda job: f"{job.namespace}/{job.name}"),
        Column(
            "pods", lambda job: f"{len(job.pods)}" + (f" + {len(job.restarted)}" if job.restarted else "")
        ),
        Column("result", _what),
        Column("move", _evictions, wraps=True),
    )
    Table.of(columns, jobs, note="why", notes=_why).print(console)
    for sentence in plan.omitted:
        print_line(console, Text(f"not checked: {sentence}", "yellow"))
    print_line(console, Text("nothing was changed: the plan was tried on a copy", "dim"))


def _what(job: DrainedJobFields) -> str:
    waits = job.pending_seconds
    span = "" if waits is None else seconds_text(waits)
    if job.result in _RESULTS:
        return _RESULTS[job.result]
    if job.result == "moves":
        return f"moves within {span or duration_text(0)}"
    return f"pending {span}".rstrip()


def _why(job: DrainedJobFields) -> str:
    if job.result == "not-evicted":
        return f"it could not run again: {job.reason} (--force evicts it)"
    return job.reason or ""


def _evictions(job: DrainedJobFields) -> str:
    moves = ", ".join(f"{pod.source} -> {pod.to or 'no node'}" for pod in job.pods[:_SHOWN])
    return moves + (" ..." if len(job.pods) > _SHOWN else "")


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
    cost = seconds_text(plan.cost_chip_seconds)
    print_line(console, Text(f"{name} gets {listed(nodes, _SHOWN)}; the moves cost {cost} of one chip"))


def _moves(move: PlannedMoveFields) -> str:
    return ", ".join(map(_where, move.pods[:_SHOWN])) + (" ..." if len(move.pods) > _SHOWN else "")


def _where(pod: PlannedPodFields) -> str:
    if pod.source == pod.to:
        return f"{pod.source}: chips {_chips(pod.from_chips)} -> {_chips(pod.chips)}"
    return f"{pod.source} -> {pod.to}"


def _chips(chips: list[int]) -> str:
    return ",".join(map(str, chips)) or "none"
