"""Whether a job that somebody submits can ever run, judged by the same checks as in the scheduler.

Refused is only what nothing that happens in the cluster could cure: the job itself must change, or its
queue must be made. Whatever else is in its way is told as a warning, and the job may wait for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import msgspec

from ringwise.apps.extensions import new_scheduler
from ringwise.framework.configuration import Configuration, default_configuration
from ringwise.framework.job import Job
from ringwise.framework.reasons import MALFORMED_JOB, QUEUE_NOT_OPEN, TOO_MANY_CHIP_CONTAINERS
from ringwise.manifests.errors import Findings, ManifestError
from ringwise.manifests.groups import pod_group_from_wire
from ringwise.manifests.jobs import vcjob_from_wire
from ringwise.manifests.pods import PodClasses, pod_from_wire
from ringwise.manifests.wire import JobWire, Meta, PodGroupWire, PodWire
from ringwise.messages import events as ev
from ringwise.messages.job_expansion import pod_group_of
from ringwise.plugins.topology910.reasons import MIXED_RESOURCES
from ringwise.reasons import MENDED, Reason, Stage, Trigger
from ringwise.scheduler.core.machine import Scheduler
from ringwise.state.model import Pod, Queue
from ringwise.topology.boards import BoardCatalog
from ringwise.wellknown import SCHEDULER_NAMES, SP_BLOCK

#: Triggers of reasons that only the submitter can cure.
_USER_FIXABLE = MENDED | {Trigger.QUEUE_CHANGED}
#: What is wrong with one pod, whatever the others of its job are like.
_OF_ONE_POD = frozenset({TOO_MANY_CHIP_CONTAINERS.code, MIXED_RESOURCES.code, MALFORMED_JOB.code})


@dataclass(slots=True)
class World:
    """What is known of the cluster. Queues are None as long as nobody has told them."""

    catalog: BoardCatalog
    #: `schedulerName` of the pods that are ours.
    scheduler_names: tuple[str, ...] = SCHEDULER_NAMES
    configuration: Configuration = field(default_factory=default_configuration)
    queues: dict[str, Queue] | None = None
    topology: ev.TopologySeen | None = None

    def take(self, event: ev.Event) -> None:
        match event:
            case ev.QueueSeen():
                self.queues = {**(self.queues or {}), event.queue.name: event.queue}
            case ev.QueueGone():
                (self.queues or {}).pop(event.name, None)
            case ev.ConfigurationSeen():
                self.configuration = event.configuration
            case ev.TopologySeen():
                self.topology = event if event.topology is not None else None


@dataclass(frozen=True, slots=True)
class Verdict:
    #: Why it can never run.
    refusals: tuple[Reason, ...] = ()
    #: Why it will wait at first.
    warnings: tuple[Reason, ...] = ()


ALLOWED = Verdict()


def judge_vcjob(raw: msgspec.Raw | bytes, world: World) -> Verdict:
    found = Findings("job")
    wire = msgspec.json.decode(raw, type=JobWire)
    _complete(wire.metadata)
    job = vcjob_from_wire(wire, PodClasses(), found)
    if job.scheduler not in world.scheduler_names:
        return ALLOWED
    if found.errors or job.problems:
        return Verdict(_told(found.errors) + tuple(MALFORMED_JOB(problem=one) for one in job.problems))
    events: list[ev.Event] = [ev.VcJobSeen(job), ev.PodGroupSeen(pod_group_of(job))]
    return _judged(world, events)


def judge_pod_group(raw: msgspec.Raw | bytes, world: World) -> Verdict:
    """Its pods come later, so there is little to say about it but its queue."""
    found = Findings("podgroup")
    wire = msgspec.json.decode(raw, type=PodGroupWire)
    _complete(wire.metadata)
    group = pod_group_from_wire(wire, found)
    if found.errors:
        return Verdict(_told(found.errors))
    scheduler = _scheduler(world, [ev.PodGroupSeen(group)])
    return _verdict(_before_plugins(scheduler, scheduler.book.jobs[group.key], world))


def judge_pod(raw: msgspec.Raw | bytes, world: World) -> Verdict:
    found = Findings("pod")
    wire = msgspec.json.decode(raw, type=PodWire)
    _complete(wire.metadata)
    if wire.metadata is not None and not wire.metadata.name:
        # The API server names it after this.
        wire.metadata.name = "pod"
    pod = pod_from_wire(wire, PodClasses(), found)
    if pod.scheduler not in world.scheduler_names:
        return ALLOWED
    if found.errors:
        return Verdict(_told(found.errors))
    if pod.group is None and pod.owner is None:
        return _judged(world, [ev.PodSeen(pod)])
    return _judged_as_member(world, replace(pod, group=None, node=None))


def _judged_as_member(world: World, pod: Pod) -> Verdict:
    """A pod of a gang that is not known as a whole: refused is what is wrong alone and with a companion."""
    alone = _judged(world, [ev.PodSeen(pod)])
    if not alone.refusals:
        return ALLOWED
    if alone.refusals[0].code in _OF_ONE_POD:
        return Verdict(alone.refusals[:1])
    if SP_BLOCK in pod.annotations:
        return ALLOWED
    companion = replace(pod, uid=f"{pod.uid}+", name=f"{pod.name}+")
    pair = new_scheduler(world.configuration, world.catalog, world.scheduler_names)
    job = Job("pair", pod.namespace, pod.name, {one.uid: one for one in (pod, companion)})
    job.labels, job.annotations = pod.labels, pod.annotations
    reason = pair.open_session(0).job_valid(job)
    both = reason is not None and _is_final(reason)
    return Verdict(alone.refusals) if both else ALLOWED


# -- the scheduler's own checks


def _judged(world: World, events: list[ev.Event]) -> Verdict:
    scheduler = _scheduler(world, events)
    job = next(iter(scheduler.book.jobs.values()))
    reason = _before_plugins(scheduler, job, world) or scheduler.open_session(0).job_valid(job)
    return _verdict(reason)


def _scheduler(world: World, events: Iterable[ev.Event]) -> Scheduler:
    scheduler = new_scheduler(world.configuration, world.catalog, world.scheduler_names)
    known: list[ev.Event] = [ev.QueueSeen(queue) for queue in (world.queues or {}).values()]
    if world.topology is not None:
        known.append(world.topology)
    scheduler.take([*known, *events], 0)
    return scheduler


def _before_plugins(scheduler: Scheduler, job: Job, world: World) -> Reason | None:
    if world.queues is None and job.queue not in scheduler.book.queues:
        # Nobody told us the queues: that this one is unknown says nothing.
        return job.defects[0] if job.defects else None
    reason = scheduler.refusal(job)
    if reason is not None:
        return reason
    queue = scheduler.book.queues[job.queue]
    return None if queue.state == "Open" else QUEUE_NOT_OPEN(queue=queue.name, state=queue.state)


def _verdict(reason: Reason | None) -> Verdict:
    if reason is None:
        return ALLOWED
    return Verdict((reason,)) if _is_final(reason) else Verdict(warnings=(reason,))


def _is_final(reason: Reason) -> bool:
    if reason.code == QUEUE_NOT_OPEN.code:
        return True
    return reason.kind.stage is Stage.VALIDATE and reason.kind.cured_by <= _USER_FIXABLE


def _told(errors: Iterable[ManifestError]) -> tuple[Reason, ...]:
    return tuple(
        MALFORMED_JOB(problem=f"{error.field}: {error.message}" if error.field else error.message)
        for error in errors
    )


def _complete(meta: Meta | None) -> None:
    """What the API server has not filled in yet."""
    if meta is not None:
        meta.uid = meta.uid or "submitted"
