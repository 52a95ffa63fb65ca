"""No queue admits more than it may, and limits hold: counted from pods alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ringwise.framework.amounts import Amount
from ringwise.framework.holdings import Scope
from ringwise.messages.commands import RemoveQueueGate, SetGroupStatus
from ringwise.messages.events import Decide
from ringwise.scheduler.core.machine import Scheduler
from ringwise.state.limits import JOB_COUNTS, RUNNING_JOBS, UsageLimit
from ringwise.state.model import Pod, PodGroup, Queue
from ringwise.wellknown import USER
from tests.invariants.ledger import Ledger

#: Actions that admit a job because others can be evicted for it.
_EVICTING = {"preempt", "reclaim", "gangpreempt", "gangreclaim"}


def queues_use_no_more_than_they_may(ledger: Ledger, scheduler: Scheduler) -> Iterator[str]:
    """Queue capability: what pods of the queue use stays within it when one of them is bound.

    With `capacity` also within what the other queues leave of the cluster with their guarantees.
    """
    plugin = _sharing_plugin(scheduler)
    if not plugin:
        return
    asked: dict[str, set[str]] = {}
    for bind in ledger.binds:
        if bind.uid in ledger.pods and (name := ledger.queue_of.get(bind.uid)):
            asked.setdefault(name, set()).update(_requests(ledger.pods[bind.uid]))
    if not asked:
        return
    used: dict[str, Counter[str]] = {}
    for uid in ledger.placed():
        if name := ledger.queue_of.get(uid):
            used.setdefault(name, Counter()).update(_requests(ledger.pods[uid]))
    for name, resources in asked.items():
        queue = ledger.queues.get(name)
        if queue is None:
            continue
        for resource in sorted(resources):
            limit = _limit(ledger, scheduler, queue, resource, guarantees=plugin == "capacity")
            if limit is not None and used[name][resource] > limit:
                yield f"queue {name} uses {used[name][resource]} of at most {limit} {resource}"


def _limit(
    ledger: Ledger, scheduler: Scheduler, queue: Queue, resource: str, *, guarantees: bool
) -> Amount | None:
    limits: list[Amount | None] = [_capability(queue).get(resource)]
    if guarantees and any(one.guarantee.get(resource) for one in ledger.queues.values()):
        others = sum(
            one.guarantee.get(resource, 0) for one in ledger.queues.values() if one.name != queue.name
        )
        limits.append(max(0, scheduler.view.what_if.sessions.capacity().get(resource, 0) - others))
    return min((limit for limit in limits if limit is not None), default=None)


def _capability(queue: Queue) -> dict[str, int]:
    """Cpu and memory of 0 have no limit."""
    return {name: most for name, most in queue.capability.items() if most or name not in ("cpu", "memory")}


def _sharing_plugin(scheduler: Scheduler) -> str:
    """The plugin that limits queues; none where the configuration disables it."""
    for tier in scheduler.view.configuration.tiers:
        for option in tier.plugins:
            if option.name in ("capacity", "proportion") and option.is_enabled("allocatable"):
                return "" if option.is_enabled("hierarchy") and option.name == "capacity" else option.name
    return ""


def queues_admit_no_more_than_they_may(ledger: Ledger, scheduler: Scheduler) -> Iterator[str]:
    """Admission: the `minResources` of all admitted jobs of a queue together stay within its capability.

    A pod behind a gate of its user cannot use its part yet; the gate of the queue itself counts as none. What
    a job uses beyond its promise can be reclaimed. A job that others are evicted for, or that waited long,
    may be admitted before there is room; what is reserved for a job that waited long is not promised to it.
    Questions about manifests suppose that a job is admitted.
    """
    if ledger.decide is not Decide.ALL:
        return
    actions = scheduler.view.configuration.actions
    if not _sharing_plugin(scheduler) or "enqueue" not in actions or _EVICTING & set(actions):
        return
    admitted = set(_admitted(ledger))
    long = ledger.now - scheduler.view.settings.reservation_after * 1_000_000_000
    for key in sorted(admitted):
        job, group = scheduler.view.jobs.get(key), ledger.groups.get(key)
        queue = ledger.queues.get(group.queue) if group is not None else None
        if job is None or group is None or queue is None or not job.inqueue or ledger.first_seen[key] <= long:
            continue
        promised: Counter[str] = Counter()
        for other in ledger.groups.values():
            if other.queue == group.queue and ledger.first_seen[other.key] > long:
                promised.update(_promised(ledger, scheduler, other))
        for resource, most in _capability(queue).items():
            if _needs(ledger, group).get(resource) and promised[resource] > most:
                have = promised[resource]
                yield f"{key} is admitted to {queue.name}: {have} of {most} {resource} are promised"


def _admitted(ledger: Ledger) -> Iterator[str]:
    """Jobs that this turn admitted."""
    for command in ledger.commands:
        if isinstance(command, RemoveQueueGate) and command.uid in ledger.pods:
            yield f"{command.namespace}/{ledger.pods[command.uid].group}"
        elif isinstance(command, SetGroupStatus) and command.phase == "Inqueue":
            before = ledger.groups.get(command.key)
            if before is not None and before.phase in ("", "Pending"):
                yield command.key


def _needs(ledger: Ledger, group: PodGroup) -> Counter[str]:
    found = Counter({name: count for name, count in group.min_resources.items() if name != "pods"})
    for pod in ledger.pods_of(group.key):
        if pod.gated and not pod.queue_gated:
            found.subtract(_requests(pod))
    return +found


def _promised(ledger: Ledger, scheduler: Scheduler, group: PodGroup) -> Mapping[str, int]:
    """What the job was promised and uses of that, or will use: at least so much is counted for it."""
    pods = list(ledger.pods_of(group.key))
    bound = {bind.uid for bind in ledger.binds}
    used: Counter[str] = Counter()
    for pod in pods:
        if pod.uid in ledger.held or pod.uid in bound:
            used.update(_requests(pod))
    needs = _needs(ledger, group)
    open_pods = any(
        pod.uid not in ledger.held
        and pod.uid not in bound
        and pod.phase == "Pending"
        and ledger.stays(pod.uid)
        and (not pod.gated or pod.queue_gated)
        for pod in pods
    )
    job = scheduler.view.jobs.get(group.key)
    if job is not None and job.inqueue and open_pods:
        return needs
    return {name: min(amount, used[name]) for name, amount in needs.items()}


def _requests(pod: Pod) -> dict[str, int]:
    cls = pod.cls
    found = Counter({"cpu": cls.cpu_milli, "memory": cls.memory, **dict(cls.extended)})
    if cls.resource is not None:
        found[cls.resource] += cls.chips
    return {name: amount for name, amount in found.items() if amount}


def limits_hold_when_a_job_starts(ledger: Ledger, scheduler: Scheduler) -> Iterator[str]:
    """docs/guides/limits.md: a job starts only within the limits of its namespace, its queue and its user.

    Resources are those of pods with a node, jobs those with such a pod. A job that lost pods may have as many
    again, also where the limit is lower by now. What is borrowed goes to jobs whose pods are all preemptable,
    if `reclaim` can take it back.
    """
    view = scheduler.view
    starts = {bind.uid: job for bind in ledger.binds if (job := view.job_of(bind.uid)) is not None}
    limits = list(view.limits.limits.values())
    if not starts or not limits or ledger.lost & {job.key for job in starts.values()}:
        return
    guarded = view.settings.user_annotation == "guarded"
    ran = {job.key for uid in ledger.held if (job := view.job_of(uid)) is not None}
    members: dict[tuple[str, ...], list[str]] = {}
    for uid in ledger.placed():
        if (job := view.job_of(uid)) is not None and (queue := ledger.queue_of.get(uid)):
            user = job.annotations.get(USER, "") if guarded else ""
            where = (job.namespace, queue, user)
            for limit in _limits_of(limits, where):
                parts = (value if part else "" for value, part in zip(where, limit.subject, strict=True))
                members.setdefault((limit.name, *parts), []).append(uid)
    for scope, uids in members.items():
        limit = view.limits.limits[scope[0]]
        for resource, most in limit.hard.items():
            amounts = {uid: _requests(ledger.pods[uid]).get(resource, 0) for uid in uids}
            new = [uid for uid in uids if uid in starts and amounts[uid]]
            if resource not in JOB_COUNTS and new and sum(amounts.values()) > most:
                lends = bool({"reclaim", "gangreclaim"} & set(view.configuration.actions))
                lent = [uid for uid in new if lends and _gives_back(starts[uid].pods.values())]
                used, more = sum(amounts.values()), limit.borrowing.get(resource, 0)
                within = used - sum(amounts[uid] for uid in lent) if len(lent) < len(new) else 0
                if used > most + more or within > most or not lent:
                    yield f"{scope} uses {used} of {most} {resource}, may borrow {more}: {new} started"
        jobs = {job.key for uid in uids if (job := view.job_of(uid)) is not None}
        first = {starts[uid].key for uid in uids if uid in starts} - ran
        running = limit.hard.get(RUNNING_JOBS)
        if running is not None and len(jobs) > running and first:
            yield f"{scope} runs {len(jobs)} of {running} jobs: {sorted(first)} started"


def limits_count_what_runs_and_what_is_reserved(ledger: Ledger, scheduler: Scheduler) -> Iterator[str]:
    """F6: what limits count for jobs that lost pods follows the pods of these jobs."""
    usage, table = scheduler._context.usage, scheduler.view.limits
    counted: dict[Scope, Counter[str]] = {}
    for job, (queue, amounts) in usage.reserved.by_job().items() if table.limits else ():
        for scope in usage.holdings.scopes(job, queue):
            found = counted.setdefault(scope, Counter(usage.holdings.used.get(scope, {})))
            found.update({**amounts, RUNNING_JOBS: not usage.holdings.runs(job)})
    for scope, right in counted.items():
        if (stored := table.used(scope)) != +right:
            yield f"{scope} uses {dict(+right)}, the limits count {stored}"


def _limits_of(limits: Sequence[UsageLimit], where: tuple[str, str, str]) -> Iterator[UsageLimit]:
    """Those that hold for such a job: of the subjects with the same parts, those with the fewest `*`."""
    fitting = [
        one
        for one in limits
        if all(
            part in ("", value) or (part == "*" and value)
            for part, value in zip(one.subject, where, strict=True)
        )
    ]
    for one in fitting:
        alike = [other for other in fitting if list(map(bool, other.subject)) == list(map(bool, one.subject))]
        if one.subject.count("*") == min(other.subject.count("*") for other in alike):
            yield one


def _gives_back(pods: Iterable[Pod]) -> bool:
    return all(pod.preemptable for pod in pods)
