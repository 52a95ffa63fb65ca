"""Writes what the scheduler decided about volume claims, as kube-scheduler does: their node, or their volume.

Kubernetes' volume controller and provisioners do the rest, and the watch of claims tells when it is done.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from ringwise.kubeclient.client import Client
from ringwise.kubeclient.resources import CLAIMS, VOLUMES
from ringwise.kubeclient.retry import Action, GivenUpError, Retrier
from ringwise.manifests.text.wire import ObjectWire
from ringwise.messages.commands import BindVolume, SelectNode
from ringwise.messages.events import ClaimFailed
from ringwise.wellknown import BOUND_BY_CONTROLLER, SELECTED_NODE

#: The core gives the chips back when it hears of a failure, and tries the job again.
_ATTEMPTS = 5


class _ClaimRef(msgspec.Struct):
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


class _Spec(msgspec.Struct, rename="camel"):
    claim_ref: _ClaimRef | None = None


class _Volume(ObjectWire):
    spec: _Spec = msgspec.field(default_factory=_Spec)


class ClaimWriter:
    def __init__(self, client: Client, retrier: Retrier, on_failed: Callable[[ClaimFailed], object]) -> None:
        self._client = client
        self._retrier = retrier
        self._on_failed = on_failed

    async def select_node(self, command: SelectNode) -> None:
        await self._try(f"{command.namespace}/{command.claim}", partial(self._select, command))

    async def bind_volume(self, command: BindVolume) -> None:
        await self._try(f"{command.namespace}/{command.claim}", partial(self._bind, command))

    async def _try(self, key: str, action: Action) -> None:
        try:
            await self._retrier.run(action, _ATTEMPTS)
        except GivenUpError as error:
            self._on_failed(ClaimFailed(key, str(error)))
            raise

    async def _select(self, command: SelectNode) -> None:
        """With the uid: the API server refuses it for a claim that was recreated meanwhile."""
        body = {"metadata": {"uid": command.uid, "annotations": {SELECTED_NODE: command.node}}}
        await self._client.patch(CLAIMS, command.namespace, command.claim, body)

    async def _bind(self, command: BindVolume) -> None:
        """With the version that was read: two claims never get one volume."""
        volume = await self._client.get(VOLUMES, "", command.volume, _Volume)
        there = volume.spec.claim_ref
        if there is not None:
            named = (there.namespace, there.name) == (command.namespace, command.claim)
            if not named or there.uid not in (None, "", command.uid):
                raise GivenUpError(f"volume {command.volume} is for claim {there.namespace}/{there.name}")
            if there.uid:
                return
        meta: dict[str, Any] = {"resourceVersion": volume.metadata.resource_version}
        if there is None:
            # Whoever reserved a volume for a claim of this name keeps it reserved when the claim goes.
            meta["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
        reference = {
            "apiVersion": CLAIMS.version,
            "kind": CLAIMS.kind,
            "namespace": command.namespace,
            "name": command.claim,
            "uid": command.uid,
        }
        body = {"metadata": meta, "spec": {"claimRef": reference}}
        await self._client.patch(VOLUMES, "", command.volume, body)
