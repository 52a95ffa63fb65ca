"""backfill: places pods that request nothing; they fit beside all others."""

from __future__ import annotations

from ringwise.framework.gangs.gang_placement import place_best_effort
from ringwise.framework.registry import PREDICATE_ERROR_CACHE, ActionSpec
from ringwise.framework.session import Session


def backfill(session: Session) -> None:
    jobs = [
        job
        for job in session.pending
        if session.is_admitted(job)
        and any(pod.cls.best_effort and session.is_pending(pod) for pod in job.pods.values())
    ]
    for job in sorted(jobs, key=session.job_key):
        statement = session.statement()
        try:
            session.budget.begin(job.namespace, len(job.pods))
            place_best_effort(session, job, statement)
        except Exception as error:
            statement.discard()
            session.fail_job(job, error, "backfill")
            continue
        if session.job_ready(job):
            statement.commit()
        else:
            statement.discard()


SPEC = ActionSpec(
    "backfill", "places pods that request nothing", backfill, arguments=(PREDICATE_ERROR_CACHE,)
)
