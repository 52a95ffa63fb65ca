"""The document of `place`."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from msgspec import Meta

from ringwise.reasons import ReasonFields
from ringwise.views.documents.common import WithClass


class CandidateFields(TypedDict):
    """A node that was asked for the first pod of a job."""

    node: str
    accepted: bool
    score: Annotated[int | None, Meta(description="The board's score before weights; null where refused.")]
    reason: ReasonFields | None


class PlacedPodFields(TypedDict):
    """Where a pod would be placed."""

    name: str
    rank: int
    node: str | None
    chips: Annotated[list[int] | None, Meta(description="In the order of the annotation.")]
    switch: str | None
    superpod: int | None
    logical_superpod: int | None
    annotations: dict[str, str] | None
    rack: NotRequired[int | None]
    logical_rack: NotRequired[int | None]
    candidates: NotRequired[Annotated[list[CandidateFields], Meta(description="With --scores only.")]]


class PlacedJobFields(WithClass):
    """What would happen to a job."""

    namespace: str
    name: str
    outcome: Annotated[str, Meta(description="placed, pending or refused; with --all also running.")]
    reason: ReasonFields | None
    pods: list[PlacedPodFields]


class PlacedSwitchFields(TypedDict):
    """A leaf switch after the run."""

    ip: str
    state: str
    healthy: bool
    free_nodes: int


class PlaceDocument(TypedDict):
    """Where the jobs of manifests would be placed."""

    schema: Literal["ringwise.io/place/v1"]
    jobs: list[PlacedJobFields]
    switches: NotRequired[
        Annotated[list[PlacedSwitchFields], Meta(description="Where there is a topology of switches.")]
    ]
