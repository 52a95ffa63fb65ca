"""The documents of the dashboard: the cluster at once, what changed since, and its history in numbers."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from msgspec import Meta

from ringwise.views.documents.cluster import ChipTotals
from ringwise.views.documents.common import Amounts

Time = Annotated[str, Meta(description="RFC 3339, in UTC.")]
Sequence = Annotated[int, Meta(description="Grows with every change; counts inside one epoch.", ge=0)]
Epoch = Annotated[str, Meta(description="Another one means that sequence numbers and job ids started anew.")]


class DashboardSource(TypedDict):
    """Where the documents come from."""

    kind: Annotated[str, Meta(description="lab, cluster, file or journal.")]
    name: Annotated[str, Meta(description="Folder, server or file, for people.")]
    version: Annotated[str, Meta(description="Of Ringwise.")]
    live: Annotated[bool, Meta(description="False: it never changes.")]
    leader: Annotated[
        str, Meta(description="Identity of the scheduler that leads; empty where none is elected.")
    ]


class DashboardBoard(TypedDict):
    """A kind of node."""

    name: str
    title: str
    resource: str
    accelerator: Annotated[
        str, Meta(description="The label accelerator-type of its nodes; empty without one.")
    ]
    chips: Annotated[int, Meta(description="Chips of a node.")]
    rings: Annotated[list[list[int]], Meta(description="Chips with fast links between them.")]
    ring_word: Annotated[str, Meta(description="What a ring is called: ring, mesh, card.")]


class DashboardNode(TypedDict):
    """A node. The last four fields have one entry for each chip, in the same order."""

    name: str
    board: Annotated[int | None, Meta(description="Index in `boards`; null: its board is not known.")]
    switch: Annotated[str, Meta(description="Name of its leaf switch; empty without one.")]
    superpod: Annotated[str, Meta(description="Id of its SuperPoD; empty without one.")]
    rack: Annotated[str, Meta(description="Id of its rack inside the SuperPoD; empty without one.")]
    open: Annotated[bool, Meta(description="Whether it takes new pods with chips now.")]
    state: Annotated[str, Meta(description="The worst of its states; the words of `nodes` documents.")]
    why: Annotated[str, Meta(description="Why it takes no pods, or what is wrong with it; else empty.")]
    drain: Annotated[
        str, Meta(description="RFC 3339: when its drain begins or began, where that has a time; else empty.")
    ]
    numbers: Annotated[list[int], Meta(description="Numbers of the chips.")]
    holders: Annotated[list[int], Meta(description="Id of the job that holds the chip; -1: none does.")]
    states: Annotated[
        str,
        Meta(
            description="A letter for each chip, for the state in which it counts: u used, f faulty, "
            "i isolated, r reserved, c closed, . free."
        ),
    ]
    health: Annotated[
        str,
        Meta(
            description="A letter for each chip: h healthy, f faulty, s sub-healthy, n network fault, "
            "i isolated by an operator, u unknown because no report lists it."
        ),
    ]


class DashboardJob(TypedDict):
    """A job: a vcjob, a PodGroup of another owner, or a pod without a group."""

    id: Annotated[int, Meta(description="Stays the same inside one epoch.")]
    namespace: str
    name: str
    kind: Annotated[str, Meta(description="vcjob, PodGroup or Pod.")]
    queue: str
    phase: str
    outcome: Annotated[str, Meta(description="placed, pending, refused or ended.")]
    pods: int
    running: int
    chips: Annotated[int, Meta(description="Chips that its pods ask for together.")]
    priority: int
    since: Annotated[Time, Meta(description="When it was created.")]
    reason: Annotated[
        str, Meta(description="Code of the reason why it waits, or the reason of a condition; else empty.")
    ]
    message: Annotated[str, Meta(description="The same as a sentence, shortened; else empty.")]
    condition_of: Annotated[
        str,
        Meta(
            description="PodGroup or Pod: `reason` and `message` are of its condition, as another scheduler "
            "wrote it; empty where this process found the reason itself."
        ),
    ]
    hurt: Annotated[
        list[str], Meta(description="The faults that hurt it now, shortened; `jobs` documents have all.")
    ]


class DashboardQueue(TypedDict):
    """A queue. Amounts are chips by resource; all resources of which the cluster has chips are there."""

    name: str
    parent: str
    state: str
    weight: int
    share: Annotated[
        Amounts,
        Meta(description="What it deserves: as written, else the part of its parent's share by weight."),
    ]
    capability: Annotated[
        Amounts, Meta(description="What it may use at most; a resource that is not there has no limit.")
    ]
    used: Amounts
    waiting: Annotated[int, Meta(description="Jobs.")]
    running: Annotated[int, Meta(description="Jobs.")]


class DashboardChips(ChipTotals):
    """The chips of one resource."""

    fragmentation: Annotated[
        float, Meta(description="The part of the free chips that is on nodes with chips in use.", ge=0, le=1)
    ]


class DashboardTotals(TypedDict):
    """The cluster in a few numbers."""

    resources: Annotated[
        dict[str, DashboardChips],
        Meta(description="By resource: chips of different ones are never added."),
    ]
    waiting: Annotated[int, Meta(description="Jobs that are pending or refused.")]
    running: Annotated[int, Meta(description="Jobs that have their nodes.")]


class DashboardDocument(TypedDict):
    """The whole cluster at one moment. `dashboard-change` documents continue it."""

    schema: Literal["ringwise.io/dashboard/v2"]
    epoch: Epoch
    sequence: Sequence
    time: Time
    source: DashboardSource
    boards: list[DashboardBoard]
    nodes: Annotated[list[DashboardNode], Meta(description="In natural order.")]
    jobs: list[DashboardJob]
    queues: list[DashboardQueue]
    totals: DashboardTotals


class DashboardChangeDocument(TypedDict):
    """What changed since the document before it. Removed rows come first; rows replace whole rows."""

    schema: Literal["ringwise.io/dashboard-change/v2"]
    sequence: Sequence
    time: Time
    nodes: list[DashboardNode]
    removedNodes: Annotated[list[str], Meta(description="Names.")]
    jobs: list[DashboardJob]
    removedJobs: Annotated[list[int], Meta(description="Ids.")]
    queues: Annotated[
        list[DashboardQueue], Meta(description="All queues, when one of them changed; else none.")
    ]
    totals: DashboardTotals


class DashboardPod(TypedDict):
    """A pod of a job, and where its node is."""

    name: str
    rank: int | None
    phase: str
    node: Annotated[str, Meta(description="Empty: it has none.")]
    chips: list[int]
    switch: str
    superpod: str
    rack: str
    block: Annotated[
        str, Meta(description="The logical SuperPoD of the job that it is in; empty without one.")
    ]


DashboardJobClass = TypedDict(
    "DashboardJobClass",
    {
        "class": Annotated[
            str, Meta(description="foundation-model, common or padding; empty without affinity to switches.")
        ]
    },
)


class DashboardJobDocument(DashboardJobClass):
    """A job with its pods."""

    schema: Literal["ringwise.io/dashboard-job/v1"]
    job: DashboardJob
    minAvailable: int
    board: Annotated[
        str, Meta(description="Name of the board by whose rules it is placed; empty without one.")
    ]
    labels: Annotated[dict[str, str], Meta(description="Those of its PodGroup and its pods.")]
    annotations: Annotated[dict[str, str], Meta(description="Those of its PodGroup and its pods.")]
    pods: list[DashboardPod]


class DashboardChip(TypedDict):
    """A chip of a node."""

    name: str
    number: int
    health: Annotated[str, Meta(description="The letter of the row.")]
    codes: Annotated[list[str], Meta(description="Fault codes with their levels.")]
    job: Annotated[str, Meta(description="namespace/name of the job that holds it; empty: none does.")]
    pod: Annotated[str, Meta(description="namespace/name; empty: no pod holds it.")]
    note: Annotated[str, Meta(description="What else is known about it.")]


class DashboardNodePod(TypedDict):
    """A pod on a node."""

    namespace: str
    name: str
    job: str
    phase: str
    chips: list[int]


class DashboardReason(TypedDict):
    """Why the scheduler avoids a node: a state of it, or a taint."""

    code: Annotated[str, Meta(description="The state, or `taint` and its key.")]
    message: str


class DashboardNodeDocument(TypedDict):
    """A node with its chips and who holds them."""

    schema: Literal["ringwise.io/dashboard-node/v2"]
    node: DashboardNode
    address: str
    labels: dict[str, str]
    annotations: Annotated[dict[str, str], Meta(description="Those that the scheduler reads.")]
    chips: list[DashboardChip]
    pods: list[DashboardNodePod]
    reasons: list[DashboardReason]


class SeriesChips(TypedDict):
    """The chips of one resource at each of the times."""

    used: list[int]
    free: list[int]
    fragmentation: list[float]


class SeriesDocument(TypedDict):
    """What the process remembers: samples at equal distances, oldest first."""

    schema: Literal["ringwise.io/series/v2"]
    interval: Annotated[float, Meta(description="Seconds between two samples.")]
    times: Annotated[list[float], Meta(description="Seconds since 1970.")]
    resources: Annotated[dict[str, SeriesChips], Meta(description="By resource, as `totals`.")]
    waiting: list[int]
    decisions: Annotated[list[float], Meta(description="Pods that got a node, per second.")]


class ErrorFields(TypedDict):
    """What was wrong with a request."""

    code: str
    message: str


class LeadingFields(ErrorFields, total=False):
    """The same from a replica that does not lead."""

    leader: str
    address: str


class ErrorDocument(TypedDict):
    """The body of every response that is no success."""

    schema: Literal["ringwise.io/error/v1"]
    error: LeadingFields
