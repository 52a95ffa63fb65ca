"""The jobs that a fault hit, and which jobs would be handled if one did."""

from __future__ import annotations

from ringwise.framework.job import Job
from ringwise.scheduler.cache.component import Context
from ringwise.scheduler.cache.record_tables import RecordTable
from ringwise.scheduler.faults.detection import FaultType
from ringwise.scheduler.faults.fault_job import FaultJob
from ringwise.scheduler.faults.partial_gangs import PartialGangs
from ringwise.scheduler.faults.policy import Mode, read_fault_policy
from ringwise.scheduler.faults.states import ENDED, State


class FaultJobs(RecordTable[FaultJob]):
    """By key, while they are handled. Only the fault handler changes it."""

    def __init__(self, context: Context, gangs: PartialGangs) -> None:
        super().__init__("fault-jobs", FaultJob, is_valid=_is_handled)
        context.record.add(self)
        self._book = context.book
        self._gangs = gangs

    def was_complete(self, job: Job) -> bool:
        return self._gangs.was_complete(job)

    def fault_of(self, key: str, uid: str) -> FaultType | None:
        """Why this pod of a job is restarted; None for pods that are restarted with it."""
        handled = self.get(key)
        pod = None if handled is None else handled.faulty.get(uid)
        return None if pod is None else pod.fault.type

    def restarts_failed(self, job: Job) -> bool:
        """Whether a pod of the job that fails now is restarted."""
        policy = read_fault_policy(job.labels, job.annotations)
        handled = job.key in self or (policy.mode is not Mode.OFF and self.would_handle(job))
        return handled and policy.retries > 0

    def would_handle(self, job: Job) -> bool:
        """Jobs that ran, with chips, whose pods are placed by us."""
        if not any(pod.cls.uses_chips for pod in job.pods.values()):
            return False
        if job.group is None:
            return self._book.serves(job)
        # F5: where all have ended, its controller waits for an answer, whatever this scheduler saw of it.
        return self.was_complete(job) or not any(pod.live for pod in job.pods.values())


def _is_handled(job: FaultJob) -> bool:
    return job.state is not State.HEALTHY and job.state not in ENDED
