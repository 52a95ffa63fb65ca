"""`reset-config-<job>`: what the processes of a job read about its rescheduling.

The user makes the ConfigMap with the job and mounts it, or Huawei's device plugin copies it into the
containers. Here it is changed where it exists, and never created. The right to do so is an option of the
installation: without it nothing is written, and the log says so once for each namespace.
"""

from __future__ import annotations

from typing import Any

from ringwise.kubeclient.client import Client
from ringwise.kubeclient.resources import CONFIG_MAPS
from ringwise.kubeclient.retry import GivenUpError, Retrier
from ringwise.log import Logger
from ringwise.manifests.config_maps.reset_config import changed
from ringwise.manifests.text.wire import ConfigMapWire
from ringwise.messages.commands import SetResetConfig
from ringwise.wellknown import RESET_CONFIG_PREFIX, RESET_KEY

_LOG = Logger()

#: Pods are deleted after the write: it is tried twice and given up soon, whatever the API server does.
_ATTEMPTS = 2
_TIMEOUT = 2.0


class ResetConfigs:
    def __init__(self, client: Client, retrier: Retrier) -> None:
        self._client = client
        self._retrier = retrier
        #: Namespaces for which the log says that the right is missing.
        self._refused: set[str] = set()

    async def write(self, command: SetResetConfig) -> None:
        """Never raises: what the processes read must not keep pods from being moved."""
        where = f"{command.namespace}/{RESET_CONFIG_PREFIX}{command.job}"
        try:
            await self._retrier.run(lambda: self._change(command, where), _ATTEMPTS)
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

        await self._client.update(CONFIG_MAPS, command.namespace, name, ConfigMapWire, change, _TIMEOUT)

    def _log_refused(self, namespace: str, where: str) -> None:
        if namespace not in self._refused:
            self._refused.add(namespace)
            _LOG.warning(
                "no permission to change reset configurations in this namespace: processes are not "
                "notified that their job is rescheduled (docs/guides/faults.md, reset-config)",
                namespace=namespace,
                name=where,
            )
