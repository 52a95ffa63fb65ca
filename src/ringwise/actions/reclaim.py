"""Make room across queues: a queue takes back what others use beyond their share."""

from __future__ import annotations

from ringwise.actions.making_room import make_room, starving_jobs
from ringwise.framework.eviction import Member, as_if_placed, placed_pods
from ringwise.framework.gang_placement import missing_pods, pending_pods
from ringwise.framework.job import Job
from ringwise.framework.session import Session
from ringwise.state.model import Queue

WHY = "reclaim"


def reclaim(session: Session) -> None:
    for queue, job in starving_jobs(session):
        if session.overused(queue) or not _may_take(session, queue, job):
            continue
        make_room(session, job, _candidates(session, queue), session.reclaimable, WHY)


def _candidates(session: Session, queue: Queue) -> list[Member]:
    """Running pods of other queues that give back."""
    return [
        (job, pod)
        for job, pod in placed_pods(session, lambda pod: pod.preemptable and pod.phase == "Running")
        if job.queue != queue.name and job.queue in session.queues and session.queues[job.queue].reclaimable
    ]


def _may_take(session: Session, queue: Queue, job: Job) -> bool:
    """The whole gang must lie within what the queue may have, not its first pod alone."""
    waiting = pending_pods(session, job) if job.pods else list(job.in_order)
    gang = waiting[: max(1, missing_pods(session, job))]
    if not gang:
        return False
    with as_if_placed(session, job, gang[:-1]):
        return session.preemptive(queue, gang[-1])
