"""What is written about a job because of a fault: events on its PodGroup, which are lines of its history, and
what its processes read in the ConfigMap `reset-config-<job>`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ringwise.durations import SECOND, seconds_text
from ringwise.framework.job import Job
from ringwise.grammar import agrees, counted, listed
from ringwise.messages.commands import AnnotatePod, Command, RecordJobEvent, SetResetConfig
from ringwise.messages.event_reasons import EventReason
from ringwise.placement.racks.levels import Level
from ringwise.scheduler.faults.detection import FaultType
from ringwise.scheduler.faults.fault_job import FaultJob, FaultyPod, part_name
from ringwise.scheduler.faults.policy import FaultPolicy, ProcessRecovery, SubHealth
from ringwise.scheduler.faults.restarts import WaitingRestart
from ringwise.wellknown import RESTART_REFUSED


def record_refusal(handled: FaultJob, job: Job) -> Iterator[AnnotatePod]:
    """Write it to the first failed pod, which has it until it is gone. Once for each pod and leader."""
    owner = job.group.owner if job.group is not None else None
    if owner is None or not owner.is_vcjob:
        return
    failed = [pod for pod in handled.faulty.values() if pod.fault.type is FaultType.POD]
    if not failed or any(
        pod.uid == handled.refused_on or RESTART_REFUSED in job.pods[pod.uid].annotations for pod in failed
    ):
        return
    first = min(failed, key=lambda pod: pod.position.rank)
    handled.refused_on = first.uid
    yield AnnotatePod(first.uid, job.namespace, first.name, {RESTART_REFUSED: handled.blocked})


#: Pods that one sentence names.
_NAMED = 3


def policy_note(job: Job, note: str) -> RecordJobEvent:
    """A value of the job that cannot be read, or that acts differently here."""
    return RecordJobEvent.about(job, EventReason.FAULT_POLICY, note)


def fault_found(job: Job, pods: Iterable[FaultyPod]) -> RecordJobEvent:
    order = sorted(pods, key=lambda pod: pod.position.rank)
    text = listed([f"{pod.name}: {pod.fault.why}" for pod in order], _NAMED, "; ")
    return RecordJobEvent.about(job, EventReason.FAULT_FOUND, text)


def rescheduling(job: Job, handled: FaultJob, level: Level, *, raised: bool = False) -> RecordJobEvent:
    """`raised`: the rank 0 rule made it the whole job."""
    if handled.external:
        names = _names(pod.name for pod in handled.faulty.values())
        text = f"{names} marked; another component deletes the faulty pods"
    else:
        why = " (rank 0 is affected)" if raised else ""
        text = f"{_scope(job, level, handled)} restarted{why}"
    return RecordJobEvent.about(job, EventReason.RESCHEDULING, text)


def escalated(job: Job, handled: FaultJob, level: Level, seconds: float) -> RecordJobEvent:
    waited = f"no nodes for the lost pods within {seconds_text(seconds)}"
    text = f"{waited}: {_scope(job, level, handled)} restarted"
    return RecordJobEvent.about(job, EventReason.RESCHEDULING_ESCALATED, text)


def blocked(job: Job, handled: FaultJob) -> RecordJobEvent:
    text = f"no pod is restarted: {handled.blocked}"
    return RecordJobEvent.about(job, EventReason.RESCHEDULING_BLOCKED, text)


def backoff(job: Job, held: WaitingRestart, now: int) -> RecordJobEvent:
    return RecordJobEvent.about(job, EventReason.RESTART_BACKOFF, held.text(now))


def grace_over(job: Job, pods: Sequence[str]) -> RecordJobEvent:
    text = f"the grace is over: {_names(pods)} {agrees(len(pods), 'is', 'are')} deleted by force"
    return RecordJobEvent.about(job, EventReason.GRACE_OVER, text)


def held_back(job: Job, why: str) -> RecordJobEvent:
    """F4: what a drain left of the job is not evicted."""
    text = f"no pod is evicted to restart the drained job: {why}"
    return RecordJobEvent.about(job, EventReason.EVICTION_HELD_BACK, text)


def recovered(job: Job, placed: int, seconds: float, *, drained: bool = False) -> RecordJobEvent:
    pods = f"{counted(placed, 'pod')} {agrees(placed, 'has a node', 'have nodes')}"
    since = "the drain" if drained else "the last fault"
    text = f"{pods} again, {seconds_text(seconds)} after {since}"
    return RecordJobEvent.about(job, EventReason.RECOVERED, text)


def fault_gone(job: Job) -> RecordJobEvent:
    text = "the hardware is healthy again; no pod was restarted"
    return RecordJobEvent.about(job, EventReason.RECOVERED, text)


def _scope(job: Job, level: Level, handled: FaultJob) -> str:
    pods = counted(handled.deletions, "pod")
    are = agrees(len(handled.deletions), "is", "are")
    match level:
        case Level.JOB:
            return f"job level: {agrees(len(handled.deletions), '', 'all ')}{pods} {are}"
        case Level.BLOCK:
            part = part_name(job, level)
            return f"{part} level: {pods} of the {part}s that lost pods {are}"
        case Level.RACK:
            return f"rack level: {pods} of the logical racks that lost pods {are}"
    return f"pod level: {_names(one.name for one in handled.deletions.values())} {are}"


def _names(names: Iterable[str]) -> str:
    return listed(list(names), _NAMED)


def exit_requested(handled: FaultJob, job: Job, policy: FaultPolicy) -> list[Command]:
    """`subHealthyStrategy: graceExit`: the processes save their state and end before the pods are deleted."""
    only_sub_health = all(pod.fault.type is FaultType.SUB_HEALTH for pod in handled.faulty.values())
    if (
        not only_sub_health
        or policy.sub_health is not SubHealth.GRACE_EXIT
        or policy.process_recovery is ProcessRecovery.ON
    ):
        return []
    handled.told_to_exit = True
    return [SetResetConfig(job.namespace, _object_name(job), graceful_exit=True)]


def restarted(handled: FaultJob, job: Job, policy: FaultPolicy, now: int, level: Level) -> list[Command]:
    """The processes continue; after rescheduling at pod level the announced faults are over."""
    pods_restarted = policy.pod_level and not handled.external
    if not handled.told_to_exit and not pods_restarted:
        return []
    return [
        SetResetConfig(
            job.namespace,
            _object_name(job),
            graceful_exit=False if handled.told_to_exit else None,
            whole_job_restarted=level is Level.JOB if pods_restarted else None,
            seconds=now // SECOND,
        )
    ]


def _object_name(job: Job) -> str:
    """The object that the user wrote: vcjob, AscendJob; a PodGroup or pod where it has no owner."""
    if job.group is not None:
        return job.group.owner.name if job.group.owner is not None else job.group.name
    pod = next(iter(job.pods.values()), None)
    if pod is None:
        return job.key.partition("/")[2]
    return pod.owner.name if pod.owner is not None else pod.name
