"""Reservations of nodes in a cluster: NodeReservations, written with the rights of the user."""

from __future__ import annotations

from ringwise.apps.reservations import unknown_reservation
from ringwise.kubeclient.client import ApiError, Client, run
from ringwise.kubeclient.config import Access
from ringwise.kubeclient.resources import Resource
from ringwise.manifests.objects.node_reservations import node_reservation_body
from ringwise.scheduler.explain.reserving import NotReservableError
from ringwise.state.model import NodeReservation
from ringwise.wellknown import NODE_RESERVATIONS

_RESOURCE = Resource(*NODE_RESERVATIONS)
_NOT_SERVED = "the API server does not serve NodeReservations; install the Helm chart"


def reserve(access: Access, one: NodeReservation) -> None:
    """Create it. Raises NotReservableError, ApiError."""

    async def create(client: Client) -> None:
        try:
            if await client.create_if_missing(_RESOURCE, None, node_reservation_body(one)) is None:
                raise NotReservableError(f"there is a reservation {one.name} already")
        except ApiError as error:
            if error.status == 404:
                raise NotReservableError(_NOT_SERVED) from None
            raise

    run(access, create)


def unreserve(access: Access, name: str) -> None:
    """Delete it. Raises NotReservableError if there is no such reservation."""
    if not run(access, lambda client: client.delete(_RESOURCE, None, name)):
        raise unknown_reservation(name, ())
