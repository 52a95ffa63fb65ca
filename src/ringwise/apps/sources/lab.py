"""Answers of a running lab: it makes the documents, in its own process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from ringwise import __version__
from ringwise.apps.lab.client import LabClient, RefusedByLabError
from ringwise.apps.lab.submission import submission_of
from ringwise.apps.reservations import ReservationWish
from ringwise.manifests.bundle import Bundle
from ringwise.versions import document_problem
from ringwise.views.documents.accounting import GroupBy, IdleDocument, ReportDocument
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
from ringwise.views.documents.hyper_nodes import HyperNodeDocument, HyperNodesDocument
from ringwise.views.documents.limits import LimitsDocument
from ringwise.views.documents.maintenance import DefragPlanDocument, DrainPlanDocument, FaultsDocument
from ringwise.views.documents.place import PlaceDocument
from ringwise.views.documents.reservations import ReservationPlanDocument, ReservationsDocument
from ringwise.views.documents.topology import TopologyDocument
from ringwise.views.lists import EVERYTHING, Listing

_OTHER_VERSION = "the lab is of another version of Ringwise: stop it and start it again"


class LabSource:
    """Raises NoLabError and RefusedByLabError."""

    def __init__(self, client: LabClient) -> None:
        self._client = client

    def _ask(self, question: str, **parameters: Any) -> Any:
        document = self._client.ask(question, **parameters)
        problem = document_problem(document["schema"])
        if problem:
            raise RefusedByLabError(f"{_OTHER_VERSION} ({problem})")
        return document

    def _ask_list(self, question: str, listing: Listing, **parameters: Any) -> Any:
        """A lab of another version may not know filters, and would list everything."""
        document = self._ask(question, **parameters, listing=listing)
        if replace(listing, limit=0) != EVERYTHING and self._client.version != __version__:
            raise RefusedByLabError(f"{_OTHER_VERSION}; until then lists have no filters and no order")
        return document

    # -- lists

    def nodes(self, listing: Listing = EVERYTHING) -> NodesDocument:
        document: NodesDocument = self._ask_list("get", listing, kind="nodes")
        return document

    def jobs(self, namespace: str | None = None, listing: Listing = EVERYTHING) -> JobsDocument:
        document: JobsDocument = self._ask_list("get", listing, kind="jobs", namespace=namespace)
        return document

    def queues(self, listing: Listing = EVERYTHING) -> QueuesDocument:
        document: QueuesDocument = self._ask_list("get", listing, kind="queues")
        return document

    def pods(self, namespace: str | None = None, listing: Listing = EVERYTHING) -> PodsDocument:
        document: PodsDocument = self._ask_list("get", listing, kind="pods", namespace=namespace)
        return document

    def chips(self, node: str | None = None, listing: Listing = EVERYTHING) -> ChipsDocument:
        document: ChipsDocument = self._ask_list("chips", listing, node=node)
        return document

    def faults(self) -> FaultsDocument:
        document: FaultsDocument = self._ask("faults")
        return document

    def reservations(self, listing: Listing = EVERYTHING) -> ReservationsDocument:
        document: ReservationsDocument = self._ask_list("get", listing, kind="reservations")
        return document

    def hyper_nodes(self, listing: Listing = EVERYTHING) -> HyperNodesDocument:
        document: HyperNodesDocument = self._ask_list("get", listing, kind="hypernodes")
        return document

    # -- one object

    def node(self, name: str) -> NodeDocument:
        document: NodeDocument = self._ask("describe", kind="node", name=name)
        return document

    def job(self, name: str, namespace: str | None = None) -> JobDocument:
        document: JobDocument = self._ask("describe", kind="job", name=name, namespace=namespace)
        return document

    def queue(self, name: str) -> QueueDocument:
        document: QueueDocument = self._ask("describe", kind="queue", name=name)
        return document

    def pod(self, name: str, namespace: str | None = None) -> PodDocument:
        document: PodDocument = self._ask("describe", kind="pod", name=name, namespace=namespace)
        return document

    def hyper_node(self, name: str) -> HyperNodeDocument:
        document: HyperNodeDocument = self._ask("describe", kind="hypernode", name=name)
        return document

    # -- explanations

    def top(self) -> TopDocument:
        document: TopDocument = self._ask("top")
        return document

    def why(self, job: str, namespace: str | None = None, *, pictures: bool = False) -> WhyDocument:
        document: WhyDocument = self._ask("why", job=job, namespace=namespace, pictures=pictures)
        return document

    def story(self, job: str, namespace: str | None = None) -> StoryDocument:
        document: StoryDocument = self._ask("story", job=job, namespace=namespace)
        return document

    def limits(self) -> LimitsDocument:
        document: LimitsDocument = self._ask("limits")
        return document

    def capacity(self, queue: str | None = None) -> CapacityDocument:
        document: CapacityDocument = self._ask("capacity", queue=queue)
        return document

    def doctor(self) -> DoctorDocument:
        document: DoctorDocument = self._ask("doctor")
        return document

    def topology(self) -> TopologyDocument:
        document: TopologyDocument = self._ask("topology")
        return document

    def idle(self) -> IdleDocument:
        document: IdleDocument = self._ask("idle")
        return document

    def report(self, since: str, until: str, by: GroupBy, namespace: str | None) -> ReportDocument:
        document: ReportDocument = self._ask("report", since=since, until=until, by=by, namespace=namespace)
        return document

    # -- what-if

    def place(self, manifests: Bundle, *, scores: bool = False, pictures: bool = False) -> PlaceDocument:
        submission, _ = submission_of(manifests)
        document: PlaceDocument = self._ask("place", submission=submission, scores=scores, pictures=pictures)
        return document

    def reservation_plan(self, wish: ReservationWish) -> ReservationPlanDocument:
        document: ReservationPlanDocument = self._ask("reservation-plan", wish=msgspec.to_builtins(wish))
        return document

    def drain_plan(self, target: str, at: str | None = None) -> DrainPlanDocument:
        document: DrainPlanDocument = self._ask("drain-plan", target=target, at=at)
        return document

    def defrag_plan(self, job: str | None = None, namespace: str | None = None) -> DefragPlanDocument:
        document: DefragPlanDocument = self._ask("defrag-plan", job=job, namespace=namespace)
        return document
