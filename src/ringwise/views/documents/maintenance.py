"""The documents of faults, drills and maintenance."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from msgspec import field

from ringwise.reasons import ReasonFields
from ringwise.views.documents.cluster import FaultFields, JobFaultFields
from ringwise.views.documents.common import Document, Fields, More, Nanoseconds, OmittedChecks, doc
from ringwise.views.documents.explain import PodStepFields


class ListedFaultFields(JobFaultFields):
    """One fault of a node, with the affected jobs."""

    affected_jobs: Annotated[list[str], doc("Jobs that use the chip or run on the node, as namespace/name.")]


class FaultsDocument(Document, tag="ringwise.io/faults/v1"):
    """The faults that the nodes currently report."""

    now: Annotated[Nanoseconds, doc("The time to which the document refers.")]
    faults: list[ListedFaultFields]


class FaultChangeDocument(Document, tag="ringwise.io/fault-change/v1"):
    """The faults of the lab that were injected and cleared."""

    injected: list[FaultFields]
    cleared: list[FaultFields]


class DrillStepFields(Fields):
    """A step of a drill."""

    number: int
    kind: str
    message: str
    time: str
    passed: Annotated[bool | None, doc("For an expectation; null for other steps.")]
    problems: Annotated[list[str], doc("Why the expectation is not met.")]


class DrillEntryFields(Fields):
    """Something that happened in a drill."""

    time: str
    nanoseconds: Nanoseconds
    after_seconds: float
    job: str | None
    kind: str
    message: str
    duration_seconds: float | None
    pods: list[PodStepFields]


class DrillFields(Fields):
    """One drill: what happened, and whether its expectations are met."""

    file: str
    title: str
    passed: bool
    virtual_seconds: float
    steps: list[DrillStepFields]
    timeline: list[DrillEntryFields]


class DrillDocument(Document, tag="ringwise.io/drill/v1"):
    """The drills that were run, and whether all their expectations are met."""

    passed: bool
    drills: list[DrillFields]


class MovedPodFields(Fields):
    """A pod that goes to another node."""

    name: str
    source: str = field(name="from")
    to: Annotated[str | None, doc("Null if it is pending at the end of the plan.")]


class DrainedJobFields(Fields):
    """The effect of draining nodes on a job."""

    namespace: str
    name: str
    kind: str
    result: Annotated[str, doc("moves, pending, not-restarted or not-evicted.")]
    pending_seconds: Annotated[
        float | None, doc("Time until all its pods are scheduled again; null: not within the plan.")
    ]
    reason: Annotated[str | None, doc("Why it is still pending at the end, or not evicted.")]
    pods: Annotated[list[MovedPodFields], doc("Pods to evict.")]
    restarted: Annotated[list[MovedPodFields], doc("Pods on other nodes that restart with them.")]


class DrainPlanDocument(Document, tag="ringwise.io/drain-plan/v1"):
    """The effect of draining a node, leaf switch or SuperPoD, computed on a copy of the cluster."""

    target: str
    kind: Annotated[str, doc("node, switch or superpod.")]
    nodes: list[str]
    jobs: list[DrainedJobFields]
    omitted: OmittedChecks = field(default_factory=list)
    start: Annotated[Nanoseconds | None, doc("When the drain starts; absent: now.")] = None


class PlannedPodFields(Fields):
    """A pod that a plan moves."""

    name: str
    source: str = field(name="from")
    from_chips: list[int]
    to: str
    chips: Annotated[list[int], doc("The chips reserved for it there.")]


class PlannedMoveFields(Fields):
    """A job that is moved, or a pod of a job whose pods run alone."""

    namespace: str
    name: str
    chips: int
    cost_chip_seconds: Annotated[float, doc("Its chips times the cost of a restart.")]
    pods: list[PlannedPodFields]


class PlannedReservationFields(Fields):
    """Where a pod of the waiting job goes."""

    name: str
    node: str
    chips: list[int]


class MovePlanFields(Fields):
    """The moves that let one job start now."""

    id: str
    namespace: Annotated[str, doc("Of the pending job.")]
    name: str
    chips: Annotated[int, doc("Chips of its pending pods.")]
    moved_jobs: int
    moved_chips: int
    cost_chip_seconds: float
    moves: list[PlannedMoveFields]
    reservation: list[PlannedReservationFields]


class NoMovePlanFields(Fields):
    """A job for which there is no plan."""

    namespace: str
    name: str
    reason: ReasonFields


class ListedMovePlanFields(TypedDict):
    """A MovePlan object."""

    name: str
    job: Annotated[str, doc("The pending job.")]
    moved: Annotated[list[str], doc("The jobs to move.")]
    pods: Annotated[int, doc("Pods to move.")]
    chips: int
    approval: str
    state: Annotated[str, doc("pending, queued, running, done, failed or rejected.")]
    message: Annotated[str, doc("Its progress, or why it is not executed.")]
    created: Nanoseconds
    created_by: str
    approved_by: str


class MovePlansDocument(TypedDict):
    """All MovePlan objects."""

    schema: Literal["ringwise.io/moveplans/v1"]
    now: Annotated[Nanoseconds, doc("The time to which the document refers.")]
    moveplans: list[ListedMovePlanFields]
    remaining_item_count: NotRequired[More]


class MovePlanDocument(ListedMovePlanFields):
    """A MovePlan object with its moves."""

    schema: Literal["ringwise.io/moveplan/v1"]
    now: Annotated[Nanoseconds, doc("The time to which the document refers.")]
    plan: MovePlanFields


class PlannedMoves(Fields):
    """Plans as a document, and as MovePlan objects that can be created."""

    document: DefragPlanDocument
    objects: list[dict[str, Any]]


class DefragPlanDocument(Document, tag="ringwise.io/defrag-plan/v1"):
    """The moves that would start jobs blocked by fragmentation, computed on a copy of the cluster."""

    now: Annotated[Nanoseconds, doc("The time to which the document refers.")]
    plans: Annotated[
        list[MovePlanFields], doc("In queue order; each assumes that the previous ones were executed.")
    ]
    without_plan: Annotated[
        list[NoMovePlanFields], doc("Jobs blocked by fragmentation, or requested ones, without a plan.")
    ]
    omitted: OmittedChecks = field(default_factory=list)
