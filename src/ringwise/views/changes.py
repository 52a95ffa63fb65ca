"""Documents of changes."""

from __future__ import annotations

from collections.abc import Sequence

from ringwise.views.documents.changes import NodeChangeDocument
from ringwise.views.documents.reservations import ReservationChangeDocument, ReservationFields


def node_change(
    node: str, action: str, leaving: Sequence[str] = (), at: str | None = None, *, changed: bool = True
) -> NodeChangeDocument:
    evicted = list(leaving)
    return NodeChangeDocument(node=node, action=action, evicted_pods=evicted, start=at, changed=changed)


def reservation_change(
    action: str, name: str, one: ReservationFields | None = None
) -> ReservationChangeDocument:
    return {"schema": "ringwise.io/reservation-change/v1", "action": action, "name": name, "reservation": one}
