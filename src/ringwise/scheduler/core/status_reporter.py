"""Status of PodGroups and pods, as commands."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ringwise.framework.job import Job
from ringwise.messages import events as ev
from ringwise.messages.commands import (
    Command,
    RecordJobEvent,
    RemoveQueueGate,
    SetGroupStatus,
    SetPodCondition,
)
from ringwise.messages.event_reasons import EventReason
from ringwise.reasons import Reason, Stage
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, Handlers
from ringwise.scheduler.cache.expected_starts import ExpectedStarts
from ringwise.scheduler.core.awaited_objects import AwaitedObjects
from ringwise.scheduler.core.queue_status import QueueStatusReporter


class StatusReporter(Component):
    """Writes status only when it changed, and once."""

    name = "status"

    def __init__(
        self,
        context: Context,
        was_complete: Callable[[Job], bool],
        awaited: AwaitedObjects,
        starts: ExpectedStarts,
    ) -> None:
        super().__init__(context)
        self._awaited = awaited
        self._starts = starts
        self._was_complete = was_complete
        self._changed: dict[str, None] = {}
        #: What was reported last, by PodGroup and by pod.
        self._groups: dict[str, SetGroupStatus] = {}
        self._pods: dict[str, tuple[Reason, str]] = {}
        #: By job: priority classes that it may not use, as reported.
        self._refused: dict[str, frozenset[str]] = {}
        #: Pods whose queue gate was removed.
        self._ungated: set[str] = set()
        self.queues = QueueStatusReporter(context.book.queues, context.usage)

    def handlers(self) -> Handlers:
        return {
            **dict.fromkeys((ie.JobSeen, ie.JobChanged, ie.AdmissionEnded), self._job_changed),
            ie.JobSettled: lambda event, now: self._awaited.note(event.job, now),
            ie.JobStatusChanged: self._status_changed,
            ie.JobGone: lambda event, now: self._forget(event.job.key),
            ie.PodRemoved: lambda event, now: self._forget_pod(event.uid),
            ev.QueueSeen: lambda event, now: self.queues.seen(event.queue.name),
            ev.QueueGone: lambda event, now: self.queues.gone(event.name),
        }

    def _job_changed(self, event: ie.JobSeen | ie.JobChanged | ie.AdmissionEnded, now: int) -> None:
        self._changed[event.job.key] = None

    def _status_changed(self, event: ie.JobStatusChanged, now: int) -> None:
        self._awaited.note(event.job, now)
        self._changed[event.job.key] = None

    def _forget(self, key: str) -> None:
        self._containment.forget(key)
        self._changed.pop(key, None)
        self._groups.pop(key, None)
        self._refused.pop(key, None)
        self.queues.forget(key)
        self._awaited.forget(key)

    def _forget_pod(self, uid: str) -> None:
        self._pods.pop(uid, None)
        self._ungated.discard(uid)

    def deadline(self) -> int | None:
        return self._awaited.deadline()

    def review(self, now: int) -> None:
        self._changed.update(dict.fromkeys(self._awaited.review(now)))

    def after_cycle(self, now: int) -> list[Command]:
        return self.report(now)

    def report(self, now: int) -> list[Command]:
        """Return the status of changed jobs that differs from what was reported."""
        commands: list[Command] = []
        changed, self._changed = self._changed, {}
        self._state.changes.several_jobs(changed)
        for key in changed:
            job = self._book.jobs.get(key)
            if job is None:
                continue
            # The status of the other jobs is reported as without it.
            self._containment.attempt("job", key, partial(self._report, job, commands), work=self.name)
        commands.extend(self.queues.changes())
        return commands

    def _report(self, job: Job, commands: list[Command]) -> None:
        self.queues.touch(job.queue)
        if self._book.serves(job):
            self._report_group(job, commands)
            self._report_pods(job, commands)
            self._report_refused_classes(job, commands)
            if job.inqueue:
                self._remove_gates(job, commands)
        elif job.group is not None:
            # Its own scheduler reports its status; it counts in its queue all the same.
            self.queues.put(job.key, job.queue, job.group.phase or "Pending")

    def _report_group(self, job: Job, commands: list[Command]) -> None:
        lone = self._book.is_lone(job)
        if job.group is None and not lone:
            if self._groups.pop(job.key, None) is not None:
                self.queues.forget(job.key)
            return
        status = self._group_status(job)
        self.queues.put(job.key, job.queue, status.phase)
        # A pod that is a job of its own counts in its queue like a PodGroup.
        if lone:
            self._groups.pop(job.key, None)
        elif self._groups.get(job.key) != status:
            self._groups[job.key] = status
            commands.append(status)

    def _report_pods(self, job: Job, commands: list[Command]) -> None:
        reason = _reported_reason(job)
        if reason is None or not self._awaited.is_reported(job):
            for uid in job.pods:
                self._pods.pop(uid, None)
            return
        reservation = self._reservations.of(job.key)
        nominated = reservation.nominated if reservation is not None else {}
        for uid, pod in job.pods.items():
            record = self._state.pods[uid]
            pending = (record.node < 0 or record.reserved) and pod.phase == "Pending" and not pod.deleting
            # A gated pod has the API server's own condition, which says so.
            if not pending or pod.gated or not self._book.is_ours(pod):
                self._pods.pop(uid, None)
                continue
            node = self._state.names[nominated[uid]] if uid in nominated else ""
            before = self._pods.get(uid)
            if before != (reason, node):
                self._pods[uid] = (reason, node)
                # An earlier leader may have written one, too.
                nominated_before = before[1] if before is not None else pod.nominated
                nominated_node = node if node or nominated_before else None
                commands.append(SetPodCondition(uid, pod.namespace, pod.name, reason, nominated_node))

    def _report_refused_classes(self, job: Job, commands: list[Command]) -> None:
        """Once for each class, also where the job starts at once and so has no reason to wait."""
        refused = frozenset(job.refused_classes)
        before = self._refused.get(job.key, frozenset())
        if refused == before:
            return
        if refused:
            self._refused[job.key] = refused
        else:
            self._refused.pop(job.key, None)
        # For a job that runs it was reported before it started: a scheduler that starts does not repeat it.
        placements = self._state.pods
        waits = not job.pods or any(placements[uid].node < 0 or placements[uid].assumed for uid in job.pods)
        if refused - before and waits:
            commands.append(
                RecordJobEvent.about(
                    job,
                    EventReason.PRIORITY_CLASS_IGNORED,
                    "; ".join(job.refused_classes.values()),
                    warning=True,
                )
            )

    def _remove_gates(self, job: Job, commands: list[Command]) -> None:
        """The job is admitted to its queue, and what it needs is kept for it there."""
        for uid, pod in job.pods.items():
            if pod.queue_gated and uid not in self._ungated and not pod.deleting:
                self._ungated.add(uid)
                commands.append(RemoveQueueGate(uid, pod.namespace, pod.name))

    def has_lost_all(self, job: Job) -> bool:
        """Whether the PodGroup is Running or Unknown, and no pod has a node.

        By its phase as it was reported last: the object may be older.
        """
        if job.group is None or self._book.is_over(job) or not self._book.serves(job):
            return False
        reported = self._groups.get(job.key)
        if (job.group.phase if reported is None else reported.phase) not in ("Running", "Unknown"):
            return False
        placements = self._state.pods
        ended = sum(not pod.live for pod in job.pods.values())
        left = any(placements[uid].node >= 0 for uid in job.pods)
        return not left and ended < job.min_available

    def _group_status(self, job: Job) -> SetGroupStatus:
        """The PodGroup's phase and counts, from its pods."""
        placements = self._state.pods
        running = succeeded = failed = scheduled = waiting = 0
        for uid, pod in job.pods.items():
            if pod.phase == "Succeeded":
                succeeded += 1
            elif pod.phase == "Failed":
                failed += 1
            elif placements[uid].node >= 0 and not placements[uid].assumed:
                # A binding that is not confirmed may still fail; the group runs once it is.
                # A backup pod replaces one that is counted.
                scheduled += uid not in job.backups
                running += pod.phase == "Running"
            else:
                waiting += 1
        ended = succeeded + failed
        if job.pods and scheduled + ended >= job.min_available:
            phase = "Running" if scheduled or waiting else "Completed"
        elif scheduled and self._was_complete(job):
            # Part of a gang that was complete is gone.
            phase = "Unknown"
        elif not job.pods and job.group is not None and job.group.phase == "Completed":
            # Its pods were deleted after they had ended.
            phase = "Completed"
        else:
            phase = "Inqueue" if job.inqueue else "Pending"
        reported = phase in ("Pending", "Inqueue", "Unknown") and self._awaited.is_reported(job)
        reason = _reported_reason(job) if reported else None
        waits = reason is not None and reason.kind.stage is not Stage.VALIDATE
        start = self._starts.reported_text(job.key) if waits else ""
        return SetGroupStatus(job.key, phase, reason, running, succeeded, failed, start)


def _reported_reason(job: Job) -> Reason | None:
    """Why it waits, with what else its owner has to know."""
    reason = job.reason
    return reason.with_hints(job.refused_classes.values()) if reason and job.refused_classes else reason
