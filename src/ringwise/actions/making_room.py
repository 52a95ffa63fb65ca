"""What preempt and reclaim have in common: who may ask, and what happens when room is found."""

from __future__ import annotations

from collections.abc import Iterator

from ringwise.actions.allocate import broken
from ringwise.framework.eviction import Ask, Member, Search, nominate
from ringwise.framework.gang_placement import pending_pods
from ringwise.framework.job import Job
from ringwise.framework.session import Session
from ringwise.state.model import Queue


def starving_jobs(session: Session) -> Iterator[tuple[Queue, Job]]:
    """Valid jobs that have not what they need, best queue first, best job first.

    A job for which chips are kept already has made its room, and some want nobody to go for them.
    """
    by_queue: dict[str, list[Job]] = {}
    for job in session.pending:
        if _is_patient(session, job) or session.reservations.of(job.key) is not None:
            continue
        if job.queue in session.queues:
            by_queue.setdefault(job.queue, []).append(job)
    for queue in sorted((session.queues[name] for name in by_queue), key=session.queue_key):
        for job in sorted(by_queue[queue.name], key=session.job_key):
            if session.job_valid(job) is None and (not job.pods or session.job_starving(job)):
                yield queue, job


def _is_patient(session: Session, job: Job) -> bool:
    """One of the pods it waits for sends nobody away, so the gang cannot."""
    if not job.patient:
        return False
    return not job.pods or any(pod.uid in job.patient for pod in pending_pods(session, job))


def make_room(session: Session, job: Job, candidates: list[Member], ask: Ask, why: str) -> bool:
    """Look for room; True when pods were asked to go, or leave anyway, and the chips are kept."""
    try:
        search = Search(session, job, candidates, ask)
        if "enqueue" in session.configuration.actions and not job.inqueue:
            if not search.admitted():
                return False
            # It was kept out for lack of room only, and room can be made.
            job.inqueue = True
            job.reason = None
        if not pending_pods(session, job):
            return False
        room = search.find()
    except Exception as error:
        broken(session, job, error, why)
        return False
    if room is None or not room.allocations:
        return False
    nominate(session, job, room, why)
    return True
