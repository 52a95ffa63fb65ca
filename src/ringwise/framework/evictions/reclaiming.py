"""Among whom a queue finds victims to get back what is its own: for reclaim and gangreclaim."""

from __future__ import annotations

from collections.abc import Iterator

from ringwise.framework.evictions.bundles import Bundles
from ringwise.framework.evictions.candidates import QueuePods, by_queue, evictable_pods, reclaimable_pods
from ringwise.framework.evictions.victim_search import VictimChoice, as_if_placed
from ringwise.framework.gangs.gang_placement import missing_pods, pending_pods
from ringwise.framework.job import Job
from ringwise.framework.limits import borrowers
from ringwise.framework.session import Session
from ringwise.state.model import Queue


def reclaim_choices(session: Session, job: Job, bundles: Bundles | None = None) -> Iterator[VictimChoice]:
    """Bursts that others were lent; then, where its queue may, what others use beyond their share.

    A burst is given back whatever plugins say of shares.
    """
    queue = session.queues[job.queue]
    if session.overused(queue):
        return
    lent = _lent(session, job)
    if lent:
        yield VictimChoice(lent, session.unprotected, bundles=bundles)
    if _may_reclaim(session, queue, job):
        yield VictimChoice(
            _candidates(session, queue), session.reclaimable, session.none_reclaimable, bundles
        )


def _candidates(session: Session, queue: Queue) -> tuple[QueuePods, ...]:
    """Running pods of other queues that are reclaimable."""
    return tuple(
        there
        for name, there in session.shared(reclaimable_pods).queues().items()
        if name != queue.name and name in session.queues and session.queues[name].reclaimable
    )


def _lent(session: Session, taker: Job) -> tuple[QueuePods, ...]:
    """Pods of jobs that use more than a limit of theirs allows: a burst is given back in any case."""
    if not session.limits:
        return ()
    lent = {job.key for job in borrowers(session.limits, session.usage, session.jobs) if job is not taker}
    if not lent:
        return ()
    pods = [(job, pod) for job, pod in evictable_pods(session, lambda pod: True) if job.key in lent]
    return tuple(by_queue(session, pods).values())


def _may_reclaim(session: Session, queue: Queue, job: Job) -> bool:
    """The whole gang must be within what the queue may have, not only its first pod."""
    waiting = pending_pods(session, job) if job.pods else list(job.in_order)
    gang = waiting[: max(1, missing_pods(session, job))]
    if not gang:
        return False
    with as_if_placed(session, job, gang[:-1]):
        return session.preemptive(queue, gang[-1])
