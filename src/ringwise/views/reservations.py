"""Nodes that are reserved for queues and namespaces, as documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ringwise.durations import time_text
from ringwise.scheduler.explain.reserving import OverlappingJob, running_then
from ringwise.scheduler.node_states import NodeState, node_states
from ringwise.scheduler.view import SchedulerView
from ringwise.state.model import NodeReservation
from ringwise.topology.natural import natural_key

if TYPE_CHECKING:
    from ringwise.views.documents.reservations import ReservationFields, ReservedNodeFields

#: States that do not keep jobs from using a node.
_USABLE = (NodeState.READY, NodeState.RESERVED, NodeState.SUB_HEALTHY, NodeState.AWAITING_REPORT)


def reservation_documents(
    view: SchedulerView, now: int, some: Iterable[NodeReservation] | None = None
) -> list[ReservationFields]:
    """Those that are not over, or some; the first to begin first."""
    entries = view.cluster.node_reservations.entries if some is None else some
    wanted = sorted(
        (one for one in entries if one.end > now), key=lambda one: (one.start, natural_key(one.name))
    )
    running = running_then(view, now, wanted)
    return [_fields(view, one, now, running[one.name]) for one in wanted]


def _fields(
    view: SchedulerView, one: NodeReservation, now: int, running: list[OverlappingJob]
) -> ReservationFields:
    return {
        "name": one.name,
        "nodes": list(one.nodes),
        "queue": one.queue or None,
        "namespace": one.namespace or None,
        "start": one.start,
        "end": one.end,
        "state": "active" if one.start <= now else "pending",
        "created_by": one.by,
        "created": time_text(one.created) if one.created else "",
        "reason": one.reason,
        "problems": list(_troubles(view, one, now)),
        "running": [{"job": run.job, "pods": run.pods, "ends": run.ends} for run in running],
    }


def _troubles(view: SchedulerView, one: NodeReservation, now: int) -> Iterator[ReservedNodeFields]:
    for name in one.nodes:
        number = view.cluster.node_id.get(name)
        if number is None or view.cluster.nodes[number] is None:
            yield {"node": name, "state": "gone", "message": f'node "{name}" not found'}
            continue
        for state in node_states(view.cluster, number, now):
            if state.state not in _USABLE and (state.closes or (state.start or 0) < one.end):
                yield {"node": name, "state": state.state.value, "message": state.why}
                break


def reservation_of_fields(fields: ReservationFields) -> NodeReservation:
    """The same as a value."""
    return NodeReservation(
        fields["name"],
        tuple(fields["nodes"]),
        fields["start"],
        fields["end"],
        fields["queue"] or "",
        fields["namespace"] or "",
        reason=fields["reason"],
    )
