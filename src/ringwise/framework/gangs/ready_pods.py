"""How many pods of a job are ready: counted once a cycle, then kept by notices.

A large gang asks after every pod whether it is complete; recounting its pods each
time would cost their square.
"""

from __future__ import annotations

from ringwise.framework.extension_points import ALLOCATED, DEALLOCATED
from ringwise.framework.gangs.gang_count import GangCount, is_placed, placed_members
from ringwise.framework.job import Job
from ringwise.framework.session import Session
from ringwise.state.model import Pod


class ReadyPods:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._counts: dict[str, GangCount] = {}
        #: Pending pods that request nothing: they can start whenever the others do.
        self._best_effort: dict[str, int] = {}
        session.register(ALLOCATED, self._placed)
        session.register(DEALLOCATED, self._removed)

    def started(self, job: Job) -> int:
        """Pods that are placed."""
        return self.startable(job).pods - self._best_effort[job.key]

    def startable(self, job: Job) -> GangCount:
        """Return the count of the pods that are placed, or wait and request nothing."""
        counts = self._counts.get(job.key)
        if counts is None:
            waiting = [
                pod
                for uid, pod in job.pods.items()
                if pod.cls.best_effort and self._session.is_pending(pod) and uid not in job.backups
            ]
            ready = placed_members(self._session.state, job) + waiting
            counts = self._counts[job.key] = GangCount(job, ready)
            self._best_effort[job.key] = len(waiting)
        return counts

    def complete(self, job: Job) -> bool:
        """Every task and the job as a whole have their minimum; best-effort pods count while they wait."""
        if len(job.pods) < job.min_available:
            return False
        if len(job.pods) == 1 and not job.min_per_task:
            # Thousands of jobs have one pod only: counting it is cheaper than keeping its count.
            (pod,) = job.pods.values()
            return job.min_available <= 0 or self._is_ready(pod)
        counts = self.startable(job)
        return counts.pods >= job.min_available and not counts.short_tasks

    def sub_groups_complete(self, job: Job) -> bool:
        """As many sub-groups of each policy as must run have the pods that they need."""
        return not job.sub_groups or not self.startable(job).short_policies

    def _is_ready(self, pod: Pod) -> bool:
        return is_placed(self._session.state, pod) or (pod.cls.best_effort and self._session.is_pending(pod))

    def _placed(self, job: Job, pod: Pod, node: int) -> None:
        self._change(job, pod, 1)

    def _removed(self, job: Job, pod: Pod, node: int) -> None:
        self._change(job, pod, -1)

    def _change(self, job: Job, pod: Pod, by: int) -> None:
        counts = self._counts.get(job.key)
        if counts is None or pod.deleting or pod.uid in job.backups:
            return
        if pod.cls.best_effort and pod.phase == "Pending":
            # It counted already while it waited.
            self._best_effort[job.key] -= by
        elif by > 0:
            counts.add(pod)
        else:
            counts.remove(pod)
