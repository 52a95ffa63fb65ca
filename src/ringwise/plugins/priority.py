"""priority: the more important goes first, and only the less important makes room."""

from __future__ import annotations

from ringwise.framework.extension_points import Point
from ringwise.framework.headcount import Headcount
from ringwise.framework.job import Job
from ringwise.framework.owners import job_of
from ringwise.framework.plugin_options import PluginOption
from ringwise.framework.session import Session
from ringwise.state.model import Pod
from ringwise.wellknown import TASK_PRIORITY


class Priority:
    def __init__(self, option: PluginOption) -> None:
        self._option = option

    def open(self, session: Session) -> None:
        self._session = session
        self._headcount = session.shared(Headcount)
        session.on(Point.TASK_ORDER, self.pod_order)
        session.on(Point.JOB_ORDER, self.job_order)
        session.on(Point.PREEMPTABLE, self.preemptable)
        session.on(Point.JOB_STARVING, self.starving)

    def pod_order(self, pod: Pod) -> int:
        return -pod_priority(pod)

    def job_order(self, job: Job) -> int:
        return -job.priority

    def preemptable(self, job: Job, pod: Pod, candidates: list[str]) -> list[str]:
        """Pods of other jobs by the job's priority, pods of the same job by their own."""
        return [uid for uid in candidates if self._gives_way(job, pod, uid)]

    def _gives_way(self, job: Job, pod: Pod, uid: str) -> bool:
        victim = self._session.state.pods[uid].pod
        owner = job_of(self._session, victim)
        if owner is job:
            return pod_priority(victim) < pod_priority(pod)
        return (victim.priority if owner is None else owner.priority) < job.priority

    def starving(self, job: Job) -> bool:
        """Some of its pods have no place yet."""
        return self._headcount.started(job) < len(job.pods)


def pod_priority(pod: Pod) -> int:
    written = pod.annotations.get(TASK_PRIORITY)
    if written is not None:
        try:
            return int(written)
        except ValueError:
            pass
    return pod.priority
