"""backfill: places pods that request nothing; they fit beside all others."""

from __future__ import annotations

from ringwise.framework.gangs.gang_count import placed_pods
from ringwise.framework.gangs.gang_placement import place_best_effort
from ringwise.framework.job import Job
from ringwise.framework.registry import PREDICATE_ERROR_CACHE, ActionSpec
from ringwise.framework.session import Session
from ringwise.framework.statement import Statement


def backfill(session: Session) -> None:
    jobs = [
        job
        for job in session.pending
        if session.is_admitted(job)
        and any(pod.cls.best_effort and session.is_pending(pod) for pod in job.pods.values())
    ]
    for job in sorted(jobs, key=session.job_key):
        if not session.may_try(job):
            continue
        statement = session.statement()
        try:
            session.budget.begin(job.namespace, len(job.pods))
            # As in allocate: no pod of a job that is not valid gets a node.
            reason = session.job_valid(job) or place_best_effort(session, job, statement)
        except Exception as error:
            statement.discard()
            session.fail_job(job, error, "backfill")
            continue
        if session.job_ready(job) and not _selects_for_a_part(session, job, statement):
            statement.commit()
        else:
            statement.discard()
        if reason is not None and job.reason is None:
            job.reason = reason


def _selects_for_a_part(session: Session, job: Job, statement: Statement) -> bool:
    """Whether volumes would be made for a part of a gang.

    Pods that request nothing count for their gang while they wait. What is selected for their claims cannot
    be taken back: it waits until all of them have nodes.
    """
    selects = any(one.volumes for one in statement.allocations)
    return selects and placed_pods(session.state, job) < job.min_available


SPEC = ActionSpec(
    "backfill", "places pods that request nothing", backfill, arguments=(PREDICATE_ERROR_CACHE,)
)
