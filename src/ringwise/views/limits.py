"""Limits with their use, as a document."""

from __future__ import annotations

import msgspec

from ringwise.durations import SECOND
from ringwise.framework.amounts import Amount, as_number
from ringwise.framework.holdings import Scope
from ringwise.framework.limits import WaitingCounts, scope_of, waits_for_limit
from ringwise.scheduler.explain.limit_waits import limits_without_effect
from ringwise.scheduler.view import SchedulerView
from ringwise.state.limits import EACH, PENDING_JOBS, UsageLimit
from ringwise.topology.natural import natural_key
from ringwise.views.documents import limits as doc


def limits_document(view: SchedulerView, bound: SchedulerView, now: int) -> doc.LimitsDocument:
    """What `ringwise limits -o json` prints. `bound` counts what pods with a node use, and nothing else."""
    table = view.limits
    waiting = WaitingCounts(table, view.jobs).by_scope()
    blocked_jobs: dict[tuple[Scope, str], int] = {}
    for job in view.jobs.values():
        if job.reason is not None and waits_for_limit(job.reason):
            key = scope_of(job.reason), str(job.reason.details["limit"])
            blocked_jobs[key] = blocked_jobs.get(key, 0) + 1
    # Of subjects with a `*` those of whom there is something.
    scopes = {*view.usage.holdings.used, *waiting, *(scope for scope, _ in blocked_jobs)}
    scopes.update(Scope(*one.subject) for one in table.limits.values() if EACH not in one.subject)
    rows: list[doc.LimitFields] = []
    # Subjects with the same parts are together.
    for scope in sorted(scopes, key=lambda one: ([not part for part in one], *map(natural_key, one))):
        used = {**bound.limits.used(scope), PENDING_JOBS: waiting.get(scope, 0)}
        rows += [
            doc.LimitFields(
                name=limit.name,
                namespace=scope.namespace or None,
                queue=scope.queue or None,
                user=scope.user or None,
                use=[_use(limit, what, used.get(what, 0)) for what in limit.hard],
                blocked_jobs=blocked_jobs.get((scope, limit.name), 0),
            )
            for limit in table.limits_of(scope)
            if limit.hard
        ]
    problems = [f"UsageLimit {problem}; it is not in effect" for problem in limit_problems(view)]
    problems += [f"{one.object}: {one.message}; {one.fix}" for one in limits_without_effect(view)]
    return doc.LimitsDocument(now=now, limits=rows, max_run_times=_run_times(view, now), problems=problems)


def usage_limit_documents(view: SchedulerView) -> list[doc.UsageLimitFields]:
    return [
        {
            "name": one.name,
            "namespace": one.namespace or None,
            "queue": one.queue or None,
            "user": one.user or None,
            "hard": {**one.hard},
            "borrowing_limit": {**one.borrowing},
            "max_run_time_seconds": None if one.max_run_time is None else one.max_run_time // SECOND,
            "on_timeout": one.on_timeout,
        }
        for one in sorted(view.limits.limits.values(), key=lambda one: natural_key(one.name))
    ]


def limit_problems(view: SchedulerView) -> list[str]:
    return [f"{name}: {problem}" for name, problem in view.limits.problems.items()]


def _use(limit: UsageLimit, what: str, used: Amount) -> doc.LimitUseFields:
    hard, borrowing = limit.hard[what], limit.borrowing.get(what, 0)
    return doc.LimitUseFields(
        name=what,
        used=as_number(used),
        hard=hard,
        borrowing_limit=borrowing,
        borrowed=as_number(max(0, used - hard)) if borrowing else 0,
    )


def _run_times(view: SchedulerView, now: int) -> list[doc.RunTimeFields]:
    ends: dict[str, int] = {}
    for job in view.jobs.values():
        end, limit = view.limits.end_of(job, now), view.limits.ended_by(job)
        if end is not None and limit is not None:
            ends[limit.name] = min(end, ends.get(limit.name, end))
    return [
        msgspec.convert({**one, "next_end": ends.get(one["name"])}, doc.RunTimeFields)
        for one in usage_limit_documents(view)
        if one["max_run_time_seconds"] is not None
    ]
