"""The pods that a job has beyond its gang and that wait: listed and sorted once, for all that follow.

They are placed one at a time, between those of other jobs. Listing all of them for each one would take
quadratic time, and a job with thousands of pods would delay all other jobs.
"""

from __future__ import annotations

from collections.abc import Iterator

from ringwise.framework.gangs.gang_placement import has_pending_pods, pending_pods
from ringwise.framework.job import Job
from ringwise.framework.session import Session
from ringwise.state.model import Pod


class FurtherPods:
    """For as long as what was placed of these pods stays placed."""

    def __init__(self, session: Session) -> None:
        self._session = session
        #: By job; the next one is the last.
        self._waiting: dict[str, list[Pod]] = {}

    def of(self, job: Job) -> Iterator[Pod] | None:
        """Return those that wait, in their order; None if the next one must be found again each time."""
        if job.backups or job.sub_groups or job.places or job.awaited_nodes:
            return None
        if job.policy is not None and job.policy.block_nodes is not None:
            return None
        waiting = self._waiting.get(job.key)
        if waiting is None:
            waiting = self._waiting[job.key] = pending_pods(self._session, job)[::-1]
        while waiting and not self._session.is_pending(waiting[-1]):
            del waiting[-1]
        return (pod for pod in reversed(waiting) if self._may_be_placed(job, pod))

    def wait(self, job: Job) -> bool:
        """Whether there are any."""
        pods = self.of(job)
        return has_pending_pods(self._session, job) if pods is None else next(pods, None) is not None

    def _may_be_placed(self, job: Job, pod: Pod) -> bool:
        session = self._session
        return session.is_pending(pod) and (not job.has_claims or session.claim_refusal(pod) is None)
