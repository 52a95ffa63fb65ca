"""Who uses a limit that a job waits for, and what would let the job start; each fix was tried.

Jobs of its own namespace are named. Of others only the number is shown: a user who may read a job need not
see what others run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from ringwise.durations import duration_text, time_text
from ringwise.framework.amounts import Amount
from ringwise.framework.configuration import ENQUEUE
from ringwise.framework.holdings import Scope, namespace_of
from ringwise.framework.job import Job
from ringwise.framework.limits import LimitTable, at_run_time_end, may_reclaim, raised, scope_of
from ringwise.framework.reasons import (
    CHIP_LIMIT_REACHED,
    RUNNING_LIMIT_REACHED,
    WAITING_LIMIT_REACHED,
)
from ringwise.framework.users import unknown_user
from ringwise.grammar import amount_text, counted
from ringwise.reasons import Reason
from ringwise.scheduler.explain.findings import Finding, Subject
from ringwise.scheduler.explain.fix_search import Fix, FixSearch, first_fixes
from ringwise.scheduler.view import SchedulerView
from ringwise.state.limits import PENDING_JOBS, UsageLimit
from ringwise.topology.natural import natural_key
from ringwise.wellknown import USER as USER_ANNOTATION

#: Jobs of its own namespace that are named.
_NAMED = 5
#: Jobs that are supposed to end, one after the other.
_TRIED = 8


def _users(view: SchedulerView, scope: Scope, resource: str) -> list[tuple[Job, Amount]]:
    """The running jobs that count for it, with what they use of a resource."""
    holdings = view.usage.holdings
    users = [
        (job, amounts.get(resource, 0))
        for (key, queue), (_, amounts) in holdings.held.items()
        if _counts(scope, key, queue, holdings.users.get(key, ""))
        if (job := view.jobs.get(key)) is not None
    ]
    return sorted(users, key=lambda one: natural_key(one[0].name))


def _counts(scope: Scope, key: str, queue: str, user: str) -> bool:
    return scope.shape.of(namespace_of(key), queue, user) == scope


def _waiters(view: SchedulerView, scope: Scope) -> list[Job]:
    """The waiting jobs that count for it."""
    users, table = view.usage.holdings.users, view.limits
    jobs = [
        job
        for key, job in view.jobs.items()
        if _counts(scope, key, job.queue, users.get(key, "")) and table.is_waiting(job)
    ]
    return sorted(jobs, key=lambda job: natural_key(job.name))


def limit_users(view: SchedulerView, job: Job, reason: Reason | None) -> Iterator[str]:
    """Who uses the limit that the job waits for, as a sentence."""
    users: list[tuple[Job, Amount]] = []
    resource = str(reason.details.get("limited", "")) if reason is not None else ""
    if reason is not None and reason.code == CHIP_LIMIT_REACHED.code:
        users = [one for one in _users(view, scope_of(reason), resource) if one[1]]
    elif reason is not None and reason.code == RUNNING_LIMIT_REACHED.code:
        users = _users(view, scope_of(reason), resource)
    elif reason is not None and reason.code == WAITING_LIMIT_REACHED.code:
        users = [(one, 0) for one in _waiters(view, scope_of(reason))]
    users = [one for one in users if one[0] is not job]
    if reason is None or not users:
        return
    own = [(one, amount) for one, amount in users if one.namespace == job.namespace]
    others: list[Amount] = [amount for one, amount in users if one.namespace != job.namespace]
    parts = [f"{one.name}{_share(resource, amount)}" for one, amount in own[:_NAMED]]
    if len(own) > _NAMED:
        more = own[_NAMED:]
        parts.append(f"{counted(more, 'more job')}{_share(resource, sum(part for _, part in more))}")
    if others:
        parts.append(f"{counted(others, 'job')} of other namespaces{_share(resource, sum(others))}")
    yield f"the limit of {scope_of(reason)} is used by {', '.join(parts)}"


def _share(resource: str, amount: Amount) -> str:
    """Jobs that are counted have none."""
    return f" ({amount_text(resource, amount)} {resource.rpartition('/')[2]})" if amount else ""


def counted_as_unknown(view: SchedulerView, job: Job) -> Iterator[str]:
    """Yield a note if its user is not known and a limit per user applies."""
    unknown = view.limits.user_of(job) == unknown_user(job.namespace)
    if unknown and any(scope.user for scope, _ in view.limits.on(job)):
        yield (
            f"admission did not write its user ({USER_ANNOTATION}): it counts for the user unknown of "
            f"namespace {job.namespace}, with the limit of one user"
        )


def run_time_left(view: SchedulerView, job: Job, now: int) -> Iterator[str]:
    """When a running job is over by its maximum run time, and what happens then."""
    limit, end = view.limits.ended_by(job), view.limits.end_of(job, now)
    if job.started is None or limit is None or limit.max_run_time is None or end is None:
        return
    then = at_run_time_end(job, limit.on_timeout, is_vcjob=view.vcjob_of(job) is not None)
    text = duration_text(limit.max_run_time)
    yield f"it is {then} at {time_text(end)}: UsageLimit {limit.name} lets jobs run for {text}"


def limit_fixes(search: FixSearch) -> Iterator[Fix]:
    """The limit raised to what is needed; a job of its own namespace that ends."""
    table, reason = search.view.limits, search.reason
    limit = table.limits[str(reason.details["limit"])]
    what, needed = raised(reason)
    was, then = (amount_text(what, amount) for amount in (limit.hard[what], needed))
    wanted = replace(limit, hard={**limit.hard, what: needed})
    text = f"raise {reason.details['setting']} to {then} (now {was})"
    yield from search.attempt("limit", text, partial(_supposed, table, wanted))
    if reason.code in (CHIP_LIMIT_REACHED.code, RUNNING_LIMIT_REACHED.code):
        yield from _ended(search, scope_of(reason), what)


@contextmanager
def _supposed(table: LimitTable, wanted: UsageLimit) -> Iterator[None]:
    """Inside, the limit is another one."""
    before, changed = table.limits.values(), table.changed
    try:
        table.put([wanted if one.name == wanted.name else one for one in before])
        yield
    finally:
        table.put(before)
        table.changed = changed


def _ended(search: FixSearch, scope: Scope, resource: str) -> Iterator[Fix]:
    view, job = search.view, search.job
    users = _users(view, scope, resource)
    own = [one for one, _ in users if one.namespace == job.namespace and one is not job]
    running = ((one, [uid for uid in one.pods if view.cluster.pods[uid].node >= 0]) for one in own[:_TRIED])
    yield from first_fixes(
        search.attempt("job-ended", f"wait for job {one.full_name} to end", search.ended(uids), len(uids))
        for one, uids in running
    )


def limits_without_effect(view: SchedulerView) -> Iterator[Finding]:
    """Limits that are set and do not hold, and what would make them hold."""
    table, actions = view.limits, view.configuration.actions
    if table.lends() and not may_reclaim(actions):
        yield Subject("borrowingLimit").warning(
            "limit-without-effect",
            "borrowing is disabled: it requires the action reclaim, which is not configured",
            "add reclaim to the actions, or remove borrowingLimit",
        )
    if ENQUEUE not in actions and any(PENDING_JOBS in one.hard for one in table.limits.values()):
        yield Subject(PENDING_JOBS).warning(
            "limit-without-effect",
            "it does not hold: without the action enqueue all jobs are tried",
            "add enqueue to the actions",
        )
