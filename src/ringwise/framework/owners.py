"""Which job a pod belongs to."""

from __future__ import annotations

from ringwise.framework.job import Job, job_key
from ringwise.framework.session import Session
from ringwise.state.model import Pod


def job_of(session: Session, pod: Pod) -> Job | None:
    """The pod's job; None for a pod that no job of ours knows."""
    job = session.jobs.get(job_key(pod))
    return job if job is not None and pod.uid in job.pods else None
