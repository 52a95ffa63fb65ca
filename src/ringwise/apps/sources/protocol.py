"""What can be asked about a cluster, wherever it is. Every answer is a document of `views.documents`."""

from __future__ import annotations

from typing import Protocol

from ringwise.manifests.bundle import Bundle
from ringwise.views.documents.cluster import (
    ChipsDocument,
    JobDocument,
    JobsDocument,
    NodeDocument,
    NodesDocument,
    PodDocument,
    PodsDocument,
    QueueDocument,
    QueuesDocument,
    TopDocument,
)
from ringwise.views.documents.explain import CapacityDocument, DoctorDocument, StoryDocument, WhyDocument
from ringwise.views.documents.limits import LimitsDocument
from ringwise.views.documents.maintenance import DefragPlanDocument, DrainPlanDocument, FaultsDocument
from ringwise.views.documents.place import PlaceDocument
from ringwise.views.documents.topology import TopologyDocument
from ringwise.views.lists import EVERYTHING, Listing


class QuerySource(Protocol):
    """Nothing of it changes the cluster. A name that is not known raises LookupError with one line.

    `namespace`: only objects of it; None: of all. `pictures`: with what a drawing shows beside the document.
    `listing`: which of them, in what order; the side that has the objects chooses.
    """

    # -- lists

    def nodes(self, listing: Listing = EVERYTHING) -> NodesDocument: ...
    def jobs(self, namespace: str | None = None, listing: Listing = EVERYTHING) -> JobsDocument: ...
    def queues(self, listing: Listing = EVERYTHING) -> QueuesDocument: ...
    def pods(self, namespace: str | None = None, listing: Listing = EVERYTHING) -> PodsDocument: ...
    def chips(self, node: str | None = None, listing: Listing = EVERYTHING) -> ChipsDocument: ...
    def faults(self) -> FaultsDocument: ...

    # -- one object

    def node(self, name: str) -> NodeDocument: ...
    def job(self, name: str, namespace: str | None = None) -> JobDocument: ...
    def queue(self, name: str) -> QueueDocument: ...
    def pod(self, name: str, namespace: str | None = None) -> PodDocument: ...

    # -- explanations

    def top(self) -> TopDocument: ...
    def why(self, job: str, namespace: str | None = None, *, pictures: bool = False) -> WhyDocument: ...
    def story(self, job: str, namespace: str | None = None) -> StoryDocument: ...
    def capacity(self, queue: str | None = None) -> CapacityDocument: ...
    def limits(self) -> LimitsDocument: ...
    def doctor(self) -> DoctorDocument: ...
    def topology(self) -> TopologyDocument: ...

    # -- what-if

    def place(self, manifests: Bundle, *, scores: bool = False, pictures: bool = False) -> PlaceDocument: ...
    def drain_plan(self, target: str, at: str | None = None) -> DrainPlanDocument: ...
    def defrag_plan(self, job: str | None = None, namespace: str | None = None) -> DefragPlanDocument: ...


class NotAnsweredError(LookupError):
    """This source cannot answer that question; the message says which one can."""
