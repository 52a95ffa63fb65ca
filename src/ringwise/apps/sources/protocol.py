"""What can be asked about a cluster, wherever it is. Every answer is a document of `views.documents`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ringwise.apps.reservations import ReservationRequest
from ringwise.manifests.bundle import Bundle
from ringwise.views.lists import EVERYTHING, Listing

if TYPE_CHECKING:
    from ringwise.views.documents.accounting import IdleDocument
    from ringwise.views.documents.cluster import TopDocument
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


class QuerySource(Protocol):
    """Nothing of it changes the cluster. A name that is not known raises LookupError with one line.

    `namespace`: only objects of it; None: of all. `pictures`: with what a drawing shows beside the document.
    `listing`: which of them, in what order; the side that has the objects chooses.
    """

    # -- objects of a kind of `views.kinds`

    def get(self, kind: str, listing: Listing = EVERYTHING) -> Mapping[str, Any]: ...
    def describe(self, kind: str, name: str, namespace: str | None = None) -> Mapping[str, Any]: ...

    # -- explanations

    def top(self) -> TopDocument: ...
    def faults(self) -> FaultsDocument: ...
    def why(self, job: str, namespace: str | None = None, *, pictures: bool = False) -> WhyDocument: ...
    def history(self, job: str, namespace: str | None = None) -> HistoryDocument: ...
    def events(self, namespace: str | None = None, limit: int = 0) -> EventsDocument: ...
    def capacity(self, queue: str | None = None) -> CapacityDocument: ...
    def limits(self) -> LimitsDocument: ...
    def doctor(self) -> DoctorDocument: ...
    def topology(self) -> TopologyDocument: ...
    def idle(self) -> IdleDocument: ...

    # -- what-if

    def place(self, manifests: Bundle, *, scores: bool = False, pictures: bool = False) -> PlaceDocument: ...
    def drain_plan(self, target: str, at: str | None = None, *, force: bool = False) -> DrainPlanDocument: ...
    def reservation_plan(self, request: ReservationRequest) -> ReservationPlanDocument: ...
    def defrag_plan(self, job: str | None = None, namespace: str | None = None) -> DefragPlanDocument: ...

    def move_plans(self, job: str | None = None, namespace: str | None = None) -> PlannedMoves: ...


class NotAnsweredError(LookupError):
    """This source cannot answer that question; the message says which one can."""
