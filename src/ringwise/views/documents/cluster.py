"""The documents of nodes, jobs, queues, pods and chips, and of a cluster at a glance."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from ringwise.reasons import ReasonFields
from ringwise.views.documents.common import (
    Amounts,
    ExpectedStartFields,
    More,
    Nanoseconds,
    Stored,
    UntilDrain,
    WithClass,
    doc,
)


class ChipMarks(TypedDict):
    """Chips with a property, by number, in whatever state they count."""

    faulty: list[int]
    pre_separated: Annotated[
        list[int], doc("With a fault of level PreSeparateNPU: its pod continues, and no new pod uses it.")
    ]
    network_faulty: list[int]
    isolated: Annotated[list[int], doc("Isolated with `ringwise isolate`.")]
    reserved: list[int]


class ChipsFields(TypedDict):
    """The chips of one resource of a node, by number and state; used ones may be faulty or isolated, too."""

    resource: str
    board: str | None
    rings: Annotated[list[list[int]], doc("Groups of chips with fast links; one list if the board has none.")]
    count: int
    used: Annotated[list[int], doc("Used by pods, or possibly used by pods.")]
    used_percent: NotRequired[
        Annotated[list[int], doc("For a node with shares or vNPUs: the usage of each used chip.")]
    ]
    faulty: list[int]
    isolated: Annotated[list[int], doc("Isolated with `ringwise isolate`.")]
    reserved: Annotated[list[int], doc("Reserved for a job.")]
    unschedulable: Annotated[list[int], doc("The node accepts no new pods; see its states.")]
    free: Annotated[list[int], doc("Available for new pods.")]
    marks: ChipMarks


class NodeChipsFields(ChipsFields):
    """The same with the name of the node, for a picture."""

    node: str


class NodeStateFields(TypedDict):
    """A state of a node."""

    state: Annotated[
        str,
        doc(
            "not ready, unhealthy, invalid, unstable, draining, isolated, cordoned, "
            "reserved, sub-healthy, awaiting report or ready."
        ),
    ]
    message: Annotated[str, doc("A sentence; empty if it is ready.")]
    start: Annotated[
        Nanoseconds | None,
        doc("Start of a scheduled drain or a reservation; until then, the node accepts pods."),
    ]


class StatesFields(TypedDict):
    """The properties of a node."""

    schedulable: Annotated[bool, doc("Whether it currently accepts new pods with chips.")]
    state: Annotated[str, doc("The worst of its states.")]
    states: Annotated[list[NodeStateFields], doc("Worst first.")]


class NodeRow(StatesFields):
    """A node in the fields that the dashboard shows, too. The last three have one entry for each chip."""

    name: str
    switch: Annotated[str | None, doc("Name of its leaf switch.")]
    superpod: Annotated[int | None, doc("ID of its SuperPoD.")]
    rack: Annotated[int | None, doc("ID of its rack in the SuperPoD.")]
    numbers: Annotated[list[int], doc("Numbers of the chips; resources are ordered by name.")]
    chip_states: Annotated[
        str,
        doc(
            "A letter for each chip, for the first state that applies: u used, f faulty, "
            "i isolated, r reserved, c unschedulable, . free."
        ),
    ]
    health: Annotated[
        str,
        doc(
            "A letter for each chip: h healthy, f faulty, s sub-healthy, n network fault, "
            "i isolated by an operator, u unknown because no report lists it."
        ),
    ]


class NodeFields(NodeRow):
    """A node."""

    address: str | None
    own_superpod: Annotated[
        int | None, doc("Its SuperPoD according to its Node; `superpod` also considers reports.")
    ]
    pods: int
    allocation_mode: NotRequired[Annotated[str, doc("soft, static or dynamic; absent for whole chips.")]]
    chips: list[ChipsFields]


class FaultFields(TypedDict):
    """One fault of a node."""

    node: str
    kind: Annotated[str, doc("chip, network, node or switch.")]
    chip: str | None
    level: Annotated[str, doc("Level of a chip fault, else the status of the node.")]
    code: str | None


class JobFaultFields(FaultFields):
    """A fault that affects a job: of a chip that it uses, or of a node on which it runs."""

    since: Annotated[Nanoseconds | None, doc("When it was first detected; null if unknown.")]
    message: Annotated[str, doc("The same in human-readable form.")]


class JobRow(TypedDict):
    """A job in the fields that the dashboard shows, too."""

    namespace: str
    name: str
    kind: Annotated[str, doc("vcjob, PodGroup or Pod.")]
    queue: str
    priority: int
    phase: str
    state: Annotated[str, doc("scheduled, pending, rejected, suspended or finished.")]
    pods: int
    running: int
    chips: Annotated[
        int | float, doc("Total chips that its pods request; shares and vNPUs are fractions of a chip.")
    ]
    created: Nanoseconds
    reason_code: Annotated[
        str, doc("Code of the reason why it is pending, or reason of a condition; else empty.")
    ]
    reason_message: Annotated[str, doc("Message of the reason, shortened; else empty.")]
    reason_source: Annotated[
        str,
        doc(
            "PodGroup or Pod: the reason is from its condition, which another scheduler wrote; "
            "empty if this process determined it."
        ),
    ]
    affected_by: Annotated[list[str], doc("Faults that affect it, shortened.")]
    moves: Annotated[
        list[str], doc("The effects of MovePlans that are being executed on this job, as sentences.")
    ]
    expected_start: Annotated[
        ExpectedStartFields | None,
        doc("Null if it is not pending, is rejected, or has not been estimated yet."),
    ]
    user: Annotated[str, doc("As recorded by admission, or from a label of the job; empty: unknown.")]
    expected_end: Annotated[
        Nanoseconds | None, doc("Expected end, or end of the max run time; null: unknown or not running.")
    ]


NotTried = Annotated[
    bool, doc("The reason is from the last attempt, because the list has too many pods to retry.")
]


class JobFields(JobRow):
    """A job: a vcjob, a PodGroup of another owner, or a pod without a group."""

    min_available: int
    scheduled: int
    pending_since: Annotated[Nanoseconds | None, doc("Null if it is not pending.")]
    nodes: list[str]
    reason: ReasonFields | None
    board_reason: Annotated[str | None, doc("Why this board was selected.")]
    requires_change: Annotated[bool, doc("Whether waiting alone cannot resolve the reason.")]
    faults: Annotated[list[JobFaultFields], doc("The faults that currently affect it.")]
    notes: NotRequired[Annotated[list[str], doc("Fields of its objects that have no effect, and why.")]]
    would_be_scheduled_on: NotRequired[
        Annotated[list[str], doc("Nodes on which its pending pods would be placed now.")]
    ]
    reason_from_last_attempt: NotRequired[NotTried]


class QueueFields(TypedDict):
    """A queue."""

    name: str
    state: str
    weight: int
    reclaimable: bool
    capability: Amounts
    limit: Annotated[Amounts, doc("Maximum usage of all its jobs according to UsageLimits.")]
    guarantee: Amounts
    used: Amounts
    fair_share: Annotated[
        Amounts, doc("Deserved chips: as set, otherwise its share of the parent by weight.")
    ]
    reserved_quota: Annotated[Amounts, doc("Quota reserved for jobs that are being rescheduled.")]
    reserved_quota_jobs: Annotated[list[str], doc("Those jobs, as namespace/name.")]
    jobs: int
    pending: int


class PartFields(TypedDict):
    """A share of a chip, or a vNPU."""

    mode: Annotated[str, doc("soft, static or dynamic.")]
    message: Annotated[str, doc("The request of the pod, in human-readable form.")]
    percent: Annotated[int | None, doc("For a share: percentage of a chip.")]
    memory_mb: Annotated[int | None, doc("For a share: memory in MB.")]
    policy: Annotated[str | None, doc("For a share: fixed-share, elastic or best-effort.")]
    cores: Annotated[int | None, doc("For a dynamic vNPU.")]
    template: Annotated[str | None, doc("For a bound dynamic vNPU.")]


class PodFields(TypedDict):
    """A pod."""

    namespace: str
    name: str
    job: str | None
    phase: str
    node: str | None
    resource: str | None
    requested_chips: int
    chips: list[int]
    rank: int | None
    created: Nanoseconds
    exit_code: int | None
    reason: ReasonFields | None
    part: NotRequired[PartFields]
    would_be_scheduled_on: NotRequired[
        Annotated[str, doc("The node on which it would be placed now; `node` is null until it is bound.")]
    ]
    reason_from_last_attempt: NotRequired[NotTried]


class PlacementFields(TypedDict):
    """Where a pod is."""

    switch: str | None
    superpod: int | None
    logical_superpod: int | None
    rack: NotRequired[int | None]
    logical_rack: NotRequired[int | None]


class JobPodFields(PodFields, PlacementFields):
    """A pod of a job."""

    annotations: dict[str, str]


class NodesDocument(TypedDict):
    """All nodes of a cluster."""

    schema: Literal["ringwise.io/nodes/v1"]
    now: Nanoseconds
    nodes: list[NodeFields]
    remaining_item_count: NotRequired[More]


class JobsDocument(TypedDict):
    """All jobs of a cluster."""

    schema: Literal["ringwise.io/jobs/v1"]
    now: Nanoseconds
    jobs: list[JobFields]
    remaining_item_count: NotRequired[More]


class QueuesDocument(TypedDict):
    """All queues of a cluster."""

    schema: Literal["ringwise.io/queues/v1"]
    queues: list[QueueFields]
    remaining_item_count: NotRequired[More]


class PodsDocument(TypedDict):
    """All pods of a cluster."""

    schema: Literal["ringwise.io/pods/v1"]
    now: Nanoseconds
    pods: list[PodFields]
    remaining_item_count: NotRequired[More]


class NodeDocument(NodeFields):
    """A node with its pods."""

    schema: Literal["ringwise.io/node/v1"]
    now: Nanoseconds
    labels: dict[str, str]
    taints: Annotated[list[str], doc("As KEY:EFFECT.")]
    object: Stored
    pod_details: list[PodFields]


class TaskFields(TypedDict):
    """A task of a vcjob."""

    name: str
    replicas: int


class SubGroupFields(TypedDict):
    """The sub-groups of one policy of the job's PodGroup, or of a task with partitions."""

    policy: str
    sub_groups: int
    size: Annotated[int, doc("Pods that must run for a sub-group to be complete.")]
    complete: Annotated[int, doc("Complete sub-groups.")]
    needed: Annotated[int, doc("Number of complete sub-groups that the job requires to start.")]


class JobDocument(JobFields, WithClass):
    """A job with its pods, as in `place`, with additional fields."""

    schema: Literal["ringwise.io/job/v1"]
    now: Nanoseconds
    tasks: Annotated[list[TaskFields], doc("For a vcjob; empty for other jobs.")]
    sub_groups: Annotated[list[SubGroupFields], doc("Empty for most jobs.")]
    retries: int
    message: Annotated[str | None, doc("From the status of a vcjob.")]
    object: Stored
    counts: Annotated[dict[str, int], doc("Number of pods by phase, from its status.")]
    pod_details: list[JobPodFields]


class QueueDocument(QueueFields):
    """A queue with its jobs."""

    schema: Literal["ringwise.io/queue/v1"]
    now: Nanoseconds
    reserved_quota_until: Annotated[
        Nanoseconds | None, doc("Latest time at which the reserved quota is released; null: never.")
    ]
    object: Stored
    job_details: list[JobFields]


class PodDocument(PodFields):
    """A pod."""

    schema: Literal["ringwise.io/pod/v1"]
    request: Annotated[str, doc("Its request, as text.")]
    annotations: dict[str, str]
    environment: Annotated[
        dict[str, str],
        doc("Variables that job plugins and the device plugin of a lab set, with their values."),
    ]
    object: Stored
    additions: Annotated[dict[str, Any] | None, doc("Added by job plugins.")]
    container: Annotated[
        dict[str, Any] | None, doc("Response of the device plugin; its fields have no version.")
    ]


class ChipTotals(TypedDict):
    """Chips by state; those in use that are faulty or isolated count as both."""

    chips: int
    used: int
    faulty: int
    isolated: int
    reserved: int
    unschedulable: int
    free: int
    until_drain: UntilDrain


class StatusFields(TypedDict):
    """A cluster in a few numbers."""

    directory: Annotated[str, doc("For a lab; empty for files and clusters.")]
    now: Nanoseconds
    speed: Annotated[float | None, doc("Speed of the lab clock; null: virtual time.")]
    nodes: int
    resources: Annotated[
        dict[str, ChipTotals], doc("By resource; chips of different resources are never added up.")
    ]
    jobs: int
    pending: int
    scheduled: int
    rejected: int
    pods: int
    commands: Annotated[dict[str, int], doc("Number of commands of the scheduler, by kind.")]
    incidents: list[str]
    alarms: list[str]


class TopDocument(TypedDict):
    """A summary of a cluster: its status, all nodes and queues, and the pending jobs."""

    schema: Literal["ringwise.io/top/v1"]
    status: StatusFields
    nodes: list[NodeFields]
    queues: list[QueueFields]
    pending_jobs: list[JobFields]


class ShareFields(TypedDict):
    """The part of a chip that a pod uses: a soft share, a vNPU, or the whole chip."""

    pod: Annotated[str, doc("namespace/name.")]
    job: Annotated[str, doc("namespace/name.")]
    message: Annotated[str, doc("Its request, in human-readable form.")]
    percent: Annotated[int, doc("Of the cores of the chip, or of its memory if higher.")]


class ChipFields(TypedDict):
    """A chip, in the first of six states that applies."""

    node: str
    chip: str
    state: Annotated[str, doc("used, faulty, isolated, reserved, unschedulable or free.")]
    pod: str | None
    network_healthy: bool
    faults: str | None
    note: str | None
    use: NotRequired[Annotated[str, doc("Its usage by shares or vNPUs, in human-readable form.")]]
    shares: NotRequired[Annotated[list[ShareFields], doc("For a node with shares or vNPUs: its pods.")]]


class ChipsDocument(TypedDict):
    """The chips of a cluster."""

    schema: Literal["ringwise.io/chips/v1"]
    chips: list[ChipFields]
    remaining_item_count: NotRequired[More]
