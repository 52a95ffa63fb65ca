"""Place pods that ask for nothing: they fit beside whatever is there."""

from __future__ import annotations

from ringwise.framework.gang_placement import fill_best_effort
from ringwise.framework.reasons import INTERNAL_ERROR
from ringwise.framework.session import Session


def backfill(session: Session) -> None:
    enqueues = "enqueue" in session.configuration.actions
    asking = [
        job
        for job in session.pending
        if (job.inqueue or not enqueues)
        and any(pod.cls.best_effort and session.is_pending(pod) for pod in job.pods.values())
    ]
    for job in sorted(asking, key=session.job_key):
        statement = session.statement()
        try:
            fill_best_effort(session, job, statement)
        except Exception as error:
            statement.discard()
            incident = session.contain(error, job, "backfill")
            job.reason = INTERNAL_ERROR(where=incident.where, error=incident.error)
            continue
        if session.job_ready(job):
            statement.commit()
        else:
            statement.discard()
