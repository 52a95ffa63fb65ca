"""Whether a submitted job can ever run, by the checks of the scheduler itself.

A job is refused only if no change of the cluster could fix it: the job itself must change, or its
queue must be created. Every other obstacle is a warning, and the job may wait for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any

import msgspec

from ringwise import wellknown
from ringwise.apps.admission.defaults import fill_job, mapping
from ringwise.apps.extensions import new_scheduler
from ringwise.framework import reasons
from ringwise.framework.configuration import Configuration
from ringwise.framework.gangs.visible_devices import refused_choice
from ringwise.framework.job import Job
from ringwise.kube.watch.readers import ObservedQueue, pods_in
from ringwise.kube.write.tenant_text import problem_text
from ringwise.manifests.kinds import READABLE
from ringwise.manifests.objects.new_objects import (
    check_new_hyper_node,
    check_new_pod,
    check_new_pod_group,
)
from ringwise.manifests.objects.pods import PodClassCache
from ringwise.manifests.objects.visible_devices import visible_devices
from ringwise.manifests.objects.workloads import (
    OPERATOR_KINDS,
    REPLICATED_KINDS,
    operator_job_from_wire,
    replicated_from_wire,
)
from ringwise.manifests.text.errors import Findings, ManifestError
from ringwise.manifests.text.readable import readable
from ringwise.manifests.text.wire import (
    ContainerWire,
    OperatorJobWire,
    PodSpecWire,
    PodWire,
    QueueStatusWire,
    ReplicatedWire,
    WireStruct,
)
from ringwise.messages import events as ev
from ringwise.messages.events import Decide
from ringwise.messages.job_expansion import pod_group_of
from ringwise.messages.workload_expansion import workload_group, workload_pods
from ringwise.plugins.topology910.reasons import MIXED_RESOURCES
from ringwise.reasons import SPECIFICATION, Reason, Stage, Trigger
from ringwise.records import dataclass
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.defaults import default_configuration
from ringwise.scheduler.view import SchedulerView
from ringwise.state.job_rules import may_change_queue
from ringwise.state.model import ROOT_QUEUE, Pod, Queue, ResourceQuota
from ringwise.state.queue_rules import deletion_problem, queue_problems
from ringwise.state.vcjob import VcJob
from ringwise.state.workload import Workload
from ringwise.topology.boards import BoardCatalog
from ringwise.topology.nearest import nearest

#: Triggers of reasons that only the submitter can fix.
_USER_FIXABLE = SPECIFICATION | {Trigger.QUEUE_CHANGED}
#: Reasons that concern one pod, whatever the other pods of its job are like.
_OF_ONE_POD = frozenset(
    kind.code
    for kind in (
        reasons.TOO_MANY_CHIP_CONTAINERS,
        reasons.CHIPS_OF_INIT_CONTAINER,
        MIXED_RESOURCES,
        reasons.MALFORMED_JOB,
        reasons.VISIBLE_DEVICES_SET,
        reasons.VISIBLE_DEVICES_HIDDEN,
    )
)


@dataclass(slots=True)
class ClusterFacts:
    """What admission knows of the cluster. Queues are None until the first one was reported."""

    catalog: BoardCatalog
    #: `schedulerName` of the pods that are ours.
    scheduler_names: tuple[str, ...] = wellknown.SCHEDULER_NAMES
    configuration: Configuration = field(default_factory=default_configuration)
    queues: dict[str, Queue] | None = None
    #: What is known of the status of the queues.
    observed: dict[str, ObservedQueue] = field(default_factory=dict)
    #: Whether a queue with pods is protected also when it is Closed.
    protect_used_queues: bool = False
    topology: ev.TopologySeen | None = None
    #: ResourceQuotas by namespace and name.
    quotas: dict[str, dict[str, ResourceQuota]] = field(default_factory=dict)
    #: The queues that namespaces name for their PodGroups.
    namespace_queues: dict[str, str] = field(default_factory=dict)

    def take(self, event: ev.Event) -> None:
        match event:
            case ev.QueueSeen():
                self.queues = {**(self.queues or {}), event.queue.name: event.queue}
            case ev.QueueGone():
                # A review on another thread may be reading the old table.
                self.queues = {name: one for name, one in (self.queues or {}).items() if name != event.name}
            case ev.QuotaSeen(quota):
                named = self.quotas.get(quota.namespace, {})
                self.quotas[quota.namespace] = {**named, quota.name: quota}
            case ev.QuotaGone(namespace, name):
                self.quotas.get(namespace, {}).pop(name, None)
                if not self.quotas.get(namespace, True):
                    del self.quotas[namespace]
            case ev.ConfigurationSeen():
                self.configuration = event.configuration
            case ev.TopologySeen():
                self.topology = event if event.topology is not None else None


@dataclass(frozen=True, slots=True)
class Review:
    #: Why it can never run.
    refusals: tuple[Reason, ...] = ()
    #: Why it will wait at first.
    warnings: tuple[Reason, ...] = ()
    #: What of it is not obeyed, and why.
    notes: tuple[str, ...] = ()
    #: Whether queues that exist, or do not exist, are a reason for the refusal.
    queues_matter: bool = False


ALLOWED = Review()


#: Group and kind.
GroupKind = tuple[str, str]

VCJOB, QUEUE = (wellknown.BATCH_GROUP, "Job"), (wellknown.SCHEDULING_GROUP, "Queue")
POD_GROUP, POD = (wellknown.SCHEDULING_GROUP, "PodGroup"), ("", "Pod")
HYPER_NODE = (wellknown.HYPER_NODES.group, wellknown.HYPER_NODES.kind)
#: Kinds whose sizes are limited.
_SIZED = frozenset({VCJOB, POD_GROUP, HYPER_NODE, POD, *REPLICATED_KINDS, *OPERATOR_KINDS})

#: What tells whether a field changed, where it is not its whole value: tasks may be scaled.
_COMPARED = {"spec.tasks": "spec.tasks.name"}
_STEPS = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def judge_sizes(
    kind: GroupKind, raw: msgspec.Raw, cluster: ClusterFacts, old: msgspec.Raw | None = None
) -> Review:
    """The limits of docs/reference/object-limits.md alone; of a change, only in the fields that it changes.

    An object that exceeds one already must be scaled, labeled and freed of its finalizers as before, or its
    chips would stay held.
    """
    issues = Findings(kind[1])
    if not _is_ours(kind, raw, cluster, issues) or not issues.oversized:
        return ALLOWED
    errors = issues.oversized
    if old is not None:
        before, after = msgspec.json.decode(old), msgspec.json.decode(raw)
        paths = {error.field: _COMPARED.get(error.field, error.field) for error in errors}
        errors = [one for one in errors if _at(before, paths[one.field]) != _at(after, paths[one.field])]
    return Review(_malformed(errors))


def _is_ours(kind: GroupKind, raw: msgspec.Raw, cluster: ClusterFacts, issues: Findings) -> bool:
    """Reads an object, and says whether our scheduler places its pods."""
    if kind not in _SIZED:
        return False
    wire, value = _read(kind, raw, issues)
    if kind in (POD_GROUP, HYPER_NODE):
        return True
    if kind in REPLICATED_KINDS and wire.metadata.owner_references:
        return False
    names = (value.scheduler,) if kind == POD else value.schedulers
    return any(name in cluster.scheduler_names for name in names)


def _at(document: Any, path: str) -> Any:
    """The value of a field as readers name it; of a list without a position that of every item."""
    for name, position in _STEPS.findall(path):
        if position:
            inside = isinstance(document, list) and int(position) < len(document)
            document = document[int(position)] if inside else None
        elif isinstance(document, list):
            document = [item.get(name) if isinstance(item, dict) else None for item in document]
        else:
            document = document.get(name) if isinstance(document, dict) else None
    return document


def _read(kind: GroupKind, raw: msgspec.Raw | bytes, issues: Findings) -> tuple[Any, Any]:
    """An object as it is on the wire, and its value."""
    classes = PodClassCache()
    if kind in OPERATOR_KINDS:
        wire = _wire(raw, OperatorJobWire)
        return wire, operator_job_from_wire(wire, kind[1], OPERATOR_KINDS[kind], classes, issues, [])
    if kind in REPLICATED_KINDS:
        wire = _wire(raw, ReplicatedWire)
        return wire, replicated_from_wire(wire, kind[1], classes, issues, [])
    reader = READABLE[kind].reader
    assert reader is not None
    wire = _wire(raw, reader[0])
    return wire, reader[1](wire, classes, issues)


def _wire(raw: msgspec.Raw | bytes, shape: Any) -> Any:
    """Decode an object, with a UID in place of the one that the API server has not set yet."""
    wire = msgspec.json.decode(raw, type=shape)
    wire.metadata.uid = wire.metadata.uid or "submitted"
    return wire


def judge_vcjob(raw: msgspec.Raw | bytes, cluster: ClusterFacts) -> Review:
    issues = Findings("job")
    job: VcJob = _read(VCJOB, raw, issues)[1]
    if not any(name in cluster.scheduler_names for name in job.schedulers):
        return _not_ours(cluster, job.schedulers[0])
    if issues.oversized:
        # What else is wrong with it may follow from what was not read.
        return Review(_malformed(issues.oversized))
    if issues.errors or job.problems:
        errors = _malformed(map(_with_volcano_words, issues.errors))
        return Review(errors + tuple(reasons.MALFORMED_JOB(problem=one) for one in job.problems))
    events: list[ev.Event] = [ev.VcJobSeen(job), ev.PodGroupSeen(pod_group_of(job))]
    verdict = _judged(cluster, events)
    if any(reason.code == reasons.QUEUE_NOT_A_LEAF.code for reason in verdict.warnings):
        # As Volcano; other kinds may wait until the queue is a leaf.
        return Review(verdict.warnings)
    return verdict


#: What may change in the spec of a vcjob and of its tasks. Claims are named by controllers.
_CHANGEABLE = ("minAvailable", "priorityClassName")
_CHANGEABLE_OF_TASKS = ("replicas", "minAvailable")


def judge_vcjob_change(raw: msgspec.Raw, old: msgspec.Raw, cluster: ClusterFacts) -> Review:
    """Only the size and the priority of a job may change: its pods exist already.

    A job that can never run may be corrected in any way. Whether its queue still takes new jobs does not
    matter to a job that is there; where it does not, and where the job is suspended or waits, another queue
    may be named.
    """
    no_queues = replace(cluster, queues=None)
    excluded = bool(judge_vcjob(old, cluster).refusals)
    if excluded and judge_vcjob(old, no_queues).refusals:
        return ALLOWED
    before, after = _fixed_spec(old), _fixed_spec(raw)
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    moves = "queue" in changed
    if moves and (excluded or may_change_queue(*_phase_and_running(old))):
        changed.remove("queue")
    problems = [
        "job updates may not change fields other than `minAvailable`, `tasks[*].replicas under spec` and "
        f"`PriorityClassName`: spec.{name} was changed; of tasks minAvailable can be changed, too"
        for name in changed
    ]
    if _number_of_tasks(before) != _number_of_tasks(after):
        problems.insert(0, "job updates may not add or remove tasks: a task is stopped with 0 replicas")
    if problems:
        return Review(tuple(reasons.MALFORMED_JOB(problem=problem) for problem in problems))
    return judge_vcjob(raw, cluster if moves else no_queues)


def _fixed_spec(raw: msgspec.Raw | bytes) -> dict[str, Any]:
    """The part of a job's spec that cannot change, with defaults: writing them out is not a change."""
    job = msgspec.json.decode(raw)
    fill_job(job)
    spec = {name: value for name, value in job["spec"].items() if name not in _CHANGEABLE}
    for name, ignored in (("tasks", _CHANGEABLE_OF_TASKS), ("volumes", ("volumeClaimName",))):
        if isinstance(spec.get(name), list):
            spec[name] = [
                {key: value for key, value in one.items() if key not in ignored}
                if isinstance(one, dict)
                else one
                for one in spec[name]
            ]
    return spec


def _phase_and_running(raw: msgspec.Raw) -> tuple[str, int]:
    """Of the status of a vcjob, which its user cannot write together with the spec."""
    status = mapping(msgspec.json.decode(raw).get("status"))
    phase, running = mapping(status.get("state")).get("phase"), status.get("running")
    return str(phase or ""), running if isinstance(running, int) else 0


def _number_of_tasks(spec: dict[str, Any]) -> int:
    tasks = spec.get("tasks")
    return len(tasks) if isinstance(tasks, list) else 0


#: Volcano's words for reasons of the scheduler, in refusals of jobs and of PodGroups; scripts look for them.
_VOLCANO_WORDS = {
    reasons.UNKNOWN_QUEUE.code: ("unable to find job queue", "unable to find queue"),
    reasons.QUEUE_NOT_OPEN.code: (
        "can only submit job to queue with state `Open`",
        "can only submit PodGroup to queue with state `Open`",
    ),
    reasons.QUEUE_NOT_A_LEAF.code: ("can only submit job to leaf queue", "can only submit job to leaf queue"),
}
_OF_ROOT = "can not submit job to root queue"


def refusal_text(reason: Reason, kind: str) -> str:
    """What the API server answers: Volcano's words first, where it has some, then our explanation."""
    words = _VOLCANO_WORDS.get(reason.code, ("", ""))[kind == "PodGroup"]
    if reason.code == reasons.QUEUE_NOT_A_LEAF.code and reason.details["queue"] == ROOT_QUEUE:
        words = _OF_ROOT
    text = problem_text(reason)
    return f"{words}: {text}" if words else text


def judge_pod_group(raw: msgspec.Raw | bytes, cluster: ClusterFacts) -> Review:
    """Its pods come later, so little more than its queue can be checked."""
    issues = Findings("podgroup")
    wire, group = _read(POD_GROUP, raw, issues)
    check_new_pod_group(wire, issues)
    if issues.errors:
        return Review(_malformed(issues.errors))
    view = _scheduler(cluster, [ev.PodGroupSeen(group)]).view
    job = view.jobs[group.key]
    return _verdict(_before_plugins(view, job, cluster), job)


def note_queue_change(raw: msgspec.Raw, old: msgspec.Raw) -> Review:
    """Return a warning if the queue of a PodGroup changes while its pods have nodes."""
    issues = Findings("podgroup")
    before, after = (_read(POD_GROUP, one, issues)[1] for one in (old, raw))
    if before.queue == after.queue or before.phase in _NOT_STARTED:
        return ALLOWED
    text = (
        f"spec.queue: pods that have a node count for queue {before.queue} until they are gone, and the "
        "earlier end of the max run times of both queues applies"
    )
    if after.owner is not None and after.owner.is_vcjob:
        text += "; the controller restores the queue of a running vcjob: use ringwise requeue --queue"
    return Review(notes=(text,))


#: Phases of PodGroups without a pod that has a node.
_NOT_STARTED = ("", "Pending", "Inqueue", "Completed")


def judge_replicated(raw: msgspec.Raw | bytes, cluster: ClusterFacts, kind: GroupKind) -> Review:
    """A Deployment and the like: its pods are admitted one by one, so one of them is checked."""
    issues = Findings(kind[1])
    wire, workload = _read(kind, raw, issues)
    pod = next(workload_pods(workload), None)
    if pod is None or wire.metadata.owner_references:
        # A Deployment was checked before its ReplicaSet.
        return ALLOWED
    if pod.scheduler not in cluster.scheduler_names:
        return _not_ours(cluster, pod.scheduler) if pod.cls.chips else ALLOWED
    if issues.errors:
        # Each of its pods would be refused.
        return Review(_malformed(issues.oversized), _malformed(issues.errors))
    group = workload_group(workload)
    inherited = group.annotations if group is not None else {}
    alone = replace(pod, group=None, annotations={**inherited, **pod.annotations})
    if workload.replicas == 1 and workload.creates_group:
        return _judged(cluster, [ev.PodSeen(alone)])
    judge = _judged_as_member if workload.creates_group else _judged_on_some_board
    return judge(cluster, alone)


def judge_operator_job(raw: msgspec.Raw | bytes, cluster: ClusterFacts, kind: GroupKind) -> Review:
    """An AscendJob or a job of Kubeflow. Unreadable fields only cause warnings: its operator refuses it."""
    issues = Findings(kind[1])
    job: Workload = _read(kind, raw, issues)[1]
    if job.roles and not any(name in cluster.scheduler_names for name in job.schedulers):
        return _not_ours(cluster, job.schedulers[0]) if job.asks_for_chips else ALLOWED
    if issues.errors:
        return Review(_malformed(issues.oversized), _malformed(issues.errors))
    group = workload_group(job)
    if group is None or not job.replicas:
        return ALLOWED
    return _judged(cluster, [ev.PodGroupSeen(group), *map(ev.PodSeen, workload_pods(job))])


def judge_queue(raw: msgspec.Raw | bytes, cluster: ClusterFacts, old: msgspec.Raw | None = None) -> Review:
    """A new queue, or the change of one."""
    issues = Findings("queue")
    queue: Queue = _read(QUEUE, raw, issues)[1]
    before = _read(QUEUE, old, Findings("queue"))[1] if old is not None else None
    problems = [f"{error.field}: {error.message}" for error in issues.errors]
    if not problems and cluster.queues is not None:
        pods = {name: observed.pods for name, observed in cluster.observed.items()}
        problems += queue_problems(queue, cluster.queues, pods, before)
    return Review(tuple(reasons.MALFORMED_QUEUE(queue=queue.name, problem=problem) for problem in problems))


def judge_hyper_node(raw: msgspec.Raw | bytes, _cluster: ClusterFacts) -> Review:
    """What is wrong with it by itself. What depends on others, such as two parents, is in its status."""
    issues = Findings("hypernode")
    wire, hyper_node = _read(HYPER_NODE, raw, issues)
    check_new_hyper_node(wire, issues)
    refused = partial(reasons.MALFORMED_HYPER_NODE, hyper_node=hyper_node.name)
    return Review(tuple(refused(problem=f"{error.field}: {error.message}") for error in issues.errors))


def judge_queue_deletion(name: str, cluster: ClusterFacts, old: msgspec.Raw) -> Review:
    """Queues that exist in every cluster stay, those with others below them, and those with jobs.

    A Closed queue had no jobs when it was closed, or somebody wants it to go with its jobs. The object comes
    with the request: what is known here may be older.
    """
    # Whatever its status is, other queues may depend on it.
    status = readable(old, _DeletedQueue, _DeletedQueue()).status or _DeletedStatus()
    closed = status.state == "Closed"
    jobs = 0 if closed else sum(max(0, count or 0) for count in status.jobs)
    pods = 0 if closed and not cluster.protect_used_queues else pods_in(status.allocated)
    why = deletion_problem(name, cluster.queues or {}, jobs, pods)
    return Review((reasons.QUEUE_PROTECTED(queue=name, problem=why),)) if why else ALLOWED


class _DeletedStatus(QueueStatusWire):
    pending: int | None = None
    inqueue: int | None = None
    running: int | None = None
    unknown: int | None = None

    @property
    def jobs(self) -> tuple[int | None, ...]:
        """PodGroups that have not ended."""
        return self.pending, self.inqueue, self.running, self.unknown


class _DeletedQueue(WireStruct):
    status: _DeletedStatus | None = None


def judge_pod(raw: msgspec.Raw | bytes, cluster: ClusterFacts) -> Review:
    issues = Findings("pod")
    wire, pod = _read(POD, raw, issues)
    if pod.scheduler not in cluster.scheduler_names:
        # Pods without chips are nothing that another scheduler could do wrong.
        return _not_ours(cluster, pod.scheduler) if pod.cls.chips else ALLOWED
    check_new_pod(wire, issues)
    if issues.errors:
        return Review(_malformed(issues.errors))
    # A user that sets the node places the pod, but the same rules apply as to other pods.
    pod = replace(pod, node=None)
    if pod.group is None and pod.owner is None:
        return _judged(cluster, [ev.PodSeen(pod)])
    return _judged_on_some_board(cluster, replace(pod, group=None))


def judge_debug_containers(raw: msgspec.Raw, old: msgspec.Raw, cluster: ClusterFacts) -> Review:
    """Containers that are added to a pod that exists: nothing else of it changes."""
    pod, before = (msgspec.json.decode(one, type=PodWire) for one in (raw, old))
    spec = pod.spec or PodSpecWire()
    if (spec.scheduler_name or wellknown.DEFAULT_SCHEDULER) not in cluster.scheduler_names:
        return ALLOWED
    there = {one.name for one in (before.spec or PodSpecWire()).ephemeral_containers or ()}
    containers = spec.ephemeral_containers or ()
    added = PodSpecWire(
        ephemeral_containers=[ContainerWire() if one.name in there else one for one in containers]
    )
    name = pod.metadata.name or ""
    setting = cluster.configuration.settings.visible_devices
    return _verdict(refused_choice(visible_devices(added, "spec", spec), name, setting))


def _judged_on_some_board(cluster: ClusterFacts, pod: Pod) -> Review:
    """A pod of a PodGroup that may name the board: refused if it is invalid on every board of its chips."""
    verdict = _judged_as_member(cluster, pod)
    if (
        not verdict.refusals
        or verdict.refusals[0].code in _OF_ONE_POD
        or wellknown.SCHEDULE_POLICY in pod.annotations
    ):
        return verdict
    for board in cluster.catalog.serving(pod.cls.resource or ""):
        for policy in board.policies[:1]:
            named = replace(pod, annotations={**pod.annotations, wellknown.SCHEDULE_POLICY: policy})
            if not _judged_as_member(cluster, named).refusals:
                return ALLOWED
    return verdict


def _judged_as_member(cluster: ClusterFacts, pod: Pod) -> Review:
    """A pod of a gang of unknown size: refused if it is invalid both alone and with a second pod like it."""
    alone = _judged(cluster, [ev.PodSeen(pod)])
    if not alone.refusals:
        return ALLOWED
    if alone.refusals[0].code in _OF_ONE_POD:
        return Review(alone.refusals[:1])
    if wellknown.SP_BLOCK in pod.annotations or wellknown.RA_BLOCK in pod.annotations:
        return ALLOWED
    companion = replace(pod, uid=f"{pod.uid}+", name=f"{pod.name}+")
    pair = new_scheduler(cluster.configuration, cluster.catalog, cluster.scheduler_names)
    job = Job("pair", pod.namespace, pod.name, {one.uid: one for one in (pod, companion)})
    job.labels, job.annotations = pod.labels, pod.annotations
    reason = pair.view.what_if.job_valid(job, 0)
    both = reason is not None and _is_final(reason)
    return Review(alone.refusals) if both else ALLOWED


# -- the scheduler's own checks


def _judged(cluster: ClusterFacts, events: list[ev.Event]) -> Review:
    view = _scheduler(cluster, events).view
    job = next(iter(view.jobs.values()))
    reason = _before_plugins(view, job, cluster) or view.what_if.job_valid(job, 0)
    return _verdict(reason, job)


def _scheduler(cluster: ClusterFacts, events: Sequence[ev.Event]) -> Scheduler:
    scheduler = new_scheduler(cluster.configuration, cluster.catalog, cluster.scheduler_names)
    facts: list[ev.Event] = [ev.QueueSeen(queue) for queue in (cluster.queues or {}).values()]
    if cluster.topology is not None:
        facts.append(cluster.topology)
    # All are of one job. The quotas are taken on another thread than this.
    namespace = next(event.about[1] for event in events).partition("/")[0]
    facts += map(ev.QuotaSeen, list(cluster.quotas.get(namespace, {}).values()))
    scheduler.handle([*facts, *events], 0, Decide.NOTHING)
    return scheduler


def _before_plugins(view: SchedulerView, job: Job, cluster: ClusterFacts) -> Reason | None:
    reason = view.refusal(job)
    if cluster.queues is None and reason is not None and reason.code == reasons.UNKNOWN_QUEUE.code:
        # No queue was reported yet: that this one is unknown means nothing.
        return None
    if reason is not None:
        return reason
    queue = view.queues[job.queue]
    return None if queue.state == "Open" else reasons.QUEUE_NOT_OPEN(queue=queue.name, state=queue.state)


def _verdict(reason: Reason | None, job: Job | None = None) -> Review:
    notes = tuple(job.refused_classes.values()) if job is not None else ()
    if reason is None:
        return Review(notes=notes) if notes else ALLOWED
    return Review((reason,), notes=notes) if _is_final(reason) else Review(warnings=(reason,), notes=notes)


def _not_ours(cluster: ClusterFacts, name: str) -> Review:
    """Never refused: another scheduler may serve it."""
    served = sorted(cluster.scheduler_names)
    close = nearest(name, served)
    reason = reasons.OTHER_SCHEDULER(scheduler=name, served=served, nearest=close or served[-1])
    return Review(warnings=(reason.suggesting(close),))


def _is_final(reason: Reason) -> bool:
    if reason.code == reasons.QUEUE_NOT_OPEN.code:
        return True
    return reason.kind.stage is Stage.VALIDATE and reason.kind.resolved_by <= _USER_FIXABLE


_POSITION = re.compile(r"\[\d+\]", re.ASCII)
#: Volcano's words for numbers of a vcjob that are below 0, by the field without its positions. Where the
#: definition of vcjobs is Volcano's, the API server lets such numbers through.
_NEGATIVE = {
    "spec.minAvailable": "job 'minAvailable' must be >= 0.",
    "spec.maxRetry": "'maxRetry' cannot be less than zero.",
    "spec.ttlSecondsAfterFinished": "'ttlSecondsAfterFinished' cannot be less than zero.",
    "spec.tasks[].replicas": "'replicas' < 0 in task",
    "spec.tasks[].minAvailable": "'minAvailable' < 0 in task",
}


def _malformed(errors: Iterable[ManifestError]) -> tuple[Reason, ...]:
    return tuple(
        reasons.MALFORMED_JOB(problem=f"{error.field}: {error.message}" if error.field else error.message)
        for error in errors
    )


def _with_volcano_words(error: ManifestError) -> ManifestError:
    words = _NEGATIVE.get(_POSITION.sub("[]", error.field)) if "Invalid value: -" in error.message else None
    return ManifestError(error.origin, f"{words} {error.field}", error.message) if words else error
