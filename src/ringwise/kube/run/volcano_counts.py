"""Counts what Volcano's metrics show, from the commands of each turn and from the scheduler's view.

A tenant chooses the names of jobs and of the resources that pods request. So the number of jobs with series
is bounded, and only resources that a node offers or a queue names are shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from ringwise.framework.amounts import Amount, Amounts, add, amounts_of, share
from ringwise.framework.extension_points import QUEUE_SHARE, QueueShare
from ringwise.framework.gangs.gang_placement import missing_pods
from ringwise.framework.job import Job
from ringwise.framework.session import Session
from ringwise.messages.commands import Bind, Command, Evict, EvictionCause
from ringwise.metrics.families import Labels
from ringwise.metrics.volcano import VolcanoMetrics
from ringwise.scheduler.core.machine import Scheduler
from ringwise.state.model import Queue

#: Jobs with series of one metric.
MAX_JOBS = 500
_DRF = "drf"

V = TypeVar("V")


class BoundedJobs(Generic[V]):
    """A value for each of at most so many jobs.

    If there are more, the namespace with most of them loses its oldest, so that none displaces the jobs of
    others.
    """

    def __init__(self, limit: int = MAX_JOBS) -> None:
        self._limit = limit
        self._namespaces: dict[str, dict[str, V]] = {}
        self._count = 0

    def put(self, namespace: str, key: str, value: V) -> None:
        jobs = self._namespaces.setdefault(namespace, {})
        self._count += key not in jobs
        jobs.pop(key, None)
        jobs[key] = value
        if self._count > self._limit:
            self._remove(*max(self._namespaces.items(), key=lambda item: len(item[1])))

    def _remove(self, namespace: str, jobs: dict[str, V]) -> None:
        del jobs[next(iter(jobs))]
        self._count -= 1
        if not jobs:
            del self._namespaces[namespace]

    def keep(self, is_known: Callable[[str, V], bool]) -> None:
        """Remove the other jobs."""
        for namespace, jobs in list(self._namespaces.items()):
            left = {key: value for key, value in jobs.items() if is_known(key, value)}
            self._count -= len(jobs) - len(left)
            if left:
                self._namespaces[namespace] = left
            else:
                del self._namespaces[namespace]

    def items(self) -> Iterable[tuple[str, V]]:
        return (item for jobs in self._namespaces.values() for item in jobs.items())


def milliseconds(since: int, now: int) -> float:
    """The time between two moments in nanoseconds; 0 if clocks disagree about their order."""
    return max(0, now - since) / 1e6


class VolcanoCounts:
    """One term of leadership."""

    def __init__(self, scheduler: Scheduler, metrics: VolcanoMetrics) -> None:
        self._view = scheduler.view
        self._metrics = metrics
        #: When a job was created and when its last pod so far got a node, in nanoseconds, by key.
        self._placed: BoundedJobs[tuple[int, int]] = BoundedJobs()
        metrics.begin_term()
        scheduler.time_steps(metrics.time)

    def decided(self, commands: Iterable[Command], now: int) -> None:
        """Count the placements and evictions of a turn."""
        placed: dict[str, Job] = {}
        evictions: Counter[tuple[str, str, EvictionCause]] = Counter()
        for command in commands:
            if isinstance(command, Bind) and (job := self._view.job_of(command.uid)) is not None:
                placed[job.key] = job
                self._metrics.assumed.observe(milliseconds(job.pods[command.uid].created, now), "Assumed")
            elif isinstance(command, Evict):
                evictions[command.why, command.by, command.cause] += 1
        for key, job in placed.items():
            self._placed.put(job.namespace, key, (job.created, now))
            self._metrics.job_latency.observe(milliseconds(job.created, now))
        for (action, _, cause), pods in evictions.items():
            if action in self._view.configuration.actions:
                self._metrics.evictions.inc(action)
            if cause is EvictionCause.PREEMPT:
                self._metrics.preemptions.inc()
                self._metrics.victims.set(pods)

    def count(self) -> None:
        """Update the gauges, with a session that decides nothing."""
        self._count_placed()
        session = self._view.what_if.open_session(self._view.history.now)
        try:
            self._metrics.missing_pods.replace(_missing_pods(session))
            self._metrics.job_share.replace(_job_shares(session))
            self._count_queues(session)
        finally:
            session.close()

    def _count_placed(self) -> None:
        jobs, metrics = self._view.jobs, self._metrics
        # Another job may have the name of one that is gone.
        self._placed.keep(lambda key, times: key in jobs and jobs[key].created == times[0])
        times: dict[Labels, tuple[int, int]] = {
            (_name(key), jobs[key].queue, jobs[key].namespace): span for key, span in self._placed.items()
        }
        metrics.job_duration.replace({labels: milliseconds(*span) for labels, span in times.items()})
        metrics.job_start.replace({labels: created // 10**9 for labels, (created, _) in times.items()})
        metrics.job_last.replace({labels: assumed // 10**9 for labels, (_, assumed) in times.items()})

    def _count_queues(self, session: Session) -> None:
        metrics, queues = self._metrics, session.queues
        metrics.weight.replace({(name,): queue.weight for name, queue in queues.items()})
        metrics.overused.replace({(name,): session.overused(queue) for name, queue in queues.items()})
        groups = Counter(
            (job.group.phase or "Pending", job.queue)
            for job in session.jobs.values()
            if job.group is not None
        )
        for phase, family in metrics.groups.items():
            family.replace({(name,): groups[phase, name] for name in queues})
        shares = {
            name: share for name, queue in queues.items() if (share := _share(session, queue)) is not None
        }
        metrics.share.replace({(name,): entry.share for name, entry in shares.items()})
        used = {name: session.usage.used_by_queue(name) for name in queues}
        requested = _requested(session)
        below = {name: shares[name].below if name in shares else (name,) for name in queues}
        offered = session.usage.capacity
        amounts: dict[str, dict[str, Mapping[str, Amount]]] = {
            "allocated": {name: _sum(used, below[name], offered) for name in queues},
            "request": {name: _sum(requested, below[name], offered) for name in queues},
            "deserved": {name: _all(entry.deserved, offered) for name, entry in shares.items()},
            "inqueue": {name: _all(entry.promised, offered) for name, entry in shares.items()},
            # What is not named has no limit.
            "capacity": {name: queue.limits for name, queue in queues.items()},
            "real_capacity": {name: entry.limit for name, entry in shares.items()},
        }
        for kind, of_queues in amounts.items():
            metrics.amounts[kind].replace(of_queues)


def _name(key: str) -> str:
    """As in Volcano: the name of the PodGroup."""
    return key.partition("/")[2]


def _missing_pods(session: Session) -> Counter[Labels]:
    """By name of the job, as in Volcano, so those of equal name are added."""
    missing: BoundedJobs[int] = BoundedJobs()
    for job in session.jobs.values():
        if job.reason is not None and (pods := missing_pods(session, job)):
            missing.put(job.namespace, job.key, pods)
    by_name: Counter[Labels] = Counter()
    for key, pods in missing.items():
        by_name[(_name(key),)] += pods
    return by_name


def _job_shares(session: Session) -> dict[Labels, float]:
    """The dominant shares by namespace and name, if the plugin is configured that compares them."""
    shares: BoundedJobs[float] = BoundedJobs()
    if any(option.name == _DRF for tier in session.configuration.tiers for option in tier.plugins):
        for job in session.jobs.values():
            if used := session.usage.used_by_job(job.key):
                shares.put(job.namespace, job.key, share(used, session.usage.capacity))
    return {tuple(key.split("/", 1)): value for key, value in shares.items()}


def _share(session: Session, queue: Queue) -> QueueShare | None:
    answers = (share_of(queue) for share_of in session.registered(QUEUE_SHARE))
    return next((answer for answer in answers if answer is not None), None)


def _requested(session: Session) -> dict[str, Amounts]:
    """By queue: what its pods use or wait for."""
    result = {name: dict(session.usage.used_by_queue(name)) for name in session.queues}
    for job in session.jobs.values():
        if job.queue in result and session.usage.used_by_job(job.key) != job.requested():
            # Few classes for thousands of pods; the same one is the same object.
            classes = {id(pod.cls): pod.cls for pod in job.pods.values()}
            counts = Counter(id(pod.cls) for pod in job.pods.values() if session.is_pending(pod))
            for cls, pods in counts.items():
                add(result[job.queue], amounts_of(classes[cls]), pods)
    return result


def _sum(
    amounts: Mapping[str, Mapping[str, Amount]], queues: Iterable[str], offered: Iterable[str]
) -> Amounts:
    total: Amounts = {}
    for name in queues:
        add(total, amounts.get(name, {}))
    return _all(total, offered)


def _all(amounts: Mapping[str, Amount], offered: Iterable[str]) -> Amounts:
    """The amounts of all resources that nodes offer, and of no others."""
    return {name: amounts.get(name, 0) for name in offered}
