"""Cordons and Isolations in a cluster, written with the rights of the user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from ringwise.apps.live import read_cluster
from ringwise.apps.loading import from_bundle
from ringwise.apps.targets import UnknownTargetError, find_target
from ringwise.kubeclient.client import MAX_CONFLICTS, PAGE_SIZE, ApiError, Client, IgnoredStatus, run
from ringwise.kubeclient.config import Access
from ringwise.kubeclient.list_watch import page_reader
from ringwise.kubeclient.resources import NODES, Resource
from ringwise.manifests.objects.custom_resources import CustomResourceWire, without_nulls
from ringwise.manifests.objects.isolations import (
    isolate_changes,
    isolation_body,
    isolation_from_wire,
    unisolate_changes,
)
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.manifests.text.errors import Findings
from ringwise.state.model import Isolation
from ringwise.wellknown import ISOLATIONS

_RESOURCE = Resource(*ISOLATIONS)


def isolate(access: Access, wanted: Isolation, *, on: bool) -> bool:
    """Take something out of use, or back into use; False if it was so already."""

    async def change(client: Client) -> bool:
        if on:
            await (_find_node(client, wanted.node) if wanted.node else _check_group(client, wanted.target))
        changed = await _change(client, wanted, on=on)
        if not on and not changed and wanted.node:
            # A name that was mistyped is an error; a node that does not exist can be unisolated all the same.
            await _find_node(client, wanted.node)
        return changed

    return run(access, change)


class _NodeSpec(msgspec.Struct):
    unschedulable: bool | None = False


class _Node(msgspec.Struct):
    spec: _NodeSpec = msgspec.field(default_factory=_NodeSpec)


def cordon(access: Access, node: str, *, on: bool) -> bool:
    """Mark a node as unschedulable or schedulable, as kubectl does; False if it was so already.

    Raises UnknownTargetError.
    """

    async def change(client: Client) -> bool:
        # Who may not list nodes may still be allowed to patch them.
        with IgnoredStatus(403):
            if bool((await _find_node(client, node)).spec.unschedulable) == on:
                return False
        body = {"spec": {"unschedulable": on or None}}
        with IgnoredStatus(404):
            await client.patch(NODES, None, node, body)
            return True
        raise UnknownTargetError(f'node "{node}" not found')

    return run(access, change)


async def _change(client: Client, wanted: Isolation, *, on: bool) -> bool:
    """If another client writes meanwhile, the Isolations are read and changed again."""
    conflicts = 0
    while True:
        existing = await _isolations(client)
        isolations = [one for one, _ in existing.values()]
        changes = isolate_changes(isolations, wanted) if on else unisolate_changes(isolations, wanted)
        try:
            for name, one in changes.items():
                if one is None:
                    await client.delete(_RESOURCE, None, name)
                elif name not in existing:
                    await client.create(_RESOURCE, None, without_nulls(isolation_body(one)))
                else:
                    body = {**isolation_body(one), "metadata": {"resourceVersion": existing[name][1]}}
                    await client.patch(_RESOURCE, None, name, body)
            return bool(changes)
        except ApiError as error:
            conflicts += 1
            if error.status != 409 or conflicts == MAX_CONFLICTS:
                raise


def read_isolations(access: Access) -> list[Isolation]:
    return [one for one, _ in run(access, _isolations).values()]


async def _isolations(client: Client) -> dict[str, tuple[Isolation, str]]:
    """Each with its version, by name. One that cannot be read is left alone."""
    result: dict[str, tuple[Isolation, str]] = {}
    with requires(_RESOURCE, UnknownTargetError):
        async for page in client.pages(_RESOURCE.path(), {}, PAGE_SIZE, page_reader(CustomResourceWire)):
            for wire in page.items or ():
                findings = Findings(ISOLATIONS.kind)
                one = isolation_from_wire(wire, findings)
                if not findings.errors:
                    result[one.name] = one, wire.metadata.resource_version or ""
    return result


@contextmanager
def requires(resource: Resource, error: type[Exception]) -> Iterator[None]:
    """Raise the error where the API server does not serve a kind."""
    with IgnoredStatus(404):
        yield
        return
    raise error(f"the API server does not serve {resource.kind}s; install the Helm chart")


async def _check_group(client: Client, target: str) -> None:
    """A leaf switch or a SuperPoD is known from the objects of the cluster."""
    live = await read_cluster(client)
    loaded = from_bundle(live.bundle, live.configuration, shipped_catalog(), decide=False)
    find_target(loaded.view, target)


async def _find_node(client: Client, node: str) -> _Node:
    """By a list: readers of the cluster may list nodes, and need no other verb for this."""
    # These signs are none of a node's name, and have a meaning in a selector.
    if not any(sign in node for sign in ",=!\\"):
        selected = {"fieldSelector": f"metadata.name={node}"}
        async for page in client.pages(NODES.path(), selected, 1, page_reader(_Node)):
            for found in page.items or ():
                return found
    raise UnknownTargetError(f'node "{node}" not found')
