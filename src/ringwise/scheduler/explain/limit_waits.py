"""Who uses a limit that a job waits for, and what would let the job start; each fix was tried.

Jobs of its own namespace are named. Of others only their number is told: whoever may read a job need not
know what others run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from ringwise.durations import duration_text, time_text
from ringwise.framework.amounts import Amount
from ringwise.framework.configuration import ENQUEUE
from ringwise.framework.holdings import NAMESPACE, USER, Scope, namespace_of
from ringwise.framework.job import Job
from ringwise.framework.limits import LimitTable, at_run_time_end, scope_of, setting_of, takes_back
from ringwise.framework.reasons import (
    CHIP_LIMIT_REACHED,
    RUNNING_LIMIT_REACHED,
    WAITING_LIMIT_REACHED,
)
from ringwise.framework.users import unknown_user
from ringwise.grammar import counted
from ringwise.reasons import Reason
from ringwise.scheduler.explain.fix_search import Fix, FixSearch
from ringwise.scheduler.view import SchedulerView
from ringwise.state.limits import CHIPS, RUNNING, WAITING, Limits
from ringwise.topology.natural import natural_key
from ringwise.wellknown import USER as USER_ANNOTATION

#: Jobs of its own namespace that are named.
_NAMED = 5
#: Jobs that are supposed to end, one after the other.
_TRIED = 8


def _users(view: SchedulerView, scope: Scope) -> list[tuple[Job, Amount]]:
    """The running jobs that count for it, with their chips."""
    holdings = view.holdings
    found = [
        (job, chips)
        for (key, queue), (_, chips) in holdings.held.items()
        if _counts(scope, key, queue, holdings.users.get(key, ""))
        if (job := view.jobs.get(key)) is not None
    ]
    return sorted(found, key=lambda one: natural_key(one[0].name))


def _counts(scope: Scope, key: str, queue: str, user: str) -> bool:
    if scope.kind == NAMESPACE:
        return namespace_of(key) == scope.name
    return queue == scope.name and (scope.kind != USER or user == scope.user)


def _waiters(view: SchedulerView, scope: Scope) -> list[Job]:
    """The waiting jobs that count for it."""
    users, table = view.holdings.users, view.limits
    found = [
        job
        for key, job in view.jobs.items()
        if _counts(scope, key, job.queue, users.get(key, "")) and table.is_waiting(job)
    ]
    return sorted(found, key=lambda job: natural_key(job.name))


def limit_users(view: SchedulerView, job: Job, reason: Reason | None) -> Iterator[str]:
    """Who uses the limit that the job waits for, as a sentence."""
    users: list[tuple[Job, Amount]] = []
    if reason is not None and reason.code in (CHIP_LIMIT_REACHED.code, RUNNING_LIMIT_REACHED.code):
        users = _users(view, scope_of(reason))
    elif reason is not None and reason.code == WAITING_LIMIT_REACHED.code:
        users = [(one, 0) for one in _waiters(view, scope_of(reason))]
    users = [one for one in users if one[0] is not job]
    if reason is None or not users:
        return
    own = [(one, chips) for one, chips in users if one.namespace == job.namespace]
    others: list[Amount] = [chips for one, chips in users if one.namespace != job.namespace]
    parts = [f"{one.name}{_of_chips(chips)}" for one, chips in own[:_NAMED]]
    if len(own) > _NAMED:
        more = own[_NAMED:]
        parts.append(f"{counted(more, 'more job')}{_of_chips(sum(chips for _, chips in more))}")
    if others:
        parts.append(f"{counted(others, 'job')} of other namespaces{_of_chips(sum(others))}")
    yield f"the limit of {scope_of(reason)} is used by {', '.join(parts)}"


def _of_chips(chips: Amount) -> str:
    """Jobs that wait, and some that run, have none."""
    return f" ({counted(chips, 'chip')})" if chips else ""


def counted_as_unknown(view: SchedulerView, job: Job) -> Iterator[str]:
    """Yield a note if its user is not known and a limit per user applies."""
    if view.limits.of_queue(job.queue).per_user and view.limits.user_of(job) == unknown_user(job.namespace):
        yield (
            f"admission did not write its user ({USER_ANNOTATION}): it counts for the user unknown of "
            f"namespace {job.namespace}, with the limit of one user of queue {job.queue}"
        )


def run_time_left(view: SchedulerView, job: Job, now: int) -> Iterator[str]:
    """When a running job is over by the longest run time of its queue, and what happens then."""
    queue = view.limits.ended_by(job)
    longest, end = view.limits.longest(queue), view.limits.end_of(job, now)
    if job.started is None or longest is None or end is None:
        return
    at_end = view.limits.of_queue(queue).at_end
    then = at_run_time_end(job, at_end, is_vcjob=view.vcjob_of(job) is not None)
    yield f"it is {then} at {time_text(end)}: queue {queue} lets jobs run for {duration_text(longest)}"


def limit_fixes(search: FixSearch, reason: Reason) -> Iterator[Fix]:
    """The limit raised to what is needed; a job of its own namespace that ends."""
    scope, table = scope_of(reason), search.view.limits
    name, needed, raised = _raised(reason, table.limits_of(scope))
    text = f"if {setting_of(scope, name)} were {needed} (now {reason.details['most']})"
    yield from search.attempt("limit", text, partial(_supposed, table, scope, raised))
    if reason.code in (CHIP_LIMIT_REACHED.code, RUNNING_LIMIT_REACHED.code):
        yield from _ended(search, scope)


def _raised(reason: Reason, limits: Limits) -> tuple[str, int, Limits]:
    if reason.code == RUNNING_LIMIT_REACHED.code:
        needed = int(reason.details["jobs"]) + 1
        return RUNNING, needed, replace(limits, running=needed)
    if reason.code == WAITING_LIMIT_REACHED.code:
        needed = int(reason.details["jobs"]) + 1
        return WAITING, needed, replace(limits, waiting=needed)
    needed = int(reason.details["needed"])
    return CHIPS, needed, replace(limits, chips=needed)


@contextmanager
def _supposed(table: LimitTable, scope: Scope, limits: Limits) -> Iterator[None]:
    """Inside, the limit is another one."""
    queues, namespaces = dict(table.queues), table.namespaces
    try:
        if scope.kind == NAMESPACE:
            table.namespaces = replace(
                namespaces, by_namespace={**namespaces.by_namespace, scope.name: limits}
            )
        else:
            queue = table.of_queue(scope.name)
            user = scope.kind == USER
            table.queues[scope.name] = (
                replace(queue, per_user=limits) if user else replace(queue, all_jobs=limits)
            )
        yield
    finally:
        table.queues.clear()
        table.queues.update(queues)
        table.namespaces = namespaces


def _ended(search: FixSearch, scope: Scope) -> Iterator[Fix]:
    view, job = search.view, search.job
    users = _users(view, scope)
    own = [one for one, _ in users if one.namespace == job.namespace and one is not job]
    for other in own[:_TRIED]:
        uids = [uid for uid in other.pods if view.cluster.pods[uid].node >= 0]
        text = f"if job {other.namespace}/{other.name} ended"
        found = list(search.attempt("job-ended", text, search.ended(uids), len(uids)))
        yield from found
        if found:
            return


class LimitNote(NamedTuple):
    """A limit that is set and does not hold, and what would make it hold."""

    where: str
    what: str
    fix: str


def limit_notes(view: SchedulerView) -> Iterator[LimitNote]:
    table, settings, actions = view.limits, view.settings, view.configuration.actions
    users = [name for name, queue in table.queues.items() if queue.per_user]
    if users and settings.user_annotation != "guarded":
        yield LimitNote(
            f"queue {users[0]}" if len(users) == 1 else counted(users, "queue"),
            "limits per user do not hold: who a job belongs to is known only where admission writes it "
            "(user-annotation: guarded)",
            "install admission and set user-annotation: guarded, or remove the annotations",
        )
    if table.has_bursts() and not takes_back(actions):
        yield LimitNote(
            "bursts",
            "nothing is lent: the action reclaim, which would take it back, is not configured",
            "add reclaim to the actions, or remove the bursts",
        )
    if ENQUEUE not in actions and (
        any(q.all_jobs.waiting is not None or q.per_user.waiting is not None for q in table.queues.values())
        or any(one.waiting is not None for one in table.namespaces.by_namespace.values())
    ):
        yield LimitNote(
            "max-waiting-jobs",
            "it does not hold: without the action enqueue all jobs are tried",
            "add enqueue to the actions",
        )
