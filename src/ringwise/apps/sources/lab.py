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
from ringwise.views.documents.explain import CapacityDocument, DoctorDocument
from ringwise.views.documents.maintenance import PlannedMoves
from ringwise.views.lists import EVERYTHING, Listing

_OTHER_VERSION = "the lab is of another version of Ringwise: stop it and start it again"


def _question(name: str, *parameters: str, document: Any = Any) -> Callable[..., Any]:
    """A question of `QuerySource`. What it is called with is sent under these names."""

    def ask(source: LabSource, *values: Any, **named: Any) -> Any:
        answer = source.ask(name, **dict(zip(parameters, values, strict=False)), **named)
        return msgspec.convert(answer, document)

    return ask


class LabSource:
    """Raises NoLabError and RefusedByLabError."""

    def __init__(self, client: LabClient) -> None:
        self._client = client

    def ask(self, question: str, **parameters: Any) -> Any:
        document = self._client.ask(question, **parameters)
        problem = document_problem(document["schema"])
        if problem:
            raise RefusedByLabError(f"{_OTHER_VERSION} ({problem})")
        return document

    def move_plans(self, job: str | None = None, namespace: str | None = None) -> PlannedMoves:
        answer: PlannedMoves = self._client.ask("moves", job=job, namespace=namespace)
        return answer

    def get(self, kind: str, listing: Listing = EVERYTHING) -> dict[str, Any]:
        """A lab of another version may not know filters, and would list everything."""
        document: dict[str, Any] = self.ask("get", kind=kind, listing=listing)
        if replace(listing, limit=0) != EVERYTHING and self._client.version != __version__:
            raise RefusedByLabError(f"{_OTHER_VERSION}; until then, lists cannot be filtered or sorted")
        return document

    describe = _question("describe", "kind", "name", "namespace")
    top = _question("top")
    faults = _question("faults")
    why = _question("why", "job", "namespace")
    history = _question("history", "job", "namespace")
    capacity = _question("capacity", "queue", document=CapacityDocument)
    limits = _question("limits")
    doctor = _question("doctor", document=DoctorDocument)
    topology = _question("topology")
    idle = _question("idle")
    report = _question("report", "since", "until", "by", "namespace")
    drain_plan = _question("drain-plan", "target", "at")
    reservation_plan = _question("reservation-plan", "request")
    defrag_plan = _question("defrag-plan", "job", "namespace")

    def place(self, manifests: Bundle, *, scores: bool = False, pictures: bool = False) -> Any:
        submission, _ = submission_of(manifests)
        return self.ask("place", submission=submission, scores=scores, pictures=pictures)
