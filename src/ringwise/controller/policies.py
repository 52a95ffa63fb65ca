"""The lifecycle events of a job's pods, and the action that the job's policies define for them.

Events are derived from the state of the objects, not from the moment of a change, so that a
restarted controller comes to the same action. An action changes the job's phase or version
or deletes the pod, so the same state never causes it twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ringwise.controller.job_record import FAILED, PENDING, RUNNING, SUCCEEDED, JobRecord, index_of
from ringwise.records import dataclass
from ringwise.state.failures import NO_OP_ACTIONS, POD_FAILED, is_made_again, policy_for
from ringwise.state.model import Pod, PodGroup
from ringwise.state.vcjob import Policy
from ringwise.topology.numbers import INT32, whole_number

POD_PENDING = "PodPending"
POD_EVICTED = "PodEvicted"
TASK_COMPLETED = "TaskCompleted"
TASK_FAILED = "TaskFailed"
UNKNOWN = "Unknown"
JOB_UPDATED = "JobUpdated"
_SENTENCES = {
    POD_FAILED: "pod {pod} failed{code}",
    POD_EVICTED: "pod {pod} was evicted",
    POD_PENDING: "pod {pod} has been pending too long",
    TASK_COMPLETED: "task {task} is complete",
    TASK_FAILED: "pod {pod} of task {task} was restarted too often",
    UNKNOWN: "a part of the gang runs and the rest cannot be placed",
    JOB_UPDATED: "the job was changed",
}


@dataclass(frozen=True, slots=True)
class PolicyEvent:
    event: str
    since: int
    task: str = ""
    pod: str = ""
    exit_code: int | None = None

    @property
    def sentence(self) -> str:
        code = "" if self.exit_code is None else f" with exit code {self.exit_code}"
        return _SENTENCES[self.event].format(pod=self.pod, task=self.task, code=code)


@dataclass(frozen=True, slots=True)
class DueAction:
    """An action, and the event that causes it."""

    action: str
    cause: PolicyEvent


def _policy_for(event: PolicyEvent, record: JobRecord) -> Policy | None:
    return policy_for(event.event, event.exit_code, record.task(event.task), record.job.policies)


def due_actions(record: JobRecord, group: PodGroup | None, now: int) -> list[DueAction]:
    """The actions that are due, the first one first. For later ones the record gets a deadline."""
    job = record.job
    result: list[DueAction] = []
    if job.policies or any(task.policies for task in job.tasks):
        for event in _events(record, group, now):
            policy = _policy_for(event, record)
            if policy is None or policy.action in NO_OP_ACTIONS:
                continue
            if policy.timeout is None:
                # Every pod is pending at first: without a timeout that event means nothing.
                if event.event != POD_PENDING:
                    result.append(DueAction(policy.action, event))
            elif event.since + policy.timeout <= now:
                result.append(DueAction(policy.action, event))
            else:
                record.wake_at(event.since + policy.timeout)
    if not result:
        _forget(record)
    return result


def targets(record: JobRecord, due: DueAction) -> Callable[[Pod], bool] | None:
    """Which pods a partial restart concerns; None for the whole job, or when the event names none."""
    cause = due.cause
    if due.action == "RestartPartition" and cause.pod:
        first, last = _partition(record, cause)
        return lambda pod: pod.task == cause.task and first <= index_of(pod) <= last
    if due.action == "RestartPod" and cause.pod:
        return lambda pod: pod.name == cause.pod
    if due.action in ("RestartTask", "RestartPartition") and cause.task:
        return lambda pod: pod.task == cause.task
    return None


def _partition(record: JobRecord, cause: PolicyEvent) -> tuple[int, int]:
    """First and last index of the pod's partition; a task without partitions is one.

    The index is in its name: a pod that was evicted no longer exists.
    """
    task = record.task(cause.task)
    index = whole_number(cause.pod.rpartition("-")[2], 0, INT32)
    if task is None or task.partitions is None or index is None:
        return 0, INT32
    first = index - index % task.partitions.size
    return first, first + task.partitions.size - 1


def _forget(record: JobRecord) -> None:
    """Updates and evictions are events once, unless an action for them waits for its timeout."""
    record.updated = False
    waits = {name: entry for name, entry in record.evicted.items() if _waits(record, name, entry)}
    record.evicted = waits


def _waits(record: JobRecord, name: str, entry: tuple[str, int]) -> bool:
    event = PolicyEvent(POD_EVICTED, entry[1], entry[0], name)
    policy = _policy_for(event, record)
    if policy is None or policy.timeout is None or policy.action in NO_OP_ACTIONS:
        return False
    return not any(pod.name == name and pod.phase == RUNNING for pod in record.current_pods())


def _events(record: JobRecord, group: PodGroup | None, now: int) -> Iterator[PolicyEvent]:
    current = record.current_pods()
    running = {pod.name for pod in current if pod.phase == RUNNING}
    for name, (task_name, when) in record.evicted.items():
        if name not in running or when == now:
            yield PolicyEvent(POD_EVICTED, when, task_name, name)
    standing: set[tuple[str, str]] = set()
    succeeded: dict[str, int] = {}
    for pod in current:
        if is_made_again(pod):
            continue
        if pod.phase == FAILED:
            since = pod.ended or _since(record, standing, POD_FAILED, pod.uid, now)
            yield PolicyEvent(POD_FAILED, since, pod.task, pod.name, pod.exit_code)
        elif pod.phase == SUCCEEDED:
            succeeded[pod.task] = succeeded.get(pod.task, 0) + 1
        elif pod.phase == PENDING:
            yield PolicyEvent(POD_PENDING, pod.created, pod.task, pod.name)
        task_of_pod = record.task(pod.task)
        if (
            task_of_pod is not None
            and task_of_pod.max_retry >= 0
            and pod.phase in (PENDING, RUNNING)
            and pod.restarts >= max(task_of_pod.max_retry, 1)
        ):
            yield PolicyEvent(
                TASK_FAILED, _since(record, standing, TASK_FAILED, pod.uid, now), pod.task, pod.name
            )
    for task in record.job.tasks:
        if task.replicas and succeeded.get(task.name, 0) >= task.replicas:
            since = _since(record, standing, TASK_COMPLETED, task.name, now)
            yield PolicyEvent(TASK_COMPLETED, since, task.name)
    if group is not None and group.phase == "Unknown":
        yield PolicyEvent(UNKNOWN, _since(record, standing, UNKNOWN, "", now))
    if record.updated:
        yield PolicyEvent(JOB_UPDATED, now)
    record.first_seen = {key: since for key, since in record.first_seen.items() if key in standing}


def _since(record: JobRecord, standing: set[tuple[str, str]], event: str, subject: str, now: int) -> int:
    standing.add((event, subject))
    return record.first_seen.setdefault((event, subject), now)
