"""What Volcano's admission refuses of a vcjob: each problem as a sentence that says what is allowed.

A sentence begins with the words that Volcano has for the same fact, because scripts look for them. The
webhook, the controller, the lab and `place` all read it from here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from ringwise.grammar import counted, quoted
from ringwise.state.job_plugins import plugin_problems
from ringwise.state.vcjob import SUSPENDED, Policy, Task, VcJob

#: The largest job that Huawei's documentation allows. A count of billions must not create billions of pods.
MAX_PODS = 20_000
#: Kubernetes' limit for labels and host names, which contain the names of jobs, tasks and pods.
MAX_NAME = 63
_TASK_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_CLAIM_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_MAX_CLAIM_NAME = 253

_NO_DAG = "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG)"
#: Of vcjobs and of PodGroups.
TWO_TIERS = "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"
#: Characters of a name in a sentence.
_LONGEST = 100

#: Both mean every event.
ANY = ("*", "Any")
EVENTS = (
    *ANY,
    "PodPending",
    "PodFailed",
    "PodEvicted",
    "Unknown",
    "TaskCompleted",
    "TaskFailed",
    "JobUpdated",
)
ACTIONS = (
    "AbortJob",
    "RestartJob",
    "RestartTask",
    "RestartPod",
    "RestartPartition",
    "TerminateJob",
    "CompleteJob",
    "ResumeJob",
    # Used in Huawei's examples: the event is received and nothing is done.
    "Ignore",
)


def may_change_queue(phase: str, running: int) -> bool:
    """Whether a vcjob may go to another queue: it is suspended, or waits and no pod of it runs."""
    return phase in SUSPENDED or (phase in ("", "Pending") and not running)


def problems_of(job: VcJob) -> tuple[str, ...]:
    """Why the job can never run as it is, each with its numbers."""
    problems: list[str] = []
    if not job.tasks:
        problems.append("No task specified in job spec: the job has no tasks")
    if len(job.name) > MAX_NAME or not _LABEL_VALUE.fullmatch(job.name):
        problems.append(
            f"create job with name {_short(job.name)} validate failed: the job's name has "
            f"{counted(len(job.name), 'character')}; it becomes a label of its pods and must have at most "
            f"{MAX_NAME} letters, digits, dashes and dots"
        )
    names = Counter(task.name for task in job.tasks)
    problems += [
        f"duplicated task name {_short(name)}: {counted(count, 'task')} are called {_short(name)}"
        for name, count in names.items()
        if count > 1
    ]
    for position, task in enumerate(job.tasks):
        problems += _task_problems(job, task, position)
        problems += [
            f"{_NO_DAG}: task {task.name} depends on {other}, which is not a task of the job"
            for other in task.depends_on
            if other not in names
        ]
    if job.min_available > job.replicas:
        problems.append(
            "job 'minAvailable' should not be greater than total replicas in tasks: the job wants at least "
            f"{counted(job.min_available, 'pod')} and its tasks have {job.replicas}{_if_none(job.replicas)}"
        )
    if job.replicas > MAX_PODS:
        problems.append(f"the job has {counted(job.replicas, 'pod')} and at most {MAX_PODS} are allowed")
    problems += _policy_problems("the job", job.policies)
    problems += plugin_problems(job.plugins, list(names))
    problems += _volume_problems(job)
    problems += [
        f"{TWO_TIERS}: that of {where} has both; only one is allowed" for where in job.tier_conflicts
    ]
    ring = _ring_of_dependencies(job.tasks)
    if ring:
        problems.append(f"{_NO_DAG}: tasks wait for each other: {', '.join(ring)}")
    return tuple(problems)


def _if_none(replicas: int) -> str:
    return "" if replicas else "; replicas that are missing are 0"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _task_problems(job: VcJob, task: Task, position: int) -> list[str]:
    problems: list[str] = []
    if len(task.name) > MAX_NAME or not _TASK_NAME.fullmatch(task.name):
        problems.append(
            f"spec.tasks[{position}].name should match {_TASK_NAME.pattern}: a lowercase RFC 1123 label must "
            "consist of lower case alphanumeric characters or '-', begin and end with no '-', and have at "
            f"most {MAX_NAME} of them, got {quoted(_short(task.name))}"
        )
    longest = f"{job.name}-{task.name}-{max(task.replicas - 1, 0)}"
    if len(longest) > MAX_NAME:
        problems.append(
            f"create pod with name {_short(longest)} validate failed: the pod would have a name of "
            f"{len(longest)} characters and at most {MAX_NAME} are allowed; shorten the name of the job or "
            "of the task"
        )
    if task.min_available > task.replicas:
        problems.append(
            f"'minAvailable' is greater than 'replicas' in task: task {task.name} wants at least "
            f"{counted(task.min_available, 'pod')}{_of_partitions(task)} and has {task.replicas}"
            f"{_if_none(task.replicas)}"
        )
    if task.topology_policy not in ("", "none"):
        # With the two spaces that Volcano has.
        problems += [
            f"the cpu request isn't  an integer in spec.task[{position}]: task {task.name} has the "
            f"topologyPolicy {task.topology_policy} and container {container} requests no whole number of "
            "cpus"
            for container in task.template.sharing_cpus
        ]
    problems += _partition_problems(task)
    problems += _policy_problems(f"task {task.name}", task.policies)
    return problems


def _of_partitions(task: Task) -> str:
    """Where a minimum comes from that is not in the manifest."""
    parts = task.partitions
    if parts is None or parts.minimum < 1 or parts.minimum * parts.size != task.min_available:
        return ""
    return f" (minPartitions {parts.minimum} x partitionSize {parts.size})"


def _partition_problems(task: Task) -> list[str]:
    parts = task.partitions
    if parts is None:
        return []
    for name, number in (("TotalPartitions", parts.total), ("PartitionSize", parts.size)):
        if number < 1:
            return [f"'{name}' must be greater than 0 in task: task {task.name} has {number}"]
    if parts.total * parts.size != task.replicas:
        return [
            f"'Replicas' are not equal to TotalPartitions*PartitionSize in task: task {task.name} has "
            f"{counted(task.replicas, 'replica')} and {parts.total} partitions of {parts.size} are "
            f"{parts.total * parts.size}"
        ]
    if parts.minimum > 0 and parts.minimum * parts.size != task.min_available:
        return [
            f"'MinAvailable' is not equal to MinPartitions*PartitionSize in task: task {task.name} has "
            f"minAvailable {task.min_available} and {parts.minimum} partitions of {parts.size} are "
            f"{parts.minimum * parts.size}"
        ]
    return []


def _policy_problems(whose: str, policies: Sequence[Policy]) -> list[str]:
    """Each event and each exit code has one policy, and `*` stands for all events."""
    problems = []
    for policy in policies:
        if policy.action not in ACTIONS:
            problems.append(
                f"invalid policy action: {whose} has a policy with the unknown action "
                f"{_short(policy.action) or '(none)'}; allowed: {', '.join(ACTIONS[:-1])}"
            )
        problems += [
            f"invalid policy event: {whose} has a policy for the unknown event {_short(event)}; allowed: "
            f"{', '.join(EVENTS)}"
            for event in policy.events
            if event not in EVENTS
        ]
        if policy.events and policy.exit_code is not None:
            problems.append(
                f"must not specify event and exitCode simultaneously: {whose} has a policy with both of them"
            )
        if not policy.events and policy.exit_code is None:
            problems.append(
                f"either event and exitCode should be specified: {whose} has a policy without an event"
            )
        if policy.exit_code == 0:
            problems.append(
                f"0 is not a valid error code: {whose} has a policy for exit code 0, which is not a failure"
            )
    events = Counter(event for policy in policies for event in policy.events)
    codes = Counter(policy.exit_code for policy in policies if policy.exit_code is not None)
    problems += [
        f"duplicate event {_short(event)}: {whose} has {count} policies for it"
        for event, count in events.items()
        if count > 1
    ]
    problems += [
        f"duplicate exitCode {code}: {whose} has {count} policies for exit code {code}"
        for code, count in codes.items()
        if count > 1
    ]
    if len(events) > 1 and any(word in events for word in ANY):
        others = ", ".join(event for event in events if event not in ANY) or ", ".join(events)
        problems.append(
            f"if there's * here, no other policy should be here: {whose} has a policy for *, which is every "
            f"event, and policies for other events: {others}"
        )
    return problems


def _volume_problems(job: VcJob) -> list[str]:
    problems: list[str] = []
    for position, volume in enumerate(job.volumes):
        where = f"volume {position} of the job"
        if not volume.mount_path:
            problems.append(
                f"mountPath is required: {where} has no mountPath; spec.volumes[{position}].mountPath should "
                "be at least 1 chars long"
            )
        elif ":" in volume.mount_path:
            problems.append(f"{where} has the mountPath {_short(volume.mount_path)}, and a path has no colon")
        if volume.claim_name and volume.has_claim:
            problems.append(
                "conflict: If you want to use an existing PVC, just specify VolumeClaimName: "
                f"{where} has volumeClaim and volumeClaimName; only one is allowed"
            )
        elif not volume.claim_name and not volume.has_claim:
            problems.append(
                f"either VolumeClaim or VolumeClaimName must be specified: {where} has neither of them"
            )
        elif volume.claim_name and (
            len(volume.claim_name) > _MAX_CLAIM_NAME or not _CLAIM_NAME.fullmatch(volume.claim_name)
        ):
            problems.append(
                f"invalid VolumeClaimName {quoted(_short(volume.claim_name))} of {where}, which is "
                "not a valid name of a claim"
            )
    paths = Counter(volume.mount_path for volume in job.volumes if volume.mount_path)
    problems += [
        f"duplicated mountPath: {counted(count, 'volume')} have the mountPath {_short(path)}"
        for path, count in paths.items()
        if count > 1
    ]
    return problems


def _ring_of_dependencies(tasks: Sequence[Task]) -> list[str]:
    """Tasks that depend on each other in a circle: what remains after removing tasks without dependencies."""
    depends_on = {task.name: set(task.depends_on) for task in tasks}
    waits = {name: sum(other in depends_on for other in others) for name, others in depends_on.items()}
    awaited_by: dict[str, list[str]] = {}
    for name, others in depends_on.items():
        for other in others:
            awaited_by.setdefault(other, []).append(name)
    free = [name for name, count in waits.items() if not count]
    while free:
        for name in awaited_by.get(free.pop(), ()):
            waits[name] -= 1
            if not waits[name]:
                free.append(name)
    return [name for name, count in waits.items() if count]
