"""How many pods of a job are ready: counted once a cycle, then kept by notices.

A large gang asks after every pod whether it is complete; recounting its pods each
time would cost their square.
"""

from __future__ import annotations

from collections.abc import Sequence

from ringwise.framework.extension_points import ALLOCATED, DEALLOCATED
from ringwise.framework.gangs.gang_placement import started_pods
from ringwise.framework.job import Job, task_minimums_count
from ringwise.framework.session import Session
from ringwise.state.model import Pod


class _Counts:
    """The numbers of one job."""

    __slots__ = ("best_effort", "by_task", "group_of", "policies", "policies_short", "started", "tasks_short")

    def __init__(self, started: int, best_effort: int) -> None:
        self.started = started
        #: Pending pods that request nothing: they can start whenever the others do.
        self.best_effort = best_effort
        #: Task -> [its pods that are started or best effort, its minimum], where tasks have minimums.
        self.by_task: dict[str, list[int]] = {}
        self.tasks_short = 0
        #: Uid -> [pods of its sub-group that are started or best effort, its size, place of its policy].
        self.group_of: dict[str, list[int]] = {}
        #: Of each policy [complete sub-groups, those that must run].
        self.policies: list[list[int]] = []
        self.policies_short = 0

    def count(self, uid: str, by: int) -> None:
        """A pod of a sub-group started, or does no longer."""
        row = self.group_of.get(uid)
        if row is None:
            return
        was_complete = row[0] >= row[1]
        row[0] += by
        policy = self.policies[row[2]]
        was_short = policy[0] < policy[1]
        policy[0] += (row[0] >= row[1]) - was_complete
        self.policies_short += (policy[0] < policy[1]) - was_short


class ReadyPods:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._counts: dict[str, _Counts] = {}
        session.register(ALLOCATED, self._placed)
        session.register(DEALLOCATED, self._removed)

    def started(self, job: Job) -> int:
        """Pods that have a node or have succeeded."""
        return self._of(job).started

    def startable(self, job: Job) -> int:
        """Pods that have a node, have succeeded, or wait and request nothing."""
        counts = self._of(job)
        return counts.started + counts.best_effort

    def complete(self, job: Job) -> bool:
        """Every task and the job as a whole have their minimum; best-effort pods count while they wait."""
        if len(job.pods) < job.min_available:
            return False
        if len(job.pods) == 1 and not job.min_per_task:
            # Thousands of jobs have one pod only: counting it is cheaper than keeping its count.
            (pod,) = job.pods.values()
            return job.min_available <= 0 or self._counts_as_ready(pod)
        counts = self._of(job)
        return counts.started + counts.best_effort >= job.min_available and not counts.tasks_short

    def sub_groups_complete(self, job: Job) -> bool:
        """As many sub-groups of each policy as must run have the pods that they need."""
        return not job.sub_groups or not self._of(job).policies_short

    def sub_groups_short(self, job: Job) -> tuple[str, int, int] | None:
        """The first policy that lacks sub-groups: its name, how many are complete, and how many must be."""
        group = job.group
        for policy, (have, needed) in zip(
            group.sub_groups if group is not None else (), self._of(job).policies, strict=False
        ):
            if have < needed:
                return policy.name, have, needed
        return None

    def keeps_sub_groups(self, job: Job, uids: Sequence[str]) -> bool:
        """Whether the job has as many complete sub-groups as must run without these pods."""
        if not job.sub_groups:
            return True
        counts = self._of(job)
        for uid in uids:
            counts.count(uid, -1)
        kept = not counts.policies_short
        for uid in uids:
            counts.count(uid, 1)
        return kept

    def tasks_short(self, job: Job) -> int:
        """Tasks below their minimum, where the minimums of tasks count."""
        return self._of(job).tasks_short

    def _of(self, job: Job) -> _Counts:
        counts = self._counts.get(job.key)
        if counts is None:
            counts = self._counts[job.key] = _Counts(*self._count(job))
            if task_minimums_count(job):
                self._count_tasks(job, counts)
            if job.sub_groups:
                self._count_groups(job, counts)
        return counts

    def _count(self, job: Job) -> tuple[int, int]:
        """Started pods, and pending best-effort pods."""
        best_effort = 0
        for pod in job.pods.values():
            if pod.cls.best_effort and self._session.is_pending(pod):
                best_effort += 1
        return started_pods(self._session, job), best_effort

    def _count_tasks(self, job: Job, counts: _Counts) -> None:
        counts.by_task = {task: [0, needed] for task, needed in job.min_per_task.items()}
        for uid, pod in job.pods.items():
            row = counts.by_task.get(pod.task)
            if row is None or uid in job.backups:
                continue
            if self._counts_as_ready(pod):
                row[0] += 1
        counts.tasks_short = sum(1 for have, needed in counts.by_task.values() if have < needed)

    def _count_groups(self, job: Job, counts: _Counts) -> None:
        counts.policies = [[0, policy.min_groups] for policy in job.group.sub_groups] if job.group else []
        counts.policies_short = sum(needed > 0 for _, needed in counts.policies)
        for group in job.sub_groups:
            if group.policy is not None:
                row = [0, group.size, group.position]
                counts.group_of.update(dict.fromkeys(group.pods, row))
        for uid, pod in job.pods.items():
            if uid not in job.backups and self._counts_as_ready(pod):
                counts.count(uid, 1)

    def _counts_as_ready(self, pod: Pod) -> bool:
        """It has a node, has succeeded, or waits and requests nothing."""
        if pod.phase == "Succeeded" or (self._session.state.pods[pod.uid].node >= 0 and not pod.deleting):
            return True
        return pod.cls.best_effort and self._session.is_pending(pod)

    def _placed(self, job: Job, pod: Pod, node: int) -> None:
        self._change(job, pod, 1)

    def _removed(self, job: Job, pod: Pod, node: int) -> None:
        self._change(job, pod, -1)

    def _change(self, job: Job, pod: Pod, by: int) -> None:
        counts = self._counts.get(job.key)
        if counts is None or pod.deleting or pod.uid in job.backups:
            return
        counts.started += by
        if pod.cls.best_effort and pod.phase == "Pending":
            # It counted already while it waited.
            counts.best_effort -= by
            return
        if counts.group_of:
            counts.count(pod.uid, by)
        row = counts.by_task.get(pod.task)
        if row is not None:
            was_short = row[0] < row[1]
            row[0] += by
            counts.tasks_short += (row[0] < row[1]) - was_short
