"""ConfigMaps of the scheduler itself: written whenever their content changed, read when it begins to lead.

Each belongs in the namespace in which the users of Huawei's components look for it. A cluster need not have
that namespace; then it is in the scheduler's own. The permissions for a namespace that does not exist do not
exist either, so the API server answers 403 instead of 404: both mean the same here.
"""

from __future__ import annotations

from collections.abc import Mapping

from ringwise.kubeclient.client import ApiError, Client, IgnoredStatus
from ringwise.kubeclient.resources import CONFIG_MAPS
from ringwise.manifests.text.wire import ConfigMapWire
from ringwise.wellknown import APP_MANAGED_BY, VOLCANO_SYSTEM

_NOT_THERE = (403, 404)


class OwnConfigMaps:
    def __init__(self, client: Client, namespace: str = VOLCANO_SYSTEM) -> None:
        self._client = client
        #: The scheduler's own.
        self._namespace = namespace

    async def write(self, namespace: str, name: str, data: Mapping[str, str]) -> None:
        """Write the keys of `data`; other keys of the ConfigMap stay.

        A server-side apply would remove them: they belong to other parts of the scheduler.
        """
        try:
            await self._write_in(namespace, name, data)
        except ApiError as error:
            if error.status not in _NOT_THERE or namespace == self._namespace:
                raise
            await self._write_in(self._namespace, name, data)

    async def _write_in(self, namespace: str, name: str, data: Mapping[str, str]) -> None:
        patch = {"data": dict(data)}
        with IgnoredStatus(404):
            await self._client.patch(CONFIG_MAPS, namespace, name, patch)
            return
        meta = {"name": name, "namespace": namespace, "labels": {APP_MANAGED_BY: "ringwise"}}
        if await self._client.create_if_missing(CONFIG_MAPS, namespace, {"metadata": meta, **patch}) is None:
            # Another part of the scheduler has created it meanwhile, with other keys.
            await self._client.patch(CONFIG_MAPS, namespace, name, patch)

    async def read(self, namespace: str, name: str) -> dict[str, str]:
        """Its data; empty where there is none. Other errors than a missing object are raised."""
        return await self.find(namespace, name) or {}

    async def find(self, namespace: str, name: str) -> dict[str, str] | None:
        """The same; None where there is no such ConfigMap."""
        for place in dict.fromkeys((namespace, self._namespace)):
            with IgnoredStatus(*_NOT_THERE):
                config_map = await self._client.get(CONFIG_MAPS, place, name, ConfigMapWire)
                return {key: value for key, value in (config_map.data or {}).items() if value}
        return None
