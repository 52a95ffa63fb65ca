"""How many pods of a job have a place, counted once a cycle and then kept by notices.

A large gang asks after every pod whether it is complete; recounting its pods each
time would cost their square.
"""

from __future__ import annotations

from ringwise.framework.extension_points import Point
from ringwise.framework.gang_placement import started_pods
from ringwise.framework.job import Job
from ringwise.framework.session import Session
from ringwise.state.model import Pod


class Count:
    """One job's numbers."""

    __slots__ = ("by_task", "started", "tasks_short", "undemanding")

    def __init__(self, started: int, undemanding: int) -> None:
        self.started = started
        #: Pods that wait and ask for nothing: they can start whenever the others do.
        self.undemanding = undemanding
        #: Task -> [pods that have a place or ask for nothing, its minimum], where tasks have minimums.
        self.by_task: dict[str, list[int]] = {}
        self.tasks_short = 0


class Headcount:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._counts: dict[str, Count] = {}
        session.on(Point.ALLOCATED, self._placed)
        session.on(Point.DEALLOCATED, self._removed)

    def started(self, job: Job) -> int:
        """Pods with a place, or done."""
        return self._of(job).started

    def startable(self, job: Job) -> int:
        """Pods with a place, or done, or waiting and asking for nothing."""
        count = self._of(job)
        return count.started + count.undemanding

    def complete(self, job: Job) -> bool:
        """Every task and the job as a whole have their minimum; pods that ask for nothing count at once."""
        if len(job.pods) == 1 and not job.min_per_task:
            # Thousands of jobs have one pod only: to look at it is less work than to keep its count.
            started, undemanding = self._count_now(job)
            return started + undemanding >= job.min_available
        count = self._of(job)
        return count.started + count.undemanding >= job.min_available and not count.tasks_short

    def tasks_short(self, job: Job) -> int:
        """Tasks that have not their minimum, where the minimums of tasks count."""
        return self._of(job).tasks_short

    def _of(self, job: Job) -> Count:
        count = self._counts.get(job.key)
        if count is None:
            count = self._counts[job.key] = Count(*self._count_now(job))
            if task_minimums_count(job):
                self._count_tasks(job, count)
        return count

    def _count_now(self, job: Job) -> tuple[int, int]:
        """Counted anew: pods with a place or done, and pods that wait and ask for nothing."""
        undemanding = 0
        for pod in job.pods.values():
            if pod.cls.best_effort and self._session.is_pending(pod):
                undemanding += 1
        return started_pods(self._session, job), undemanding

    def _count_tasks(self, job: Job, count: Count) -> None:
        count.by_task = {task: [0, needed] for task, needed in job.min_per_task.items()}
        placements = self._session.state.pods
        for uid, pod in job.pods.items():
            row = count.by_task.get(pod.task)
            if row is None:
                continue
            has_place = placements[uid].node >= 0 and not pod.deleting
            if has_place or pod.phase == "Succeeded" or self._undemanding(pod):
                row[0] += 1
        count.tasks_short = sum(1 for have, needed in count.by_task.values() if have < needed)

    def _undemanding(self, pod: Pod) -> bool:
        return pod.cls.best_effort and self._session.is_pending(pod)

    def _placed(self, job: Job, pod: Pod, node: int) -> None:
        self._change(job, pod, 1)

    def _removed(self, job: Job, pod: Pod, node: int) -> None:
        self._change(job, pod, -1)

    def _change(self, job: Job, pod: Pod, by: int) -> None:
        count = self._counts.get(job.key)
        if count is None or pod.deleting:
            return
        count.started += by
        if pod.cls.best_effort and pod.phase == "Pending":
            # It counted already while it waited.
            count.undemanding -= by
            return
        row = count.by_task.get(pod.task)
        if row is not None:
            was_short = row[0] < row[1]
            row[0] += by
            count.tasks_short += (row[0] < row[1]) - was_short


def task_minimums_count(job: Job) -> bool:
    """The minimums of tasks count only where the job's own minimum covers all of them."""
    return bool(job.min_per_task) and job.min_available >= sum(job.min_per_task.values())
