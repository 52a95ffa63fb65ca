"""Jobs that wait for a limit: which are tried when a job that counts for it ends, and which may borrow.

Only the jobs that wait for a limit are tried when it has room again, or is changed. Jobs may borrow when no
other job is to be tried, in a separate cycle.
"""

from __future__ import annotations

from collections.abc import Mapping

from ringwise.framework.amounts import Amount
from ringwise.framework.holdings import Scope
from ringwise.framework.job import Job
from ringwise.framework.limits import lends, scope_of, waits_for_limit
from ringwise.framework.queue_discipline import lacks_room
from ringwise.framework.reasons import WAITING_LIMIT_REACHED
from ringwise.reasons import Reason, Trigger
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, on_job
from ringwise.state.nested import discard


class LimitWaits(Component):
    name = "limits"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._table = context.book.limits
        #: What each job waits for, and the jobs that wait for it.
        self._scope: dict[str, Scope] = {}
        self._waiting: dict[Scope, dict[str, None]] = {}
        #: What was in use when a job was last refused.
        self._seen: dict[Scope, Mapping[str, Amount]] = {}
        #: Scopes of jobs that no longer wait, where some wait to be admitted.
        self._left: dict[Scope, None] = {}
        #: Jobs that could start by borrowing.
        self._for_burst: dict[str, None] = {}

    @on_job(ie.JobSettled)
    def _settled(self, job: Job, now: int) -> None:
        self._forget(job.key)
        reason = job.reason
        if job.key in self._table.may_burst and lacks_room(reason):
            # The job waits for its limit, not for room, and must not block the jobs behind it.
            reason = job.reason = self._without_burst(job) or reason
        if not waits_for_limit(reason) or reason is None or job.key not in self._book.jobs:
            self._leave(job, now)
            return
        scope = scope_of(reason)
        self._scope[job.key] = scope
        self._waiting.setdefault(scope, {})[job.key] = None
        self._seen[scope] = self._table.used(scope)
        if job.key not in self._table.may_burst and lends(reason, job, self._configuration.current.actions):
            self._for_burst[job.key] = None

    def _without_burst(self, job: Job) -> Reason | None:
        offered, self._table.may_burst = self._table.may_burst, frozenset()
        pods = [pod for pod in job.in_order if not job.pods or self._book.is_pending(pod)]
        try:
            reason = self._table.refusal(
                job, pods[: max(1, job.min_available)], self._configuration.current.actions
            )
        finally:
            self._table.may_burst = offered
        return None if reason is None else reason.with_hints(["it may borrow, but there is no room for it"])

    @on_job(ie.JobChanged, ie.AdmissionEnded)
    def _leave(self, job: Job, now: int) -> None:
        """It may have started, or is no longer admitted: another one may be admitted instead."""
        if self._waiting and not self._table.is_waiting(job):
            self._left.update((scope, None) for scope, _ in self._table.on(job))

    @on_job(ie.JobGone)
    def _gone(self, job: Job, now: int) -> None:
        self._forget(job.key)
        self._leave(job, now)

    def _forget(self, key: str) -> None:
        self._for_burst.pop(key, None)
        scope = self._scope.pop(key, None)
        if scope is not None:
            discard(self._waiting, scope, key)
            if scope not in self._waiting:
                self._seen.pop(scope, None)

    def wake(self) -> bool:
        """Activate the jobs that wait for a limit which has room, or was changed; True if a burst is lent."""
        changed, self._table.changed = self._table.changed, False
        if changed:
            # A limit that was lowered is what a job waits for that waited for room: it says so then.
            self._job_queue.wake((Trigger.CONFIGURATION_CHANGED,))
        for scope in list(self._waiting):
            before, now = self._seen[scope], self._table.used(scope)
            if any(now.get(what, 0) < amount for what, amount in before.items()):
                self._job_queue.activate(*self._waiting[scope])
            elif scope in self._left:
                for job in self._book.existing(self._waiting[scope]):
                    if job.reason is not None and job.reason.code == WAITING_LIMIT_REACHED.code:
                        self._job_queue.activate(job.key)
            self._seen[scope] = now
        self._left.clear()
        self._table.may_burst = frozenset()
        if self._for_burst and not self._job_queue.active:
            self._table.may_burst = frozenset(self._for_burst)
            self._job_queue.activate(*self._for_burst)
            self._for_burst = {}
        return bool(self._table.may_burst)
