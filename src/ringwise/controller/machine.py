"""The vcjob controller: creates the PodGroups and pods of jobs, and their status, until they end.

A deterministic state machine like the scheduler: the same events in, commands out. Its decisions
follow from the objects alone: a new controller that gets all objects in its first call continues
where the last one stopped. Therefore an action is written into the job's status before pods are
deleted for it, and pods are created before the status counts them.

The timeout of a policy counts from a time in the object where there is one: pending pods from
their creation, failed pods from their end. For an evicted pod, a completed or failed task and an
Unknown gang it counts from when the controller saw it first, and an eviction whose timeout runs is
lost when the controller restarts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import partial

from ringwise.controller.hyper_nodes import HyperNodeController
from ringwise.controller.job_plugins import JobPlugins
from ringwise.controller.job_record import (
    RETRY_AFTER,
    RUNNING,
    SUCCEEDED,
    JobRecord,
    index_of,
    later,
)
from ringwise.controller.phases import (
    COMMANDS,
    EXPIRING,
    INVALID,
    PARTIAL,
    is_allowed,
    must_delete,
    next_phase,
    start_action,
)
from ringwise.controller.pod_groups import PodGroupController
from ringwise.controller.policies import POD_EVICTED, DueAction, due_actions, targets
from ringwise.controller.queues import QueueController
from ringwise.controller.restarts import (
    AWAITS_RESTART,
    NOT_RESTARTED,
    made_again,
    rejected_pods,
    restart_answer,
)
from ringwise.controller.timers import Timers
from ringwise.durations import SECOND, earliest
from ringwise.framework.amounts import without_quota_names
from ringwise.grammar import counted
from ringwise.messages import events as ev
from ringwise.messages.commands import (
    Command,
    CreateGroup,
    CreatePod,
    DeleteGroup,
    DeleteJob,
    DeletePod,
    EvictionCause,
    RecordVcJobEvent,
)
from ringwise.messages.containment import Containment
from ringwise.messages.event_reasons import EventReason
from ringwise.messages.job_expansion import group_name, pod_group_of, pods_of
from ringwise.state.failures import rejections_before
from ringwise.state.job_plugins import ignored_arguments
from ringwise.state.model import DEFAULT_QUEUE, Pod, PodGroup
from ringwise.state.queue_rules import QUEUE_COMMAND_NAMESPACES
from ringwise.state.vcjob import COMMAND_ISSUED, NOT_CREATED, OVER, VcJob
from ringwise.wellknown import JOB_CONTROLLER, JOB_NAME, SCHEDULER_NAMES

#: Uids of deleted pods that are kept, so that a late event does not bring them back.
_MAX_DELETED = 100_000
#: Maximum characters of the cause of an action, which the client that requests it can choose freely.
_MAX_CAUSE = 500
#: Actions that restart pods which need each other.
_PARTS = ("RestartTask", "RestartPartition")
#: Ignored arguments of job plugins that one event names.
_MAX_ARGUMENTS = 5


class Controller:
    """With `pod_groups` it creates the PodGroups of pods without a vcjob, too."""

    def __init__(
        self,
        pod_groups: PodGroupController | None = None,
        scheduler_names: Iterable[str] = SCHEDULER_NAMES,
        queue_command_namespaces: Collection[str] = QUEUE_COMMAND_NAMESPACES,
    ) -> None:
        self._pod_groups = pod_groups
        #: Names by which pods ask for this project's scheduler.
        self._names = frozenset(scheduler_names)
        self._queues = QueueController(queue_command_namespaces)
        self._hyper_nodes = HyperNodeController()
        self._records: dict[str, JobRecord] = {}
        self._pods: dict[str, dict[str, Pod]] = {}
        self._job_of: dict[str, str] = {}
        self._groups: dict[str, PodGroup] = {}
        self._job_of_group: dict[str, str] = {}
        self._priorities: dict[str, int] = {}
        self._deleted: dict[str, None] = {}
        self._timers = Timers()
        self._commands: dict[str, list[ev.JobCommand]] = {}
        self._changed: dict[str, None] = {}
        self._containment = Containment()
        self._appliers: list[Callable[[ev.Event], None]] = [
            self._apply,
            self._queues.apply,
            self._hyper_nodes.apply,
        ]
        if pod_groups is not None:
            self._appliers.append(pod_groups.apply)
            pod_groups.on_lone_pod = self._queues.put_lone_pod
        self._now = 0
        self._initial = True
        #: Called with every event and every job: a long call is not a hung one.
        self.on_progress: Callable[[], None] = lambda: None

    def handle(self, events: Iterable[ev.Event], now: int) -> list[Command]:
        """Apply the events and return the commands. The first call must carry every object."""
        self._now = now
        for event in events:
            for apply in self._appliers:
                try:
                    apply(event)
                except Exception as error:
                    self._containment.failed(*event.about, error)
            self.on_progress()
        if self._initial:
            self._initial = False
            for key, existing in self._records.items():
                self._containment.attempt("Job", key, partial(existing.note_losses, now), existing.job.uid)
        self._changed.update(dict.fromkeys(self._timers.take_due(now)))
        commands: list[Command] = []
        for key in self._changed:
            record = self._records.get(key)
            if record is not None:
                commands += self._contained(record, now)
                self.on_progress()
        self._changed.clear()
        self._commands.clear()
        commands += self._queues.sync(now, self._containment)
        commands += self._hyper_nodes.sync(now, self._containment)
        if self._pod_groups is not None:
            commands += self._pod_groups.sync(now, self._containment)
        commands += self._containment.commands()
        return commands

    def next_deadline(self) -> int | None:
        """When time alone changes something."""
        groups = self._pod_groups.next_deadline() if self._pod_groups is not None else None
        parts = (self._timers, self._queues, self._hyper_nodes)
        return earliest(*(part.next_deadline() for part in parts), groups)

    # -- events --------------------------------------------------------------------------

    def _apply(self, event: ev.Event) -> None:
        match event:
            case ev.VcJobSeen():
                self._job_seen(event.job)
            case ev.VcJobGone():
                record = self._records.pop(event.key, None)
                self._containment.succeeded("Job", event.key)
                self._timers.set(event.key, None)
                if not self._pods.get(event.key, True):
                    del self._pods[event.key]
                if record is not None:
                    self._job_of_group.pop(_group_key(record.job), None)
            case ev.PodSeen():
                self._pod_seen(event.pod, self._now)
            case ev.PodGone():
                self._pod_gone(event.uid, self._now)
            case ev.PodGroupSeen():
                self._groups[event.group.key] = event.group
                key = self._touch_group(event.group.key)
                if key is not None and self._records[key].started_in not in (None, event.group.queue):
                    # The queue is restored.
                    self._records[key].group_requested = None
            case ev.PodGroupGone():
                self._groups.pop(event.key, None)
                key = self._touch_group(event.key)
                if key is not None:
                    self._records[key].group_deletion_requested = None
                    self._records[key].group_requested = None
            case ev.PriorityClassSeen():
                self._priorities[event.priority_class.name] = event.priority_class.value
            case ev.PriorityClassGone():
                self._priorities.pop(event.name, None)
            case ev.JobHeldUp():
                held = self._records.get(event.key)
                if held is not None and held.job.uid == event.uid:
                    held.held_up = event.why
                    # Its host lists or its PodGroup may be among what could not be written.
                    held.write_again = held.write_again or self._now + RETRY_AFTER
                    self._changed[event.key] = None
            case ev.JobCommand():
                self._commands.setdefault(event.key, []).append(event)
                self._changed[event.key] = None

    def _job_seen(self, job: VcJob) -> None:
        record = self._records.get(job.key)
        if record is None or record.job.uid != job.uid:
            record = JobRecord.of(job, self._pods.setdefault(job.key, {}))
            self._records[job.key] = record
            self._job_of_group[_group_key(job)] = job.key
        else:
            if _spec(job) != _spec(record.job):
                record.updated = True
                record.group_requested = None
            if job.queue != record.job.queue:
                # Of a job whose queue takes no jobs it can be changed.
                record.moved = True
                record.group_requested = None
            if not record.agrees(job):
                # Our last status was lost, or this event is late: writing it again settles both.
                record.reported = None
            record.job = job
        self._changed[job.key] = None

    def _pod_seen(self, pod: Pod, now: int) -> None:
        if pod.uid in self._deleted:
            return
        # A pod stays with its job if its owner edits or removes the annotation.
        key = self._job_of.get(pod.uid, "")
        if not key:
            name = pod.annotations.get(JOB_NAME)
            if name is None:
                return
            key = f"{pod.namespace}/{name}"
        previous = self._pods.setdefault(key, {}).get(pod.uid)
        pod = later(previous, pod)
        self._pods[key][pod.uid] = pod
        self._job_of[pod.uid] = key
        self._changed[key] = None
        record = self._records.get(key)
        if record is not None:
            record.create_requested.pop(pod.name, None)
            if pod.owner is not None and pod.owner.uid == record.job.uid:
                record.held_up = ""
            if record.rejections and rejections_before(pod) >= record.rejections.get(pod.name, 0):
                # The new one. The one before it may be seen once more while it goes.
                record.rejections.pop(pod.name, None)
            # In the first call every pod is new; there the counts of the status show which are missing.
            before = self._initial if previous is None else previous.deleting
            if pod.deleting and not before:
                record.note_eviction(pod, now)

    def _pod_gone(self, uid: str, now: int) -> None:
        if len(self._deleted) >= _MAX_DELETED:
            del self._deleted[next(iter(self._deleted))]
        self._deleted[uid] = None
        key = self._job_of.pop(uid, None)
        if key is None:
            return
        pod = self._pods[key].pop(uid)
        self._changed[key] = None
        record = self._records.get(key)
        if record is not None:
            if not pod.deleting:
                record.note_eviction(pod, now)
            record.delete_requested.pop(uid, None)
        elif not self._pods[key]:
            del self._pods[key]

    def _touch_group(self, group: str) -> str | None:
        key = self._job_of_group.get(group)
        if key is not None and key in self._records:
            self._changed[key] = None
            return key
        return None

    # -- one job -------------------------------------------------------------------------

    def _contained(self, record: JobRecord, now: int) -> list[Command]:
        """Return the commands for one job. A job that raises is reported and does not affect the others."""
        commands: list[Command] = []
        job = record.job
        if self._containment.attempt("Job", job.key, partial(self._sync, record, now, commands), job.uid):
            self._timers.set(job.key, record.due)
            return commands
        self._timers.set(job.key, None)
        commands.clear()
        for command in self._commands.get(job.key, ()):
            _record_ineffective(job, command.action, "cannot be handled", commands)
        return commands

    def _sync(self, record: JobRecord, now: int, commands: list[Command]) -> None:
        record.clear_deadline()
        job = record.job
        if job.deleting:
            for command in self._commands.get(job.key, ()):
                _record_ineffective(job, command.action, "is being deleted", commands)
            return
        creates: list[Command] = []
        deletes: list[Command] = []
        record.action_started = False
        if not record.phase:
            _record_ignored_arguments(job, creates)
        if job.problems and record.phase in ("", "Pending"):
            record.move("Pending", now, INVALID, "; ".join(job.problems))
            for command in self._commands.get(job.key, ()):
                _record_ineffective(job, command.action, "cannot run as it is", creates)
        else:
            if record.phase == "Running" and job.problems:
                # It was changed into a job that cannot run. Its pods keep running, and none are created.
                record.reason, record.message = INVALID, "; ".join(job.problems)
            elif record.phase == "Pending" and record.held_up:
                record.reason, record.message = NOT_CREATED, record.held_up
            elif record.reason in (INVALID, NOT_CREATED):
                record.reason = record.message = ""
            self._reconcile(record, now, creates, deletes)
        commands += creates
        status = record.status(record.counts())
        if status != record.reported:
            record.reported = status
            commands.append(status)
        commands += deletes
        self._expire(record, now, commands)
        if record.action_started:
            record.wake_at(now)

    def _reconcile(self, record: JobRecord, now: int, creates: list[Command], deletes: list[Command]) -> None:
        for command in self._commands.get(record.job.key, ()):
            action = command.action
            if is_allowed(record.phase or "Pending", action) and action not in PARTIAL:
                issued = f"Start to execute command {action}, which is deleted first so that it runs once"
                creates.append(RecordVcJobEvent(record.job.key, EventReason.COMMAND_ISSUED, issued))
                cause = " ".join((f"{action} was requested", *command.message.split()))[:_MAX_CAUSE]
                self._start(record, action, now, COMMAND_ISSUED, cause, creates)
                self._delete_group(record, now, deletes)
            else:
                _record_ineffective(record.job, action, f"is {record.phase or 'Pending'}", creates)
        self._apply_policies(record, now, creates, deletes)
        self._delete_rejected(record, now, creates, deletes)
        self._delete_unneeded(record, now, deletes)
        if record.action_started:
            return
        before = record.phase
        self._advance(record, now)
        if record.phase != before:
            # The new phase may require that pods are deleted.
            self._delete_unneeded(record, now, deletes)
        if record.phase in OVER:
            self._delete_group(record, now, deletes)
        elif record.group_deletion_requested is not None:
            # Its pods are created under a new one.
            self._delete_group(record, now, deletes)
        elif record.phase in ("Pending", "Running"):
            self._create_missing(record, now, creates)
            if creates:
                self._advance(record, now)

    def _start(
        self, record: JobRecord, action: str, now: int, reason: str, cause: str, creates: list[Command]
    ) -> None:
        """Report the phase of the action first; the next call continues from there."""
        start_action(record, action, now, reason, cause, requested=reason == COMMAND_ISSUED)
        record.action_started = True
        message = f"Start to execute action {action}: {cause}"
        creates.append(RecordVcJobEvent(record.job.key, EventReason.EXECUTE_ACTION, message))

    def _apply_policies(
        self, record: JobRecord, now: int, creates: list[Command], deletes: list[Command]
    ) -> None:
        group = self._groups.get(_group_key(record.job))
        if record.phase == "Restarting" and record.evicted:
            # What is lost meanwhile takes its own part along: it would not be noticed later.
            for one in due_actions(record, group, now):
                if one.cause.event == POD_EVICTED and one.action in _PARTS:
                    _delete_part(record, one, now, deletes)
        if record.phase not in ("Pending", "Running"):
            record.evicted.clear()
            return
        due = due_actions(record, group, now)
        if not due or not is_allowed(record.phase, due[0].action):
            return
        policy, target = due[0], targets(record, due[0])
        if policy.action in PARTIAL and target is None:
            record.evicted.clear()
            return
        cause = f"{policy.cause.sentence}: {policy.action}"
        self._start(record, policy.action, now, policy.cause.event, cause, creates)
        if target is None:
            self._delete_group(record, now, deletes)
            return
        # Several parts that are lost at once, under one switch for example, are one restart of the job.
        for one in due:
            if one is policy or one.action in _PARTS:
                _delete_part(record, one, now, deletes)

    def _delete_rejected(
        self, record: JobRecord, now: int, creates: list[Command], deletes: list[Command]
    ) -> None:
        """F5: what kubelet rejected at admission is made again; its number is in the status first."""
        if record.action_started or record.phase not in ("Pending", "Running") or record.job.problems:
            return
        events: list[RecordVcJobEvent] = []
        for pod in rejected_pods(record, now, events):
            _request_delete(record, pod, now, f"kubelet rejected it: {pod.rejected}", deletes)
        creates += events

    def _advance(self, record: JobRecord, now: int) -> None:
        for _ in range(8):
            following = next_phase(record, record.counts())
            if following is not None and record.phase == "Running" and following[0] == "Failed":
                following = self._unless_restarted(record, following, now)
            else:
                record.restart_awaited = None
                if record.reason == AWAITS_RESTART:
                    record.reason = record.message = ""
            if following is None:
                return
            phase, reason, message = following
            record.move(phase, now, reason, message)

    def _unless_restarted(
        self, record: JobRecord, following: tuple[str, str, str], now: int
    ) -> tuple[str, str, str] | None:
        """F5: None while the scheduler may still restart the pods, which have all ended."""
        answer = restart_answer(record, self._groups.get(_group_key(record.job)), self._names, now)
        phase, reason, message = following
        if answer.waits:
            record.reason = AWAITS_RESTART
            record.message = f"{message}; the scheduler restarts it (fault-retry-times) or says why not"
            return None
        if answer.refusal:
            reason, message = NOT_RESTARTED, f"{message}; not restarted: {answer.refusal}"
        return phase, reason, message

    def _delete_unneeded(self, record: JobRecord, now: int, deletes: list[Command]) -> None:
        active = record.phase in ("Pending", "Running") and not record.job.problems
        replicas = {task.name: task.replicas for task in record.job.tasks}
        for pod in list(record.own_pods()):
            requested = record.delete_requested.get(pod.uid)
            if pod.deleting:
                continue
            if requested is not None:
                if requested + RETRY_AFTER <= now:
                    _request_delete(record, pod, now, "requested again", deletes)
                else:
                    record.wake_at(requested + RETRY_AFTER)
            elif must_delete(record, pod):
                _request_delete(record, pod, now, record.message or f"the job is {record.phase}", deletes)
            elif active and index_of(pod) >= replicas.get(pod.task, 0):
                _request_delete(
                    record,
                    pod,
                    now,
                    f"task {pod.task} has {counted(replicas.get(pod.task, 0), 'pod')} now",
                    deletes,
                )
            if pod.uid in record.delete_requested:
                record.wake_at(record.delete_requested[pod.uid] + RETRY_AFTER)

    def _delete_group(self, record: JobRecord, now: int, deletes: list[Command]) -> None:
        key = _group_key(record.job)
        if key not in self._groups:
            return
        requested = record.group_deletion_requested
        if requested is None or requested + RETRY_AFTER <= now:
            record.group_deletion_requested = requested = now
            deletes.append(DeleteGroup(key))
        record.wake_at(requested + RETRY_AFTER)

    def _create_missing(self, record: JobRecord, now: int, creates: list[Command]) -> None:
        """The PodGroup first; pods only once the scheduler has admitted it."""
        job = replace(record.job, phase=record.phase, version=record.version, retry_count=record.retries)
        key = _group_key(job)
        group = self._groups.get(key)
        if job.problems:
            return
        if record.write_again is not None and record.write_again <= now:
            record.write_again, record.published_replicas, record.group_requested = None, (), None
        elif record.write_again is not None:
            record.wake_at(record.write_again)
        if not record.holds_nodes:
            record.started_in = None
        elif record.started_in is None and group is not None:
            record.started_in = group.queue
        if record.group_requested is None or (group is None and record.group_requested + RETRY_AFTER <= now):
            record.group_requested = now
            wanted = pod_group_of(job, self._priorities)
            wanted = replace(wanted, labels={**wanted.labels, JOB_CONTROLLER: "true"})
            if group is not None and wanted.queue == DEFAULT_QUEUE and not record.moved:
                # A webhook may give another one to groups that name none.
                wanted = replace(wanted, queue=group.queue)
            if record.started_in not in (None, wanted.queue):
                # Its chips count for the queue in which they were allocated until no pod has a node. A
                # change of the PodGroup does not move the job; a change of the vcjob does.
                wanted = replace(wanted, queue=record.started_in)
                record.group_requested = None
            if group is None or _group_spec(wanted) != _group_spec(group):
                creates.append(CreateGroup(wanted))
        if group is None:
            record.wake_at((record.group_requested or now) + RETRY_AFTER)
            return
        if group.phase in ("", "Pending"):
            return
        late = [
            name for name, (_, requested) in record.create_requested.items() if requested + RETRY_AFTER <= now
        ]
        for name in late:
            del record.create_requested[name]
        self._publish_hosts(record, job, creates)
        if sum(1 for _ in record.own_pods()) + len(record.create_requested) < job.replicas:
            self._create_pods(record, job, now, creates)
        if record.create_requested:
            record.wake_at(min(requested for _, requested in record.create_requested.values()) + RETRY_AFTER)

    def _publish_hosts(self, record: JobRecord, job: VcJob, creates: list[Command]) -> None:
        """The host lists follow the replicas of the job, before pods are created or deleted for them.

        A new controller publishes them where pods are missing or too many: else its predecessor did.
        """
        replicas = tuple(task.replicas for task in job.tasks)
        if record.published_replicas == replicas:
            return
        if record.published_replicas is None:
            places = Counter(pod.task for pod in record.own_pods())
            if all(places[task.name] == task.replicas for task in job.tasks):
                record.published_replicas = replicas
                return
        record.published_replicas = replicas
        hosts = JobPlugins(job).host_lists()
        if hosts is not None:
            creates.append(hosts)

    def _create_pods(self, record: JobRecord, job: VcJob, now: int, creates: list[Command]) -> None:
        taken = {f"{job.namespace}/{name}" for name in record.create_requested}
        taken.update(pod.key for pod in record.pods.values())
        ready = _tasks_ready(record, job)
        plugins = JobPlugins(job)
        if not record.resources_requested:
            record.resources_requested = True
            creates.append(plugins.resources())
        for pod in pods_of(job, taken):
            if pod.task in ready:
                record.create_requested[pod.name] = (pod.task, now)
                creates.append(CreatePod(made_again(record, pod), job.key, plugins.additions(pod)))

    def _expire(self, record: JobRecord, now: int, commands: list[Command]) -> None:
        ttl = record.job.ttl_seconds
        if ttl is None or record.phase not in EXPIRING:
            return
        due = record.since + ttl * SECOND
        if due <= now:
            commands.append(DeleteJob(record.job.key))
            record.wake_at(now + RETRY_AFTER)
        else:
            record.wake_at(due)


def _group_key(job: VcJob) -> str:
    return f"{job.namespace}/{group_name(job)}"


def _spec(job: VcJob) -> tuple[object, ...]:
    return job.tasks, job.min_available, job.priority_class


def _group_spec(group: PodGroup) -> tuple[object, ...]:
    return (
        group.min_member,
        dict(group.min_task_member),
        group.queue,
        group.priority_class,
        # Groups that Volcano's controller created do not have it.
        JOB_CONTROLLER in group.labels,
        # Names of quotas follow from the others.
        without_quota_names(group.min_resources),
        group.sub_groups,
    )


def _record_ineffective(job: VcJob, action: str, why: str, creates: list[Command]) -> None:
    """Record that a Command of a user has no effect: it is deleted, so only the event reports that."""
    message = f"Command {action} has no effect: the job {why}"
    if action not in COMMANDS:
        message = f"Command {action} has no effect: for a job as a whole there are {', '.join(COMMANDS)}"
    creates.append(RecordVcJobEvent(job.key, EventReason.COMMAND_ISSUED, message, warning=True))


def _record_ignored_arguments(job: VcJob, creates: list[Command]) -> None:
    """Once, when the job is new: it runs without them."""
    ignored = ignored_arguments(job.plugins)
    if ignored:
        more = len(ignored) - _MAX_ARGUMENTS
        message = "; ".join(ignored[:_MAX_ARGUMENTS]) + (f"; and {more} more" if more > 0 else "")
        creates.append(RecordVcJobEvent(job.key, EventReason.PLUGIN_ARGUMENT_IGNORED, message, warning=True))


def _delete_part(record: JobRecord, due: DueAction, now: int, deletes: list[Command]) -> None:
    """The pods that a partial restart concerns."""
    target = targets(record, due)
    for pod in record.current_pods():
        if target is not None and target(pod) and pod.uid not in record.delete_requested:
            _request_delete(record, pod, now, due.action, deletes)


def _request_delete(record: JobRecord, pod: Pod, now: int, why: str, deletes: list[Command]) -> None:
    record.delete_requested[pod.uid] = now
    suspended = record.phase in ("Aborting", "Aborted")
    cause = EvictionCause.SUSPEND if suspended else EvictionCause.OTHER
    deletes.append(DeletePod(pod.uid, pod.namespace, pod.name, why, cause=cause))


def _tasks_ready(record: JobRecord, job: VcJob) -> set[str]:
    """Tasks whose dependencies have their minimum of pods running or succeeded."""
    ready = {task.name for task in job.tasks if not task.depends_on}
    if len(ready) == len(job.tasks):
        return ready
    counts = record.counts()
    met = {task.name: counts.of(task.name, RUNNING, SUCCEEDED) >= task.min_available for task in job.tasks}
    for task in job.tasks:
        if task.depends_on:
            others = [met[other] for other in task.depends_on if other in met]
            if any(others) if task.depends_on_any else all(others):
                ready.add(task.name)
    return ready
