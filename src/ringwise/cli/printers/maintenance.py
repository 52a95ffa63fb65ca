"""What draining nodes would do, job by job."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from ringwise.cli.printers.lines import print_line
from ringwise.cli.printers.tables import Column, Table
from ringwise.durations import duration_text, seconds_text
from ringwise.grammar import counted
from ringwise.views.documents.maintenance import DrainedJobFields, DrainPlanDocument

#: Pods of a job that are listed.
_SHOWN = 8
_KINDS = {"node": "", "switch": "leaf switch ", "superpod": "SuperPoD "}
_RESULTS = {"not-evicted": "not evicted", "not-restarted": "not started again"}


def print_plan(console: Console, plan: DrainPlanDocument) -> None:
    jobs = plan.jobs
    moving = sum(job.result == "moves" for job in jobs)
    nodes = f" ({counted(plan.nodes, 'node')})" if len(plan.nodes) > 1 else ""
    words = f"{counted(jobs, 'job')} with pods there, {moving} of them would move at once"
    title = f"draining {_KINDS[plan.kind]}{plan.target}{nodes}"
    print_line(console, Text(f"{title}: {words if jobs else 'no job has pods there'}"))
    if not jobs:
        return
    columns = (
        Column("job", lambda job: f"{job.namespace}/{job.name}"),
        Column(
            "pods", lambda job: f"{len(job.pods)}" + (f" + {len(job.restarted)}" if job.restarted else "")
        ),
        Column("result", _what),
        Column("move", _moves, wraps=True),
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


def _moves(job: DrainedJobFields) -> str:
    moves = ", ".join(f"{pod.source} -> {pod.to or 'no node'}" for pod in job.pods[:_SHOWN])
    return moves + (" ..." if len(job.pods) > _SHOWN else "")
