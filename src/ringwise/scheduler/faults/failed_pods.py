"""Failed pods of jobs, should hardware of the job turn out to be why they failed (S9)."""

from __future__ import annotations

from ringwise.scheduler.faults.detection import BROKE_THE_POD_WITHIN
from ringwise.scheduler.faults.rescheduling import LeavingPod


class FailedPods:
    def __init__(self) -> None:
        #: Job to uid to the placement that ended.
        self._jobs: dict[str, dict[str, LeavingPod]] = {}

    def __contains__(self, job: str) -> bool:
        return job in self._jobs

    def add(self, uid: str, pod: LeavingPod) -> None:
        self._jobs.setdefault(pod.job, {})[uid] = pod

    def gone(self, job: str, uid: str) -> None:
        """The pod does not exist any more, and its job goes on as if it never had."""
        failed = self._jobs.get(job)
        if failed is not None and failed.pop(uid, None) is not None and not failed:
            del self._jobs[job]

    def forget(self, job: str) -> None:
        self._jobs.pop(job, None)

    def take(self, job: str, now: int) -> dict[str, LeavingPod]:
        """Hardware of the job broke: its pods that failed lately, by uid, each once."""
        failed = self._jobs.pop(job, {})
        return {uid: pod for uid, pod in failed.items() if now < pod.node.lost + BROKE_THE_POD_WITHIN}
