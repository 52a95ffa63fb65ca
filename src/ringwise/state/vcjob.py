"""A vcjob: a job of tasks, each a number of equal pods, before any pod exists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from ringwise.records import dataclass
from ringwise.state.model import EMPTY, Namespaced, NetworkTopology, PodClass, VisibleDevices
from ringwise.state.volumes import ClaimTemplates, PersistentVolumeClaim
from ringwise.wellknown import VOLCANO_SCHEDULER

#: Reason of what a user requested with a Command, in the status and of events.
COMMAND_ISSUED = "CommandIssued"
#: Reason in the status of a pending job whose pods, or what they need, the API server refused to create.
NOT_CREATED = "PodsNotCreated"
#: Phases of a job that gave its chips back and can be resumed.
SUSPENDED = frozenset({"Aborting", "Aborted"})
#: Phases in which a job has ended or is being ended: no more pods of it are created.
OVER = frozenset({"Aborting", "Aborted", "Completing", "Completed", "Terminating", "Terminated", "Failed"})


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
    #: Containers whose cpu is not a whole number above 0; with a NUMA policy they cannot run.
    sharing_cpus: tuple[str, ...] = ()
    #: A container that says itself which chips it sees.
    visible_devices: VisibleDevices | None = None
    #: Claims that all its pods use, and its generic ephemeral volumes.
    claims: tuple[str, ...] = ()
    ephemeral_volumes: ClaimTemplates = ()


@dataclass(frozen=True, slots=True)
class Partitions:
    """Equal parts of a task: how many, pods of each, and how many must run."""

    total: int
    size: int
    minimum: int = 0
    topology: NetworkTopology | None = None


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
    partitions: Partitions | None = None
    #: The NUMA policy of its pods; empty for none.
    topology_policy: str = ""


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume of all pods of a job: a claim that exists, or one that is made for the job."""

    mount_path: str
    claim_name: str = ""
    has_claim: bool = False
    #: What is made, without namespace and name.
    claim: PersistentVolumeClaim | None = None


#: What changes of a job without a change of its pods, unless it is over: most of its status.
_STATUS_FIELDS = ("deleting", "phase", "since", "reason", "message", "counts", "conditions", "rejections")


@dataclass(slots=True)
class VcJob(Namespaced):
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
    #: Where a network topology has both limits of the tier, by number and by name.
    tier_conflicts: tuple[str, ...] = ()
    #: Pods that kubelet rejected and that are made again, with the number of rejections. From the status.
    rejections: Mapping[str, int] = field(default_factory=dict)
    topology: NetworkTopology | None = None

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

    @property
    def suspended(self) -> bool:
        return self.phase in SUSPENDED and not self.deleting

    @property
    def gives_back(self) -> bool:
        """Return whether a user suspended or requeued the job, so that its chips are free for other jobs."""
        requested = self.phase == "Restarting" and self.reason == COMMAND_ISSUED
        return (self.phase in SUSPENDED or requested) and not self.deleting

    def orders_same_pods(self, other: VcJob) -> bool:
        """Whether the two differ at most in what the controller writes into the status without any effect."""
        own = {name: getattr(self, name) for name in _STATUS_FIELDS}
        return self.over == other.over and self == replace(other, **own)


def claim_names(job: VcJob) -> list[str]:
    """The volume claims of the job, in the order of its volumes."""
    return [
        volume.claim_name or f"{job.name}-volume-{position}" for position, volume in enumerate(job.volumes)
    ]
