"""What happened to a job's pods, and which action its policies order for it.

Everything is read from the state of the objects, not from the moment of a change, so that a
controller that was away comes to the same action. An action changes the job's phase or version
or takes the pod away, so the same state never orders it twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ringwise.controller.job_record import FAILED, PENDING, RUNNING, SUCCEEDED, JobBook
from ringwise.state.model import Pod, PodGroup
from ringwise.state.vcjob import Policy, Task

POD_PENDING = "PodPending"
POD_FAILED = "PodFailed"
POD_EVICTED = "PodEvicted"
TASK_COMPLETED = "TaskCompleted"
TASK_FAILED = "TaskFailed"
UNKNOWN = "Unknown"
JOB_UPDATED = "JobUpdated"

_ANY = ("*", "Any")
#: Actions that change nothing: the event is seen, and the job goes on.
IDLE = frozenset({"SyncJob", "Ignore", "EnqueueJob"})


@dataclass(frozen=True, slots=True)
class Happening:
    event: str
    since: int
    task: str = ""
    pod: str = ""
    exit_code: int | None = None

    @property
    def sentence(self) -> str:
        match self.event:
            case "PodFailed":
                code = "" if self.exit_code is None else f" with exit code {self.exit_code}"
                return f"pod {self.pod} failed{code}"
            case "PodEvicted":
                return f"pod {self.pod} was taken away"
            case "PodPending":
                return f"pod {self.pod} has been pending too long"
            case "TaskCompleted":
                return f"task {self.task} is complete"
            case "TaskFailed":
                return f"pod {self.pod} of task {self.task} was restarted too often"
            case "Unknown":
                return "a part of the gang runs and the rest cannot be placed"
        return "the job was changed"


@dataclass(frozen=True, slots=True)
class Order:
    """An action, and what it is for."""

    action: str
    cause: Happening


def policy_for(happening: Happening, task: Task | None, job_policies: tuple[Policy, ...]) -> Policy | None:
    """Task-level policies are tried before job-level ones, the first match wins."""
    for policy in (*(task.policies if task is not None else ()), *job_policies):
        if happening.event in policy.events or any(word in policy.events for word in _ANY):
            return policy
        if (
            happening.event == POD_FAILED
            and policy.exit_code is not None
            and policy.exit_code == happening.exit_code
        ):
            return policy
    return None


def next_order(book: JobBook, group: PodGroup | None, now: int) -> Order | None:
    """The first action that is due. Later ones wake the book when their time comes."""
    job = book.job
    if job.policies or any(task.policies for task in job.tasks):
        for happening in _happenings(book, group, now):
            policy = policy_for(happening, book.task(happening.task), job.policies)
            if policy is None or policy.action in IDLE:
                continue
            if policy.timeout is None:
                if happening.event == POD_PENDING:
                    continue  # every pod is pending at first: without a time limit that means nothing
                return Order(policy.action, happening)
            due = happening.since + policy.timeout
            if due <= now:
                return Order(policy.action, happening)
            book.wake_at(due)
    _forget(book)
    return None


def targets(order: Order) -> Callable[[Pod], bool] | None:
    """Which pods a partial restart is for; None for the whole job, or when it names none."""
    cause = order.cause
    if order.action == "RestartPod" and cause.pod:
        return lambda pod: pod.name == cause.pod
    if order.action in ("RestartTask", "RestartPartition") and cause.task:
        return lambda pod: pod.task == cause.task
    return None


def _forget(book: JobBook) -> None:
    """Changes and evictions are told once, unless an action for them waits for its time."""
    book.updated = False
    waits = {name: entry for name, entry in book.evicted.items() if _waits(book, name, entry)}
    book.evicted = waits


def _waits(book: JobBook, name: str, entry: tuple[str, int]) -> bool:
    happening = Happening(POD_EVICTED, entry[1], entry[0], name)
    policy = policy_for(happening, book.task(entry[0]), book.job.policies)
    if policy is None or policy.timeout is None or policy.action in IDLE:
        return False
    return not any(pod.name == name and pod.phase == RUNNING for pod in book.current())


def _happenings(book: JobBook, group: PodGroup | None, now: int) -> Iterator[Happening]:
    current = book.current()
    running = {pod.name for pod in current if pod.phase == RUNNING}
    for name, (task_name, when) in book.evicted.items():
        if name not in running or when == now:
            yield Happening(POD_EVICTED, when, task_name, name)
    standing: set[tuple[str, str]] = set()
    succeeded: dict[str, int] = {}
    for pod in current:
        if pod.phase == FAILED:
            since = pod.ended or _since(book, standing, POD_FAILED, pod.uid, now)
            yield Happening(POD_FAILED, since, pod.task, pod.name, pod.exit_code)
        elif pod.phase == SUCCEEDED:
            succeeded[pod.task] = succeeded.get(pod.task, 0) + 1
        elif pod.phase == PENDING:
            yield Happening(POD_PENDING, pod.created, pod.task, pod.name)
        task_of_pod = book.task(pod.task)
        if (
            task_of_pod is not None
            and task_of_pod.max_retry >= 0
            and pod.phase in (PENDING, RUNNING)
            and pod.restarts >= max(task_of_pod.max_retry, 1)
        ):
            yield Happening(
                TASK_FAILED, _since(book, standing, TASK_FAILED, pod.uid, now), pod.task, pod.name
            )
    for task in book.job.tasks:
        if task.replicas and succeeded.get(task.name, 0) >= task.replicas:
            since = _since(book, standing, TASK_COMPLETED, task.name, now)
            yield Happening(TASK_COMPLETED, since, task.name)
    if group is not None and group.phase == "Unknown":
        yield Happening(UNKNOWN, _since(book, standing, UNKNOWN, "", now))
    if book.updated:
        yield Happening(JOB_UPDATED, now)
    book.noticed = {key: since for key, since in book.noticed.items() if key in standing}


def _since(book: JobBook, standing: set[tuple[str, str]], event: str, subject: str, now: int) -> int:
    standing.add((event, subject))
    return book.noticed.setdefault((event, subject), now)
