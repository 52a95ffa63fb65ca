"""Answers of a running lab: it makes the documents, in its own process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from ringwise import __version__
from ringwise.apps.lab.client import LabClient, RefusedByLabError
from ringwise.apps.lab.submission import submission_of
from ringwise.manifests.bundle import Bundle
from ringwise.versions import document_problem
from ringwise.views.documents.accounting import IdleDocument, ReportDocument
from ringwise.views.documents.explain import (
    CapacityDocument,
    DoctorDocument,
    EventsDocument,
    HistoryDocument,
    WhyDocument,
)
from ringwise.views.documents.limits import LimitsDocument
from ringwise.views.documents.maintenance import (
    DefragPlanDocument,
    DrainPlanDocument,
    FaultsDocument,
    PlannedMoves,
)
from ringwise.views.documents.place import PlaceDocument
from ringwise.views.documents.reservations import ReservationPlanDocument
from ringwise.views.documents.topology import TopologyDocument
from ringwise.views.kinds import BY_NAME
from ringwise.views.lists import EVERYTHING, Listing

_OTHER_VERSION = "the lab is of another version of Ringwise: stop it and start it again"


def _question(name: str, *parameters: str, document: Any) -> Callable[..., Any]:
    """A question of `QuerySource`. What it is called with is sent under these names."""

    def ask(source: LabSource, *values: Any, **named: Any) -> Any:
        return source.ask(name, document, **dict(zip(parameters, values, strict=False)), **named)

    return ask


class LabSource:
    """Raises NoLabError and RefusedByLabError."""

    def __init__(self, client: LabClient) -> None:
        self._client = client

    def ask(self, question: str, document: Any, **parameters: Any) -> Any:
        """Return the answer, a document of this type. `Any`: it has no structs, and can be long."""
        answer = self._client.ask(question, **parameters)
        problem = document_problem(answer["schema"])
        try:
            if not problem:
                return msgspec.convert(answer, document)
        except msgspec.ValidationError as error:
            problem = str(error)
        raise RefusedByLabError(f"{_OTHER_VERSION} ({problem})")

    def move_plans(self, job: str | None = None, namespace: str | None = None) -> PlannedMoves:
        return msgspec.convert(self._client.ask("moves", job=job, namespace=namespace), PlannedMoves)

    def get(self, kind: str, listing: Listing = EVERYTHING) -> Any:
        """A lab of another version may not know filters, and would list everything."""
        document = self.ask("get", Any, kind=kind, listing=listing)
        if replace(listing, limit=0) != EVERYTHING and self._client.version != __version__:
            raise RefusedByLabError(f"{_OTHER_VERSION}; until then, lists cannot be filtered or sorted")
        return document

    def describe(self, kind: str, name: str, namespace: str | None = None) -> Any:
        return self.ask("describe", BY_NAME[kind].object_type, kind=kind, name=name, namespace=namespace)

    top = _question("top", document=Any)
    faults = _question("faults", document=FaultsDocument)
    why = _question("why", "job", "namespace", document=WhyDocument)
    history = _question("history", "job", "namespace", document=HistoryDocument)
    events = _question("events", "namespace", "limit", document=EventsDocument)
    capacity = _question("capacity", "queue", document=CapacityDocument)
    limits = _question("limits", document=LimitsDocument)
    doctor = _question("doctor", document=DoctorDocument)
    topology = _question("topology", document=TopologyDocument)
    idle = _question("idle", document=IdleDocument)
    report = _question("report", "since", "until", "by", "namespace", document=ReportDocument)
    drain_plan = _question("drain-plan", "target", "at", "force", document=DrainPlanDocument)
    reservation_plan = _question("reservation-plan", "request", document=ReservationPlanDocument)
    defrag_plan = _question("defrag-plan", "job", "namespace", document=DefragPlanDocument)

    def place(self, manifests: Bundle, *, scores: bool = False, pictures: bool = False) -> Any:
        submission, _ = submission_of(manifests)
        return self.ask("place", PlaceDocument, submission=submission, scores=scores, pictures=pictures)
