"""Nodes that are reserved in a cluster: the entries of the ConfigMap, written with the rights of the user."""

from __future__ import annotations

from typing import Any

from ringwise.apps.reservations import changed_data
from ringwise.kubeclient.client import run
from ringwise.kubeclient.config import Access
from ringwise.kubeclient.resources import CONFIG_MAPS
from ringwise.manifests.text.wire import ConfigMapWire
from ringwise.state.model import NodeReservation
from ringwise.wellknown import KUBE_SYSTEM, RESERVATION_CONFIG_MAP


def reserve(access: Access, one: NodeReservation, now: int) -> None:
    """Write the entry, and leave out those that are over. Raises NotReservableError, ApiError."""
    _change(access, one.name, one, now)


def unreserve(access: Access, name: str, now: int) -> None:
    """Raises NotReservableError where there is no such reservation."""
    _change(access, name, None, now)


def _change(access: Access, name: str, one: NodeReservation | None, now: int) -> None:
    def change(stored: ConfigMapWire | None) -> dict[str, Any]:
        data: dict[str, str | None] = dict((stored.data if stored is not None else None) or {})
        return {"data": changed_data(data, name, one, now)}

    where = (CONFIG_MAPS, KUBE_SYSTEM, RESERVATION_CONFIG_MAP)
    run(access, lambda client: client.update(*where, ConfigMapWire, change))
