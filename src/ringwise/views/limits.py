"""Limits with their use, as a document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringwise.durations import SECOND
from ringwise.framework.amounts import as_number
from ringwise.framework.holdings import NAMESPACE, QUEUE, USER, Scope
from ringwise.framework.limits import WaitingCounts, scope_of, waits_for_limit
from ringwise.scheduler.explain.limit_waits import limit_notes
from ringwise.scheduler.view import SchedulerView
from ringwise.state.limits import ANY_NAMESPACE, REQUEUE
from ringwise.topology.natural import natural_key

if TYPE_CHECKING:
    from ringwise.views.documents.limits import LimitFields, LimitsDocument, RunTimeFields


def limits_document(view: SchedulerView, bound: SchedulerView, now: int) -> LimitsDocument:
    """What `ringwise limits -o json` prints. `bound` counts what pods with a node use, and nothing else."""
    table = view.limits
    waiting = WaitingCounts(table, view.jobs).by_scope()
    held_up: dict[Scope, int] = {}
    for job in view.jobs.values():
        if job.reason is not None and waits_for_limit(job.reason):
            scope = scope_of(job.reason)
            held_up[scope] = held_up.get(scope, 0) + 1
    rows: list[LimitFields] = []
    for scope in _scopes(view, waiting.keys() | held_up.keys()):
        limits = table.limits_of(scope)
        chips, running = bound.limits.used(scope)
        rows.append(
            {
                "of": "user" if scope.kind == USER else "queue" if scope.kind == QUEUE else "namespace",
                "name": scope.name,
                "user": scope.user or None,
                "chips": {"used": as_number(chips), "limit": limits.chips},
                "burst": limits.burst,
                "lent": 0 if limits.chips is None else as_number(max(0, chips - limits.chips)),
                "running": {"used": running, "limit": limits.running},
                "waiting": {"used": waiting.get(scope, 0), "limit": limits.waiting},
                "waits": held_up.get(scope, 0),
            }
        )
    problems = [
        f"queue {name}: {problem}; what was in force before stays"
        for name, limits in table.queues.items()
        for problem in limits.problems
    ]
    problems += [f"{note.where}: {note.what}; {note.fix}" for note in limit_notes(view)]
    return {
        "schema": "ringwise.io/limits/v1",
        "now": now,
        "limits": rows,
        "max_run_times": _run_times(view, now),
        "problems": problems,
    }


def _scopes(view: SchedulerView, busy: set[Scope]) -> list[Scope]:
    """Those with limits. Of namespaces without an entry, and of users, those of whom there is something."""
    table, holdings = view.limits, view.holdings
    known = {*holdings.chips, *holdings.jobs, *busy}
    named = {Scope(NAMESPACE, name) for name in table.namespaces.by_namespace if name != ANY_NAMESPACE}
    named |= {Scope(QUEUE, name) for name, limits in table.queues.items() if limits.all_jobs}
    found = [scope for scope in {*known, *named} if table.limits_of(scope)]
    order = (NAMESPACE, QUEUE, USER)
    return sorted(
        found, key=lambda one: (order.index(one.kind), natural_key(one.name), natural_key(one.user))
    )


def _run_times(view: SchedulerView, now: int) -> list[RunTimeFields]:
    ends: dict[str, int] = {}
    for job in view.jobs.values():
        end = view.limits.end_of(job, now)
        if end is not None:
            queue = view.limits.ended_by(job)
            ends[queue] = min(end, ends.get(queue, end))
    return [
        {
            "queue": name,
            "seconds": limits.longest_run_time // SECOND,
            "on_timeout": "requeue" if limits.at_end == REQUEUE else "end",
            "next_end": ends.get(name),
        }
        for name, limits in sorted(view.limits.queues.items(), key=lambda item: natural_key(item[0]))
        if limits.longest_run_time is not None
    ]
