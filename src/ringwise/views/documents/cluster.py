"""The documents of nodes, jobs, queues, pods and chips, and of a cluster at a glance."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from msgspec import Meta

from ringwise.reasons import ReasonFields
from ringwise.views.documents.common import Amounts, ExpectedStartFields, More, Nanoseconds, Stored, WithClass


class ChipMarks(TypedDict):
    """Chips with a property, by number, in whatever state they count."""

    faulty: list[int]
    pre_separated: Annotated[
        list[int],
        Meta(description="With a fault of level PreSeparateNPU: the pod on it goes on, no other gets it."),
    ]
    network_faulty: list[int]
    isolated: Annotated[list[int], Meta(description="Taken out of use with `ringwise isolate`.")]
    reserved: list[int]


class ChipsFields(TypedDict):
    """The chips of one resource of a node, by number and state; used ones may be faulty or isolated, too."""

    resource: str
    board: str | None
    rings: Annotated[
        list[list[int]],
        Meta(description="Chips with fast links between them; one list if the board has none."),
    ]
    count: int
    used: Annotated[list[int], Meta(description="Held by pods, or doubtful: pods may have them.")]
    used_percent: NotRequired[
        Annotated[
            list[int],
            Meta(description="Of a node with shares or vNPUs: how much of each of the used chips is used."),
        ]
    ]
    faulty: list[int]
    isolated: Annotated[list[int], Meta(description="Taken out of use with `ringwise isolate`.")]
    reserved: Annotated[list[int], Meta(description="Kept for one job.")]
    unschedulable: Annotated[list[int], Meta(description="The node rejects new pods; its states show why.")]
    free: Annotated[list[int], Meta(description="A new pod may have them now.")]
    marks: ChipMarks


class NodeChipsFields(ChipsFields):
    """The same with the name of the node, for a picture."""

    node: str


class NodeStateFields(TypedDict):
    """A state of a node."""

    state: Annotated[
        str,
        Meta(
            description="not ready, unhealthy, invalid, unstable, draining, isolated, cordoned, "
            "reserved, sub-healthy, awaiting report or ready."
        ),
    ]
    message: Annotated[str, Meta(description="A sentence; empty if it is ready.")]
    start: Annotated[
        Nanoseconds | None,
        Meta(description="Of a drain with a time, or a reservation: when it begins; before, it takes pods."),
    ]


class StatesFields(TypedDict):
    """The properties of a node."""

    schedulable: Annotated[bool, Meta(description="Whether it takes new pods with chips now.")]
    state: Annotated[str, Meta(description="The worst of its states.")]
    states: Annotated[list[NodeStateFields], Meta(description="Worst first.")]


class NodeRow(StatesFields):
    """A node in the fields that the dashboard shows, too. The last three have one entry for each chip."""

    name: str
    switch: Annotated[str | None, Meta(description="Name of its leaf switch.")]
    superpod: Annotated[int | None, Meta(description="Id of its SuperPoD.")]
    rack: Annotated[int | None, Meta(description="Id of its rack inside the SuperPoD.")]
    numbers: Annotated[list[int], Meta(description="Numbers of the chips; resources in order of names.")]
    chip_states: Annotated[
        str,
        Meta(
            description="A letter for each chip, for the first state that applies: u used, f faulty, "
            "i isolated, r reserved, c unschedulable, . free."
        ),
    ]
    health: Annotated[
        str,
        Meta(
            description="A letter for each chip: h healthy, f faulty, s sub-healthy, n network fault, "
            "i isolated by an operator, u unknown because no report lists it."
        ),
    ]


class NodeFields(NodeRow):
    """A node."""

    address: str | None
    own_superpod: Annotated[
        int | None, Meta(description="Its SuperPoD as its own object says; `superpod` counts reports, too.")
    ]
    pods: int
    allocation_mode: NotRequired[
        Annotated[str, Meta(description="soft, static or dynamic; absent for whole chips.")]
    ]
    chips: list[ChipsFields]


class FaultFields(TypedDict):
    """One fault of a node."""

    node: str
    kind: Annotated[str, Meta(description="chip, network, node or switch.")]
    chip: str | None
    level: Annotated[str, Meta(description="Level of a chip fault, else the status of the node.")]
    code: str | None


class JobFaultFields(FaultFields):
    """A fault that affects a job: of a chip that it uses, or of a node on which it runs."""

    since: Annotated[
        Nanoseconds | None, Meta(description="When it was first seen; null where that is not known.")
    ]
    message: Annotated[str, Meta(description="The same for people.")]


class JobRow(TypedDict):
    """A job in the fields that the dashboard shows, too."""

    namespace: str
    name: str
    kind: Annotated[str, Meta(description="vcjob, PodGroup or Pod.")]
    queue: str
    priority: int
    phase: str
    state: Annotated[str, Meta(description="scheduled, pending, rejected, suspended or finished.")]
    pods: int
    running: int
    chips: Annotated[
        float,
        Meta(description="Chips that its pods ask for together; shares and vNPUs are fractions of a chip."),
    ]
    created: Nanoseconds
    reason_code: Annotated[
        str, Meta(description="Code of the reason why it waits, or the reason of a condition; else empty.")
    ]
    reason_message: Annotated[str, Meta(description="The same as a sentence, shortened; else empty.")]
    reason_source: Annotated[
        str,
        Meta(
            description="PodGroup or Pod: the reason is of its condition, as another scheduler wrote it; "
            "empty where this process found the reason itself."
        ),
    ]
    affected_by: Annotated[list[str], Meta(description="The faults that affect it now, as text, shortened.")]
    moves: Annotated[
        list[str],
        Meta(description="What plans of moves that are carried out do for it or with it, as sentences."),
    ]
    expected_start: Annotated[
        ExpectedStartFields | None,
        Meta(description="Null if it is not pending, is rejected, or has not been estimated yet."),
    ]
    user: Annotated[
        str,
        Meta(description="As admission recorded it, or as a label of the job says; empty: not known."),
    ]
    expected_end: Annotated[
        Nanoseconds | None,
        Meta(
            description="When it ends by what it says and its queue allows; null: not known or not running."
        ),
    ]


NotTried = Annotated[
    bool,
    Meta(description="The reason is that of the last attempt: the list has more pods than it tries again."),
]


class JobFields(JobRow):
    """A job: a vcjob, a PodGroup of another owner, or a pod without a group."""

    min_available: int
    scheduled: int
    nodes: list[str]
    reason: ReasonFields | None
    board_reason: Annotated[str | None, Meta(description="Why that board was assumed.")]
    requires_change: Annotated[bool, Meta(description="Waiting alone will not help it.")]
    faults: Annotated[list[JobFaultFields], Meta(description="The faults that affect it now.")]
    notes: NotRequired[Annotated[list[str], Meta(description="What of its objects is not obeyed, and why.")]]
    would_be_scheduled_on: NotRequired[
        Annotated[list[str], Meta(description="Nodes that its pods without a node would get now.")]
    ]
    reason_from_last_attempt: NotRequired[NotTried]


class QueueFields(TypedDict):
    """A queue."""

    name: str
    state: str
    weight: int
    reclaimable: bool
    capability: Amounts
    limit: Annotated[Amounts, Meta(description="What UsageLimits let all its jobs together use at most.")]
    guarantee: Amounts
    used: Amounts
    fair_share: Annotated[
        Amounts,
        Meta(description="Chips that it deserves: as written, else a part of its parent's share by weight."),
    ]
    reserved_quota: Annotated[
        Amounts, Meta(description="Kept for jobs that lost pods, against the other jobs of the queue (F6).")
    ]
    reserved_quota_jobs: Annotated[list[str], Meta(description="Those jobs, as namespace/name.")]
    jobs: int
    pending: int


class PartFields(TypedDict):
    """A share of a chip, or a vNPU."""

    mode: Annotated[str, Meta(description="soft, static or dynamic.")]
    message: Annotated[str, Meta(description="What the pod requests, for people.")]
    percent: Annotated[int | None, Meta(description="Of a share: percentage of a chip.")]
    memory_mb: Annotated[int | None, Meta(description="Of a share: memory in MB.")]
    policy: Annotated[str | None, Meta(description="Of a share: fixed-share, elastic or best-effort.")]
    cores: Annotated[int | None, Meta(description="Of a dynamic vNPU.")]
    template: Annotated[str | None, Meta(description="Of a dynamic vNPU that is bound.")]


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
        Annotated[str, Meta(description="The node that it would get now; `node` is null until it is bound.")]
    ]
    reason_from_last_attempt: NotRequired[NotTried]


class PlacementFields(TypedDict):
    """Where a pod is, or would be placed."""

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
    taints: Annotated[list[str], Meta(description="As KEY:EFFECT.")]
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
    size: Annotated[int, Meta(description="Pods that must run for a sub-group to be complete.")]
    complete: Annotated[int, Meta(description="Sub-groups that have as many placed pods.")]
    needed: Annotated[int, Meta(description="How many must be complete for the job to start.")]


class JobDocument(JobFields, WithClass):
    """A job with its pods: what `place` says of them, and more."""

    schema: Literal["ringwise.io/job/v1"]
    now: Nanoseconds
    tasks: Annotated[list[TaskFields], Meta(description="Of a vcjob; empty for other jobs.")]
    sub_groups: Annotated[list[SubGroupFields], Meta(description="Empty for most jobs.")]
    retries: int
    message: Annotated[str | None, Meta(description="What the status of a vcjob says.")]
    object: Stored
    counts: Annotated[dict[str, int], Meta(description="Phase -> pods, as its status says.")]
    pod_details: list[JobPodFields]


class QueueDocument(QueueFields):
    """A queue with its jobs."""

    schema: Literal["ringwise.io/queue/v1"]
    now: Nanoseconds
    reserved_quota_until: Annotated[
        Nanoseconds | None, Meta(description="When what is kept is given up at the latest; null: never.")
    ]
    object: Stored
    job_details: list[JobFields]


class PodDocument(PodFields):
    """A pod."""

    schema: Literal["ringwise.io/pod/v1"]
    request: Annotated[str, Meta(description="What it requests, as text.")]
    annotations: dict[str, str]
    environment: Annotated[
        dict[str, str],
        Meta(description="Variables that job plugins and the device plugin of a lab set, with their values."),
    ]
    object: Stored
    additions: Annotated[dict[str, Any] | None, Meta(description="What job plugins add to its containers.")]
    container: Annotated[
        dict[str, Any] | None,
        Meta(description="What its container got; its fields have no version."),
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
    until_drain: Annotated[
        int,
        Meta(
            description="Free chips on nodes with a later drain or reservation, only for jobs that "
            "end before it."
        ),
    ]


class StatusFields(TypedDict):
    """A cluster in a few numbers."""

    directory: Annotated[str, Meta(description="Of a lab; empty for files and clusters.")]
    now: Nanoseconds
    speed: Annotated[float | None, Meta(description="Seconds of the lab in a second; null: virtual time.")]
    nodes: int
    resources: Annotated[
        dict[str, ChipTotals], Meta(description="By resource: chips of different ones are never added.")
    ]
    jobs: int
    pending: int
    scheduled: int
    rejected: int
    pods: int
    commands: Annotated[dict[str, int], Meta(description="Command of the scheduler -> how many.")]
    incidents: list[str]
    alarms: list[str]


class TopDocument(TypedDict):
    """A cluster at a glance: its status, all nodes and queues, the jobs that are not placed."""

    schema: Literal["ringwise.io/top/v1"]
    status: StatusFields
    nodes: list[NodeFields]
    queues: list[QueueFields]
    pending_jobs: list[JobFields]


class ShareFields(TypedDict):
    """The part of a chip that a pod uses: a soft share, a vNPU, or the whole chip."""

    pod: Annotated[str, Meta(description="namespace/name.")]
    job: Annotated[str, Meta(description="namespace/name.")]
    message: Annotated[str, Meta(description="What it requests, for people.")]
    percent: Annotated[int, Meta(description="Of the chip: of its cores, or of its memory if that is more.")]


class ChipFields(TypedDict):
    """A chip, in the first of six states that applies."""

    node: str
    chip: str
    state: Annotated[str, Meta(description="used, faulty, isolated, reserved, unschedulable or free.")]
    pod: str | None
    network_healthy: bool
    faults: str | None
    note: str | None
    use: NotRequired[Annotated[str, Meta(description="What shares or vNPUs use of it, for people.")]]
    shares: NotRequired[
        Annotated[list[ShareFields], Meta(description="Of a node with shares or vNPUs: the pods on it.")]
    ]


class ChipsDocument(TypedDict):
    """The chips of a cluster."""

    schema: Literal["ringwise.io/chips/v1"]
    chips: list[ChipFields]
    remaining_item_count: NotRequired[More]
