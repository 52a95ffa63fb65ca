"""Changes of a cluster with the rights of the user, by the requests that a lab takes, too."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ringwise.apps.job_changes import change_job
from ringwise.apps.lab.requests import (
    IsolateRequest,
    JobRequest,
    MoveRequest,
    NodeRequest,
    ReserveRequest,
    UnreserveRequest,
)
from ringwise.apps.live_isolations import cordon, isolate
from ringwise.apps.reservations import unknown_reservation
from ringwise.apps.suspension import ACTIONS, JobChangeRequest, message_of
from ringwise.apps.targets import UnknownTargetError, isolation_answer, isolation_of, moment, named
from ringwise.durations import SECOND
from ringwise.kubeclient.client import ApiError, run
from ringwise.kubeclient.config import Access
from ringwise.kubeclient.resources import Resource
from ringwise.manifests.objects.node_reservations import node_reservation_body
from ringwise.scheduler.explain.reserving import NotReservableError
from ringwise.views.changes import node_change, reservation_change
from ringwise.views.documents.changes import NodeChangeDocument
from ringwise.views.documents.reservations import ReservationChangeDocument
from ringwise.views.reservations import reservation_of_fields
from ringwise.wellknown import MOVE_PLANS, NODE_RESERVATIONS

_RESERVATIONS = Resource(*NODE_RESERVATIONS)


def _cordon(access: Access, action: str, request: NodeRequest) -> NodeChangeDocument:
    cordon(access, request.node, on=action == "cordon")
    return node_change(request.node, action)


def _isolate(access: Access, action: str, request: IsolateRequest) -> dict[str, Any]:
    now = time.time_ns()
    start = None if request.at is None else moment(request.at, now)
    wanted = isolation_of(*named(request.target), *request.chips, reason=request.reason, start=start)
    return isolation_answer(wanted, isolate(access, wanted, on=action == "isolate"), now)


def _reserve(access: Access, action: str, request: ReserveRequest) -> ReservationChangeDocument:
    fields = request.reservation
    body = node_reservation_body(reservation_of_fields(fields))
    try:
        created = run(access, lambda client: client.create_if_missing(_RESERVATIONS, None, body))
    except ApiError as error:
        if error.status == 404:
            said = "the API server does not serve NodeReservations; install the Helm chart"
            raise NotReservableError(said) from None
        raise
    if created is None:
        raise NotReservableError(f"there is a reservation {fields['name']} already")
    return reservation_change(action, fields["name"], fields)


def _unreserve(access: Access, action: str, request: UnreserveRequest) -> ReservationChangeDocument:
    name = request.name
    if not run(access, lambda client: client.delete(_RESERVATIONS, None, name)):
        raise unknown_reservation(name, ())
    return reservation_change(action, name)


def _move(access: Access, _action: str, request: MoveRequest) -> None:
    """Raises UnknownTargetError."""
    try:
        run(access, lambda client: client.create(Resource(*MOVE_PLANS), None, request.plan))
    except ApiError as error:
        if error.status == 404:
            said = "the API server does not serve MovePlans; install the Helm chart"
            raise UnknownTargetError(said) from None
        raise


def _change_job(access: Access, action: str, request: JobRequest) -> Any:
    return change_job(
        access,
        request.job,
        JobChangeRequest(action, request.queue, request.priority),
        message_of(request.by, request.reason),
        request.timeout / SECOND,
        namespace=request.namespace,
        everywhere=request.all_namespaces,
    )


#: By action, as in the table of requests.
CHANGES: Mapping[str, Callable[[Access, str, Any], Any]] = {
    **dict.fromkeys(("cordon", "uncordon"), _cordon),
    **dict.fromkeys(("isolate", "unisolate"), _isolate),
    "reserve": _reserve,
    "unreserve": _unreserve,
    "move": _move,
    **dict.fromkeys(ACTIONS, _change_job),
}
