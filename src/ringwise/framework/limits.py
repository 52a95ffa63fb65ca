"""Limits: chips in use, jobs that run and jobs that wait, of a namespace, a queue and a user of a queue.

One function says whether pods of a job may be placed now. It is asked before nodes are looked at, so a job
that waits for a limit costs little, reserves nothing and keeps nobody waiting. A limit never hurts a job that
is being rescheduled: what was kept for it (F6) it may have again, whatever the limit is now.

A burst is what a limit of chips allows beyond itself. It is lent in a cycle of its own after all other jobs
were tried, to jobs that can be made to give it back; without an action that takes it back nothing is lent.
A burst stays reclaimable after the job is changed to be no longer preemptable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from ringwise.framework.amounts import Amount
from ringwise.framework.holdings import NAMESPACE, QUEUE, USER, Scope, namespace_of
from ringwise.framework.job import Job
from ringwise.framework.reasons import (
    CHIP_LIMIT_REACHED,
    LARGER_THAN_LIMIT,
    RUNNING_LIMIT_REACHED,
    WAITING_LIMIT_REACHED,
)
from ringwise.framework.usage import ResourceUsage
from ringwise.reasons import Reason
from ringwise.state.limits import (
    BURST,
    CHIPS,
    NO_QUEUE_LIMITS,
    REQUEUE,
    RUNNING,
    WAITING,
    Limits,
    NamespaceLimits,
    QueueLimits,
    annotation_of,
    queue_limits,
)
from ringwise.state.model import Pod, Queue
from ringwise.wellknown import CHIP_RESOURCE_FAMILIES, KUBE_SYSTEM, LIMITS_CONFIG_MAP

#: The actions that make jobs give a burst back.
RECLAIM, GANG_RECLAIM = "reclaim", "gangreclaim"
#: The reasons of jobs that wait for a limit.
CODES = frozenset(
    kind.code
    for kind in (CHIP_LIMIT_REACHED, LARGER_THAN_LIMIT, RUNNING_LIMIT_REACHED, WAITING_LIMIT_REACHED)
)


def at_run_time_end(job: Job, at_end: str, *, is_vcjob: bool) -> str:
    """What becomes of a job when the longest run time of its queue is over: "it is ..."."""
    may_return = is_vcjob or any(pod.owner for pod in job.pods.values())
    if at_end == REQUEUE:
        return "requeued" if may_return else "ended"
    if is_vcjob or not may_return:
        return "ended"
    # Whoever creates its pods does so again; nobody asked it to end.
    return "requeued (what creates its pods cannot be ended)"


def waits_for_limit(reason: Reason | None) -> bool:
    return reason is not None and reason.code in CODES


def setting_of(scope: Scope, name: str) -> str:
    """Where the limit is set, for people."""
    if scope.kind == NAMESPACE:
        return f"{name} of namespace {scope.name} in the ConfigMap {LIMITS_CONFIG_MAP}"
    return f"{annotation_of(name, per_user=scope.kind == USER)} of queue {scope.name}"


def chips_in(amounts: Mapping[str, Amount]) -> Amount:
    return sum(amount for name, amount in amounts.items() if name.startswith(CHIP_RESOURCE_FAMILIES))


class LimitTable:
    """What is set, and who waits for it. All parts of the scheduler share it."""

    def __init__(self, usage: ResourceUsage) -> None:
        self._usage = usage
        #: Queues with limits or problems.
        self.queues: dict[str, QueueLimits] = {}
        self.namespaces = NamespaceLimits()
        #: A limit changed since this was last set to False.
        self.changed = False
        #: The jobs that may use bursts in this cycle.
        self.may_burst: frozenset[str] = frozenset()
        #: Whether a job was tried and waits to start. Set by who knows the jobs.
        self.is_waiting: Callable[[Job], bool] = lambda job: False
        #: When a running job ends at the latest, and how long one of a queue runs that starts now, where the
        #: queue has a longest run time. Set by who ends them.
        self.end_of: Callable[[Job, int], int | None] = lambda job, now: None
        self.longest: Callable[[str], int | None] = lambda queue: None
        #: The queue whose longest run time ends a running job: it may have been in several.
        self.ended_by: Callable[[Job], str] = lambda job: job.queue
        self._kept: tuple[int, dict[Scope, tuple[Amount, int]]] = -1, {}

    # -- what is set ------------------------------------------------------------------------

    def put_namespaces(self, limits: NamespaceLimits) -> None:
        self.changed = self.changed or limits != self.namespaces
        self.namespaces = limits

    def put_queue(self, queue: Queue) -> None:
        before = self.queues.get(queue.name, NO_QUEUE_LIMITS)
        after = queue_limits(queue.annotations, before)
        if after == NO_QUEUE_LIMITS:
            self.queues.pop(queue.name, None)
        else:
            self.queues[queue.name] = after
        self.changed = self.changed or after != before

    def drop_queue(self, name: str) -> None:
        self.changed = self.queues.pop(name, None) is not None or self.changed

    def of_queue(self, name: str) -> QueueLimits:
        return self.queues.get(name, NO_QUEUE_LIMITS)

    def __bool__(self) -> bool:
        return bool(self.queues or self.namespaces.by_namespace)

    def user_of(self, job: Job) -> str:
        return self._usage.holdings.users.get(job.key, "")

    def on(self, job: Job, queue: str | None = None) -> list[tuple[Scope, Limits]]:
        """The limits that hold for the job; or for pods of it that count for another queue."""
        found: list[tuple[Scope, Limits]] = []
        if not self:
            return found
        if limits := self.namespaces.of(job.namespace):
            found.append((Scope(NAMESPACE, job.namespace), limits))
        name = job.queue if queue is None else queue
        limits_of_queue = self.queues.get(name)
        if limits_of_queue is not None:
            if limits_of_queue.all_jobs:
                found.append((Scope(QUEUE, name), limits_of_queue.all_jobs))
            if limits_of_queue.per_user and (user := self.user_of(job)):
                found.append((Scope(USER, name, user), limits_of_queue.per_user))
        return found

    def limits_of(self, scope: Scope) -> Limits:
        if scope.kind == NAMESPACE:
            return self.namespaces.of(scope.name)
        queue = self.of_queue(scope.name)
        return queue.per_user if scope.kind == USER else queue.all_jobs

    def has_bursts(self) -> bool:
        return any(queue.all_jobs.burst or queue.per_user.burst for queue in self.queues.values()) or any(
            limits.burst for limits in self.namespaces.by_namespace.values()
        )

    # -- use --------------------------------------------------------------------------------

    def used(self, scope: Scope, but: Job | None = None) -> tuple[Amount, int]:
        """Chips and running jobs, with what is kept for jobs that are being rescheduled.

        For one job: without what is kept for it, and other running jobs only.
        """
        holdings = self._usage.holdings
        chips, jobs = holdings.chips.get(scope, 0), holdings.jobs.get(scope, 0)
        if len(self._usage.kept):
            kept = self._kept_in().get(scope, (0, 0))
            chips, jobs = chips + kept[0], jobs + kept[1]
        if but is not None:
            jobs -= holdings.runs_in(but.key, scope)
            own = self._usage.kept.by_job().get(but.key) if len(self._usage.kept) else None
            if own is not None and (scope.kind == NAMESPACE or scope.name == own[0]):
                chips -= chips_in(own[1])
                jobs -= not holdings.runs(but.key)
        return chips, jobs

    def _kept_in(self) -> dict[Scope, tuple[Amount, int]]:
        """F6, by scope. Counted again when what is kept changes."""
        shares, holdings = self._usage.kept, self._usage.holdings
        by_job = shares.by_job()
        if shares.is_ignored:
            return {}
        if self._kept[0] != shares.version:
            found: dict[Scope, tuple[Amount, int]] = {}
            for job, (queue, amounts) in by_job.items():
                user = holdings.users.get(job)
                scopes = [Scope(NAMESPACE, namespace_of(job)), Scope(QUEUE, queue)]
                for scope in [*scopes, Scope(USER, queue, user)] if user else scopes:
                    chips, jobs = found.get(scope, (0, 0))
                    found[scope] = chips + chips_in(amounts), jobs + (not holdings.runs(job))
            self._kept = shares.version, found
        return self._kept[1]

    def note_lent(self, job: Job, pod: Pod) -> None:
        """Record whether the pod got its node by a burst, its own or that of the pod which it replaces."""
        share = self._usage.kept.share_of(job.key)
        if job.key not in self.may_burst and (share is None or not share.lent):
            return
        if any(
            limit.chips is not None and self.used(scope)[0] > limit.chips for scope, limit in self.on(job)
        ):
            self._usage.lent[pod.uid] = None

    # -- judging ----------------------------------------------------------------------------

    def refusal(self, job: Job, pods: Sequence[Pod], actions: Sequence[str]) -> Reason | None:
        """Why these pods of the job may not be placed now; None: they may."""
        limits = self.on(job)
        if not limits or not pods or self._returns(job, pods):
            return None
        asked = sum(pod.cls.chips for pod in pods)
        holdings = self._usage.holdings
        for scope, limit in limits:
            chips, jobs = self.used(scope, job)
            lent = limit.burst if job.key in self.may_burst else 0
            if limit.chips is not None and asked and chips + asked > limit.chips + lent:
                return self._too_many_chips(job, scope, limit, chips, asked, actions)
            if limit.running is not None and jobs >= limit.running and not holdings.runs_in(job.key, scope):
                return RUNNING_LIMIT_REACHED(
                    scope=str(scope),
                    jobs=jobs,
                    most=limit.running,
                    setting=setting_of(scope, RUNNING),
                    **_scope(scope),
                )
        return None

    def exceeded(self, job: Job, pods: Sequence[Pod], actions: Sequence[str]) -> Reason | None:
        """Check the limits after placement: the placed pods may differ from those given to `refusal`."""
        asked = sum(pod.cls.chips for pod in pods)
        if not asked or self._returns(job, pods):
            return None
        for scope, limit in self.on(job):
            most = (limit.chips or 0) + (limit.burst if job.key in self.may_burst else 0)
            chips = self.used(scope, job)[0] if limit.chips is not None else 0
            if limit.chips is not None and chips > most:
                return self._too_many_chips(job, scope, limit, chips - asked, asked, actions)
        return None

    def _too_many_chips(
        self, job: Job, scope: Scope, limit: Limits, used: Amount, asked: Amount, actions: Sequence[str]
    ) -> Reason:
        most = limit.chips or 0
        own = chips_in(self._usage.used_by_job(job.key))
        details = {
            "scope": str(scope),
            "chips": asked,
            "most": most,
            "needed": used + asked,
            "setting": setting_of(scope, CHIPS),
            **_scope(scope),
        }
        if not own and asked > most + limit.burst:
            return LARGER_THAN_LIMIT(**details)
        reason = CHIP_LIMIT_REACHED(held=used, burst=limit.burst, **details)
        if limit.burst and used + asked <= most + limit.burst and not lends(reason, job, actions):
            why = "is lent only to jobs whose pods are all preemptable"
            if not takes_back(actions):
                why = f"lends nothing, because the action {RECLAIM} is not configured"
            return reason.with_hints([f"{setting_of(scope, BURST)} {why}"])
        return reason

    def _returns(self, job: Job, pods: Sequence[Pod]) -> bool:
        """Whether the pods replace some that the job lost, so that they are no new start."""
        kept = self._usage.kept
        had = kept.share_of(job.key)
        if had is not None and had.queue != job.queue:
            # In another queue they are new.
            return False
        if job.places:
            return True
        if had is None:
            return False
        asked = sum(pod.cls.chips for pod in pods)
        # Not ignored here: also a what-if without shares of others lets the job have its own.
        share = kept.of(job.key)
        if share and asked <= chips_in(share):
            return True
        if job.clock is None:
            return False
        # Its time is over. Not what it asks for now: its owner can raise `minMember` and chips at any time.
        placed = self._usage.holdings.pods_of(job.key)
        return placed + len(pods) <= min(max(job.min_available, 1), had.most) and asked <= sum(
            map(chips_in, had.ranks.values())
        )


def takes_back(actions: Collection[str]) -> bool:
    return RECLAIM in actions or GANG_RECLAIM in actions


def can_give_back(job: Job) -> bool:
    """Whether the action reclaim may evict it."""
    pods = job.in_order
    return bool(pods) and job.namespace != KUBE_SYSTEM and all(pod.preemptable for pod in pods)


def lends(reason: Reason | None, job: Job, actions: Sequence[str]) -> bool:
    """Whether a burst would let in the job that waits with this reason."""
    if reason is None or reason.code != CHIP_LIMIT_REACHED.code:
        return False
    details = reason.details
    return bool(
        details["burst"]
        and details["needed"] <= details["most"] + details["burst"]
        and takes_back(actions)
        and can_give_back(job)
    )


class WaitingCounts:
    """How many jobs were tried and wait, by scope: counted when first needed in a cycle.

    Beyond a limit jobs are not tried. One that was tried keeps its place until it starts or is gone.
    """

    def __init__(self, table: LimitTable, jobs: Mapping[str, Job]) -> None:
        self._table = table
        self._jobs = jobs
        self._counts: dict[Scope, int] | None = None
        #: Those that are counted.
        self._known: set[str] = set()

    def refusal(self, job: Job) -> Reason | None:
        """Why the job may not be tried."""
        for scope, limit in self._table.on(job):
            if limit.waiting is None:
                continue
            counts = self.by_scope()
            if job.key in self._known:
                return None
            jobs = counts.get(scope, 0)
            if jobs >= limit.waiting:
                return WAITING_LIMIT_REACHED(
                    scope=str(scope),
                    jobs=jobs,
                    most=limit.waiting,
                    setting=setting_of(scope, WAITING),
                    **_scope(scope),
                )
        return None

    def tried(self, job: Job) -> None:
        if self._counts is not None and job.key not in self._known:
            self._add(job, self._counts)

    def started(self, job: Job) -> None:
        """Supposed: it waits no more."""
        if self._counts is not None and job.key in self._known:
            self._known.remove(job.key)
            for scope, _ in self._table.on(job):
                self._counts[scope] -= 1

    def by_scope(self) -> Mapping[Scope, int]:
        if self._counts is None:
            self._counts = {}
            for job in self._jobs.values():
                if self._table.is_waiting(job):
                    self._add(job, self._counts)
        return self._counts

    def _add(self, job: Job, counts: dict[Scope, int]) -> None:
        self._known.add(job.key)
        for scope, _ in self._table.on(job):
            counts[scope] = counts.get(scope, 0) + 1


def scope_of(reason: Reason) -> Scope:
    """What the limit of a reason holds for."""
    details = reason.details
    return Scope(str(details["limit_of"]), str(details["of_name"]), str(details.get("of_user", "")))


def _scope(scope: Scope) -> dict[str, str]:
    found = {"limit_of": scope.kind, "of_name": scope.name}
    return {**found, "of_user": scope.user} if scope.user else found


def lent_jobs(table: LimitTable, usage: ResourceUsage, jobs: Mapping[str, Job]) -> Iterator[Job]:
    """Jobs that hold a burst: the last that started, until the rest is within the limit.

    Only those of limits that are exceeded are looked at.
    """
    holdings = usage.holdings
    over = {
        scope: chips - limit.chips
        for scope, chips in holdings.chips.items()
        if (limit := table.limits_of(scope)).burst and limit.chips is not None and chips > limit.chips
    }
    if not over:
        return
    running = [
        (job, queue, chips)
        for (key, queue), (_, chips) in holdings.held.items()
        if (job := jobs.get(key)) is not None
    ]
    running.sort(key=lambda one: (one[0].started or 0, one[0].created, one[0].key, one[1]), reverse=True)
    for job, queue, chips in running:
        scopes = [scope for scope, _ in table.on(job, queue) if over.get(scope, 0) > 0]
        if scopes and (can_give_back(job) or any(uid in usage.lent for uid in job.pods)):
            for scope in scopes:
                over[scope] -= chips
            yield job
