"""Limits of what is used at once: by a namespace, a queue, a user, and by what these have in common.

One function says whether pods of a job may be placed now. It is asked before nodes are looked at, so a job
that waits for a limit costs little, reserves nothing and delays no other job. A limit affects no job that
is being rescheduled: what was kept for it (F6) it may have again, whatever the limit is now.

What a limit allows beyond itself is lent in a cycle of its own after all other jobs were tried, to jobs that
can be made to give it back; without an action that takes it back nothing is lent. What was lent stays
reclaimable after the job is changed to be no longer preemptable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product

from ringwise.framework.amounts import Amount, Amounts, add, amounts_of, as_number, smaller
from ringwise.framework.holdings import Scope, Shape
from ringwise.framework.job import Job
from ringwise.framework.reasons import (
    CHIP_LIMIT_REACHED,
    LARGER_THAN_LIMIT,
    RUNNING_LIMIT_REACHED,
    WAITING_LIMIT_REACHED,
)
from ringwise.framework.usage import ResourceUsage
from ringwise.grammar import amount_text
from ringwise.reasons import Reason
from ringwise.state.limits import EACH, JOB_COUNTS, PENDING_JOBS, REQUEUE, RUNNING_JOBS, UsageLimit
from ringwise.state.model import Pod
from ringwise.wellknown import KUBE_SYSTEM

#: The actions that make jobs give back what was lent.
RECLAIM, GANG_RECLAIM = "reclaim", "gangreclaim"
#: The reasons of jobs that wait for a limit.
CODES = frozenset(
    kind.code
    for kind in (CHIP_LIMIT_REACHED, LARGER_THAN_LIMIT, RUNNING_LIMIT_REACHED, WAITING_LIMIT_REACHED)
)
_NOTHING: Mapping[str, Amount] = {}


def at_run_time_end(job: Job, on_timeout: str, *, is_vcjob: bool) -> str:
    """What becomes of a job when its maximum run time is over: "it is ..."."""
    may_return = is_vcjob or any(pod.owner for pod in job.pods.values())
    if on_timeout == REQUEUE:
        return "requeued" if may_return else "ended"
    if is_vcjob or not may_return:
        return "ended"
    # The owner of its pods creates them again, because it was not asked to end.
    return "requeued (what creates its pods cannot be ended)"


def waits_for_limit(reason: Reason | None) -> bool:
    return reason is not None and reason.code in CODES


def setting_of(limit: str, what: str) -> str:
    """Where the limit is set, for people."""
    return f"{what} of UsageLimit {limit}"


class LimitTable:
    """What is set, and who waits for it. All parts of the scheduler share it."""

    def __init__(self, usage: ResourceUsage) -> None:
        self._usage = usage
        #: Those in force, by name; and by shape and subject.
        self.limits: Mapping[str, UsageLimit] = {}
        self._by_shape: dict[Shape, dict[Scope, list[UsageLimit]]] = {}
        #: Why others are not accepted, by name.
        self.problems: Mapping[str, str] = {}
        #: A limit changed since this was last set to False.
        self.changed = False
        #: One of them has a maximum run time.
        self.has_run_times = False
        #: The jobs that may borrow in this cycle.
        self.may_burst: frozenset[str] = frozenset()
        #: Whether a job was tried and waits to start. Set by who knows the jobs.
        self.is_waiting: Callable[[Job], bool] = lambda job: False
        #: When a running job ends at the latest, and how long one runs that starts now, where a limit has a
        #: maximum run time. Set by who ends them.
        self.end_of: Callable[[Job, int], int | None] = lambda job, now: None
        self.longest: Callable[[Job], int | None] = lambda job: None
        #: The limit that ends a running job: it may have been in several queues.
        self.ended_by: Callable[[Job], UsageLimit | None] = lambda job: None
        self._cached: tuple[int, dict[Scope, Amounts]] = -1, {}

    # -- what is set ------------------------------------------------------------------------

    def put(self, limits: Iterable[UsageLimit]) -> bool:
        """Put all limits that are in force. Return whether they changed."""
        wanted = {one.name: one for one in limits}
        if wanted == self.limits:
            return False
        self.limits, self._by_shape = wanted, {}
        for one in wanted.values():
            subject = Scope(*one.subject)
            self._by_shape.setdefault(subject.shape, {}).setdefault(subject, []).append(one)
        self.has_run_times = any(one.max_run_time is not None for one in wanted.values())
        self.changed = True
        holdings = self._usage.holdings
        if set(holdings.shapes) != self._by_shape.keys():
            self._cached = -1, {}
            holdings.count_by(self._by_shape)
        return True

    def __bool__(self) -> bool:
        return bool(self.limits)

    def user_of(self, job: Job) -> str:
        return self._usage.holdings.users.get(job.key, "")

    def on(self, job: Job, queue: str | None = None) -> list[tuple[Scope, UsageLimit]]:
        """The limits that hold for the job; or for pods of it that count for another queue."""
        name = job.queue if queue is None else queue
        return [
            (scope, limit)
            for scope in self._usage.holdings.scopes(job.key, name)
            for limit in self.limits_of(scope)
        ]

    def of_queue(self, name: str) -> Amounts:
        """What all jobs of the queue together may use, by resource."""
        limits: Amounts = {}
        for limit in self.limits_of(Scope(queue=name)):
            limits = smaller(limits, limit.hard)
        return {what: most for what, most in limits.items() if what not in JOB_COUNTS}

    def scopes(self, job: Job) -> Iterator[Scope]:
        return self._usage.holdings.scopes(job.key, job.queue)

    def limits_of(self, scope: Scope) -> Sequence[UsageLimit]:
        """Those whose subject names the scope; if none does, those that name most of its parts, and `*`."""
        by_subject = self._by_shape.get(scope.shape, {})
        parts = [(name, EACH) if name else ("",) for name in scope]
        by_count: dict[int, list[UsageLimit]] = {}
        for subject in product(*parts):
            if (limits := by_subject.get(Scope(*subject))) is not None:
                by_count.setdefault(subject.count(EACH), []).extend(limits)
        return by_count[min(by_count)] if by_count else ()

    def run_limit(self, job: Job, queue: str | None = None) -> UsageLimit | None:
        """The limit with the shortest maximum run time."""
        if not self.has_run_times:
            return None
        limits = [limit for _, limit in self.on(job, queue) if limit.max_run_time is not None]
        return min(limits, key=lambda one: (one.max_run_time or 0, one.name), default=None)

    def lends(self) -> bool:
        return any(amount for limit in self.limits.values() for amount in limit.borrowing.values())

    # -- use --------------------------------------------------------------------------------

    def used(self, scope: Scope, but: Job | None = None) -> Mapping[str, Amount]:
        """Amounts and running jobs, with what is kept for jobs that are being rescheduled.

        For one job: without what is kept for it, and other running jobs only.
        """
        holdings = self._usage.holdings
        used = holdings.used.get(scope, _NOTHING)
        reserved = self._reserved_in().get(scope, _NOTHING) if len(self._usage.reserved) else _NOTHING
        if not reserved and (but is None or not holdings.runs_in(but.key, scope)):
            return used
        result = dict(used)
        add(result, reserved)
        if but is not None:
            add(result, {RUNNING_JOBS: -holdings.runs_in(but.key, scope)})
            own = self._usage.reserved.by_job().get(but.key)
            if own is not None and scope.queue in ("", own[0]):
                add(result, own[1], -1)
                add(result, {RUNNING_JOBS: -(not holdings.runs(but.key))})
        return result

    def _reserved_in(self) -> dict[Scope, Amounts]:
        """F6, by scope. Counted again when what is kept changes."""
        shares, holdings = self._usage.reserved, self._usage.holdings
        by_job = shares.by_job()
        if shares.is_ignored:
            return {}
        if self._cached[0] != shares.version:
            totals: dict[Scope, Amounts] = {}
            for job, (queue, amounts) in by_job.items():
                for scope in holdings.scopes(job, queue):
                    total = totals.setdefault(scope, {})
                    add(total, amounts)
                    add(total, {RUNNING_JOBS: not holdings.runs(job)})
            self._cached = shares.version, totals
        return self._cached[1]

    def exceeded_by(self, scope: Scope, limit: UsageLimit) -> Iterator[tuple[str, Amount]]:
        """What of the limit is exceeded, and by how much."""
        used = self.used(scope)
        for what, hard in limit.hard.items():
            if what != PENDING_JOBS and used.get(what, 0) > hard:
                yield what, used[what] - hard

    def note_borrowing(self, job: Job, pod: Pod) -> None:
        """Record whether the pod got its node by borrowing, its own or that of the pod which it replaces."""
        share = self._usage.reserved.share_of(job.key)
        if job.key not in self.may_burst and (share is None or not share.lent):
            return
        exceeded = (one for scope, limit in self.on(job) for one in self.exceeded_by(scope, limit))
        if any(what != RUNNING_JOBS for what, _ in exceeded):
            self._usage.borrowing[pod.uid] = None

    # -- judging ----------------------------------------------------------------------------

    def refusal(
        self, job: Job, pods: Sequence[Pod], actions: Sequence[str], *, placed: bool = False
    ) -> Reason | None:
        """Return why these pods of the job may not be placed now; None: they may.

        `placed`: they have their nodes already, and may differ from the pods that were checked before.
        """
        limits = self.on(job)
        if not limits or not pods:
            return None
        requests = self._requests(pods, limits)
        if self._returns(job, pods, requests):
            return None
        for scope, limit in limits:
            used = self.used(scope, job)
            for resource, amount in requests.items():
                before = used.get(resource, 0) - (amount if placed else 0)
                if self._is_too_much(job, limit, resource, before + amount):
                    return self._too_much(job, scope, limit, resource, before, amount, actions)
            most, jobs = limit.hard.get(RUNNING_JOBS), used.get(RUNNING_JOBS, 0)
            if most is not None and jobs >= most and not self._usage.holdings.runs_in(job.key, scope):
                return RUNNING_LIMIT_REACHED(jobs=jobs, most=most, **_details(scope, limit, RUNNING_JOBS))
        return None

    def _requests(self, pods: Sequence[Pod], limits: Sequence[tuple[Scope, UsageLimit]]) -> Amounts:
        """What the pods request of resources with a limit."""
        limited = {what for _, limit in limits for what in limit.hard}
        total: Amounts = {}
        for pod in pods:
            requests = amounts_of(pod.cls)
            add(total, {name: amount for name, amount in requests.items() if name in limited})
        return total

    def _is_too_much(self, job: Job, limit: UsageLimit, resource: str, amount: Amount) -> bool:
        hard = limit.hard.get(resource)
        lent = limit.borrowing.get(resource, 0) if job.key in self.may_burst else 0
        return hard is not None and amount > hard + lent

    def _too_much(
        self,
        job: Job,
        scope: Scope,
        limit: UsageLimit,
        resource: str,
        used: Amount,
        request: Amount,
        actions: Sequence[str],
    ) -> Reason:
        hard, borrowing = limit.hard[resource], limit.borrowing.get(resource, 0)
        details = {
            "asked": amount_text(resource, request),
            "hard": amount_text(resource, hard),
            "resource": resource.rpartition("/")[2],
            "needed": as_number(used + request),
            **_details(scope, limit, resource),
        }
        if not self._usage.used_by_job(job.key).get(resource) and request > hard + borrowing:
            return LARGER_THAN_LIMIT(**details)
        would_borrow = bool(borrowing) and used + request <= hard + borrowing
        reason = CHIP_LIMIT_REACHED(
            used=amount_text(resource, used),
            total=amount_text(resource, used + request),
            would_borrow=would_borrow,
            **details,
        )
        if would_borrow and not lends(reason, job, actions):
            why = "is lent only to jobs whose pods are all preemptable"
            if not may_reclaim(actions):
                why = f"lends nothing, because the action {RECLAIM} is not configured"
            return reason.with_hints([f"borrowingLimit of UsageLimit {limit.name} {why}"])
        return reason

    def _returns(self, job: Job, pods: Sequence[Pod], requests: Mapping[str, Amount]) -> bool:
        """Whether the pods replace some that the job lost, so that they are not new start."""
        reserved = self._usage.reserved
        had = reserved.share_of(job.key)
        if had is not None and had.queue != job.queue:
            # In another queue they are new.
            return False
        if job.places:
            return True
        if had is None:
            return False
        # Not ignored here: also a what-if without shares of others lets the job have its own.
        share = reserved.of(job.key)
        if share and _is_within(requests, share):
            return True
        if job.clock is None:
            return False
        # Its time is over. Not what it asks for now: its owner can raise `minMember` and chips at any time.
        placed = self._usage.holdings.pods_of(job.key)
        lost: Amounts = {}
        for amounts in had.ranks.values():
            add(lost, amounts)
        return placed + len(pods) <= min(max(job.min_available, 1), had.most) and _is_within(requests, lost)


def _is_within(requests: Mapping[str, Amount], most: Mapping[str, Amount]) -> bool:
    return all(amount <= most.get(name, 0) for name, amount in requests.items())


def may_reclaim(actions: Collection[str]) -> bool:
    return RECLAIM in actions or GANG_RECLAIM in actions


def is_reclaimable(job: Job) -> bool:
    """Whether the action reclaim may evict it."""
    pods = job.in_order
    return bool(pods) and job.namespace != KUBE_SYSTEM and all(pod.preemptable for pod in pods)


def lends(reason: Reason | None, job: Job, actions: Sequence[str]) -> bool:
    """Whether the job that waits with this reason would start if it borrowed."""
    if reason is None or reason.code != CHIP_LIMIT_REACHED.code:
        return False
    return bool(reason.details["would_borrow"]) and may_reclaim(actions) and is_reclaimable(job)


class WaitingCounts:
    """How many jobs were tried and wait, by scope: counted when first needed in a cycle.

    Beyond a limit jobs are not tried. One that was tried keeps its place until it starts or is gone.
    """

    def __init__(self, table: LimitTable, jobs: Mapping[str, Job]) -> None:
        self._table = table
        self._jobs = jobs
        self._counts: dict[Scope, int] | None = None
        #: Those that are counted.
        self._counted: set[str] = set()

    def refusal(self, job: Job) -> Reason | None:
        """Why the job may not be tried."""
        for scope, limit in self._table.on(job):
            most = limit.hard.get(PENDING_JOBS)
            if most is None:
                continue
            counts = self.by_scope()
            if job.key in self._counted:
                return None
            jobs = counts.get(scope, 0)
            if jobs >= most:
                return WAITING_LIMIT_REACHED(jobs=jobs, most=most, **_details(scope, limit, PENDING_JOBS))
        return None

    def tried(self, job: Job) -> None:
        if self._counts is not None and job.key not in self._counted:
            self._add(job, self._counts)

    def started(self, job: Job) -> None:
        """Supposed: it waits no more."""
        if self._counts is not None and job.key in self._counted:
            self._counted.remove(job.key)
            for scope in self._table.scopes(job):
                self._counts[scope] -= 1

    def by_scope(self) -> Mapping[Scope, int]:
        if self._counts is None:
            self._counts = {}
            for job in self._jobs.values():
                if self._table.is_waiting(job):
                    self._add(job, self._counts)
        return self._counts

    def _add(self, job: Job, counts: dict[Scope, int]) -> None:
        self._counted.add(job.key)
        for scope in self._table.scopes(job):
            counts[scope] = counts.get(scope, 0) + 1


def scope_of(reason: Reason) -> Scope:
    """What the limit of a reason holds for."""
    details = reason.details
    return Scope(*(str(details.get(f"of_{part}", "")) for part in Scope._fields))


def raised(reason: Reason) -> tuple[str, int]:
    """What of the limit would have to be how much for the job that waits with this reason."""
    what = str(reason.details["limited"])
    needed = reason.details["needed"] if "needed" in reason.details else int(reason.details["jobs"]) + 1
    return what, math.ceil(needed)


def _details(scope: Scope, limit: UsageLimit, what: str) -> dict[str, str]:
    of = {f"of_{part}": name for part, name in scope._asdict().items() if name}
    return {
        "scope": str(scope),
        "limit": limit.name,
        "limited": what,
        "setting": setting_of(limit.name, what),
        **of,
    }


def borrowers(table: LimitTable, usage: ResourceUsage, jobs: Mapping[str, Job]) -> Iterator[Job]:
    """Jobs that borrow: the last that started, until the rest is within the limit.

    Only those of limits that are exceeded are looked at.
    """
    holdings = usage.holdings
    over: dict[tuple[Scope, str], Amount] = {}
    for scope, used in holdings.used.items():
        for limit in table.limits_of(scope):
            for resource in limit.borrowing:
                if limit.borrowing[resource] and used.get(resource, 0) > limit.hard[resource]:
                    more = used[resource] - limit.hard[resource]
                    over[scope, resource] = max(more, over.get((scope, resource), 0))
    if not over:
        return
    running = [
        (job, queue, amounts)
        for (key, queue), (_, amounts) in holdings.held.items()
        if (job := jobs.get(key)) is not None
    ]
    running.sort(key=lambda one: (one[0].started or 0, one[0].created, one[0].key, one[1]), reverse=True)
    for job, queue, amounts in running:
        own = [
            (scope, resource)
            for scope in holdings.scopes(job.key, queue)
            for resource in amounts
            if over.get((scope, resource), 0) > 0
        ]
        if own and (is_reclaimable(job) or any(uid in usage.borrowing for uid in job.pods)):
            for scope, resource in own:
                over[scope, resource] -= amounts[resource]
            yield job
