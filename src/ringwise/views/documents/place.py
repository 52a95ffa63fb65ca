"""The document of `place`."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, UnsetType, field

from ringwise.reasons import ReasonFields
from ringwise.views.documents.common import Document, Fields, SwitchClass, doc
from ringwise.views.documents.topology import PicturesFields, PlacedSwitchFields


class CandidateFields(Fields):
    """A node that was asked for the first pod of a job."""

    node: str
    accepted: bool
    score: Annotated[int | None, doc("Before weights; null if rejected.")]
    reason: ReasonFields | None


class PlacedPodFields(Fields):
    """Where a pod would be placed."""

    name: str
    rank: int
    node: str | None
    chips: Annotated[list[int] | None, doc("In the order of the annotation.")]
    switch: str | None
    superpod: int | None
    logical_superpod: int | None
    annotations: dict[str, str] | None
    rack: int | UnsetType | None = UNSET
    logical_rack: int | UnsetType | None = UNSET
    candidates: Annotated[list[CandidateFields] | UnsetType, doc("With --scores only.")] = UNSET


class PlacedJobFields(Fields):
    """What would happen to a job."""

    namespace: str
    name: str
    job_class: SwitchClass = field(name="class")
    state: Annotated[str, doc("scheduled, pending or rejected; with --all also running.")]
    reason: ReasonFields | None
    pods: list[PlacedPodFields]
    notes: Annotated[list[str], doc("Fields without effect, and why some pods are pending.")] = field(
        default_factory=list
    )


class PlacedPictureFields(Fields):
    """The data of a job that a drawing shows in addition to its pods."""

    resource: str | None
    plan: Annotated[list[str], doc("How the nodes of the job were selected.")]
    board_reason: str | None


class PlacePicturesFields(PicturesFields):
    """The same for all jobs."""

    jobs: Annotated[list[PlacedPictureFields], doc("In the order of the jobs.")]
    free_before: Annotated[list[list[int]], doc("Free chips before the run, in the order of the nodes.")]


class PlaceDocument(Document, tag="ringwise.io/place/v1"):
    """Where the jobs of manifests would be scheduled."""

    jobs: list[PlacedJobFields]
    switches: Annotated[
        list[PlacedSwitchFields] | UnsetType, doc("Set if the cluster has a leaf-switch topology.")
    ] = UNSET
    pictures: Annotated[PlacePicturesFields | UnsetType, doc("For drawings only.")] = UNSET
