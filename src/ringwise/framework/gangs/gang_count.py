"""Which pods of a job count for its gang, and what the job has with them: in all, by task and by sub-group.

A backup pod of a hot switch is not a part of the gang before it takes over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import copy

from ringwise.framework.job import Job, task_minimums_count
from ringwise.framework.sub_groups import SubGroup
from ringwise.state.cluster import ClusterState
from ringwise.state.model import Pod, SubGroupPolicy


def is_placed(state: ClusterState, pod: Pod) -> bool:
    """F2: bound or Succeeded, and not being deleted: a pod may exit with code 0 because it is deleted."""
    return not pod.deleting and (pod.phase == "Succeeded" or (pod.live and state.pods[pod.uid].node >= 0))


def placed_members(state: ClusterState, job: Job) -> list[Pod]:
    """Return the placed pods; a binding that the API server has not confirmed counts."""
    # It is asked for each job in every cycle: one loop without calls takes a third of the time.
    placements, backups = state.pods, job.backups
    return [
        pod
        for uid, pod in job.pods.items()
        if not pod.deleting
        and (placements[uid].node >= 0 or pod.phase == "Succeeded")
        and (not backups or uid not in backups)
    ]


def placed_pods(state: ClusterState, job: Job) -> int:
    """Return the number of placed pods."""
    return len(placed_members(state, job))


def confirmed_pods(state: ClusterState, job: Job) -> list[Pod]:
    """The placed pods whose binding the API server has confirmed: the binding of others may still fail."""
    return [pod for pod in placed_members(state, job) if not state.pods[pod.uid].assumed]


def waiting_pods(state: ClusterState, job: Job) -> int:
    """Pods that wait for a node, and for nothing else."""
    return sum(
        pod.live and not pod.deleting and not pod.gated and state.pods[pod.uid].node < 0
        for pod in _members(job)
    )


def is_complete(state: ClusterState, job: Job) -> bool:
    """F2: minAvailable pods are placed, and of each policy as many sub-groups as must run."""
    return GangCount(job, placed_members(state, job)).is_enough


def is_complete_and_confirmed(state: ClusterState, job: Job) -> bool:
    """F2: as many pods and sub-groups have bindings that the API server has confirmed."""
    return GangCount(job, confirmed_pods(state, job)).is_enough


def needed_pods(job: Job) -> int:
    """F2: how many pods must be placed for the job to be complete."""
    return max(1, job.min_available)


def _members(job: Job) -> Iterator[Pod]:
    backups = job.backups
    return (pod for uid, pod in job.pods.items() if uid not in backups)


class GangCount:
    """What a job has with some of its pods: `add` and `remove` keep the numbers."""

    def __init__(self, job: Job, pods: Collection[Pod]) -> None:
        self._job = job
        self.pods = len(pods)
        #: Task -> its pods beyond its minimum, if the minimums of tasks count.
        self._tasks: dict[str, int] = {}
        self.short_tasks = 0
        self._groups: Sequence[SubGroup] = ()
        #: Uid -> the position of its sub-group among all; and how many pods of each are counted.
        self._group_of: dict[str, int] = {}
        self._have: list[int] = []
        #: Of each policy: complete sub-groups beyond those that must run.
        self.spare_groups: list[int] = []
        self.short_policies = 0
        # Most jobs have neither tasks with minimums nor sub-groups.
        if job.min_per_task or job.sub_groups:
            self._count_parts(job, pods)

    def _count_parts(self, job: Job, pods: Iterable[Pod]) -> None:
        if task_minimums_count(job):
            self._tasks = {task: -least for task, least in job.min_per_task.items()}
            self.short_tasks = sum(spare < 0 for spare in self._tasks.values())
        self._groups = job.sub_groups if job.group is not None else ()
        if self._groups:
            self._group_of = {
                uid: number
                for number, group in enumerate(self._groups)
                if group.policy is not None
                for uid in group.pods
            }
            self._have = [0] * len(self._groups)
            self.spare_groups = [-policy.min_groups for policy in self._policies]
            self.short_policies = sum(spare < 0 for spare in self.spare_groups)
        self.pods = 0
        for pod in pods:
            self.add(pod)

    def copy(self) -> GangCount:
        count = copy(self)
        count._tasks = dict(self._tasks)
        count._have = list(self._have)
        count.spare_groups = list(self.spare_groups)
        return count

    def add(self, pod: Pod) -> None:
        self._change(pod, 1)

    def remove(self, pod: Pod) -> None:
        self._change(pod, -1)

    def _change(self, pod: Pod, by: int) -> None:
        self.pods += by
        spare = self._tasks.get(pod.task)
        if spare is not None:
            self._tasks[pod.task] = spare + by
            self.short_tasks += (spare + by < 0) - (spare < 0)
        number = self._group_of.get(pod.uid)
        if number is not None:
            group, have = self._groups[number], self._have[number]
            self._have[number] = have + by
            spare = self.spare_groups[group.position]
            spare_now = spare + (have + by >= group.size) - (have >= group.size)
            self.spare_groups[group.position] = spare_now
            self.short_policies += (spare_now < 0) - (spare < 0)

    @property
    def is_enough(self) -> bool:
        """Whether the job has the pods and sub-groups that it needs, in whatever tasks."""
        return self.pods >= needed_pods(self._job) and not self.short_policies

    @property
    def _policies(self) -> tuple[SubGroupPolicy, ...]:
        return self._job.group.sub_groups if self._job.group is not None else ()

    def first_short_policy(self) -> tuple[SubGroupPolicy, int] | None:
        """The first policy that lacks sub-groups, and how many of them are complete."""
        for policy, spare in zip(self._policies, self.spare_groups, strict=False):
            if spare < 0:
                return policy, policy.min_groups + spare
        return None

    def first_short_task(self) -> tuple[str, int] | None:
        """The first task below its minimum, and how many of its pods are counted."""
        for task, spare in self._tasks.items():
            if spare < 0:
                return task, self._job.min_per_task[task] + spare
        return None

    def is_short_of(self, task: str) -> bool:
        return self._tasks.get(task, 0) < 0

    def group_broken_without(self, uid: str) -> SubGroup | None:
        """The sub-group that is complete, and would not be without this pod."""
        number = self._group_of.get(uid)
        if number is None or self._have[number] != self._groups[number].size:
            return None
        return self._groups[number]
