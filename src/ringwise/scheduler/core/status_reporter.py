"""Status of PodGroups, pods and queues, as commands, and when pending jobs are expected to start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

from ringwise.framework.amounts import Amounts, add
from ringwise.framework.gangs.gang_count import is_complete_and_confirmed
from ringwise.framework.job import Job
from ringwise.framework.reasons import NO_PODS_YET
from ringwise.framework.usage import ResourceUsage
from ringwise.messages import events as ev
from ringwise.messages.commands import (
    Command,
    RecordJobEvent,
    RemoveQueueGate,
    SetGroupStatus,
    SetPodCondition,
    SetQueueStatus,
)
from ringwise.messages.event_reasons import EventReason
from ringwise.plugins.gang.reasons import NOT_ENOUGH_PODS, NOT_ENOUGH_PODS_OF_TASK
from ringwise.reasons import Reason, Stage
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, on, on_job
from ringwise.scheduler.cache.expected_starts import ExpectedStarts
from ringwise.scheduler.reasons import POD_GROUP_AWAITED, POD_GROUP_MISSING
from ringwise.state.model import Queue

#: Nanoseconds after which a job is reported.
TIMEOUT = 30_000_000_000

#: Codes of the reasons of jobs that wait for such objects.
AWAITED = frozenset(
    kind.code
    for kind in (NO_PODS_YET, NOT_ENOUGH_PODS, NOT_ENOUGH_PODS_OF_TASK, POD_GROUP_AWAITED, POD_GROUP_MISSING)
)


class StatusReporter(Component):
    """Writes status only when it changed, and once."""

    name = "status"

    def __init__(self, context: Context, was_complete: Callable[[Job], bool], starts: ExpectedStarts) -> None:
        super().__init__(context)
        self._starts = starts
        self._was_complete = was_complete
        self._changed: dict[str, None] = {}
        #: Jobs that wait for objects, with how many pods they have; and when those are reported that are not.
        self._awaiting: dict[str, int] = context.job_tables.add({})
        self._due = context.job_tables.add(context.deadlines.table())
        #: What was reported last, by PodGroup and by pod.
        self._groups: dict[str, SetGroupStatus] = context.job_tables.add({})
        self._pods: dict[str, tuple[Reason, str]] = context.pod_tables.add({})
        #: By job: priority classes that it may not use, as reported.
        self._refused: dict[str, frozenset[str]] = context.job_tables.add({})
        #: Pods whose queue gate was removed.
        self._ungated: dict[str, None] = context.pod_tables.add({})
        self.queues = QueueStatusReporter(context.book.queues, context.usage)

    @on_job(ie.JobSeen, ie.JobChanged, ie.AdmissionEnded, ie.JobStatusChanged)
    def _job_changed(self, job: Job, now: int) -> None:
        self._changed[job.key] = None

    @on_job(ie.JobSettled, ie.JobStatusChanged)
    def _job_settled(self, job: Job, now: int) -> None:
        """The job has its reason, or none.

        A running controller creates objects at once, so that the wait for them is not news. A job without any
        after a while gets a reason: no controller may run that serves it, or something keeps it from creating
        them. The time counts from when this scheduler saw the job, or the last of its pods come.
        """
        if not _awaits(job):
            self._awaiting.pop(job.key, None)
            self._due.pop(job.key)
        elif self._awaiting.get(job.key) != len(job.pods):
            self._awaiting[job.key] = len(job.pods)
            self._due.pop(job.key)
            self._due.put(job.key, now + TIMEOUT)

    def _is_reported(self, job: Job) -> bool:
        """Whether the reason of the job is reported: its objects are overdue, or it waits for none."""
        return not _awaits(job) or (job.key in self._awaiting and job.key not in self._due)

    @on_job(ie.JobGone)
    def _job_gone(self, job: Job, now: int) -> None:
        self._containment.forget(job.key)
        self.queues.forget(job.key)

    @on(ev.QueueSeen, ev.QueueGone)
    def _queue_seen(self, event: ev.QueueSeen | ev.QueueGone, now: int) -> None:
        self.queues.seen(event.about[1])

    def review(self, now: int) -> None:
        self._changed.update(dict.fromkeys(self._due.take(now)))

    def after_cycle(self, now: int) -> list[Command]:
        return self.report(now)

    def report(self, now: int) -> list[Command]:
        """Return the status of changed jobs that differs from what was reported."""
        commands: list[Command] = []
        changed, self._changed = self._changed, {}
        self._state.changes.several_jobs(changed)
        for job in self._book.existing(changed):
            # The status of the other jobs is reported as without it.
            self._containment.attempt("job", job.key, partial(self._report, job, commands), work=self.name)
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
        if reason is None or not self._is_reported(job):
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
            message = "; ".join(job.refused_classes.values())
            commands.append(RecordJobEvent.about(job, EventReason.PRIORITY_CLASS_IGNORED, message))

    def _remove_gates(self, job: Job, commands: list[Command]) -> None:
        """The job is admitted to its queue, and what it needs is kept for it there."""
        for uid, pod in job.pods.items():
            if pod.queue_gated and uid not in self._ungated and not pod.deleting:
                self._ungated[uid] = None
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

    def _has_started(self, job: Job) -> bool:
        """Whether the gang was complete once, as far as is known, or is so now."""
        return self._was_complete(job) or is_complete_and_confirmed(self._state, job)

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
        # A job that never had all sub-groups that must run has not started.
        lacks_groups = bool(scheduled and job.sub_groups) and not self._has_started(job)
        if job.pods and scheduled + ended >= job.min_available and not lacks_groups:
            phase = "Running" if scheduled or waiting else "Completed"
        elif scheduled and self._was_complete(job):
            # Part of a gang that was complete is gone.
            phase = "Unknown"
        elif not job.pods and job.group is not None and job.group.phase == "Completed":
            # Its pods were deleted after they had ended.
            phase = "Completed"
        else:
            phase = "Inqueue" if job.inqueue else "Pending"
        reported = phase in ("Pending", "Inqueue", "Unknown") and self._is_reported(job)
        reason = _reported_reason(job) if reported else None
        waits = reason is not None and reason.kind.stage is not Stage.VALIDATE
        start = self._starts.reported_text(job.key) if waits else ""
        return SetGroupStatus(job.key, phase, reason, running, succeeded, failed, start)


def _reported_reason(job: Job) -> Reason | None:
    """Why it waits, with what else its owner has to know."""
    reason = job.reason
    return reason.with_hints(job.refused_classes.values()) if reason and job.refused_classes else reason


def _awaits(job: Job) -> bool:
    """Whether only objects are missing that may be on their way; a pod that failed is not."""
    if job.reason is None or job.reason.code not in AWAITED:
        return False
    return not any(pod.phase == "Failed" for pod in job.pods.values())


class QueueStatusReporter:
    """Status of queues: how many PodGroups are in which phase, and what their pods use.

    What a queue uses counts for the queues above it, too. The counts follow the phases as they
    change: no cycle counts all jobs.
    """

    def __init__(self, queues: Mapping[str, Queue], usage: ResourceUsage) -> None:
        self._queues = queues
        self._usage = usage
        #: Queue and phase of every PodGroup, and how many there are of each.
        self._groups: dict[str, tuple[str, str]] = {}
        self._counts: dict[str, dict[str, int]] = {}
        #: Queues of which usage, counts or parent may have changed; those above them may have, too.
        self._touched: dict[str, None] = {}
        self._reported: dict[str, SetQueueStatus] = {}

    def touch(self, queue: str) -> None:
        """Usage or counts of this queue may have changed."""
        self._touched[queue] = None

    def seen(self, queue: str) -> None:
        """The Queue object is new, changed or gone: its status is written again."""
        self._reported.pop(queue, None)
        self._touched[queue] = None

    def put(self, group: str, queue: str, phase: str) -> None:
        """The PodGroup is in this queue and phase now."""
        here = (queue, phase)
        if self._groups.get(group) != here:
            self.forget(group)
            self._groups[group] = here
            counts = self._counts.setdefault(queue, {})
            counts[phase] = counts.get(phase, 0) + 1
            self._touched[queue] = None

    def forget(self, key: str) -> None:
        """A job is gone, or its PodGroup is."""
        # The queue of a job without a PodGroup is no longer known.
        queue, phase = self._groups.pop(key, ("", ""))
        self._touched[queue] = None
        counts = self._counts.get(queue)
        if counts is not None:
            counts[phase] -= 1
            if not counts[phase]:
                del counts[phase]
            if not counts:
                # Jobs may name queues that do not exist.
                del self._counts[queue]

    def changes(self) -> Iterator[SetQueueStatus]:
        """The status of queues, where it differs from what was reported: those that were touched first."""
        if not self._touched:
            return
        touched, self._touched = self._touched, {}
        totals = self._totals()
        above: dict[str, None] = {}
        for name in touched:
            # Not further than to a queue that was passed: those above it were, too.
            while name in self._queues and name not in above:
                above[name] = None
                name = self._queues[name].parent
        names = dict.fromkeys(chain(touched, above, self._queues))
        for name in filter(self._queues.__contains__, names):
            counts, used, last = self._counts.get(name, {}), totals.get(name, {}), self._reported.get(name)
            if last is None or last.allocated != used or last.groups != counts:
                status = SetQueueStatus(name, dict(sorted(counts.items())), dict(sorted(used.items())))
                self._reported[name] = status
                yield status

    def _totals(self) -> dict[str, Amounts]:
        """What a queue and those below it use. Each is added once to the one above it, the lowest first."""
        totals: dict[str, Amounts] = {}
        below = Counter(queue.parent for queue in self._queues.values())
        for name in self._queues:
            used = dict(self._usage.used_by_queue(name))
            if pods := self._usage.pods_by_queue.get(name):
                used["pods"] = pods
            if used:
                totals[name] = used
        lowest = [name for name in self._queues if not below[name]]
        while lowest:
            name = lowest.pop()
            parent = self._queues[name].parent
            if parent not in self._queues:
                continue
            if name in totals:
                add(totals.setdefault(parent, {}), totals[name])
            below[parent] -= 1
            if not below[parent]:
                lowest.append(parent)
        # Queues that are above each other: what one uses counts for all of them, and for those above.
        circles = {name: dict(totals.pop(name, {})) for name in self._queues if below[name]}
        for name, used in circles.items():
            for one in self._upwards(name) if used else ():
                add(totals.setdefault(one, {}), used)
        return totals

    def _upwards(self, name: str) -> Sequence[str]:
        """The queue and those above it, each once."""
        passed: dict[str, None] = {}
        while name in self._queues and name not in passed:
            passed[name] = None
            name = self._queues[name].parent
        return list(passed)
