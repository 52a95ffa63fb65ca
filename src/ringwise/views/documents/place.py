"""The document of `place`."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from msgspec import Meta

from ringwise.reasons import ReasonFields
from ringwise.views.documents.cluster import PlacementFields
from ringwise.views.documents.common import WithClass
from ringwise.views.documents.topology import PicturesFields, PlacedSwitchFields


class CandidateFields(TypedDict):
    """A node that was asked for the first pod of a job."""

    node: str
    accepted: bool
    score: Annotated[int | None, Meta(description="Before weights; null if rejected.")]
    reason: ReasonFields | None


class PlacedPodFields(PlacementFields):
    """Where a pod would be placed."""

    name: str
    rank: int
    node: str | None
    chips: Annotated[list[int] | None, Meta(description="In the order of the annotation.")]
    annotations: dict[str, str] | None
    candidates: NotRequired[Annotated[list[CandidateFields], Meta(description="With --scores only.")]]


class PlacedJobFields(WithClass):
    """What would happen to a job."""

    namespace: str
    name: str
    state: Annotated[str, Meta(description="scheduled, pending or rejected; with --all also running.")]
    reason: ReasonFields | None
    pods: list[PlacedPodFields]
    notes: NotRequired[
        Annotated[list[str], Meta(description="Fields without effect, and why some pods are pending.")]
    ]


class PlacedPictureFields(TypedDict):
    """The data of a job that a drawing shows in addition to its pods."""

    resource: str | None
    plan: Annotated[list[str], Meta(description="How the nodes of the job were selected.")]
    board_reason: str | None


class PlacePicturesFields(PicturesFields):
    """The same for all jobs."""

    jobs: Annotated[list[PlacedPictureFields], Meta(description="In the order of the jobs.")]
    free_before: Annotated[
        list[list[int]], Meta(description="Free chips before the run, in the order of the nodes.")
    ]


class PlaceDocument(TypedDict):
    """Where the jobs of manifests would be scheduled."""

    schema: Literal["ringwise.io/place/v1"]
    jobs: list[PlacedJobFields]
    switches: NotRequired[
        Annotated[
            list[PlacedSwitchFields], Meta(description="Set if the cluster has a leaf-switch topology.")
        ]
    ]
    pictures: NotRequired[Annotated[PlacePicturesFields, Meta(description="For drawings only.")]]
