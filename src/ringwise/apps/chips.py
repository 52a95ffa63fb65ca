"""What operators take out of use in a cluster: chips, nodes, leaf switches and SuperPoDs."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from ringwise.apps.live import NothingReadableError, read_cluster
from ringwise.apps.loaded_cluster import from_bundle
from ringwise.apps.targets import UnknownTargetError, find_target, replaces
from ringwise.kubeclient.client import ApiError, Client
from ringwise.kubeclient.config import Access
from ringwise.kubeclient.list_watch import raw_page
from ringwise.kubeclient.resources import CONFIG_MAPS, NODES
from ringwise.manifests.config_maps.isolation import entry_of, read_isolations
from ringwise.manifests.text.wire import ConfigMapWire
from ringwise.state.model import Isolation
from ringwise.topology.boards import shipped_catalog
from ringwise.wellknown import (
    ISOLATION_CONFIG_MAP,
    KUBE_SYSTEM,
    LAST_ISOLATION_CHANGE,
)

#: A conditional write is tried so often when others write at the same time.
ATTEMPTS = 5


class ChipsError(Exception):
    """What a person asked for is not possible; one line."""


def isolate(access: Access, isolation: Isolation) -> bool:
    """Take something out of use; False when it was so already."""
    return asyncio.run(_change(access, "isolate", isolation))


def release(access: Access, isolation: Isolation) -> bool:
    """Give back what was isolated; False when it was not."""
    return asyncio.run(_change(access, "release", isolation))


def cordon(access: Access, node: str, *, on: bool) -> None:
    """Mark a node as unschedulable or schedulable, as kubectl does. Raises ChipsError."""
    asyncio.run(_cordon(access, node, on))


async def _cordon(access: Access, node: str, on: bool) -> None:
    async with Client(access, component="cli") as client:
        try:
            await client.patch(NODES, None, node, {"spec": {"unschedulable": on or None}})
        except ApiError as error:
            if error.status == 404:
                raise ChipsError(f"there is no node {node}") from None
            raise


async def _change(access: Access, action: str, one: Isolation) -> bool:
    key, entry = entry_of(one)
    value = entry if action == "isolate" else None
    # A release leaves no entry: the last change of all is kept beside them.
    last = {"action": action, "node": one.target, "chip": one.chip}
    last |= {"by": one.by, "at": one.at, "reason": one.reason}
    notes = {"annotations": {LAST_ISOLATION_CHANGE: json.dumps(last, ensure_ascii=False)}}
    async with Client(access, component="cli") as client:
        if value is not None:
            await (_check_node(client, one.node) if one.node else _check_group(client, one.target))
        for _ in range(ATTEMPTS):
            try:
                stored = await client.get(CONFIG_MAPS, KUBE_SYSTEM, ISOLATION_CONFIG_MAP, ConfigMapWire)
            except ApiError as error:
                if error.status != 404:
                    raise
                if value is None:
                    return await _nothing_to_release(client, one)
                body = {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"namespace": KUBE_SYSTEM, "name": ISOLATION_CONFIG_MAP, **notes},
                    "data": {key: value},
                }
                if await written(client.create(CONFIG_MAPS, KUBE_SYSTEM, body)):
                    return True
                continue
            data = stored.data or {}
            old = read_isolations({key: data[key]})[0] if key in data else None
            if value is None and old is None:
                return await _nothing_to_release(client, one)
            if value is not None and not replaces(one, old):
                return False
            version = stored.metadata.resource_version if stored.metadata is not None else None
            patch = {"metadata": {"resourceVersion": version, **notes}, "data": {key: value}}
            if await written(client.patch(CONFIG_MAPS, KUBE_SYSTEM, ISOLATION_CONFIG_MAP, patch)):
                return True
    raise ChipsError(f"ConfigMap {KUBE_SYSTEM}/{ISOLATION_CONFIG_MAP} is changed by others all the time")


async def _nothing_to_release(client: Client, one: Isolation) -> bool:
    """A name that was mistyped is an error; a node that is gone can be released all the same."""
    if one.node:
        await _check_node(client, one.node)
    return False


async def written(request: Any) -> bool:
    try:
        await request
    except ApiError as error:
        if error.status == 409:
            return False
        raise
    return True


async def _check_group(client: Client, target: str) -> None:
    """A leaf switch or a SuperPoD is known from the objects of the cluster."""
    try:
        live = await read_cluster(client)
        find_target(
            from_bundle(live.bundle, live.configuration, shipped_catalog(), decide=False).view, target
        )
    except (NothingReadableError, UnknownTargetError) as problem:
        raise ChipsError(str(problem)) from None


async def _check_node(client: Client, node: str) -> None:
    """By a list: readers of the cluster may list nodes, and need no other verb for this."""
    # These signs are none of a node's name, and have a meaning in a selector.
    if not any(sign in node for sign in ",=!\\"):
        selected = {"fieldSelector": f"metadata.name={node}"}
        async for page in client.pages(NODES.path(), selected, 1, raw_page):
            if page.items:
                return
    raise ChipsError(f"there is no node {node}")
