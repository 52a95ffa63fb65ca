"""The documents of the dashboard: the cluster at once, what changed since, and its history in numbers."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from ringwise.views.documents.cluster import ChipTotals, JobRow, NodeRow, ShareFields
from ringwise.views.documents.common import Amounts, More, Nanoseconds, doc

Time = Annotated[str, doc("RFC 3339, in UTC.")]
Sequence = Annotated[int, doc("Increases with every change within an epoch.", ge=0)]
Epoch = Annotated[str, doc("If it changes, sequence numbers and job IDs start again.")]


class DashboardSource(TypedDict):
    """Where the documents come from."""

    kind: Annotated[str, doc("lab, cluster, file or journal.")]
    name: Annotated[str, doc("Directory, server or file, in human-readable form.")]
    version: Annotated[str, doc("Version of Ringwise.")]
    live: Annotated[bool, doc("False if it never changes.")]
    leader: Annotated[str, doc("Identity of the leader; empty if none is elected.")]


class DashboardBoard(TypedDict):
    """A kind of node."""

    name: str
    title: str
    resource: str
    accelerator: Annotated[str, doc("The label accelerator-type of its nodes; empty without one.")]
    chips: Annotated[int, doc("Chips per node.")]
    rings: Annotated[list[list[int]], doc("Groups of chips with fast links.")]
    ring_kind: Annotated[str, doc("Name of a ring: ring, mesh or card.")]


class DashboardSharing(TypedDict, total=False):
    """How the chips of a node are shared; absent for a node with whole chips."""

    allocation_mode: Annotated[str, doc("soft, static or dynamic.")]
    used_percent: Annotated[list[int], doc("For a soft or dynamic node: the usage of each chip.")]
    jobs_on_chips: Annotated[
        list[list[int]], doc("For a soft or dynamic node: for each chip, the IDs of the jobs that use it.")
    ]


class DashboardNode(NodeRow, DashboardSharing):
    """The row of a node in `nodes` documents, with references into other tables of the dashboard."""

    board: Annotated[int | None, doc("Index in `boards`; null: its board is unknown.")]
    holders: Annotated[list[int], doc("For each chip, the ID of the job that uses it; -1: none.")]


class DashboardJob(JobRow):
    """The row of a job in `jobs` documents, with its id."""

    id: Annotated[int, doc("Does not change within an epoch.")]


class DashboardQueue(TypedDict):
    """A queue. Amounts are chips by resource; all resources of which the cluster has chips are there."""

    name: str
    parent: str
    state: str
    weight: int
    fair_share: Annotated[
        Amounts, doc("Deserved resources: as set, otherwise its share of the parent by weight.")
    ]
    capability: Annotated[Amounts, doc("Maximum usage; a missing resource has no limit.")]
    limit: Annotated[Amounts, doc("Maximum usage of all its jobs according to UsageLimits.")]
    used: Amounts
    pending: Annotated[int, doc("Pending jobs, excluding rejected ones.")]
    rejected: Annotated[int, doc("Jobs.")]
    running: Annotated[int, doc("Jobs.")]


class DashboardChips(ChipTotals):
    """The chips of one resource."""

    fragmentation: Annotated[float, doc("Ratio of free chips that are on partly used nodes.", ge=0, le=1)]


class DashboardTotals(TypedDict):
    """The cluster in a few numbers."""

    resources: Annotated[
        dict[str, DashboardChips], doc("By resource; chips of different resources are never added up.")
    ]
    throttled: NotRequired[
        Annotated[
            dict[str, float],
            doc(
                "By throttled namespace: seconds of "
                "CPU time in the last minute, 0 if unknown. Absent if none is throttled."
            ),
        ]
    ]
    pending: Annotated[int, doc("Jobs that are pending.")]
    rejected: Annotated[int, doc("Rejected jobs.")]
    running: Annotated[int, doc("Scheduled jobs.")]


class DashboardDocument(TypedDict):
    """The whole cluster at one point in time. `dashboard-change` documents update it."""

    schema: Literal["ringwise.io/dashboard/v1"]
    epoch: Epoch
    sequence: Sequence
    time: Time
    source: DashboardSource
    boards: list[DashboardBoard]
    nodes: Annotated[list[DashboardNode], doc("In natural order.")]
    jobs: list[DashboardJob]
    queues: list[DashboardQueue]
    totals: DashboardTotals


class DashboardChangeDocument(TypedDict):
    """The changes since the previous document. Removed rows come first; rows replace whole rows."""

    schema: Literal["ringwise.io/dashboard-change/v1"]
    sequence: Sequence
    time: Time
    nodes: list[DashboardNode]
    removed_nodes: Annotated[list[str], doc("Names.")]
    jobs: list[DashboardJob]
    removed_jobs: Annotated[list[int], doc("IDs.")]
    queues: Annotated[list[DashboardQueue], doc("All queues if one of them changed; else none.")]
    totals: DashboardTotals


class DashboardPod(TypedDict):
    """A pod of a job, and where its node is."""

    name: str
    rank: int | None
    phase: str
    node: Annotated[str, doc("Empty if it has none.")]
    chips: list[int]
    switch: str | None
    superpod: int | None
    rack: int | None
    block: Annotated[str, doc("Its logical SuperPoD in the job; empty if it has none.")]


DashboardJobClass = TypedDict(
    "DashboardJobClass",
    {
        "class": Annotated[
            str, doc("foundation-model, common or padding; empty without affinity to switches.")
        ]
    },
)


DashboardPlace = TypedDict(
    "DashboardPlace",
    {"pod": str, "from": str, "to": str, "chips": Annotated[list[int], doc("Chips of the new placement.")]},
)


class DashboardPlan(TypedDict):
    """A plan of moves of which the job is a part, and when it was accepted or ended."""

    state: Annotated[str, doc("running, done, failed or rejected.")]
    job: Annotated[str, doc("The pending job, as namespace/name.")]
    moved: Annotated[list[str], doc("The jobs to move, as namespace/name.")]
    pods: Annotated[list[DashboardPlace], doc("For a plan that is being executed: its pods.")]
    deleted_pods: Annotated[int, doc("For a plan that is being executed: evicted pods.")]
    message: Annotated[str, doc("Why it failed or was rejected; else empty.")]
    time: Nanoseconds


class DashboardJobDocument(DashboardJobClass):
    """A job with its pods."""

    schema: Literal["ringwise.io/dashboard-job/v1"]
    job: DashboardJob
    min_available: int
    board: Annotated[str, doc("Name of its board; empty if it has none.")]
    labels: Annotated[dict[str, str], doc("From its PodGroup and its pods.")]
    annotations: Annotated[dict[str, str], doc("From its PodGroup and its pods.")]
    pods: list[DashboardPod]
    plans: Annotated[list[DashboardPlan], doc("MovePlans of the job, newest first.")]


class DashboardChip(TypedDict):
    """A chip of a node."""

    name: str
    number: int
    health: Annotated[str, doc("The letter of the row.")]
    codes: Annotated[list[str], doc("Fault codes with their levels.")]
    job: Annotated[str, doc("namespace/name of the job that uses it; empty: none.")]
    pod: Annotated[str, doc("namespace/name of the pod that uses it; empty: none.")]
    note: Annotated[str, doc("Additional information.")]
    shares: NotRequired[Annotated[list[ShareFields], doc("For a soft or dynamic node: its pods.")]]


class DashboardNodePod(TypedDict):
    """A pod on a node."""

    namespace: str
    name: str
    job: str
    phase: str
    chips: list[int]


class DashboardReason(TypedDict):
    """Why the scheduler avoids a node: a state of it, or a taint."""

    code: Annotated[str, doc("The state, or `taint` and its key.")]
    message: str


class DashboardNodeDocument(TypedDict):
    """A node with its chips and the pods that use them."""

    schema: Literal["ringwise.io/dashboard-node/v1"]
    node: DashboardNode
    address: str
    labels: dict[str, str]
    annotations: Annotated[dict[str, str], doc("Those that the scheduler reads.")]
    chips: list[DashboardChip]
    pods: list[DashboardNodePod]
    reasons: list[DashboardReason]


class DashboardMovesDocument(TypedDict):
    """The MovePlans that are being executed or ended recently."""

    schema: Literal["ringwise.io/dashboard-moves/v1"]
    now: Nanoseconds
    moves: list[DashboardPlan]


class DashboardProblem(TypedDict):
    """Something broken or blocked: a finding of `ringwise doctor`, a fault, or why jobs are pending."""

    severity: Annotated[str, doc("error or warning.")]
    code: str
    object: str
    message: str
    fix: str
    since: Annotated[
        Nanoseconds | None,
        doc("When the first fault was detected, or the first job was created; null: unknown."),
    ]
    jobs: Annotated[list[str], doc("The first affected jobs, as namespace/name.")]
    more_jobs: Annotated[int, doc("Number of other affected jobs.")]


class DashboardProblemsDocument(TypedDict):
    """The current problems: errors first, then warnings."""

    schema: Literal["ringwise.io/dashboard-problems/v1"]
    now: Nanoseconds
    problems: list[DashboardProblem]
    remaining_item_count: NotRequired[More]


class SeriesChips(TypedDict):
    """The chips of one resource at each of the times."""

    used: list[int]
    free: list[int]
    fragmentation: list[float]


class SeriesDocument(TypedDict):
    """The recorded time series: samples at equal intervals, oldest first."""

    schema: Literal["ringwise.io/series/v1"]
    interval_seconds: Annotated[float, doc("Seconds between two samples.")]
    times: Annotated[list[float], doc("Seconds since 1970.")]
    resources: Annotated[dict[str, SeriesChips], doc("By resource, as `totals`.")]
    pending: Annotated[list[int], doc("Pending jobs, excluding rejected ones.")]
    rejected: Annotated[list[int], doc("Jobs.")]
    decisions: Annotated[list[float], doc("Scheduled pods per second.")]


class ErrorFields(TypedDict):
    """The error of a request."""

    code: str
    message: str


class LeadingFields(ErrorFields, total=False):
    """The same from a replica that does not lead."""

    leader: str
    address: str


class ErrorDocument(TypedDict):
    """The body of every response with an error status."""

    schema: Literal["ringwise.io/error/v1"]
    error: LeadingFields
