"""What Volcano's admission refuses of a vcjob: each problem as a sentence that says what is allowed.

The webhook, the controller, the lab and `place` all read it from here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from ringwise.grammar import counted
from ringwise.state.job_plugins import plugin_problems
from ringwise.state.vcjob import Policy, Task, VcJob

#: The largest job that Huawei's documentation allows. A count of billions must not create billions of pods.
MOST_PODS = 20_000
#: Kubernetes' limit for labels and host names, which contain the names of jobs, tasks and pods.
MOST_NAME = 63
_TASK_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_CLAIM_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_MOST_CLAIM_NAME = 253

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


def problems_of(job: VcJob) -> tuple[str, ...]:
    """Why the job can never run as it is, each with its numbers."""
    problems: list[str] = []
    if not job.tasks:
        problems.append("the job has no tasks")
    if len(job.name) > MOST_NAME or not _LABEL_VALUE.fullmatch(job.name):
        problems.append(
            f"the job's name has {counted(len(job.name), 'character')}; it becomes a label of its pods and "
            f"must have at most {MOST_NAME} letters, digits, dashes and dots"
        )
    names = Counter(task.name for task in job.tasks)
    problems += [f"{counted(count, 'task')} are called {name}" for name, count in names.items() if count > 1]
    for task in job.tasks:
        problems += _task_problems(job, task)
        problems += [
            f"task {task.name} depends on {other}, which is no task of the job"
            for other in task.depends_on
            if other not in names
        ]
    if job.min_available > job.replicas:
        problems.append(
            f"the job wants at least {counted(job.min_available, 'pod')} and its tasks have {job.replicas}"
        )
    if job.tasks and not job.replicas:
        problems.append("the job's tasks have 0 replicas together")
    if job.replicas > MOST_PODS:
        problems.append(f"the job has {counted(job.replicas, 'pod')} and at most {MOST_PODS} are allowed")
    problems += _policy_problems("the job", job.policies)
    problems += plugin_problems(job.plugins, list(names))
    problems += _volume_problems(job)
    problems += [
        f"the network topology of {where} has highestTierAllowed and highestTierName; only one is allowed"
        for where in job.tier_conflicts
    ]
    ring = _ring_of_dependencies(job.tasks)
    if ring:
        problems.append(f"tasks wait for each other: {', '.join(ring)}")
    return tuple(problems)


def _task_problems(job: VcJob, task: Task) -> list[str]:
    problems: list[str] = []
    if len(task.name) > MOST_NAME or not _TASK_NAME.fullmatch(task.name):
        problems.append(
            f"task {task.name!r}: a name has at most {MOST_NAME} small letters, digits and dashes, and "
            "begins and ends with a letter or digit"
        )
    longest = f"{job.name}-{task.name}-{max(task.replicas - 1, 0)}"
    if len(longest) > MOST_NAME:
        problems.append(
            f"pod {longest} would have a name of {len(longest)} characters and at most {MOST_NAME} are "
            "allowed; shorten the name of the job or of the task"
        )
    if task.min_available > task.replicas:
        problems.append(
            f"task {task.name} wants at least {counted(task.min_available, 'pod')} and has {task.replicas}"
        )
    if task.topology_policy not in ("", "none"):
        problems += [
            f"task {task.name} has the topologyPolicy {task.topology_policy} and container {container} "
            "requests no whole number of cpus"
            for container in task.template.sharing_cpus
        ]
    problems += _partition_problems(task)
    problems += _policy_problems(f"task {task.name}", task.policies)
    return problems


def _partition_problems(task: Task) -> list[str]:
    parts = task.partitions
    if parts is None:
        return []
    if parts.total < 1 or parts.size < 1:
        return [f"task {task.name}: totalPartitions and partitionSize must be at least 1"]
    if parts.total * parts.size != task.replicas:
        return [
            f"task {task.name} has {counted(task.replicas, 'replica')} and {parts.total} partitions of "
            f"{parts.size} are {parts.total * parts.size}"
        ]
    if parts.minimum > 0 and parts.minimum * parts.size != task.min_available:
        return [
            f"task {task.name} has minAvailable {task.min_available} and {parts.minimum} partitions of "
            f"{parts.size} are {parts.minimum * parts.size}"
        ]
    return []


def _policy_problems(whose: str, policies: Sequence[Policy]) -> list[str]:
    """Each event and each exit code has one policy, and `*` stands for all events."""
    problems = []
    for policy in policies:
        if policy.action not in ACTIONS:
            problems.append(
                f"{whose} has a policy with the unknown action {policy.action or '(none)'}; allowed: "
                f"{', '.join(ACTIONS[:-1])}"
            )
        problems += [
            f"{whose} has a policy for the unknown event {event}; allowed: {', '.join(EVENTS)}"
            for event in policy.events
            if event not in EVENTS
        ]
        if policy.events and policy.exit_code is not None:
            problems.append(f"{whose} has a policy with both an event and an exit code")
        if not policy.events and policy.exit_code is None:
            problems.append(f"{whose} has a policy without an event")
        if policy.exit_code == 0:
            problems.append(f"{whose} has a policy for exit code 0, which is no failure")
    events = Counter(event for policy in policies for event in policy.events)
    codes = Counter(policy.exit_code for policy in policies if policy.exit_code is not None)
    problems += [
        f"{whose} has {count} policies for the event {event}" for event, count in events.items() if count > 1
    ]
    problems += [
        f"{whose} has {count} policies for exit code {code}" for code, count in codes.items() if count > 1
    ]
    if len(events) > 1 and any(word in events for word in ANY):
        others = ", ".join(event for event in events if event not in ANY) or ", ".join(events)
        problems.append(
            f"{whose} has a policy for *, which is every event, and policies for other events: {others}"
        )
    return problems


def _volume_problems(job: VcJob) -> list[str]:
    problems: list[str] = []
    for position, volume in enumerate(job.volumes):
        where = f"volume {position} of the job"
        if not volume.mount_path:
            problems.append(f"{where} has no mountPath")
        elif ":" in volume.mount_path:
            problems.append(f"{where} has the mountPath {volume.mount_path}, and a path has no colon")
        if volume.claim_name and volume.has_claim:
            problems.append(f"{where} has volumeClaim and volumeClaimName; only one is allowed")
        elif not volume.claim_name and not volume.has_claim:
            problems.append(f"{where} has neither volumeClaim nor volumeClaimName")
        elif volume.claim_name and (
            len(volume.claim_name) > _MOST_CLAIM_NAME or not _CLAIM_NAME.fullmatch(volume.claim_name)
        ):
            problems.append(
                f"{where} has the volumeClaimName {volume.claim_name!r}, which is no name of a claim"
            )
    paths = Counter(volume.mount_path for volume in job.volumes if volume.mount_path)
    problems += [
        f"{counted(count, 'volume')} have the mountPath {path}" for path, count in paths.items() if count > 1
    ]
    return problems


def _ring_of_dependencies(tasks: Sequence[Task]) -> list[str]:
    """Tasks that depend on each other in a circle: what remains after removing tasks without dependencies."""
    waits = {task.name: set(task.depends_on) for task in tasks}
    waits = {name: {other for other in others if other in waits} for name, others in waits.items()}
    while True:
        free = [name for name, others in waits.items() if not others]
        if not free:
            return list(waits)
        for name in free:
            del waits[name]
        for others in waits.values():
            others.difference_update(free)
