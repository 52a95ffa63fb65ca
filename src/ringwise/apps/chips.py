"""What operators take out of use in a cluster: chips, nodes, leaf switches and SuperPoDs."""

from __future__ import annotations

import json
from typing import Any

from ringwise.apps.live import NothingReadableError, read_cluster
from ringwise.apps.loaded_cluster import from_bundle
from ringwise.apps.targets import UnknownTargetError, find_target, replaces
from ringwise.kubeclient.client import Client, IgnoredStatus, run
from ringwise.kubeclient.config import Access
from ringwise.kubeclient.list_watch import raw_page
from ringwise.kubeclient.resources import CONFIG_MAPS, NODES
from ringwise.manifests.config_maps.isolation import entry_of, read_isolations
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.manifests.text.wire import ConfigMapWire
from ringwise.state.model import Isolation
from ringwise.wellknown import (
    ISOLATION_CONFIG_MAP,
    KUBE_SYSTEM,
    LAST_ISOLATION_CHANGE,
)


class ChipsError(Exception):
    """What a person asked for is not possible; one line."""


def isolate(access: Access, isolation: Isolation) -> bool:
    """Take something out of use; False when it was so already."""
    return run(access, lambda client: _change(client, "isolate", isolation))


def unisolate(access: Access, isolation: Isolation) -> bool:
    """Give back what was isolated; False when it was not."""
    return run(access, lambda client: _change(client, "unisolate", isolation))


def cordon(access: Access, node: str, *, on: bool) -> None:
    """Mark a node as unschedulable or schedulable, as kubectl does. Raises ChipsError."""
    body = {"spec": {"unschedulable": on or None}}
    with IgnoredStatus(404):
        run(access, lambda client: client.patch(NODES, None, node, body))
        return
    raise ChipsError(f"there is no node {node}")


async def _change(client: Client, action: str, one: Isolation) -> bool:
    key, entry = entry_of(one)
    value = entry if action == "isolate" else None
    # A release leaves no entry: the last change of all is kept beside them.
    last = {"action": action, "node": one.target, "chip": one.chip}
    last |= {"by": one.by, "at": one.at, "reason": one.reason}
    notes = {"annotations": {LAST_ISOLATION_CHANGE: json.dumps(last, ensure_ascii=False)}}
    if value is not None:
        await (_check_node(client, one.node) if one.node else _check_group(client, one.target))

    def change(stored: ConfigMapWire | None) -> dict[str, Any] | None:
        data = (stored.data if stored is not None else None) or {}
        old = read_isolations({key: data[key]})[0] if key in data else None
        stays = old is None if value is None else not replaces(one, old)
        return None if stays else {"metadata": notes, "data": {key: value}}

    changed = await client.update(CONFIG_MAPS, KUBE_SYSTEM, ISOLATION_CONFIG_MAP, ConfigMapWire, change)
    if value is None and not changed and one.node:
        # A name that was mistyped is an error; a node that is gone can be released all the same.
        await _check_node(client, one.node)
    return changed


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
