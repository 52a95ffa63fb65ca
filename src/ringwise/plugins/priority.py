"""priority: higher priority goes first, and only lower priority is evicted."""

from __future__ import annotations

from ringwise.framework.extension_points import (
    JOB_ORDER,
    JOB_STARVING,
    PREEMPT_PRECHECK,
    PREEMPTABLE,
    SUB_JOB_ORDER,
    TASK_ORDER,
)
from ringwise.framework.gangs.ready_pods import ReadyPods
from ringwise.framework.job import Job
from ringwise.framework.registry import PluginSpec
from ringwise.framework.session import Session
from ringwise.framework.sub_groups import SubGroup
from ringwise.framework.victim_queues import VictimQueue
from ringwise.state.model import Pod
from ringwise.topology.numbers import INT32, whole_number
from ringwise.wellknown import TASK_PRIORITY


class Priority:
    def open(self, session: Session) -> None:
        self._session = session
        self._ready_pods = session.shared(ReadyPods)
        session.register(TASK_ORDER, self.pod_order)
        session.register(JOB_ORDER, self.job_order)
        session.register(SUB_JOB_ORDER, self.sub_group_order)
        session.register(PREEMPTABLE, self.preemptable)
        session.register(PREEMPT_PRECHECK, self.names_none)
        session.register(JOB_STARVING, self.starving)

    def pod_order(self, pod: Pod) -> int:
        return -pod_priority(pod)

    def job_order(self, job: Job) -> int:
        return -job.priority

    def sub_group_order(self, job: Job, group: SubGroup) -> int:
        """Like their highest pods."""
        return -max((pod_priority(job.pods[uid]) for uid in group.pods if uid in job.pods), default=0)

    def preemptable(self, job: Job, pod: Pod, candidates: list[str]) -> list[str]:
        """Pods of other jobs by the job's priority, pods of the same job by their own."""
        return [uid for uid in candidates if self._is_lower(job, pod, uid)]

    def names_none(self, job: Job, pod: Pod, victims: VictimQueue) -> bool:
        return victims.lowest_priority >= job.priority and job.key not in victims.jobs

    def _is_lower(self, job: Job, pod: Pod, uid: str) -> bool:
        victim = self._session.state.pods[uid].pod
        owner = self._session.job_of(victim)
        if owner is job:
            return pod_priority(victim) < pod_priority(pod)
        return (victim.priority if owner is None else owner.priority) < job.priority

    def starving(self, job: Job) -> bool:
        """Whether some of its pods have no node yet."""
        return self._ready_pods.started(job) < len(job.pods)


def pod_priority(pod: Pod) -> int:
    written = pod.annotations.get(TASK_PRIORITY)
    number = None if written is None else whole_number(written, -INT32, INT32)
    return pod.priority if number is None else number


SPEC = PluginSpec("priority", "orders jobs and pods by priority", lambda option: Priority())
