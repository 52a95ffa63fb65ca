"""What draining nodes would do, job by job."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from ringwise.apps.lab.maintenance import MOVES, NOT_RESTARTED, DrainedJob, DrainPlan, MovedPod
from ringwise.apps.targets import Target
from ringwise.cli.drawing.lines import print_line
from ringwise.cli.drawing.tables import Column, Table
from ringwise.durations import duration_text
from ringwise.grammar import counted

#: Pods of a job that are listed.
_SHOWN = 8


def print_plan(console: Console, target: Target, plan: DrainPlan) -> None:
    moving = sum(job.outcome == MOVES for job in plan.jobs)
    nodes = f" ({counted(plan.nodes, 'node')})" if len(plan.nodes) > 1 else ""
    words = f"{counted(plan.jobs, 'job')} with pods there, {moving} of them would move at once"
    print_line(console, Text(f"draining {target}{nodes}: {words if plan.jobs else 'no job has pods there'}"))
    if not plan.jobs:
        return
    table = Table([Column("job"), Column("pods"), Column("what"), Column("where to", wraps=True)], note="why")
    for job in plan.jobs:
        pods = f"{len(job.pods)}" + (f" + {len(job.restarted)}" if job.restarted else "")
        where = ", ".join(map(_where, job.pods[:_SHOWN])) + (" ..." if len(job.pods) > _SHOWN else "")
        table.add(f"{job.namespace}/{job.name}", pods, _what(job), where, note=job.reason or "")
    table.print(console)
    for sentence in plan.left_out:
        print_line(console, Text(f"not looked at: {sentence}", "yellow"))
    print_line(console, Text("nothing was changed: the plan was tried on a copy", "dim"))


def _what(job: DrainedJob) -> str:
    if job.outcome == NOT_RESTARTED:
        return "not started again"
    if job.outcome == MOVES:
        return f"moves within {duration_text(job.waits or 0)}"
    return "waits" if job.waits is None else f"waits {duration_text(job.waits)}"


def _where(pod: MovedPod) -> str:
    return f"{pod.before} -> {pod.after or 'no node'}"
