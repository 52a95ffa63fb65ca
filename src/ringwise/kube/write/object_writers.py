"""Writers of volume claims, of HyperNodes and of the reset configurations of jobs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ringwise.kubeclient.client import Client, IgnoredStatus
from ringwise.kubeclient.resources import CLAIMS, CONFIG_MAPS, HYPER_NODES, VOLUMES
from ringwise.kubeclient.retry import Action, GivenUpError, Retrier
from ringwise.log import Logger
from ringwise.manifests.config_maps.reset_config import changed
from ringwise.manifests.text.wire import ConfigMapWire, ObjectWire, PersistentVolumeWire
from ringwise.messages.commands import BindVolume, SelectNode, SetResetConfig
from ringwise.messages.events import ClaimFailed
from ringwise.state.model import HyperNode
from ringwise.wellknown import (
    BOUND_BY_CONTROLLER,
    RESET_CONFIG_PREFIX,
    RESET_KEY,
    SELECTED_NODE,
    TOPOLOGY_TYPE,
)

_LOG = Logger()
#: The core releases the chips when it is notified of a failure, and tries the job again.
_ATTEMPTS = 5


class ClaimWriter:
    """Writes what the scheduler decided about volume claims, as kube-scheduler does: node, or volume.

    Kubernetes' volume controller and provisioners do the rest, and the watch of claims tells when it is done.
    """

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
        volume = await self._client.get(VOLUMES, "", command.volume, PersistentVolumeWire)
        there = volume.spec.claim_ref if volume.spec is not None else None
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
        reference = CLAIMS.reference(command.claim, command.uid, namespace=command.namespace)
        body = {"metadata": meta, "spec": {"claimRef": reference}}
        await self._client.patch(VOLUMES, "", command.volume, body)


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
    """Writes HyperNodes that are made from labels of nodes.

    Only those with our label are changed or deleted.
    """

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


#: Pods are deleted after the write: it is tried twice and given up soon, whatever the API server does.
_RESET_ATTEMPTS = 2
_RESET_TIMEOUT = 2.0


class ResetConfigs:
    """`reset-config-<job>`: what the processes of a job read about its rescheduling.

    The user makes the ConfigMap with the job and mounts it, or Huawei's device plugin copies it into the
    containers. Here it is changed where it exists, and never created. The right to do so is an option of the
    installation: without it nothing is written, and the log says so once for each namespace.
    """

    def __init__(self, client: Client, retrier: Retrier) -> None:
        self._client = client
        self._retrier = retrier
        #: Namespaces for which the log says that the right is missing.
        self._refused: set[str] = set()

    async def write(self, command: SetResetConfig) -> None:
        """Never raises: what the processes read must not keep pods from being moved."""
        where = f"{command.namespace}/{RESET_CONFIG_PREFIX}{command.job}"
        try:
            await self._retrier.run(lambda: self._change(command, where), _RESET_ATTEMPTS)
        except GivenUpError as error:
            if error.status == 403:
                self._log_refused(command.namespace, where)
            else:
                _LOG.warning("the reset configuration of a job was not written", name=where, why=str(error))

    async def _change(self, command: SetResetConfig, where: str) -> None:
        name = f"{RESET_CONFIG_PREFIX}{command.job}"

        # ClusterD and the device plugin write it, too, so it may have to be changed again.
        def change(config_map: ConfigMapWire | None) -> dict[str, Any] | None:
            if config_map is None:
                return None
            data = changed((config_map.data or {}).get(RESET_KEY) or "", command)
            if data is None:
                _LOG.warning(
                    "the reset configuration of a job is not a JSON object and is not changed", name=where
                )
            return None if data is None else {"data": data}

        await self._client.update(CONFIG_MAPS, command.namespace, name, ConfigMapWire, change, _RESET_TIMEOUT)

    def _log_refused(self, namespace: str, where: str) -> None:
        if namespace not in self._refused:
            self._refused.add(namespace)
            _LOG.warning(
                "no permission to change reset configurations in this namespace: processes are not "
                "notified that their job is rescheduled (docs/guides/faults.md, reset-config)",
                namespace=namespace,
                name=where,
            )
