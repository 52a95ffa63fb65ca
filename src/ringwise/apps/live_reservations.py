"""Nodes that are reserved in a cluster: the entries of the ConfigMap, written with the rights of the user."""

from __future__ import annotations

import asyncio

from ringwise.apps.chips import ATTEMPTS, written
from ringwise.apps.reservations import changed_data
from ringwise.kubeclient.client import ApiError, Client
from ringwise.kubeclient.config import Access
from ringwise.kubeclient.resources import CONFIG_MAPS
from ringwise.manifests.text.wire import ConfigMapWire
from ringwise.scheduler.explain.reserving import NotReservableError
from ringwise.state.model import NodeReservation
from ringwise.wellknown import KUBE_SYSTEM, RESERVATION_CONFIG_MAP


def reserve(access: Access, one: NodeReservation, now: int) -> None:
    """Write the entry, and leave out those that are over. Raises NotReservableError, ApiError."""
    asyncio.run(_change(access, one.name, one, now))


def unreserve(access: Access, name: str, now: int) -> None:
    """Raises NotReservableError where there is no such reservation."""
    asyncio.run(_change(access, name, None, now))


async def _change(access: Access, name: str, one: NodeReservation | None, now: int) -> None:
    async with Client(access, component="cli") as client:
        for _ in range(ATTEMPTS):
            stored: ConfigMapWire | None = None
            try:
                stored = await client.get(CONFIG_MAPS, KUBE_SYSTEM, RESERVATION_CONFIG_MAP, ConfigMapWire)
            except ApiError as error:
                if error.status != 404:
                    raise
            data: dict[str, str | None] = dict((stored.data if stored is not None else None) or {})
            patch = changed_data(data, name, one, now)
            if stored is None:
                body = {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"namespace": KUBE_SYSTEM, "name": RESERVATION_CONFIG_MAP},
                    "data": patch,
                }
                done = await written(client.create(CONFIG_MAPS, KUBE_SYSTEM, body))
            else:
                version = stored.metadata.resource_version if stored.metadata is not None else None
                change = {"metadata": {"resourceVersion": version}, "data": patch}
                done = await written(client.patch(CONFIG_MAPS, KUBE_SYSTEM, RESERVATION_CONFIG_MAP, change))
            if done:
                return
    raise NotReservableError(
        f"ConfigMap {KUBE_SYSTEM}/{RESERVATION_CONFIG_MAP} is changed by others all the time"
    )
