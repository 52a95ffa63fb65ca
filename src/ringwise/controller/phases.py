"""The phases of a vcjob: which follows from its pods, and which an action leads to."""

from __future__ import annotations

from ringwise.controller.job_record import (
    FAILED,
    PENDING,
    RUNNING,
    SUCCEEDED,
    TERMINATING,
    UNKNOWN,
    Counts,
    JobRecord,
)
from ringwise.grammar import counted
from ringwise.state.model import ENDED, Pod
from ringwise.state.vcjob import COMMAND_ISSUED, VcJob

#: Phases in which the job is being ended, and the phase that follows.
ENDING = {"Aborting": "Aborted", "Terminating": "Terminated", "Completing": "Completed"}
FINISHED = frozenset({"Aborted", "Completed", "Terminated", "Failed"})
#: Phases in which `ttlSecondsAfterFinished` counts.
EXPIRING = frozenset({"Completed", "Failed", "Terminated"})
STOPPING = {"AbortJob": "Aborting", "TerminateJob": "Terminating", "CompleteJob": "Completing"}
#: Reason of a job that can never run as it is.
INVALID = "Invalid"
PARTIAL = frozenset({"RestartTask", "RestartPod", "RestartPartition"})
#: Actions that a user may request with a Command.
COMMANDS = (*STOPPING, "RestartJob", "ResumeJob")
_ACTIVE = frozenset({"Pending", "Running"})


def next_phase(record: JobRecord, counts: Counts) -> tuple[str, str, str] | None:
    """The phase that follows (with reason and message), None while nothing changes.

    The cause of a restart stays until the job ends.
    """
    job = record.job
    cause = record.reason, record.message
    match record.phase:
        case "":
            return "Pending", "", ""
        case "Pending":
            if job.min_available <= counts[RUNNING] + counts[SUCCEEDED] + counts[FAILED]:
                return "Running", *cause
        case "Running":
            return _after_running(job, counts, cause)
        case "Restarting":
            if _gives_up(record):
                why = f"{record.message}; it was the last of {job.max_retry} attempts".removeprefix("; ")
                return "Failed", record.reason, why
            if job.replicas - counts[TERMINATING] >= job.min_available:
                return "Pending", *cause
        case "Aborting" | "Terminating" | "Completing":
            if not (counts[PENDING] or counts[RUNNING] or counts[UNKNOWN] or counts[TERMINATING]):
                return ENDING[record.phase], record.reason, record.message
    return None


def _after_running(job: VcJob, counts: Counts, cause: tuple[str, str]) -> tuple[str, str, str] | None:
    succeeded, failed, replicas = counts[SUCCEEDED], counts[FAILED], job.replicas
    if job.min_success is not None and succeeded >= job.min_success:
        return (
            "Completed",
            "",
            f"{succeeded} of {counted(replicas, 'pod')} succeeded, {job.min_success} were needed",
        )
    if replicas and succeeded + failed >= replicas:
        why = _shortfall(job, counts)
        if why is None:
            return "Completed", "", f"{succeeded} of {counted(replicas, 'pod')} succeeded"
        return "Failed", "", why
    if counts[PENDING] > replicas - job.min_available and not job.problems:
        # Not by the numbers of a job that was changed into one that cannot run.
        return "Pending", *cause
    return None


def _shortfall(job: VcJob, counts: Counts) -> str | None:
    """Why a job whose pods have all ended did not reach its goal."""
    succeeded = counts[SUCCEEDED]
    if job.min_available >= sum(task.min_available for task in job.tasks):
        for task in job.tasks:
            done = counts.of(task.name, SUCCEEDED)
            if done < task.min_available:
                what = f"{done} of {counted(task.replicas, 'pod')} of task {task.name} succeeded"
                return f"{what}, at least {task.min_available} must"
    if job.min_success is not None and succeeded < job.min_success:
        return f"{succeeded} of {counted(job.replicas, 'pod')} succeeded, {job.min_success} were needed"
    if succeeded < job.min_available:
        return f"{succeeded} of {counted(job.replicas, 'pod')} succeeded, at least {job.min_available} must"
    return None


def is_allowed(phase: str, action: str) -> bool:
    """Whether an action has an effect in this phase."""
    if action == "ResumeJob":
        return phase in ("Aborting", "Aborted")
    if action in STOPPING:
        return phase in _ACTIVE or phase == "Restarting"
    return (action == "RestartJob" or action in PARTIAL) and phase in _ACTIVE


def start_action(
    record: JobRecord, action: str, now: int, reason: str, message: str, *, requested: bool = False
) -> None:
    """Record the action in the status: a controller that continues from it does the same.

    A restart that a user `requested` does not use a retry: `maxRetry` limits what policies do.
    """
    if action in STOPPING:
        record.move(STOPPING[action], now, reason, message)
    else:
        record.retries += not requested
        record.move("Restarting", now, reason, message)
    if action not in PARTIAL:
        record.version += 1
        record.create_requested.clear()
        record.rejections.clear()
    record.evicted.clear()
    record.first_seen.clear()
    record.updated = False


def must_delete(record: JobRecord, pod: Pod) -> bool:
    """Whether a pod is to be deleted in the present phase.

    Ended pods are kept for their logs where no new attempt follows.
    """
    if record.phase in FINISHED or record.phase in ENDING:
        return pod.phase not in ENDED
    if not record.is_of_earlier_attempt(pod):
        return False
    last = record.phase == "Restarting" and _gives_up(record)
    return pod.phase not in ENDED if last else True


def _gives_up(record: JobRecord) -> bool:
    """Return whether a restart that began exceeds the retries; never if a user requested it."""
    return record.retries >= record.job.max_retry and record.reason != COMMAND_ISSUED
