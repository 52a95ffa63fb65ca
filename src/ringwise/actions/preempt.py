"""Make room inside a queue: the more important job sends the less important away.

Candidates are bound or running pods that are flagged preemptable; plugins say which of
them this job may send away. First the pods of other jobs in the queue are asked, then,
for a job that still lacks pods, less important pods of its own.
"""

from __future__ import annotations

from ringwise.actions.making_room import make_room, starving_jobs
from ringwise.framework.eviction import placed_pods
from ringwise.framework.session import Session

WHY = "preempt"


def preempt(session: Session) -> None:
    for _, job in starving_jobs(session):
        flagged = placed_pods(session, lambda pod: pod.preemptable)
        others = [member for member in flagged if member[0].queue == job.queue and member[0] is not job]
        if make_room(session, job, others, session.preemptable, WHY):
            continue
        own = [member for member in flagged if member[0] is job]
        if own:
            make_room(session, job, own, session.preemptable, WHY)
