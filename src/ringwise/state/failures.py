"""F5: what controller and scheduler must see alike when pods of a job fail."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ringwise.durations import SECOND, ExponentialBackoff
from ringwise.state.job_rules import ANY
from ringwise.state.model import Pod
from ringwise.state.vcjob import Policy, Task, VcJob
from ringwise.topology.numbers import whole_number
from ringwise.wellknown import (
    FAULT_RETRY_TIMES,
    FAULT_SCHEDULING,
    KUBELET_REJECTIONS,
    PROCESS_RECOVER_STRATEGY,
)

POD_FAILED = "PodFailed"
#: Actions of policies that change nothing.
NO_OP_ACTIONS = frozenset({"Ignore"})
MAX_RETRIES = 100
#: How often a pod that kubelet rejects is made again before it counts as failed.
MAX_REJECTIONS = 5
_BACKOFF = ExponentialBackoff(initial=2, limit=32)

# -- retries -------------------------------------------------------------------------------------------


def retries_of(labels: Mapping[str, str]) -> int | None:
    """`fault-retry-times`; None where it is not a number from 0 to 100."""
    text = labels.get(FAULT_RETRY_TIMES)
    return 0 if text is None else whole_number(text, 0, MAX_RETRIES)


def max_restarts(labels: Mapping[str, str], annotations: Mapping[str, str]) -> int:
    """How many restarts of the job after failed pods the scheduler may make, in all."""
    handled_here = labels.get(FAULT_SCHEDULING) in ("force", "grace")
    if not handled_here or PROCESS_RECOVER_STRATEGY in annotations:
        return 0
    return retries_of(labels) or 0


def policy_for(
    event: str, exit_code: int | None, task: Task | None, job_policies: tuple[Policy, ...]
) -> Policy | None:
    """Task-level policies are tried before job-level ones, the first match wins."""
    for policy in (*(task.policies if task is not None else ()), *job_policies):
        if event in policy.events or any(word in policy.events for word in ANY):
            return policy
        if event == POD_FAILED and policy.exit_code is not None and policy.exit_code == exit_code:
            return policy
    return None


def policies_come_first(job: VcJob, pods: Iterable[Pod]) -> bool:
    """Whether a policy of the vcjob decides about one of its failed pods: then no retry is used for it."""
    tasks = {task.name: task for task in job.tasks}
    if not job.policies and not any(task.policies for task in job.tasks):
        return False
    for pod in pods:
        if pod.phase != "Failed" or pod.deleting or is_made_again(pod):
            continue
        policy = policy_for(POD_FAILED, pod.exit_code, tasks.get(pod.task), job.policies)
        if policy is not None and policy.action not in NO_OP_ACTIONS:
            return True
    return False


# -- pods that kubelet rejected at admission -------------------------------------------------------------


def rejections_before(pod: Pod) -> int:
    """How many pods in its place kubelet rejected before it."""
    number = whole_number(pod.annotations.get(KUBELET_REJECTIONS, ""), 0, MAX_REJECTIONS)
    return number or 0


def is_made_again(pod: Pod) -> bool:
    """Kubelet rejected it before it ran: it has not failed, and another one is made in its place."""
    return bool(pod.rejected) and rejections_before(pod) < MAX_REJECTIONS


def pause_after(rejections: int) -> int:
    """Return the nanoseconds before a pod is created again after so many rejections."""
    return _BACKOFF.seconds(rejections) * SECOND
