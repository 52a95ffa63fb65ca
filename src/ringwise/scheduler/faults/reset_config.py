"""What the processes of a job read about its rescheduling, in the ConfigMap `reset-config-<job>`."""

from __future__ import annotations

from ringwise.durations import SECOND
from ringwise.framework.job import Job
from ringwise.messages.commands import SetResetConfig
from ringwise.placement.racks.levels import Level
from ringwise.scheduler.faults.detection import FaultType
from ringwise.scheduler.faults.fault_job import FaultJob
from ringwise.scheduler.faults.policy import FaultPolicy, ProcessRecovery, SubHealth


def before_deletion(handled: FaultJob, job: Job, policy: FaultPolicy) -> list[SetResetConfig]:
    """`subHealthyStrategy: graceExit`: the processes save their state and end before the pods are deleted."""
    only_sub_health = all(pod.fault.type is FaultType.SUB_HEALTH for pod in handled.faulty.values())
    if (
        not only_sub_health
        or policy.sub_health is not SubHealth.GRACE_EXIT
        or policy.process_recovery is ProcessRecovery.ON
    ):
        return []
    handled.told_to_exit = True
    return [SetResetConfig(job.namespace, _name(job), graceful_exit=True)]


def at_the_end(
    handled: FaultJob, job: Job, policy: FaultPolicy, now: int, level: Level
) -> list[SetResetConfig]:
    """The processes go on; after rescheduling at pod level the announced faults are over."""
    pods_restarted = policy.pod_level and not handled.external
    if not handled.told_to_exit and not pods_restarted:
        return []
    return [
        SetResetConfig(
            job.namespace,
            _name(job),
            graceful_exit=False if handled.told_to_exit else None,
            whole_job_restarted=level is Level.JOB if pods_restarted else None,
            seconds=now // SECOND,
        )
    ]


def _name(job: Job) -> str:
    """The object that the user wrote: vcjob, AscendJob; a PodGroup or pod where it has no owner."""
    if job.group is not None:
        return job.group.owner.name if job.group.owner is not None else job.group.name
    pod = next(iter(job.pods.values()), None)
    if pod is None:
        return job.key.partition("/")[2]
    return pod.owner.name if pod.owner is not None else pod.name
