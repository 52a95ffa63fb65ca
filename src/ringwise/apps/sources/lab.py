"""Answers of a running lab: it makes the documents, in its own process."""

from __future__ import annotations

from typing import Any, TypeVar

from ringwise.apps.lab.client import LabClient, RefusedByLabError
from ringwise.apps.lab.submission import submission_of
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
from ringwise.views.documents.maintenance import DrainPlanDocument, FaultsDocument
from ringwise.views.documents.place import PlaceDocument
from ringwise.views.documents.topology import TopologyDocument
from ringwise.views.lists import EVERYTHING, Listing

Document = TypeVar("Document")


class LabSource:
    """Raises NoLabError and RefusedByLabError."""

    def __init__(self, client: LabClient) -> None:
        self._client = client

    def _ask(self, _kind: type[Document], question: str, **parameters: Any) -> Document:
        document: Document = self._client.ask(question, **parameters)
        if not isinstance(document, dict) or "schema" not in document:
            raise RefusedByLabError("the lab is of another version of Ringwise: stop it and start it again")
        return document

    # -- lists

    def nodes(self, listing: Listing = EVERYTHING) -> NodesDocument:
        return self._ask(NodesDocument, "get", kind="nodes", listing=listing)

    def jobs(self, namespace: str | None = None, listing: Listing = EVERYTHING) -> JobsDocument:
        return self._ask(JobsDocument, "get", kind="jobs", namespace=namespace, listing=listing)

    def queues(self, listing: Listing = EVERYTHING) -> QueuesDocument:
        return self._ask(QueuesDocument, "get", kind="queues", listing=listing)

    def pods(self, namespace: str | None = None, listing: Listing = EVERYTHING) -> PodsDocument:
        return self._ask(PodsDocument, "get", kind="pods", namespace=namespace, listing=listing)

    def chips(self, node: str | None = None, listing: Listing = EVERYTHING) -> ChipsDocument:
        return self._ask(ChipsDocument, "chips", node=node, listing=listing)

    def faults(self) -> FaultsDocument:
        return self._ask(FaultsDocument, "faults")

    # -- one object

    def node(self, name: str) -> NodeDocument:
        return self._ask(NodeDocument, "describe", kind="node", name=name)

    def job(self, name: str, namespace: str | None = None) -> JobDocument:
        return self._ask(JobDocument, "describe", kind="job", name=name, namespace=namespace)

    def queue(self, name: str) -> QueueDocument:
        return self._ask(QueueDocument, "describe", kind="queue", name=name)

    def pod(self, name: str, namespace: str | None = None) -> PodDocument:
        return self._ask(PodDocument, "describe", kind="pod", name=name, namespace=namespace)

    # -- explanations

    def top(self) -> TopDocument:
        return self._ask(TopDocument, "top")

    def why(self, job: str, namespace: str | None = None, *, pictures: bool = False) -> WhyDocument:
        return self._ask(WhyDocument, "why", job=job, namespace=namespace, pictures=pictures)

    def story(self, job: str, namespace: str | None = None) -> StoryDocument:
        return self._ask(StoryDocument, "story", job=job, namespace=namespace)

    def capacity(self, queue: str | None = None) -> CapacityDocument:
        return self._ask(CapacityDocument, "capacity", queue=queue)

    def doctor(self) -> DoctorDocument:
        return self._ask(DoctorDocument, "doctor")

    def topology(self) -> TopologyDocument:
        return self._ask(TopologyDocument, "topology")

    # -- what-if

    def place(self, manifests: Bundle, *, scores: bool = False, pictures: bool = False) -> PlaceDocument:
        submission, _ = submission_of(manifests)
        return self._ask(PlaceDocument, "place", submission=submission, scores=scores, pictures=pictures)

    def drain_plan(self, target: str, at: str | None = None) -> DrainPlanDocument:
        return self._ask(DrainPlanDocument, "drain-plan", target=target, at=at)
