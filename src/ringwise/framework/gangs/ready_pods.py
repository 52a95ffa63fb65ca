"""How many pods of a job are ready: counted once a cycle, then kept by notices.

A large gang asks after every pod whether it is complete; recounting its pods each
time would cost their square.
"""

from __future__ import annotations

from ringwise.framework.extension_points import ALLOCATED, DEALLOCATED
from ringwise.framework.gangs.gang_placement import started_pods
from ringwise.framework.job import Job
from ringwise.framework.session import Session
from ringwise.state.model import Pod


class _Counts:
    """The numbers of one job."""

    __slots__ = ("best_effort", "by_task", "started", "tasks_short")

    def __init__(self, started: int, best_effort: int) -> None:
        self.started = started
        #: Pending pods that request nothing: they can start whenever the others do.
        self.best_effort = best_effort
        #: Task -> [its pods that are started or best effort, its minimum], where tasks have minimums.
        self.by_task: dict[str, list[int]] = {}
        self.tasks_short = 0


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
        if len(job.pods) == 1 and not job.min_per_task:
            # Thousands of jobs have one pod only: counting it is cheaper than keeping its count.
            started, best_effort = self._count(job)
            return started + best_effort >= job.min_available
        counts = self._of(job)
        return counts.started + counts.best_effort >= job.min_available and not counts.tasks_short

    def tasks_short(self, job: Job) -> int:
        """Tasks below their minimum, where the minimums of tasks count."""
        return self._of(job).tasks_short

    def _of(self, job: Job) -> _Counts:
        counts = self._counts.get(job.key)
        if counts is None:
            counts = self._counts[job.key] = _Counts(*self._count(job))
            if task_minimums_count(job):
                self._count_tasks(job, counts)
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
        placements = self._session.state.pods
        for uid, pod in job.pods.items():
            row = counts.by_task.get(pod.task)
            if row is None or uid in job.backups:
                continue
            has_node = placements[uid].node >= 0 and not pod.deleting
            if has_node or pod.phase == "Succeeded" or self._waits_for_nothing(pod):
                row[0] += 1
        counts.tasks_short = sum(1 for have, needed in counts.by_task.values() if have < needed)

    def _waits_for_nothing(self, pod: Pod) -> bool:
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
        row = counts.by_task.get(pod.task)
        if row is not None:
            was_short = row[0] < row[1]
            row[0] += by
            counts.tasks_short += (row[0] < row[1]) - was_short


def task_minimums_count(job: Job) -> bool:
    """The minimums of tasks count only where the job's own minimum covers all of them."""
    return bool(job.min_per_task) and job.min_available >= sum(job.min_per_task.values())
