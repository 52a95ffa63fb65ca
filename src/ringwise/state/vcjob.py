"""A vcjob: a job of tasks, each a number of equal pods, before any pod exists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field

from ringwise.grammar import counted
from ringwise.records import dataclass
from ringwise.state.job_plugins import plugin_problems
from ringwise.state.model import EMPTY, PodClass
from ringwise.wellknown import VOLCANO_SCHEDULER

#: The largest job that Huawei's documentation allows. A count of billions must not create billions of pods.
MOST_PODS = 20_000

#: Phases in which a job has ended or is being ended: no pod of it is created any more.
OVER = frozenset({"Aborting", "Aborted", "Completing", "Completed", "Terminating", "Terminated", "Failed"})

EVENTS = frozenset(
    {
        "*",
        "Any",
        "PodPending",
        "PodRunning",
        "PodFailed",
        "PodEvicted",
        "Unknown",
        "TaskCompleted",
        "TaskFailed",
        "OutOfSync",
        "CommandIssued",
        "JobUpdated",
    }
)
ACTIONS = frozenset(
    {
        "AbortJob",
        "RestartJob",
        "RestartTask",
        "RestartPod",
        "RestartPartition",
        "TerminateJob",
        "CompleteJob",
        "ResumeJob",
        "SyncJob",
        "EnqueueJob",
        # Used in Huawei's examples: the event is received and nothing is done.
        "Ignore",
    }
)


@dataclass(frozen=True, slots=True)
class Policy:
    """What to do when something happens to a pod, a task or the job."""

    action: str
    events: tuple[str, ...] = ()
    exit_code: int | None = None
    #: Nanoseconds to wait before the action.
    timeout: int | None = None


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """What all pods of a task have in common."""

    cls: PodClass
    labels: Mapping[str, str] = EMPTY
    annotations: Mapping[str, str] = EMPTY
    scheduler: str = ""
    priority: int = 0
    priority_class: str = ""
    preemptable: bool = False
    never_preempts: bool | None = None
    gated: bool = False
    chip_containers: int = 0
    #: A rank in the template itself; it is valid for a task of one pod only.
    rank: int | None = None
    #: Host name and domain of its pods, where the template sets them.
    hostname: str = ""
    subdomain: str = ""
    #: Limits of a whole pod on cpu, memory and local storage, which quotas count beside requests.
    limits: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Task:
    name: str
    replicas: int
    #: At least this many pods of the task must run.
    min_available: int
    template: PodTemplate
    policies: tuple[Policy, ...] = ()
    max_retry: int = 3
    #: Tasks that must run before this one, and whether any or all of them.
    depends_on: tuple[str, ...] = ()
    depends_on_any: bool = False


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume of all pods of a job: a claim that exists, or one that is made for the job."""

    mount_path: str
    claim_name: str = ""
    has_claim: bool = False


@dataclass(slots=True)
class VcJob:
    namespace: str
    name: str
    uid: str
    tasks: tuple[Task, ...] = ()
    min_available: int = 0
    min_success: int | None = None
    queue: str = "default"
    priority_class: str = ""
    scheduler: str = VOLCANO_SCHEDULER
    max_retry: int = 3
    ttl_seconds: int | None = None
    #: Nanoseconds the job is expected to run.
    running_estimate: int | None = None
    policies: tuple[Policy, ...] = ()
    plugins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    labels: Mapping[str, str] = EMPTY
    annotations: Mapping[str, str] = EMPTY
    created: int = 0
    deleting: bool = False
    phase: str = ""
    retry_count: int = 0
    version: int = 0
    #: Why the job can never run although it can be read; such a job is refused.
    problems: tuple[str, ...] = ()
    origin: str = ""
    #: The rest of the status, as the controller wrote it last: when the phase began, why, and how many
    #: pods were in which phase.
    since: int = 0
    reason: str = ""
    message: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    volumes: tuple[Volume, ...] = ()
    #: Each phase that the job was in and when it last began, the present one last. From the status.
    conditions: tuple[tuple[str, int], ...] = ()

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def replicas(self) -> int:
        return sum(task.replicas for task in self.tasks)

    @property
    def schedulers(self) -> tuple[str, ...]:
        """The `schedulerName` of its pods."""
        names = dict.fromkeys(task.template.scheduler or self.scheduler for task in self.tasks)
        return tuple(names) or (self.scheduler,)

    @property
    def over(self) -> bool:
        return self.phase in OVER or self.deleting


def claim_names(job: VcJob) -> list[str]:
    """The volume claims of the job, in the order of its volumes."""
    return [
        volume.claim_name or f"{job.name}-volume-{position}" for position, volume in enumerate(job.volumes)
    ]


def problems_of(job: VcJob) -> tuple[str, ...]:
    """What Volcano's admission would refuse, each with its numbers."""
    problems: list[str] = []
    if not job.tasks:
        problems.append("the job has no tasks")
    names = Counter(task.name for task in job.tasks)
    problems += [f"{counted(count, 'task')} are called {name}" for name, count in names.items() if count > 1]
    for task in job.tasks:
        if task.min_available > task.replicas:
            problems.append(
                f"task {task.name} wants at least {counted(task.min_available, 'pod')} and has "
                f"{task.replicas}"
            )
        problems += _policy_problems(f"task {task.name}", task.policies)
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
    ring = _ring_of_dependencies(job.tasks)
    if ring:
        problems.append(f"tasks wait for each other: {', '.join(ring)}")
    return tuple(problems)


def _policy_problems(whose: str, policies: Sequence[Policy]) -> list[str]:
    problems = []
    for policy in policies:
        if policy.action not in ACTIONS:
            problems.append(f"{whose} has a policy with the unknown action {policy.action or '(none)'}")
        problems += [
            f"{whose} has a policy for the unknown event {event}"
            for event in policy.events
            if event not in EVENTS
        ]
        if policy.events and policy.exit_code is not None:
            problems.append(f"{whose} has a policy with both an event and an exit code")
        if not policy.events and policy.exit_code is None:
            problems.append(f"{whose} has a policy without an event")
        if policy.exit_code == 0:
            problems.append(f"{whose} has a policy for exit code 0, which is no failure")
        if len(policy.events) > 1 and "*" in policy.events:
            problems.append(f"{whose} has a policy for * and other events")
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
