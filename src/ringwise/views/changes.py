"""Documents of changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ringwise.durations import time_text
from ringwise.state.model import Isolation
from ringwise.views.documents.changes import NodeChangeDocument
from ringwise.views.documents.reservations import ReservationChangeDocument, ReservationFields


def node_change(
    node: str, action: str, leaving: Sequence[str] = (), at: str | None = None, *, changed: bool = True
) -> NodeChangeDocument:
    evicted = list(leaving)
    return NodeChangeDocument(node=node, action=action, evicted_pods=evicted, start=at, changed=changed)


def cordon_change(
    node: str, action: str, isolations: Iterable[Isolation], *, changed: bool
) -> NodeChangeDocument:
    """The result of a request to cordon or uncordon a node; `isolations`: those of the cluster."""
    document = node_change(node, action, changed=changed)
    own = [one for one in isolations if one.node == node and not one.chips]
    if action == "uncordon" and own:
        start = min(one.start or 0 for one in own)
        document.withheld = f"{node} is {f'drained at {time_text(start)}' if start else 'isolated'}"
    return document


def reservation_change(
    action: str, name: str, one: ReservationFields | None = None
) -> ReservationChangeDocument:
    return {"schema": "ringwise.io/reservation-change/v1", "action": action, "name": name, "reservation": one}
