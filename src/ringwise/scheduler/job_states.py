"""The state of a job, as every command, document and page shows it.

Only facts count: a pod has a node when its object names one. The result of a decision, or a Binding that is
not confirmed yet, is shown in addition to the state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum

from ringwise.framework.job import Job
from ringwise.grammar import listed
from ringwise.reasons import Reason, Stage
from ringwise.scheduler.reasons import PODS_NOT_CREATED
from ringwise.scheduler.view import SchedulerView
from ringwise.state.model import Pod, PodGroup
from ringwise.state.vcjob import NOT_CREATED, OVER, VcJob


class JobState(StrEnum):
    #: As many pods run as it needs.
    RUNNING = "running"
    #: As many pods have a node as it needs, and not all of these run yet.
    STARTING = "starting"
    PENDING = "pending"
    #: It can never run as it is.
    REJECTED = "rejected"
    #: It released its chips and can be resumed.
    SUSPENDED = "suspended"
    FINISHED = "finished"


def job_state(
    pods: Sequence[Pod], needed: int, phase: str, *, refused: bool, suspended: bool, needs_none: bool
) -> JobState:
    """The state of a job with these pods, of which `needed` must run.

    `needs_none`: a vcjob of 0 replicas, which has all it asks for until it is over.
    """
    if suspended:
        return JobState.SUSPENDED
    if refused:
        return JobState.REJECTED
    needed = max(1, needed)
    running = succeeded = live = bound = 0
    for pod in pods:
        running += pod.phase == "Running"
        succeeded += pod.phase == "Succeeded"
        if pod.live:
            live += 1
            bound += pod.node is not None
    if not live:
        # Pods that succeeded are not waited for. A gang that has none left alive is not running.
        succeeded = 0
    if needs_none or succeeded + running >= needed:
        return JobState.RUNNING
    if succeeded + bound >= needed:
        return JobState.STARTING
    over = phase in OVER or (bool(pods) and not live)
    return JobState.FINISHED if over else JobState.PENDING


def is_refused(reason: Reason | None) -> bool:
    return reason is not None and reason.kind.stage is Stage.VALIDATE


def needs_none(vcjob: VcJob | None) -> bool:
    return vcjob is not None and not vcjob.replicas and not vcjob.over


def is_suspended(group: PodGroup, pods: Iterable[Pod]) -> bool:
    """Whether the PodGroup is suspended and no pod of it is left."""
    return group.suspended and not any(pod.live and not pod.deleting for pod in pods)


def pods_not_created(vcjob: VcJob, pods: Collection[Pod], *, has_group: bool = True) -> Reason | None:
    """Return why pods of a vcjob do not exist, as its controller reports it; None if nothing is wrong."""
    if vcjob.over or vcjob.suspended or len(pods) >= vcjob.replicas:
        return None
    if vcjob.reason == NOT_CREATED and vcjob.message:
        return PODS_NOT_CREATED(why=vcjob.message)
    return None if has_group else PODS_NOT_CREATED(why="its controller has not created its PodGroup yet")


def state_of(view: SchedulerView, job: Job, reason: Reason | None) -> JobState:
    """The state of a job that the scheduler knows, which is pending for this reason."""
    pods, vcjob = list(job.pods.values()), view.vcjob_of(job)
    if vcjob is not None:
        needed, phase, suspended = vcjob.min_available, vcjob.phase, vcjob.suspended
    elif job.group is not None:
        needed, phase, suspended = job.group.min_member, job.group.phase, is_suspended(job.group, pods)
    else:
        needed, phase, suspended = 1, pods[0].phase if pods else "", False
    none = needs_none(vcjob) and reason is None
    return job_state(pods, needed, phase, refused=is_refused(reason), suspended=suspended, needs_none=none)


def would_be_nodes(view: SchedulerView, pods: Iterable[Pod]) -> list[str]:
    """The nodes that this scheduler chose for pods that have none yet, each once.

    Pods that wait for the volumes of their claims are not counted.
    """
    waiting = [pod.uid for pod in pods if pod.node is None]
    if not waiting:
        return []
    state = view.cluster
    unbound = (state.pods[uid] for uid in waiting if uid in state.pods)
    chosen = (one.node for one in unbound if one.node >= 0 and not one.reserved)
    return list(dict.fromkeys(state.names[number] for number in chosen))


#: Nodes that a sentence names.
_NAMED = 3


def would_be_placed(nodes: Sequence[str], *, partly: bool) -> str:
    """What a decision would give pods without a node; `partly`: other pods of the job have theirs."""
    return f"{'more pods ' if partly else ''}would be placed on {listed(nodes, _NAMED)} now"
