"""Writes HyperNodes that are made from labels of nodes. Only those with our label are changed or deleted."""

from __future__ import annotations

from typing import Any

from ringwise.kubeclient.client import Client, IgnoredStatus
from ringwise.kubeclient.resources import HYPER_NODES
from ringwise.log import Logger
from ringwise.manifests.text.wire import ObjectWire
from ringwise.state.model import HyperNode
from ringwise.wellknown import TOPOLOGY_TYPE

_LOG = Logger()


class _Existing(ObjectWire):
    @property
    def is_ours(self) -> bool:
        return TOPOLOGY_TYPE in (self.metadata.labels or {})


def hyper_node_spec(hyper_node: HyperNode) -> dict[str, Any]:
    members = [
        {
            "type": "HyperNode" if member.hyper_node else "Node",
            "selector": {"exactMatch": {"name": member.name}},
        }
        for member in hyper_node.members
    ]
    return {"tier": hyper_node.tier, "tierName": hyper_node.tier_name, "members": members}


class HyperNodeWriter:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._logged_missing = False

    async def put(self, wanted: HyperNode) -> None:
        """Create it, or update it: what others wrote into it and its status stay."""
        existing = await self._client.find(HYPER_NODES, None, wanted.name, _Existing)
        if existing is not None and not existing.is_ours:
            _LOG.warning("HyperNode is not managed by Ringwise and is not changed", object=wanted.name)
            return
        meta: dict[str, Any] = {"labels": dict(wanted.labels)}
        if existing is not None:
            # With the version that was checked: it cannot become another's in between.
            meta["resourceVersion"] = existing.metadata.resource_version
        body = {"metadata": meta, "spec": hyper_node_spec(wanted)}
        # Without force: one that another client creates meanwhile is a conflict, and not ours.
        with IgnoredStatus(404):
            await self._client.apply(HYPER_NODES, None, wanted.name, body, force=existing is not None)
            return
        # The controller asks again and again, ever more seldom.
        if not self._logged_missing:
            self._logged_missing = True
            kind = f"{HYPER_NODES.plural}.{HYPER_NODES.group}"
            _LOG.error("HyperNodes cannot be created: their CRD is not installed", crd=kind)

    async def delete(self, name: str) -> None:
        existing = await self._client.find(HYPER_NODES, None, name, _Existing)
        if existing is not None and existing.is_ours:
            await self._client.delete(HYPER_NODES, None, name, uid=existing.metadata.uid or "")
        elif existing is not None:
            _LOG.warning("HyperNode is not managed by Ringwise and is not deleted", object=name)
