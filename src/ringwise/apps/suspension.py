"""Suspend, resume and requeue: what a person may ask of a job in its present state, and how it is asked for.

A lab and a cluster judge by the same function. Who may do it is the API server's word alone.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field

from ringwise.grammar import counted, listed
from ringwise.records import dataclass
from ringwise.state.job_rules import may_change_queue
from ringwise.state.vcjob import OVER, SUSPENDED, VcJob
from ringwise.topology.nearest import did_you_mean
from ringwise.views.documents.changes import JobChangeDocument

SUSPEND, RESUME, REQUEUE = "suspend", "resume", "requeue"
ACTIONS = (SUSPEND, RESUME, REQUEUE)
#: Volcano's Commands for them.
COMMANDS = {SUSPEND: "AbortJob", RESUME: "ResumeJob", REQUEUE: "RestartJob"}
#: Kinds that can be suspended.
SUSPENDABLE = "vcjobs, Jobs of Kubernetes and AscendJobs"
#: Names that one error lists.
_LISTED = 10


class NotPossibleError(ValueError):
    """What a person asked for is not possible; one line, with what is."""


@dataclass(frozen=True, slots=True)
class JobChangeRequest:
    """What a person asks of a job."""

    action: str
    #: With `requeue`: another queue, another priority class.
    queue: str | None = None
    priority: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """What is to be done to a vcjob."""

    #: The action of a Command; empty: none.
    command: str = ""
    #: Fields of its spec with their new values.
    spec: dict[str, str] = field(default_factory=dict)
    #: What became of the job, for people.
    text: str = ""


def change_of(job: VcJob, request: JobChangeRequest) -> PlannedChange:
    """Raises NotPossibleError."""
    name, phase = f"vcjob {job.key}", job.phase or "Pending"
    if job.deleting:
        raise NotPossibleError(f"{name} is being deleted")
    if phase in OVER and phase not in SUSPENDED:
        raise NotPossibleError(
            f"{name} is {phase}: a finished job cannot be {done_word(request)}; submit it again"
        )
    if request.queue is not None or request.priority is not None:
        return _changed_spec(job, request)
    if job.problems and phase == "Pending":
        raise NotPossibleError(f"{name} cannot run as it is: {job.problems[0]}; it uses no chips")
    if request.action == SUSPEND:
        if phase in SUSPENDED:
            raise NotPossibleError(f"{name} is already suspended; to resume it: ringwise resume {job.key}")
        released = "" if phase == "Pending" else "; its chips are released"
        return PlannedChange(COMMANDS[SUSPEND], text=f"{name} suspended{released}")
    if request.action == RESUME:
        if phase not in SUSPENDED:
            raise NotPossibleError(f"{name} is not suspended: it is {phase}")
        return PlannedChange(COMMANDS[RESUME], text=f"{name} resumed; it is pending in queue {job.queue}")
    if phase in SUSPENDED:
        raise NotPossibleError(
            f"{name} is suspended; to queue it again: ringwise resume {job.key}; to "
            "change it while it is suspended, use requeue with --queue or --priority"
        )
    if phase == "Restarting":
        raise NotPossibleError(f"{name} is already being requeued")
    if may_change_queue(phase, job.counts.get("Running", 0)):
        raise NotPossibleError(
            f"{name} is already pending in queue {job.queue}; use --queue or --priority to change "
            "its queue or priority"
        )
    return PlannedChange(COMMANDS[REQUEUE], text=f"{name} requeued in queue {job.queue}")


def done_word(request: JobChangeRequest) -> str:
    return {SUSPEND: "suspended", RESUME: "resumed", REQUEUE: "requeued"}[request.action]


def _changed_spec(job: VcJob, request: JobChangeRequest) -> PlannedChange:
    """Another queue or priority, in place: nothing is started over."""
    name, spec = f"vcjob {job.key}", dict[str, str]()
    if request.queue is not None and request.queue != job.queue:
        if not may_change_queue(job.phase, job.counts.get("Running", 0)):
            raise NotPossibleError(
                f"{name} is {job.phase}: only a job that is suspended, or pending without running "
                f"pods, can move to another queue; first: ringwise suspend {job.key}"
            )
        spec["queue"] = request.queue
    if request.priority is not None and request.priority != job.priority_class:
        spec["priorityClassName"] = request.priority
    words = {"queue": "queue", "priorityClassName": "priority class"}
    if not spec:
        settings = [
            f"{word} {value}"
            for word, value in (("queue", request.queue), ("priority class", request.priority))
            if value is not None
        ]
        return PlannedChange(text=f"{name} has {' and '.join(settings)} already")
    changes = " and ".join(f"{words[one]} {value}" for one, value in spec.items())
    stays = " and stays suspended" if job.phase in SUSPENDED else ""
    return PlannedChange(spec=spec, text=f"{name} has {changes} now{stays}")


def job_change_document(
    namespace: str, name: str, kind: str, action: str, change: PlannedChange
) -> JobChangeDocument:
    return JobChangeDocument(
        namespace=namespace,
        name=name,
        kind=kind,
        action=action,
        queue=change.spec.get("queue"),
        priority_class=change.spec.get("priorityClassName"),
        message=change.text,
    )


def check_queue(queue: str, names: Collection[str], state: str, children: int) -> None:
    """Raises NotPossibleError for a queue that takes no jobs."""
    if queue not in names:
        raise NotPossibleError(f'queue "{queue}" not found{_hint("queues", queue, names)}')
    if state not in ("", "Open"):
        raise NotPossibleError(f"queue {queue} is {state}: only an Open queue accepts jobs")
    if children:
        raise NotPossibleError(
            f"queue {queue} has {counted(children, 'child queue')}: only a queue without child "
            "queues accepts jobs"
        )


def check_priority(name: str, names: Collection[str]) -> None:
    """Raises NotPossibleError for a priority class that does not exist."""
    if name not in names:
        raise NotPossibleError(f'priority class "{name}" not found{_hint("priority classes", name, names)}')


def _hint(kind: str, name: str, names: Collection[str]) -> str:
    if not names:
        return f"; there are no {kind}"
    return f"; must be one of {listed(sorted(names), _LISTED)}{did_you_mean(name, names)}"


def not_suspendable(kind: str, key: str, fix: str) -> NotPossibleError:
    """Of something that has no `suspend`."""
    return NotPossibleError(f"{kind} {key} cannot be suspended, only {SUSPENDABLE} can; {fix}")


def message_of(by: str, reason: str | None) -> str:
    """The message of a Command, which the status of the job shows."""
    return f"by {by}" + (f": {reason}" if reason else "")
