"""F5: what the controller of a vcjob learns about its retries.

Where all pods have ended it waits: until they are deleted, or one of them says why they are not.
"""

from __future__ import annotations

from collections.abc import Iterator

from ringwise.framework.job import Job
from ringwise.messages.commands import AnnotatePod
from ringwise.scheduler.faults.detection import FaultType
from ringwise.scheduler.faults.fault_job import FaultJob
from ringwise.wellknown import RESTART_REFUSED


def record_refusal(handled: FaultJob, job: Job) -> Iterator[AnnotatePod]:
    """Write it to the first failed pod, which has it until it is gone. Once for each pod and leader."""
    owner = job.group.owner if job.group is not None else None
    if owner is None or not owner.is_vcjob:
        return
    failed = [pod for pod in handled.faulty.values() if pod.fault.type is FaultType.POD]
    if not failed or any(
        pod.uid == handled.refused_on or RESTART_REFUSED in job.pods[pod.uid].annotations for pod in failed
    ):
        return
    first = min(failed, key=lambda pod: pod.position.rank)
    handled.refused_on = first.uid
    yield AnnotatePod(first.uid, job.namespace, first.name, {RESTART_REFUSED: handled.blocked})
