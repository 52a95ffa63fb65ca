"""Nodes, pods, PodGroups, queues and device reports, independent of any wire format.

`manifests` builds them from bytes, `state` stores them, everything above reads
them. What many pods or nodes share (selectors, tolerations, requests) is a
frozen value, so that it can be interned and compared quickly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, fields
from operator import attrgetter
from typing import Any

from ringwise.records import dataclass
from ringwise.wellknown import BATCH_API, GROUP_SUSPENDED, ORDINARY_GROUP_PREFIX, VOLCANO_SCHEDULER

#: The queue of jobs that name none, and the queue above all others, which takes no jobs. Both always exist.
DEFAULT_QUEUE = "default"
_CPU_MEMORY = ("cpu", "memory")
ROOT_QUEUE = "root"

_VCJOB_GROUP = BATCH_API.partition("/")[0]
#: Pod phases in which a pod no longer holds resources.
ENDED = frozenset({"Succeeded", "Failed"})


class _Empty(dict[Any, Any]):
    """An empty map that can be a shared default: dataclasses refuse defaults without a hash."""

    def __hash__(self) -> int:  # type: ignore[override]
        return 0


EMPTY: Mapping[Any, Any] = _Empty()


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True)
class Toleration:
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One expression of a selector: In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """A node selector term: all its label and field requirements must hold."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


#: Selectors with more requirements or values are answered for all nodes at once, not for each class of nodes.
_MAX_FOR_CLASSES = 64


def _keys_for_classes(
    terms: tuple[NodeTerm, ...], pairs: tuple[tuple[str, str], ...] = ()
) -> frozenset[str] | None:
    size, keys = len(pairs), {key for key, _ in pairs}
    for term in terms:
        for requirement in term.labels:
            size += 1 + len(requirement.values)
            keys.add(requirement.key)
        if term.fields or size > _MAX_FOR_CLASSES:
            return None
    return frozenset(keys) if size <= _MAX_FOR_CLASSES else None


@dataclass(frozen=True, slots=True)
class PodTerm:
    """A pod (anti-)affinity term. Pods of these namespaces, and of those with such labels, count.

    With neither, it is the pod's own namespace.
    """

    topology_key: str
    selector: tuple[Requirement, ...]
    namespaces: tuple[str, ...] = ()
    weight: int = 0
    namespace_selector: tuple[Requirement, ...] | None = None


@dataclass(frozen=True, slots=True)
class TopologySpread:
    """A topology spread constraint: how many more pods than in the emptiest domain one domain may have."""

    #: The topology key, and the pods that count: of the pod's own namespace.
    term: PodTerm
    max_skew: int
    #: `DoNotSchedule`; else the most even domain is only preferred.
    required: bool
    #: With fewer domains than this the emptiest one counts as having no pod.
    min_domains: int = 1
    #: Only nodes that the pod selects, and only nodes whose taints it tolerates, count.
    selected_only: bool = True
    tolerated_only: bool = False


#: Allocation modes of nodes and of requests (rules V1 and V2).
WHOLE, SOFT, STATIC, DYNAMIC = "whole", "soft", "static", "dynamic"


@dataclass(frozen=True, slots=True)
class PartRequest:
    """A request for a share of a chip or for a vNPU (part V)."""

    mode: str
    resource: str
    #: Percent of a share, cores of dynamic vNPUs, number of static ones.
    count: int
    #: Of shares: memory in MB, policy, folder of its files, and hundredths of a chip that queues count.
    mb: int = 0
    policy: str = ""
    folder: str = ""
    hundredths: int = 0
    #: Of dynamic vNPUs: the labels `vnpu-dvpp`, `vnpu-level` and `ring-controller.atlas`.
    dvpp: str = ""
    level: str = ""
    ring: str = ""


class _DerivedValues:
    """Slots for values that follow from the fields and are needed with every decision."""

    # Caches hold classes weakly: those that no pod has are forgotten.
    __slots__ = (
        "__weakref__",
        "_hash",
        "best_effort",
        "ports",
        "preferred_keys",
        "required_keys",
        "uses_chips",
    )
    _hash: int
    #: Protocol and number of its host ports, on any address.
    ports: frozenset[tuple[str, int]]
    #: It requests nothing.
    best_effort: bool
    #: It requests chips, a share of one or a dynamic vNPU: a fault of a chip concerns it.
    uses_chips: bool
    #: The node labels that its required and its preferred selectors name; None where classes of nodes cannot
    #: answer them, because they name single nodes or would cost too much for each class.
    required_keys: frozenset[str] | None
    preferred_keys: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class PodClass(_DerivedValues):
    """Everything of a pod that decides on which nodes it may run. Pods of one template share one."""

    resource: str | None = None
    chips: int = 0
    cpu_milli: int = 0
    memory: int = 0
    extended: tuple[tuple[str, int], ...] = ()
    node_selector: tuple[tuple[str, str], ...] = ()
    node_terms: tuple[NodeTerm, ...] = ()
    preferred_nodes: tuple[tuple[int, NodeTerm], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    pod_affinity: tuple[PodTerm, ...] = ()
    pod_anti_affinity: tuple[PodTerm, ...] = ()
    preferred_pod_affinity: tuple[PodTerm, ...] = ()
    preferred_pod_anti_affinity: tuple[PodTerm, ...] = ()
    host_ports: tuple[tuple[str, str, int], ...] = ()
    #: Only init containers that end before the others start request chips; that is refused (D4).
    chips_before_start: bool = False
    spread: tuple[TopologySpread, ...] = ()
    #: The number of its resource claims. Ringwise does not allocate them, so a pod with any is not placed.
    resource_claims: int = 0
    #: Its request for a share of a chip or a vNPU; such a pod requests no chips.
    part: PartRequest | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(_fields_of(self)))
        asks = self.chips or self.part or self.cpu_milli or self.memory or self.extended
        object.__setattr__(self, "best_effort", not asks)
        uses_chips = self.chips or (self.part is not None and self.part.mode != STATIC)
        object.__setattr__(self, "uses_chips", bool(uses_chips))
        object.__setattr__(self, "ports", frozenset(port[1:] for port in self.host_ports))
        object.__setattr__(self, "required_keys", _keys_for_classes(self.node_terms, self.node_selector))
        preferred = tuple(term for _, term in self.preferred_nodes)
        object.__setattr__(self, "preferred_keys", _keys_for_classes(preferred))

    def __hash__(self) -> int:
        # Classes are looked up with every decision.
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            # The usual case: each class is created once.
            return True
        if not isinstance(other, PodClass) or self._hash != other._hash:
            return False
        return bool(_fields_of(self) == _fields_of(other))


_fields_of = attrgetter(*(part.name for part in fields(PodClass)))


@dataclass(frozen=True, slots=True)
class Owner:
    kind: str
    name: str
    uid: str = ""
    #: Its `apiVersion`; empty where it is not known.
    api: str = ""
    #: It is not the controller of the object.
    loose: bool = False

    @property
    def is_vcjob(self) -> bool:
        """A vcjob and not a Job of Kubernetes, which has the same kind."""
        return self.kind == "Job" and self.api.partition("/")[0] in ("", _VCJOB_GROUP)


@dataclass(frozen=True, slots=True)
class VisibleDevices:
    """A container whose own environment says which chips it sees.

    With Ascend Docker Runtime those are mounted, whichever chips the pod was given.
    """

    container: str
    #: Where it says so: `spec.containers[0].env[2].value`.
    field: str
    #: What it says, as it is shown; or where the value comes from.
    source: str
    #: False: only the ConfigMap or Secret that it reads all variables from could tell.
    certain: bool = True


class Namespaced:
    """An object with a namespace and a name."""

    __slots__ = ()
    namespace: str
    name: str

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(slots=True)
class Pod(Namespaced):
    uid: str
    namespace: str
    name: str
    cls: PodClass
    phase: str = "Pending"
    node: str | None = None
    deleting: bool = False
    created: int = 0
    labels: Mapping[str, str] = EMPTY
    annotations: Mapping[str, str] = EMPTY
    #: PodGroup name in the same namespace, or None for a pod on its own.
    group: str | None = None
    task: str = ""
    #: The rank that the pod has from its owner (annotation, StatefulSet ordinal, VC_TASK_INDEX).
    rank: int | None = None
    owner: Owner | None = None
    scheduler: str = VOLCANO_SCHEDULER
    priority: int = 0
    priority_class: str = ""
    preemptable: bool = False
    gated: bool = False
    #: Containers that request chips; more than one is refused.
    chip_containers: int = 0
    #: Chips that the scheduler's annotation of a bound pod names, at most as many as the pod asks for (N8).
    holds: tuple[int, ...] = ()
    #: Where the object came from ("pods.yaml: document 3"), for messages.
    origin: str = ""
    #: Exit code of the first container that ended, when the last one that ended did (ns), and how often
    #: containers were restarted: read by the policies of a vcjob.
    exit_code: int | None = None
    ended: int = 0
    restarts: int = 0
    #: Whether it never preempts other pods; None: its priority class decides.
    never_preempts: bool | None = None
    #: Chips that `huawei.com/AscendReal` of a bound pod names, at most as many as the pod asks for (N8).
    mounted: tuple[int, ...] = ()
    #: Owned annotations that a pod without a node carries: copied by a user, removed before it is bound (N8).
    stray: tuple[str, ...] = ()
    #: It cannot be read, and its limits ask for chips or are unreadable, too: it may hold any chips (N7).
    unreadable: bool = False
    #: The node on which pods are evicted for it (`status.nominatedNodeName`), while it has no node.
    nominated: str = ""
    #: Its only scheduling gate is the one that the scheduler removes when the job is admitted to its queue.
    queue_gated: bool = False
    #: Why kubelet rejected it at admission, in its word: it failed and never ran. Empty: it did not.
    rejected: str = ""
    #: Of such a pod that requests a vNPU: the error of the device plugin that could not create it.
    allocate_error: str = ""
    #: A container of it that says itself which chips it sees.
    visible_devices: VisibleDevices | None = None
    #: Why it is never placed, found when it was read: a field exceeds a limit, and was dropped.
    problem: str = ""
    #: Seconds that it has to end after its deletion (`terminationGracePeriodSeconds`).
    grace: int = 30
    #: When it got its node, as its status says, in nanoseconds; 0: not known.
    bound: int = 0
    #: Names of the claims of its volumes, those of generic ephemeral volumes (`<pod>-<volume>`) too.
    claims: tuple[str, ...] = ()
    #: Of these, those of generic ephemeral volumes: made for it, and of use only if it owns them.
    ephemeral_claims: tuple[str, ...] = ()

    def with_chips(self, chips: tuple[int, ...], annotations: Mapping[str, str], rank: int | None) -> Pod:
        """The pod as its binding will make it. By position for speed: thousands of pods are bound at once."""
        pod = Pod(*_values_of(self))
        pod.annotations = {**self.annotations, **annotations}
        pod.holds, pod.rank = chips, rank
        # A bound pod is not nominated for a node, and the binding has removed what a user copied.
        pod.nominated, pod.stray = "", ()
        return pod

    @property
    def named_chips(self) -> tuple[int, ...]:
        """What its annotations name: the mounted chips, else those that the scheduler chose."""
        return self.mounted or self.holds

    @property
    def live(self) -> bool:
        """Rule N6: whether it holds its resources. A terminating pod is live until it is gone."""
        return self.phase not in ENDED


_values_of = attrgetter(*(part.name for part in fields(Pod)))


def unreadable_pod(uid: str, namespace: str, name: str, node: str) -> Pod:
    """Stands for a live bound pod that cannot be read (N7): it closes its node and belongs to no job."""
    return Pod(uid, namespace, name, PodClass(), "Running", node, scheduler="", unreadable=True)


@dataclass(frozen=True, slots=True)
class Device:
    """One chip of a node."""

    chip: int
    ip: str = ""
    super_device_id: str = ""


@dataclass(slots=True)
class Node:
    name: str
    labels: Mapping[str, str] = EMPTY
    annotations: Mapping[str, str] = EMPTY
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    internal_ip: str = ""
    cpu_milli: int = 0
    memory: int = 0
    max_pods: int = 0
    extended: tuple[tuple[str, int], ...] = ()
    #: Allocatable and capacity of every chip resource, by resource name.
    chips_allocatable: Mapping[str, int] = field(default_factory=dict)
    chips_capacity: Mapping[str, int] = field(default_factory=dict)
    #: From the annotation `baseDeviceInfos`; None when the node has no such annotation.
    devices: tuple[Device, ...] | None = None
    #: From annotation `superPodID` or label `huawei.com/topotree.superpodid`.
    superpod: int | None = None
    server_index: str = ""
    origin: str = ""
    #: From annotation `rackID` or label `huawei.com/topotree.rackid`.
    rack: int | None = None
    #: Nanoseconds; 0: not known.
    created: int = 0


#: Level of faults that leave the running pod alone.
PRE_SEPARATE_LEVEL = "PreSeparateNPU"


@dataclass(frozen=True, slots=True)
class ReportedFault:
    """One fault code of one chip, with the level that the device plugin or ClusterD gives it."""

    chip: int
    code: str
    level: str
    #: Of its network port, not of the chip itself.
    network: bool = False


@dataclass(frozen=True, slots=True)
class MountedShare:
    """A share of one chip: percent of its cores, memory in MB (2^20 bytes) and policy (part V)."""

    chip: int
    percent: int
    mb: int
    policy: str


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """One node's chips of one resource, from a device-info ConfigMap. Chip sets are bit masks."""

    node: str
    resource: str
    free: int = 0
    unhealthy: int = 0
    #: None: the key is absent, which is not the same as empty.
    network_unhealthy: int | None = None
    recovering: int = 0
    superpod: int | None = None
    server_index: int | None = None
    update_time: int = 0
    #: True when it came from an aggregated `cluster-info-device-*` ConfigMap.
    aggregated: bool = False
    origin: str = ""
    rack: int | None = None
    #: What our own device plugin mounted: pod uid to chips (N8).
    mounted: Mapping[str, int] = EMPTY
    #: The same for shares of chips: pod uid to its share.
    mounted_shares: Mapping[str, MountedShare] = _Empty()
    #: By uid, chips that a pod may have although no mount is recorded: no other pod gets them until it ends.
    doubtful: Mapping[str, int] = EMPTY
    #: Device ids that kubelet lists for its pods, by namespace/name, as our own device plugin read them;
    #: None: it reports none. For diagnosis only: ids are kubelet's, not chips.
    kubelet_ids: Mapping[str, int] | None = None
    #: Our device plugin got no list from kubelet.
    kubelet_silent: bool = False
    #: From the list `<resource>-Fault`.
    faults: tuple[ReportedFault, ...] = ()
    #: How much chips were used while their pod had them: chip, mean in percent, seconds that it is about. No
    #: decision depends on it, so a report that differs in it alone is not news.
    utilization: tuple[tuple[int, float, int], ...] = field(default=(), compare=False)

    @property
    def own_plugin(self) -> bool:
        """Whether our device plugin wrote it, so that a pod that it does not name is not mounted.

        It always lists kubelet's device ids, or says that kubelet did not answer.
        """
        named = self.mounted or self.mounted_shares
        return bool(named) or self.kubelet_ids is not None or self.kubelet_silent

    @property
    def pre_separated(self) -> int:
        """Chips that the pod on them keeps and no other gets: unhealthy only once no pod has them."""
        mask = 0
        for fault in self.faults:
            if fault.level == PRE_SEPARATE_LEVEL and not fault.network:
                mask |= 1 << fault.chip
        return mask


@dataclass(frozen=True, slots=True)
class NodeReport:
    """The health of a node beside its chips: from NodeD (`node`), or of its own switches (`switch`)."""

    node: str
    source: str
    #: Healthy, SubHealthy, PreSeparate or UnHealthy.
    status: str
    aggregated: bool = False
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Isolation:
    """Chips, a node, a leaf switch or a SuperPoD that an operator took out of use."""

    #: Empty if it is about a leaf switch or a SuperPoD.
    node: str = ""
    #: Names of chips; empty: all chips of the node. One that is in force has at most one.
    chips: tuple[str, ...] = ()
    #: Address of the leaf switch whose nodes it is about.
    switch: str = ""
    #: Id of the SuperPoD whose nodes it is about.
    superpod: int | None = None
    #: From when, in nanoseconds: the time of a scheduled drain. None: now.
    start: int | None = None
    reason: str = ""
    #: The user who created it; empty if admission did not record it.
    by: str = ""
    name: str = ""
    created: int = 0
    generation: int = 0
    #: Fields of its spec that this version does not know.
    ignored: tuple[str, ...] = ()

    @property
    def chip(self) -> str:
        """Of one that is in force: the name of its chip, or empty."""
        return self.chips[0] if self.chips else ""

    @property
    def number(self) -> int | None:
        """That in the name of its chip."""
        digits = self.chip.rpartition("-")[2]
        return int(digits) if digits.isdecimal() else None

    @property
    def end(self) -> None:
        """As of a reservation: it lasts until it is deleted."""
        return None

    def admits(self, queue: str, namespace: str) -> bool:
        """As of a reservation: no job uses what is drained."""
        return False

    @property
    def target(self) -> str:
        """As a person names it."""
        if self.switch:
            return f"switch/{self.switch}"
        return self.node if self.superpod is None else f"superpod/{self.superpod}"

    @property
    def details(self) -> dict[str, str]:
        """For reasons: with what the node is isolated, who did it, why, and what to unisolate."""
        return {
            "group": "" if self.node else f" with {self.title}",
            "by": f" by {self.by}" if self.by else "",
            "why": f": {self.reason}" if self.reason else "",
            "target": self.target,
        }

    @property
    def title(self) -> str:
        """The same in a sentence: `leaf switch 10.0.0.1`, `SuperPoD 3`, `node-1`."""
        if self.switch:
            return f"leaf switch {self.switch}"
        return self.node if self.superpod is None else f"SuperPoD {self.superpod}"


@dataclass(frozen=True, slots=True)
class NodeReservation:
    """Nodes that are kept for the jobs of a queue or of a namespace from one time to another."""

    name: str
    #: As the object names them; those of one that is in force, whatever it selects them by.
    nodes: tuple[str, ...]
    #: In nanoseconds; `end` is no longer part of it.
    start: int
    end: int
    #: One of the two, whose jobs may use the nodes.
    queue: str = ""
    namespace: str = ""
    #: The user who created it; empty if admission did not record it.
    by: str = ""
    reason: str = ""
    #: Instead of names: labels that the nodes have, the address of a leaf switch, the id of a SuperPoD.
    selector: tuple[tuple[str, str], ...] = ()
    switch: str = ""
    superpod: int | None = None
    created: int = 0
    generation: int = 0
    #: Its status says that a scheduler accepted this generation.
    accepted: bool = False

    def admits(self, queue: str, namespace: str) -> bool:
        """Whether it is for the jobs of this queue in this namespace."""
        return self.queue == queue if self.queue else self.namespace == namespace

    @property
    def holder(self) -> str:
        """As a person reads it: `queue research`."""
        return f"queue {self.queue}" if self.queue else f"namespace {self.namespace}"


@dataclass(frozen=True, slots=True)
class NodeReservations:
    """Those that are in force, now or later."""

    entries: tuple[NodeReservation, ...] = ()
    #: Why others were not accepted, by name.
    problems: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NetworkTopology:
    """How near to each other pods must be, in tiers of HyperNodes.

    Without a limit nothing restricts hard mode. Soft mode takes the lowest tier that fits.
    """

    soft: bool = False
    highest_tier: int | None = None
    #: Instead of the number: what the HyperNodes of the tier call it.
    highest_tier_name: str = ""

    @property
    def has_both(self) -> bool:
        """Admission refuses it; of one that exists the number counts."""
        return self.highest_tier is not None and bool(self.highest_tier_name)


@dataclass(frozen=True, slots=True)
class SubGroupPolicy:
    """Pods of a PodGroup that form sub-groups: one for each set of values of some labels."""

    name: str
    #: The pods that it is about; None: all.
    selector: tuple[Requirement, ...] | None = None
    #: Pods with equal values of these labels are one sub-group.
    match_label_keys: tuple[str, ...] = ()
    #: How many pods of a sub-group must start together, and how many sub-groups.
    size: int = 1
    min_groups: int = 0
    topology: NetworkTopology | None = None

    @property
    def labels(self) -> Iterator[str]:
        """Keys of the labels that decide whether a pod is in one of its sub-groups, and in which."""
        yield from (one.key for one in self.selector or ())
        yield from self.match_label_keys


@dataclass(frozen=True, slots=True)
class HyperNodeMember:
    """Members of a HyperNode: one of name, pattern and selector says which."""

    #: They are HyperNodes, not nodes.
    hyper_node: bool = False
    name: str = ""
    #: A regular expression that is found anywhere in the name of a node.
    pattern: str = ""
    #: The labels of nodes.
    selector: tuple[Requirement, ...] | None = None


@dataclass(frozen=True, slots=True)
class HyperNode:
    """A network domain: nodes under one switch, or several such domains."""

    name: str
    tier: int
    members: tuple[HyperNodeMember, ...] = ()
    tier_name: str = ""
    labels: Mapping[str, str] = field(default=EMPTY, hash=False)
    #: From its status.
    node_count: int = 0
    origin: str = field(default="", compare=False)


@dataclass(slots=True)
class PodGroup(Namespaced):
    namespace: str
    name: str
    uid: str = ""
    min_member: int = 1
    min_task_member: Mapping[str, int] = field(default_factory=dict)
    queue: str = DEFAULT_QUEUE
    priority_class: str = ""
    min_resources: Mapping[str, int] = field(default_factory=dict)
    phase: str = ""
    created: int = 0
    labels: Mapping[str, str] = EMPTY
    annotations: Mapping[str, str] = EMPTY
    owner: Owner | None = None
    origin: str = ""
    #: Created for pods whose owner creates no PodGroup: a Deployment, a StatefulSet, a pod on its own.
    ordinary: bool = False
    #: How many pods that owner creates; 0 where it is not known.
    replicas: int = 0
    #: Why its pods are never placed, found when it was read: a field exceeds a limit, and was dropped.
    problem: str = ""
    topology: NetworkTopology | None = None
    sub_groups: tuple[SubGroupPolicy, ...] = ()

    @property
    def suspended(self) -> bool:
        """Whether the Job of Kubernetes that owns its pods is suspended."""
        return self.ordinary and GROUP_SUSPENDED in self.annotations

    @property
    def job_name(self) -> str:
        """The name of its owner, where its own is made from it."""
        owner = self.owner
        if owner is not None and (owner.is_vcjob or self.name == ordinary_group_name(owner.uid)):
            return owner.name
        return self.name


def ordinary_group_name(uid: str) -> str:
    """The PodGroup of the pods of this owner, or of this pod, as Volcano's controller names it."""
    return f"{ORDINARY_GROUP_PREFIX}{uid}"


@dataclass(frozen=True, slots=True)
class NodeGroupAffinity:
    """Which node groups a queue must, should, must not and should not use."""

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    anti_required: tuple[str, ...] = ()
    anti_preferred: tuple[str, ...] = ()


@dataclass(slots=True)
class Queue:
    name: str
    weight: int = 1
    capability: Mapping[str, int] = field(default_factory=dict)
    guarantee: Mapping[str, int] = field(default_factory=dict)
    reclaimable: bool = True
    state: str = "Open"
    priority: int = 0
    parent: str = ""
    created: int = 0
    uid: str = ""
    annotations: Mapping[str, str] = EMPTY
    origin: str = ""
    #: Its share with the plugin capacity.
    deserved: Mapping[str, int] = field(default_factory=dict)
    #: None: it has no rules about node groups.
    node_groups: NodeGroupAffinity | None = None
    #: What it may use on each node group, and why that cannot be read.
    node_group_limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    node_group_problem: str = ""
    #: `state` and `parent`, where the object on the API server leaves them out: the controller writes them.
    missing: tuple[str, ...] = ()

    @property
    def limits(self) -> dict[str, int]:
        """The most it may use: cpu and memory of 0, and what is not named, have no limit."""
        return {
            name: amount for name, amount in self.capability.items() if amount > 0 or name not in _CPU_MEMORY
        }


@dataclass(frozen=True, slots=True)
class ClassScope:
    """One expression about the priority class of pods: In, NotIn, Exists or DoesNotExist."""

    operator: str
    values: tuple[str, ...] = ()

    def matches(self, name: str) -> bool:
        """As the API server matches a pod with this class; empty: with none."""
        match self.operator:
            case "In":
                return name in self.values
            case "NotIn":
                return name not in self.values
            case "Exists":
                return bool(name)
            case "DoesNotExist":
                return not name
        return False


@dataclass(slots=True)
class ResourceQuota(Namespaced):
    """What the pods of a namespace may use together, and use. Names as written: `requests.cpu`, `pods`."""

    namespace: str
    name: str
    hard: Mapping[str, int] = field(default_factory=dict)
    used: Mapping[str, int] = field(default_factory=dict)
    origin: str = ""
    #: It counts pods whose class all of these match.
    class_scopes: tuple[ClassScope, ...] = ()
    #: It counts only a part of those: best-effort pods, pods with a deadline and the like.
    other_scopes: bool = False

    def counts_class(self, name: str) -> bool:
        """Whether pods of this priority class are in its scope; empty: pods without one."""
        return all(scope.matches(name) for scope in self.class_scopes)

    def limits_class(self, name: str) -> bool:
        """Whether it says how much all pods of this priority class together may use."""
        return bool(self.class_scopes) and not self.other_scopes and self.counts_class(name)


@dataclass(slots=True)
class Namespace:
    name: str
    labels: Mapping[str, str] = EMPTY
    #: The UsageLimits that hold in it, as the scheduler wrote them; empty: none.
    limits: str = ""
    origin: str = ""


@dataclass(slots=True)
class PriorityClass:
    name: str
    value: int = 0
    default: bool = False
    #: Pods of this class never preempt others.
    never_preempts: bool = False
    origin: str = ""
