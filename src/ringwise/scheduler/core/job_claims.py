"""What each job takes part with in the decisions about others, and when that becomes less.

Whether a job is admitted, and what its queue deserves, depends on what other jobs use, were
promised and ask for. What a pod uses becomes free with events of its own (`CHIPS_FREED`). Everything
else that such a decision reads of another job is in its claim here. The claims of jobs that changed
are compared, so no decision counts all jobs, and a claim that fell wakes the jobs that wait for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ringwise.framework.amounts import Amount
from ringwise.framework.job import Job, is_awaiting_pods
from ringwise.reasons import Stage, Trigger
from ringwise.records import dataclass
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, on_job
from ringwise.state.model import EMPTY

#: Names in `minResources` that only ResourceQuotas have; the use of pods is not counted under them.
_QUOTA_NAMES = ("requests.", "limits.", "count/")


@dataclass(frozen=True, slots=True)
class JobClaim:
    queue: str
    #: It can run one day, as far as is known.
    valid: bool
    #: It was admitted, and what it was promised is kept for it.
    promised: bool
    #: It was admitted, and none of its pods exists.
    awaiting_pods: bool
    min_available: int
    #: Pods that have a node or wait for one, and pods that are gated.
    pods: int
    gated: int
    min_resources: Mapping[str, Amount]
    #: What all its pods request.
    requests: Mapping[str, Amount]


class JobClaims(Component):
    def __init__(self, context: Context) -> None:
        super().__init__(context)
        # The end of a job is a trigger of its own.
        self._claims: dict[str, JobClaim] = context.job_tables.add({})

    @on_job(ie.JobRefreshed, ie.JobSettled, ie.AdmissionEnded, ie.ReservationChanged)
    def _changed(self, job: Job, now: int) -> None:
        self._containment.attempt("job", job.key, partial(self._note, job), work="claim")

    def _note(self, job: Job) -> None:
        claim = self._claim(job)
        before = self._claims.get(job.key)
        if before == claim:
            return
        self._claims[job.key] = claim
        if before is not None and self._fell(before, claim, job):
            self._triggers.add(Trigger.CLAIM_FELL)

    def _claim(self, job: Job) -> JobClaim:
        group, placements = job.group, self._state.pods
        placed = pending = gated = 0
        for uid, pod in job.pods.items():
            if placements[uid].node >= 0:
                placed += 1
            elif pod.queue_gated:
                # What it asks for is promised to it with the admission.
                pending += 1
            elif pod.gated:
                gated += 1
            elif self._book.is_pending(pod):
                pending += 1
        awaiting = is_awaiting_pods(job)
        return JobClaim(
            job.queue,
            not job.defects and (job.reason is None or job.reason.kind.stage is not Stage.VALIDATE),
            job.inqueue and (pending > 0 or awaiting) and self._reservations.of(job.key) is None,
            awaiting,
            job.min_available,
            placed + pending,
            gated,
            ({**group.min_resources, **job.min_resources()} if group is not None else None) or EMPTY,
            job.requested(),
        )

    def _fell(self, before: JobClaim, now: JobClaim, job: Job) -> bool:
        if (
            before.queue != now.queue
            or before.valid > now.valid
            or before.min_available > now.min_available
            or before.pods > now.pods
            or before.gated < now.gated
            or _less(now.min_resources, before.min_resources)
            or _less(now.requests, before.requests)
        ):
            return True
        if before.awaiting_pods and not now.awaiting_pods and job.namespace in self._book.quotas:
            # The quota counts the pods from now on, and the promise no more.
            return True
        # A promise that was kept by placing the pods is in use now.
        return before.promised and not now.promised and self._exceeds_use(now.min_resources, job)

    def _exceeds_use(self, promised: Mapping[str, Amount], job: Job) -> bool:
        used = self._usage.used_by_job(job.key)
        return any(
            used.get(name, 0) < amount
            for name, amount in promised.items()
            if name != "pods" and not name.startswith(_QUOTA_NAMES)
        )


def _less(one: Mapping[str, Amount], other: Mapping[str, Amount]) -> bool:
    """Whether `one` has less of anything."""
    return one != other and any(one.get(name, 0) < amount for name, amount in other.items())
