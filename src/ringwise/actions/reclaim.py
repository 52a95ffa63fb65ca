"""reclaim: a queue takes back what other queues use beyond their share."""

from __future__ import annotations

from collections.abc import Iterator

from ringwise.framework.evictions.eviction import (
    AllowedVictims,
    JobPod,
    as_if_placed,
    evict_for,
    evictable_pods,
    starving_jobs,
)
from ringwise.framework.gangs.gang_placement import missing_pods, pending_pods
from ringwise.framework.job import Job
from ringwise.framework.limits import lent_jobs
from ringwise.framework.registry import PREDICATE_ERROR_CACHE, ActionSpec
from ringwise.framework.session import Session
from ringwise.state.model import Queue

NAME = "reclaim"


def reclaim(session: Session) -> None:
    for _, job in starving_jobs(session):
        for candidates, allowed in candidates_for(session, job):
            if evict_for(session, job, candidates, allowed, NAME):
                break


def candidates_for(session: Session, job: Job) -> Iterator[tuple[list[JobPod], AllowedVictims]]:
    """Bursts that others were lent; then, where its queue may, what others use beyond their share.

    A burst is given back whatever plugins say of shares.
    """
    queue = session.queues[job.queue]
    if session.overused(queue):
        return
    lent = _lent(session, job)
    if lent:
        yield lent, session.unprotected
    if _may_reclaim(session, queue, job):
        yield _candidates(session, queue), session.reclaimable


def _candidates(session: Session, queue: Queue) -> list[JobPod]:
    """Running pods of other queues that are reclaimable."""
    return [
        (job, pod)
        for job, pod in evictable_pods(session, lambda pod: pod.preemptable and pod.phase == "Running")
        if job.queue != queue.name and job.queue in session.queues and session.queues[job.queue].reclaimable
    ]


def _lent(session: Session, taker: Job) -> list[JobPod]:
    """Pods of jobs that use more than a limit of theirs allows: a burst is given back in any case."""
    if not session.limits:
        return []
    lent = {job.key for job in lent_jobs(session.limits, session.usage, session.jobs) if job is not taker}
    if not lent:
        return []
    return [(job, pod) for job, pod in evictable_pods(session, lambda pod: True) if job.key in lent]


def _may_reclaim(session: Session, queue: Queue, job: Job) -> bool:
    """The whole gang must be within what the queue may have, not only its first pod."""
    waiting = pending_pods(session, job) if job.pods else list(job.in_order)
    gang = waiting[: max(1, missing_pods(session, job))]
    if not gang:
        return False
    with as_if_placed(session, job, gang[:-1]):
        return session.preemptive(queue, gang[-1])


SPEC = ActionSpec(
    NAME,
    "takes back what other queues use beyond their share",
    reclaim,
    arguments=(PREDICATE_ERROR_CACHE,),
)
