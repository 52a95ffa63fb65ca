"""The documents of `why`, `capacity` and `doctor`."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, UnsetType, field

from ringwise.reasons import ReasonFields
from ringwise.views.documents.common import (
    Document,
    ExpectedStartFields,
    Fields,
    More,
    Nanoseconds,
    OmittedChecks,
    SwitchClass,
    UntilDrain,
    doc,
)
from ringwise.views.documents.topology import PicturesFields


class ClosestNodeFields(Fields):
    """A node that nearly fits."""

    node: str
    missing_chips: int
    message: str
    code: str


class QueuePositionFields(Fields):
    """Where the job is in its queue."""

    name: str
    position: int | None
    pending: int
    jobs_ahead: list[str]


class FixFields(Fields):
    """A change that was tried and helps."""

    kind: str
    message: str
    conflicting_jobs: Annotated[int, doc("Jobs ahead in the queue, if they would start first.")]


class PodLocationFields(Fields):
    """Where a pod of the job is."""

    name: str
    rank: int
    node: str | None
    chips: list[int]
    switch: str | None
    superpod: str | None
    block: str | None
    rack: int | UnsetType = UNSET
    would_be_scheduled_on: Annotated[
        str, doc("The node on which it would be placed now; `node` is null until it is bound.")
    ] = ""


class WhyDocument(Document, tag="ringwise.io/why/v1", kw_only=True):
    """Why a job is pending or where it runs, and the fixes."""

    now: Annotated[Nanoseconds, doc("The time to which the document refers.")]
    namespace: str
    name: str
    job_class: SwitchClass = field(name="class")
    board: str | None
    board_reason: Annotated[str | None, doc("Why this board was selected.")]
    state: Annotated[str, doc("running, starting, pending, rejected, suspended or finished.")]
    message: str
    faults: Annotated[
        list[str], doc("What it waits for after a fault, and until when; or the faults that affect it.")
    ]
    reason: ReasonFields | None
    rejected_nodes: Annotated[dict[str, int] | None, doc("Number of rejecting nodes by reason code.")]
    rejection_examples: Annotated[dict[str, str] | None, doc("Example message by reason code.")]
    checked_pod: Annotated[str | None, doc("The pod for which the nodes were checked.")]
    fitting_nodes: int | None
    closest_nodes: list[ClosestNodeFields]
    queue: QueuePositionFields
    reserved_chips: Annotated[int, doc("Chips that are reserved for the job.")]
    expected_start: Annotated[ExpectedStartFields | None, doc("Null if it is not pending, or is rejected.")]
    fixes: list[FixFields]
    pods: list[PodLocationFields]
    plan: list[str]
    notes: Annotated[list[str], doc("Fields of its objects that have no effect, and why.")] = field(
        default_factory=list
    )
    omitted: OmittedChecks = field(default_factory=list)
    errors: Annotated[list[str], doc("What prevents the scheduler of a cluster from placing it.")] = field(
        default_factory=list
    )
    pictures: Annotated[PicturesFields | UnsetType, doc("For drawings only.")] = UNSET


class PodStepFields(Fields):
    """Where a pod came from and went to; null: nowhere."""

    name: str
    rank: int | None
    source: str | None = field(name="from")
    to: str | None
    chips: list[int]


class HistoryEntryFields(Fields):
    """Something that happened to the job."""

    time: str
    nanoseconds: Nanoseconds
    kind: str
    code: Annotated[str | None, doc("Reason of the event on the PodGroup, or code of the reason.")]
    message: str
    duration_seconds: Annotated[float | None, doc("Duration of what ends here.")]
    pods: list[PodStepFields]


class EventFields(HistoryEntryFields):
    """Something that happened to a job."""

    namespace: str
    job: str
    type: Annotated[str, doc("Normal or Warning, as in Events of Kubernetes.")]


class EventsDocument(Document, tag="ringwise.io/events/v1"):
    """The events of all jobs of a namespace, oldest first."""

    until: Annotated[str, doc("End of the known history.")]
    notes: Annotated[list[str], doc("What the source of the events does not contain.")]
    events: list[EventFields]
    #: The oldest are omitted.
    remaining_item_count: More = 0


class JobRunFields(Fields):
    """A time in which the job had its nodes."""

    start: Nanoseconds
    end: Annotated[Nanoseconds | None, doc("Null if it is running.")]
    state: Annotated[str, doc("Running, Requeued, Suspended, Completed, Failed or Deleted.")]
    nodes: list[str]
    reason: Annotated[str, doc("Why it ended; empty if it is running.")]


class HistoryDocument(Document, tag="ringwise.io/history/v1"):
    """The history of a job."""

    namespace: str
    name: str
    until: Annotated[str, doc("End of the known history.")]
    faults: int
    moved_pods: int
    pending_seconds: float
    pending_reason: Annotated[str | None, doc("Reason code at the end.")]
    notes: Annotated[list[str], doc("What the source of the history does not contain.")]
    entries: list[HistoryEntryFields]
    runs: Annotated[list[JobRunFields], doc("Oldest first.")]


class ChipCountFields(Fields):
    """Where the chips of one board are."""

    nodes: int
    chips: int
    used: int
    faulty: int
    isolated: int
    reserved: int
    unschedulable: Annotated[int, doc("On nodes that accept no new pods.")]
    free: Annotated[int, doc("Available for new pods.")]
    network_faulty: Annotated[int, doc("Free chips that only single-pod jobs can use.")]
    until_drain: UntilDrain


class ShapeFields(Fields):
    """Jobs of one form."""

    shape: str
    kind: Annotated[str, doc("one-pod, gang, block, switches or share.")]
    chips_per_pod: int
    pods: int
    jobs: Annotated[int, doc("Jobs of this shape that would start now.")]
    upper_bound: int
    stranded_chips: int


class BeforeDrainFields(Fields):
    """Free chips of a node that is drained, or reserved, later."""

    name: str = field(name="node")
    start: Nanoseconds
    chips: int
    event: Annotated[str, doc("drained or reserved: state of the node from then on.")]


class BoardCapacityFields(Fields):
    """The capacity of the nodes with one board."""

    board: str
    resource: str
    accelerator_type: str | None
    chips: ChipCountFields
    largest_gang: int
    shapes: list[ShapeFields]
    drains: Annotated[list[BeforeDrainFields], doc("Nodes of the `until_drain` chips.")] = field(
        default_factory=list
    )
    omitted: OmittedChecks = field(default_factory=list)


class CapacityDocument(Document, tag="ringwise.io/capacity/v1"):
    """How many more jobs of each shape would start now."""

    boards: list[BoardCapacityFields]


class FindingFields(Fields):
    """A problem of a cluster, with its place and its fix."""

    severity: Annotated[str, doc("error, warning or note.")]
    code: str
    object: str
    message: str
    fix: str


class DoctorDocument(Document, tag="ringwise.io/doctor/v1"):
    """The problems of a cluster."""

    nodes: int
    jobs: int
    errors: int
    warnings: int
    notes: int
    findings: list[FindingFields]
