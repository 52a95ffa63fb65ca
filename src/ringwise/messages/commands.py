"""The commands of scheduler and controller. Values; the Kubernetes adapter or the lab carries them out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from ringwise.framework.amounts import Amount
from ringwise.framework.job import Job
from ringwise.messages.command import Command as Command
from ringwise.messages.event_reasons import EventReason
from ringwise.messages.events import QueueCommand
from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.state.model import EMPTY, HyperNode, Pod, PodGroup


@dataclass(frozen=True, slots=True)
class PodCommand(Command):
    """A command about a pod: its uid, namespace and name."""

    uid: str
    namespace: str
    pod: str


@dataclass(frozen=True, slots=True)
class Bind(PodCommand):
    """D1: bind a pod to a node; the chips travel in the annotations of the same request."""

    node: str
    chips: tuple[int, ...] = ()
    annotations: Mapping[str, str] = field(default=EMPTY, hash=False)
    #: N8: owned annotations that the pod carries and the binding does not set; they are removed first.
    remove: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SelectNode(Command):
    """The node for whose pod the volume of a claim is to be made: `volume.kubernetes.io/selected-node`.

    Where the claim is another one meanwhile, or the write fails, the event `ClaimFailed` follows. The pods of
    the gang are bound when all their claims are.
    """

    namespace: str
    claim: str
    uid: str
    node: str


@dataclass(frozen=True, slots=True)
class BindVolume(Command):
    """Give a volume that exists to a claim: `spec.claimRef` of the volume, `bound-by-controller: "yes"`.

    The volume controller does the rest. The event `ClaimFailed` follows where the write fails, or where the
    volume has another claim meanwhile.
    """

    volume: str
    namespace: str
    claim: str
    uid: str


class EvictionCause(StrEnum):
    """Why a pod does not run on: what its job loses is accounted by this. `why` says it in words."""

    FAULT = "fault"
    #: M1.
    MOVE = "move"
    #: F4.
    DRAIN = "drain"
    PREEMPT = "preempt"
    RECLAIM = "reclaim"
    #: A UsageLimit; or its max run time is over.
    LIMIT = "limit"
    SUSPEND = "suspend"
    #: The job's own affair: a policy of it, or its gang could not be completed. Or another package's action.
    OTHER = "other"

    @classmethod
    def of_action(cls, name: str) -> EvictionCause:
        """Actions evict in their own name. Whether for a gang or for pods is the same to who loses."""
        name = name.removeprefix("gang")
        return cls(name) if name in (cls.PREEMPT, cls.RECLAIM) else cls.OTHER


@dataclass(frozen=True, slots=True)
class Evict(PodCommand):
    """Evict a running pod."""

    why: str
    cause: EvictionCause = EvictionCause.OTHER
    #: Key of the job that it makes room for; empty: none. With all that make room for the same job here, and
    #: only where every disruption budget allows all of them.
    by: str = ""


@dataclass(frozen=True, slots=True)
class SetGroupStatus(Command):
    """The PodGroup's phase and, while it is pending, the reason. Sent only when it changed."""

    key: str
    phase: str
    reason: Reason | None = None
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    #: When it is expected to start, while there is a reason; empty: it is not known, or not shown.
    start: str = ""


@dataclass(frozen=True, slots=True)
class AnnotateGroup(Command):
    """Write annotations of a PodGroup, by its key. Sent only when they changed."""

    key: str
    #: None: it is removed.
    annotations: Mapping[str, str | None] = field(hash=False)


@dataclass(frozen=True, slots=True)
class SetPodCondition(PodCommand):
    """A pod's condition: the reason why it has no node. Sent only when it changed."""

    reason: Reason
    #: The node on which others are evicted for it; empty: no longer; None: as it was.
    nominated: str | None = None


class RemoveQueueGate(PodCommand):
    """The job of the pod is admitted to its queue: remove the scheduling gate that waits for this."""


#: Events about jobs that do not warn.
_NORMAL = frozenset({EventReason.MOVED, EventReason.MOVING, EventReason.RECOVERED, EventReason.RESCHEDULING})


@dataclass(frozen=True, slots=True)
class RecordJobEvent(Command):
    """What happened to a job, as an event on its PodGroup; on its pod, where it has no group."""

    #: Key of the PodGroup; of a pod without one, `namespace/name` of the pod.
    key: str
    #: One word: what happened.
    reason: EventReason
    message: str
    #: Uid of the pod of a job without a PodGroup.
    pod: str = ""
    warning: bool = False

    @classmethod
    def about(cls, job: Job, reason: EventReason, message: str) -> RecordJobEvent:
        pod = None if job.group is not None else next(iter(job.pods.values()), None)
        key, uid = (job.key, "") if pod is None else (pod.key, pod.uid)
        return cls(key, reason, message, uid, warning=reason not in _NORMAL)


@dataclass(frozen=True, slots=True)
class SetQueueStatus(Command):
    """How many PodGroups of a queue are in which phase, and what its pods use. Sent only when it changed.

    What the pods of the queues below it use counts for it, too.
    """

    name: str
    groups: Mapping[str, int] = field(hash=False)
    #: Milli-cores for cpu, units for everything else, and the number of `pods`.
    allocated: Mapping[str, Amount] = field(hash=False)


@dataclass(frozen=True, slots=True)
class SetHyperNodeStatus(Command):
    """How many nodes a HyperNode has, and what is wrong with it. Sent only when it changed."""

    name: str
    #: None: it is ignored, and the number stays as it is.
    nodes: int | None
    valid: bool = True
    #: What is wrong with it: one word for the first problem, and a sentence; empty if there is none.
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of an object, as Kubernetes has them."""

    type: str
    status: bool
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class SetConditions(Command):
    """All conditions of a custom resource of ours. Sent only when they changed."""

    kind: str
    name: str
    generation: int
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class SetNamespaceLimits(Command):
    """The UsageLimits that hold in a namespace, as JSON; empty: none. Sent only when they changed."""

    namespace: str
    limits: str


@dataclass(frozen=True, slots=True)
class DeleteFinished(Command):
    """Delete a custom resource of ours: its `ttlSecondsAfterFinished` has passed."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Publish(Command):
    """Write a ConfigMap."""

    namespace: str
    name: str
    data: Mapping[str, str] = field(hash=False)


@dataclass(frozen=True, slots=True)
class SetResetConfig(Command):
    """Tell the processes of a job about its rescheduling, in `reset-config-<job>`, where that exists.

    It is carried out before the deletions of pods that are sent with it.
    """

    namespace: str
    job: str
    #: Whether they should end by themselves; None: unchanged.
    graceful_exit: bool | None = None
    #: Pods were replaced, and whether that was the whole job; None: nothing to say.
    whole_job_restarted: bool | None = None
    #: When, in seconds of Unix time.
    seconds: int = 0


@dataclass(frozen=True, slots=True)
class SetAside(Command):
    """An object could not be handled: its last good version stays in force. Sent once for each problem."""

    kind: str
    key: str
    problem: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class CreateGroup(Command):
    """Create the group, or update the one of that name; its status stays."""

    group: PodGroup


@dataclass(frozen=True, slots=True)
class DeleteGroup(Command):
    key: str


@dataclass(frozen=True, slots=True)
class ContainerPort:
    """A port that a container declares, unless it declares that number already."""

    name: str
    number: int
    #: Empty: every container.
    container: str = ""
    in_init_containers: bool = False


@dataclass(frozen=True, slots=True)
class InitContainer:
    name: str
    image: str
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PodAdditions:
    """What job plugins add to a pod in addition to labels and annotations."""

    #: Of every container and init container.
    env: tuple[tuple[str, str], ...] = ()
    #: Where the template has none.
    hostname: str = ""
    subdomain: str = ""
    #: (path in every container, kind, name): ConfigMaps and Secrets of the job.
    mounts: tuple[tuple[str, str, str], ...] = ()
    #: Only pods of the same job may connect to it.
    isolated: bool = False
    #: Its host name resolves before it is ready.
    found_early: bool = False
    #: Of the containers, and not of init containers.
    container_env: tuple[tuple[str, str], ...] = ()
    #: (variable, ConfigMap): the value is the key of that name, read when a container starts.
    env_from: tuple[tuple[str, str], ...] = ()
    ports: tuple[ContainerPort, ...] = ()
    #: (container, command): replaces the command of the template.
    commands: tuple[tuple[str, tuple[str, ...]], ...] = ()
    init_containers: tuple[InitContainer, ...] = ()


@dataclass(frozen=True, slots=True)
class JobService:
    """A Service of a job: for all its pods or for those of one task; headless where it has no ports."""

    name: str
    task: str = ""
    ports: tuple[tuple[str, int], ...] = ()
    #: Host names of pods resolve before the pods are ready.
    found_early: bool = False


@dataclass(frozen=True, slots=True)
class JobKeys:
    """The Secret with the ssh keys of a job. Without a private key a new pair is made."""

    secret: str
    config: str
    private: str = ""
    public: str = ""


@dataclass(frozen=True, slots=True)
class CreateJobResources(Command):
    """What a job needs besides its pods. It is created before the first pod; what exists stays."""

    key: str
    services: tuple[JobService, ...] = ()
    #: Only pods of the job may connect to each other.
    isolated: bool = False
    keys: JobKeys | None = None


@dataclass(frozen=True, slots=True)
class CreatePod(Command):
    pod: Pod
    #: Key of the job it belongs to.
    job: str = ""
    additions: PodAdditions = PodAdditions()


@dataclass(frozen=True, slots=True)
class DeletePod(PodCommand):
    why: str = ""
    #: Seconds that the pod has to end; None: its own. 0 deletes it by force.
    grace: int | None = None
    #: Because of a fault: the event `EvictFailed` follows where the API server refuses it.
    fault: bool = False
    #: F4: a job's key: evicted with all pods that have the same one here, and only where every disruption
    #: budget of theirs allows all these evictions. Empty: deleted by itself, whatever budgets say.
    together: str = ""
    #: Which budgets are the pod's follows from them.
    labels: Mapping[str, str] = field(default=EMPTY, hash=False)
    cause: EvictionCause = EvictionCause.OTHER
    #: Key of the job that it makes room for; empty: none.
    by: str = ""


@dataclass(frozen=True, slots=True)
class AnnotatePod(PodCommand):
    """Write annotations of a pod, or remove some; a pod that was recreated meanwhile is left alone."""

    annotations: Mapping[str, str] = field(hash=False)
    remove: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SetJobStatus(Command):
    """A vcjob's state. Counts are those of its pods."""

    key: str
    phase: str
    reason: str = ""
    message: str = ""
    counts: Mapping[str, int] = field(default_factory=dict, hash=False)
    retries: int = 0
    version: int = 0
    #: When the phase began; a time to live counts from here.
    since: int = 0
    #: Per task the pods in each phase.
    tasks: Mapping[str, Mapping[str, int]] = field(default_factory=dict, hash=False)
    min_available: int = 0
    #: Each phase that it was in and when it last began, the present one last.
    conditions: tuple[tuple[str, int], ...] = ()
    #: Plugins and volume claims that were made for it.
    controlled: Mapping[str, str] = field(default_factory=dict, hash=False)
    #: Pods that kubelet rejected and that are made again, with the number of rejections; None: as it is.
    rejections: Mapping[str, int] | None = field(default=None, hash=False)


@dataclass(frozen=True, slots=True)
class RecordVcJobEvent(Command):
    """An event on a vcjob."""

    key: str
    reason: EventReason
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class UpdateQueue(Command):
    """What the controller changes of a queue; empty: as it is."""

    name: str
    state: str = ""
    #: Whether it was closed with the queue above it; None: as it is.
    closed_by_parent: bool | None = None
    parent: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class RecordQueueEvent(Command):
    """An event on a queue."""

    name: str
    reason: EventReason
    message: str
    uid: str = ""
    warning: bool = False
    #: A Command that may not change the queue: the event is recorded on it, in its namespace, instead.
    refused: QueueCommand | None = None


@dataclass(frozen=True, slots=True)
class PutHyperNode(Command):
    """Create the HyperNode, or update the one of that name if it is ours; its status stays."""

    hyper_node: HyperNode


@dataclass(frozen=True, slots=True)
class DeleteHyperNode(Command):
    """If it is ours."""

    name: str


@dataclass(frozen=True, slots=True)
class RecordNamedEvent(Command):
    """An event on an object without a namespace."""

    name: str
    reason: EventReason
    message: str
    warning: bool = False


class RecordHyperNodeEvent(RecordNamedEvent):
    """An event on a HyperNode."""


class RecordNodeEvent(RecordNamedEvent):
    """An event on a node."""


@dataclass(frozen=True, slots=True)
class AskJob(Command):
    """Ask the controller of a vcjob, Volcano's or ours, to end it or to start it over: a Command."""

    key: str
    uid: str
    action: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class DeleteJob(Command):
    """Its `ttlSecondsAfterFinished` has passed."""

    key: str
