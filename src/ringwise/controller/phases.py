"""The phases of a vcjob: when it moves on by itself, and what an action makes of it."""

from __future__ import annotations

from ringwise.controller.job_record import (
    FAILED,
    PENDING,
    RUNNING,
    SUCCEEDED,
    TERMINATING,
    UNKNOWN,
    Counts,
    JobBook,
)
from ringwise.state.model import ENDED, Pod
from ringwise.state.vcjob import VcJob

#: Phases on the way to an end, and the end.
ENDING = {"Aborting": "Aborted", "Terminating": "Terminated", "Completing": "Completed"}
FINISHED = frozenset({"Aborted", "Completed", "Terminated", "Failed"})
#: Phases after which a time to live counts.
EXPIRING = frozenset({"Completed", "Failed", "Terminated"})
STOPPING = {"AbortJob": "Aborting", "TerminateJob": "Terminating", "CompleteJob": "Completing"}
PARTIAL = frozenset({"RestartTask", "RestartPod", "RestartPartition"})
_ACTIVE = frozenset({"Pending", "Running"})


def next_phase(book: JobBook, counts: Counts) -> tuple[str, str, str] | None:
    """The phase that follows (with reason and message), None while nothing changes."""
    job = book.job
    match book.phase:
        case "":
            return "Pending", "", ""
        case "Pending":
            if job.min_available <= counts[RUNNING] + counts[SUCCEEDED] + counts[FAILED]:
                return "Running", "", ""
        case "Running":
            return _after_running(job, counts)
        case "Restarting":
            if book.retries >= job.max_retry:
                why = f"{book.message}; it was the last of {job.max_retry} attempts".removeprefix("; ")
                return "Failed", book.reason, why
            if job.replicas - counts[TERMINATING] >= job.min_available:
                return "Pending", "", ""
        case "Aborting" | "Terminating" | "Completing":
            if not (counts[PENDING] or counts[RUNNING] or counts[UNKNOWN] or counts[TERMINATING]):
                return ENDING[book.phase], book.reason, book.message
    return None


def _after_running(job: VcJob, counts: Counts) -> tuple[str, str, str] | None:
    succeeded, failed, replicas = counts[SUCCEEDED], counts[FAILED], job.replicas
    if job.min_success is not None and succeeded >= job.min_success:
        return "Completed", "", f"{succeeded} of {replicas} pods succeeded, {job.min_success} were needed"
    if replicas and succeeded + failed >= replicas:
        why = _shortfall(job, counts)
        if why is None:
            return "Completed", "", f"{succeeded} of {replicas} pods succeeded"
        return "Failed", "", why
    if counts[PENDING] > replicas - job.min_available:
        return "Pending", "", ""
    return None


def _shortfall(job: VcJob, counts: Counts) -> str | None:
    """Why a job whose pods have all ended did not reach its goal."""
    succeeded = counts[SUCCEEDED]
    if job.min_available >= sum(task.min_available for task in job.tasks):
        for task in job.tasks:
            done = counts.of(task.name, SUCCEEDED)
            if done < task.min_available:
                what = f"{done} of {task.replicas} pods of task {task.name} succeeded"
                return f"{what}, at least {task.min_available} must"
    if job.min_success is not None and succeeded < job.min_success:
        return f"{succeeded} of {job.replicas} pods succeeded, {job.min_success} were needed"
    if succeeded < job.min_available:
        return f"{succeeded} of {job.replicas} pods succeeded, at least {job.min_available} must"
    return None


def allowed(phase: str, action: str) -> bool:
    """Whether an action means anything in this phase."""
    if action == "ResumeJob":
        return phase in ("Aborting", "Aborted")
    if action in STOPPING:
        return phase in _ACTIVE or phase == "Restarting"
    return (action == "RestartJob" or action in PARTIAL) and phase in _ACTIVE


def act(book: JobBook, action: str, now: int, reason: str, message: str) -> None:
    """Write the intent down: whoever continues from the status alone does the same."""
    if action in STOPPING:
        book.move(STOPPING[action], now, reason, message)
    else:
        book.retries += 1
        book.move("Restarting", now, reason, message)
    if action not in PARTIAL:
        book.version += 1
        book.coming.clear()
    book.evicted.clear()
    book.noticed.clear()
    book.updated = False


def must_go(book: JobBook, pod: Pod) -> bool:
    """Whether the job in its present phase has no place for a pod. Ended pods are kept to be looked at
    where no new attempt follows."""
    if book.phase in FINISHED or book.phase in ENDING:
        return pod.phase not in ENDED
    if not book.old(pod):
        return False
    last = book.phase == "Restarting" and book.retries >= book.job.max_retry
    return pod.phase not in ENDED if last else True
