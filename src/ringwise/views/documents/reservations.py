"""Documents about nodes that are reserved for queues and namespaces."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from ringwise.views.documents.common import More, Nanoseconds, doc


class ReservedNodeFields(TypedDict):
    """A node of a reservation that does not take pods now, or is drained."""

    node: str
    state: str
    message: str


class RunsThereFields(TypedDict):
    """A job of others on nodes of a reservation that may still be running at its start. It continues."""

    job: str
    pods: int
    ends: Annotated[Nanoseconds | None, doc("Expected end; null: unknown.")]


class ReservationFields(TypedDict):
    """Nodes that are kept for the jobs of a queue or of a namespace from one time to another."""

    name: str
    nodes: list[str]
    queue: Annotated[str | None, doc("Null if a namespace is the holder.")]
    namespace: str | None
    start: Nanoseconds
    end: Nanoseconds
    state: Annotated[str, doc("pending or active.")]
    created_by: Annotated[str, doc("The user who created it; empty if admission did not record it.")]
    created: Annotated[str, doc("When it was created.")]
    reason: str
    problems: Annotated[list[ReservedNodeFields], doc("Nodes that cannot be used as they are.")]
    running: Annotated[list[RunsThereFields], doc("They are not evicted.")]


class ReservationsDocument(TypedDict):
    """All accepted reservations that have not ended."""

    schema: Literal["ringwise.io/reservations/v1"]
    now: Nanoseconds
    reservations: list[ReservationFields]
    problems: Annotated[list[str], doc("Reservations that were not accepted, and why.")]
    remaining_item_count: NotRequired[More]


class ReservationPlanDocument(TypedDict):
    """The reservation that would be created; nothing was changed."""

    schema: Literal["ringwise.io/reservation-plan/v1"]
    now: Nanoseconds
    reservation: ReservationFields


class ReservationChangeDocument(TypedDict):
    """A reservation that was created or deleted."""

    schema: Literal["ringwise.io/reservation-change/v1"]
    action: Annotated[str, doc("reserve or unreserve.")]
    name: str
    reservation: Annotated[ReservationFields | None, doc("Null if it was deleted.")]
