"""What the scheduler tells about jobs: only what changed, once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ringwise.framework.job import Job
from ringwise.messages.commands import Command, SetGroupStatus, TellPod
from ringwise.reasons import Reason
from ringwise.scheduler.core.queue_report import QueueReport

if TYPE_CHECKING:
    from ringwise.scheduler.core.machine import Scheduler


class Reporter:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._touched: dict[str, None] = {}
        self._groups: dict[str, SetGroupStatus] = {}
        self._pods: dict[str, Reason] = {}
        self.queues = QueueReport(scheduler)

    def touch(self, job: Job) -> None:
        """Something about this job may have to be told."""
        self._touched[job.key] = None

    def forget(self, key: str) -> None:
        self._touched.pop(key, None)
        self._groups.pop(key, None)
        self.queues.forget(key)

    def forget_pod(self, uid: str) -> None:
        self._pods.pop(uid, None)

    def report(self, jobs: Iterable[Job]) -> list[Command]:
        for job in jobs:
            self._touched[job.key] = None
        commands: list[Command] = []
        for key in self._touched:
            known = self._scheduler.book.jobs.get(key)
            if known is None:
                continue
            self.queues.touch(known.queue)
            if self._scheduler.book.serves(known):
                self._tell_group(known, commands)
                self._tell_pods(known, commands)
            elif known.group is not None:
                # Its own scheduler speaks about it; it takes part in its queue all the same.
                self.queues.place(known.key, known.queue, known.group.phase or "Pending")
        self._touched.clear()
        commands.extend(self.queues.news())
        return commands

    def _tell_group(self, job: Job, told: list[Command]) -> None:
        if job.group is None:
            if self._groups.pop(job.key, None) is not None:
                self.queues.forget(job.key)
            return
        status = group_status(self._scheduler, job)
        self.queues.place(job.key, job.queue, status.phase)
        if self._groups.get(job.key) != status:
            self._groups[job.key] = status
            told.append(status)

    def _tell_pods(self, job: Job, told: list[Command]) -> None:
        reason = job.reason
        if reason is None:
            for uid in job.pods:
                self._pods.pop(uid, None)
            return
        for uid, pod in job.pods.items():
            waits = self._scheduler.state.pods[uid].node < 0 and pod.phase == "Pending" and not pod.deleting
            if not waits or not self._scheduler.book.is_ours(pod):
                self._pods.pop(uid, None)
            elif self._pods.get(uid) != reason:
                self._pods[uid] = reason
                told.append(TellPod(uid, pod.namespace, pod.name, reason))


def group_status(scheduler: Scheduler, job: Job) -> SetGroupStatus:
    """The PodGroup's phase as its pods make it."""
    placements = scheduler.state.pods
    running = succeeded = failed = scheduled = waiting = 0
    for uid, pod in job.pods.items():
        if pod.phase == "Succeeded":
            succeeded += 1
        elif pod.phase == "Failed":
            failed += 1
        elif placements[uid].node >= 0 and not placements[uid].assumed:
            # A binding that is on its way may still fail; the group runs when it is through.
            scheduled += 1
            running += pod.phase == "Running"
        else:
            waiting += 1
    ended = succeeded + failed
    if job.pods and scheduled + ended >= job.min_available:
        phase = "Running" if scheduled or waiting else "Completed"
    elif scheduled and scheduler.recovery.was_whole(job):
        # Part of the gang is gone: it runs, and it does not.
        phase = "Unknown"
    else:
        phase = "Inqueue" if job.inqueue else "Pending"
    waits = phase in ("Pending", "Inqueue", "Unknown")
    return SetGroupStatus(job.key, phase, job.reason if waits else None, running, succeeded, failed)
