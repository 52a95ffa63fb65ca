"""The documents of faults, drills and maintenance."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from msgspec import Meta

from ringwise.reasons import ReasonFields
from ringwise.views.documents.cluster import FaultFields, JobFaultFields
from ringwise.views.documents.common import More, Nanoseconds, OmittedChecks
from ringwise.views.documents.explain import PodStepFields


class ListedFaultFields(JobFaultFields):
    """One fault of a node, with the affected jobs."""

    affected_jobs: Annotated[
        list[str], Meta(description="Jobs that use the chip or run on the node, as namespace/name.")
    ]


class FaultsDocument(TypedDict):
    """The faults that the nodes currently report."""

    schema: Literal["ringwise.io/faults/v1"]
    now: Annotated[Nanoseconds, Meta(description="The time to which the document refers.")]
    faults: list[ListedFaultFields]


class FaultChangeDocument(TypedDict):
    """The faults of the lab that were injected and cleared."""

    schema: Literal["ringwise.io/fault-change/v1"]
    injected: list[FaultFields]
    cleared: list[FaultFields]


class DrillStepFields(TypedDict):
    """A step of a drill."""

    number: int
    kind: str
    message: str
    time: str
    passed: Annotated[bool | None, Meta(description="For an expectation; null for other steps.")]
    problems: Annotated[list[str], Meta(description="Why the expectation is not met.")]


class DrillEntryFields(TypedDict):
    """Something that happened in a drill."""

    time: str
    nanoseconds: Nanoseconds
    after_seconds: float
    job: str | None
    kind: str
    message: str
    duration_seconds: float | None
    pods: list[PodStepFields]


class DrillFields(TypedDict):
    """One drill: what happened, and whether its expectations are met."""

    file: str
    title: str
    passed: bool
    virtual_seconds: float
    steps: list[DrillStepFields]
    timeline: list[DrillEntryFields]


class DrillDocument(TypedDict):
    """The drills that were run, and whether all their expectations are met."""

    schema: Literal["ringwise.io/drill/v1"]
    passed: bool
    drills: list[DrillFields]


#: `from` is a word of Python.
MovedPodFields = TypedDict(
    "MovedPodFields",
    {
        "name": str,
        "from": str,
        "to": Annotated[str | None, Meta(description="Null if it is pending at the end of the plan.")],
    },
)


class DrainedJobFields(TypedDict):
    """The effect of draining nodes on a job."""

    namespace: str
    name: str
    kind: str
    result: Annotated[str, Meta(description="moves, pending or not-restarted.")]
    pending_seconds: Annotated[
        float | None,
        Meta(description="Time until all its pods are scheduled again; null: not within the plan."),
    ]
    reason: Annotated[str | None, Meta(description="Why it is still pending at the end of the plan.")]
    pods: Annotated[list[MovedPodFields], Meta(description="Pods to evict.")]
    restarted: Annotated[
        list[MovedPodFields], Meta(description="Pods on other nodes that restart with them.")
    ]


class DrainPlanDocument(TypedDict):
    """The effect of draining a node, leaf switch or SuperPoD, computed on a copy of the cluster."""

    schema: Literal["ringwise.io/drain-plan/v1"]
    target: str
    kind: Annotated[str, Meta(description="node, switch or superpod.")]
    nodes: list[str]
    jobs: list[DrainedJobFields]
    omitted: NotRequired[OmittedChecks]


#: `from` is a word of Python.
PlannedPodFields = TypedDict(
    "PlannedPodFields",
    {
        "name": str,
        "from": str,
        "from_chips": list[int],
        "to": str,
        "chips": Annotated[list[int], Meta(description="The chips reserved for it there.")],
    },
)


class PlannedMoveFields(TypedDict):
    """A job that is moved, or a pod of a job whose pods run alone."""

    namespace: str
    name: str
    chips: int
    cost_chip_seconds: Annotated[float, Meta(description="Its chips times the cost of a restart.")]
    pods: list[PlannedPodFields]


class PlannedReservationFields(TypedDict):
    """Where a pod of the waiting job goes."""

    name: str
    node: str
    chips: list[int]


class MovePlanFields(TypedDict):
    """The moves that let one job start now."""

    id: str
    namespace: Annotated[str, Meta(description="Of the pending job.")]
    name: str
    chips: Annotated[int, Meta(description="Chips of its pending pods.")]
    moved_jobs: int
    moved_chips: int
    cost_chip_seconds: float
    moves: list[PlannedMoveFields]
    reservation: list[PlannedReservationFields]


class NoMovePlanFields(TypedDict):
    """A job for which there is no plan."""

    namespace: str
    name: str
    reason: ReasonFields


class ListedMovePlanFields(TypedDict):
    """A MovePlan object."""

    name: str
    job: Annotated[str, Meta(description="The pending job.")]
    moved: Annotated[list[str], Meta(description="The jobs to move.")]
    pods: Annotated[int, Meta(description="Pods to move.")]
    chips: int
    approval: str
    state: Annotated[str, Meta(description="pending, queued, running, done, failed or rejected.")]
    message: Annotated[str, Meta(description="Its progress, or why it is not executed.")]
    created: Nanoseconds
    created_by: str
    approved_by: str


class MovePlansDocument(TypedDict):
    """All MovePlan objects."""

    schema: Literal["ringwise.io/moveplans/v1"]
    now: Annotated[Nanoseconds, Meta(description="The time to which the document refers.")]
    moveplans: list[ListedMovePlanFields]
    remaining_item_count: NotRequired[More]


class MovePlanDocument(ListedMovePlanFields):
    """A MovePlan object with its moves."""

    schema: Literal["ringwise.io/moveplan/v1"]
    now: Annotated[Nanoseconds, Meta(description="The time to which the document refers.")]
    plan: MovePlanFields


class PlannedMoves(TypedDict):
    """Plans as a document, and as MovePlan objects that can be created."""

    document: DefragPlanDocument
    objects: list[dict[str, Any]]


class DefragPlanDocument(TypedDict):
    """The moves that would start jobs blocked by fragmentation, computed on a copy of the cluster."""

    schema: Literal["ringwise.io/defrag-plan/v1"]
    now: Annotated[Nanoseconds, Meta(description="The time to which the document refers.")]
    plans: Annotated[
        list[MovePlanFields],
        Meta(description="In queue order; each assumes that the previous ones were executed."),
    ]
    without_plan: Annotated[
        list[NoMovePlanFields],
        Meta(description="Jobs blocked by fragmentation, or requested ones, without a plan."),
    ]
    omitted: NotRequired[OmittedChecks]
