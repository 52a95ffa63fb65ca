"""A test node: the plugin's real code, stand-ins of kubelet and API server, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ringwise.device.cards import Chip
from ringwise.device.drivers.simulated import SimulatedDriver
from ringwise.device.plugin import NodePlugin
from ringwise.device.service import Registration
from ringwise.device.settings import PluginSettings
from ringwise.device.simulated_kubelet import SimulatedKubelet
from ringwise.kubeclient.client import Client
from ringwise.kubeclient.config import direct
from tests.builders.values import CHIP
from tests.kube.fake_api_server import FakeApiServer, Object

PODS, NODES, CONFIG_MAPS = "/api/v1/pods", "/api/v1/nodes", "/api/v1/configmaps"
ISOLATIONS = "/apis/ringwise.io/v1alpha1/isolations"
NODE = "node-1"
REPORT = f"kube-system/mindx-dl-deviceinfo-{NODE}"


class Rig:
    """One node; the plugin may be stopped, killed and started again."""

    def __init__(
        self, folder: Path, api: FakeApiServer, settings: PluginSettings, description: dict[str, Any]
    ) -> None:
        self.folder = folder
        self.api = api
        self.settings = settings
        self.driver = SimulatedDriver(description)
        self.kubelet = SimulatedKubelet(settings.plugin_folder, settings.pod_resources)
        self._life: asyncio.Task[None] | None = None
        self.plugin: NodePlugin
        self.registration: Registration
        self._number = 0

    async def start(self, chips: list[Chip] | None = None) -> None:
        client = Client(direct(self.api.url), component="device-plugin")
        self.plugin = NodePlugin(self.settings, self.driver, chips or self.driver.chips(), client)
        self.registration = Registration(self.plugin)
        self._life = asyncio.create_task(self._live(client), name="plugin")

    async def _live(self, client: Client) -> None:
        async with client, asyncio.TaskGroup() as group:
            group.create_task(self.plugin.run())
            group.create_task(self.registration.run())

    async def stop(self) -> None:
        life, self._life = self._life, None
        if life is not None:
            life.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await life

    async def restart(self) -> None:
        await self.stop()
        before = self.kubelet.registrations
        await self.start()
        await self.until(lambda: self.kubelet.registrations > before)
        await self.devices(len(self.driver.chips()))

    async def devices(self, healthy: int) -> dict[str, bool]:
        return await self.kubelet.devices(CHIP, healthy)

    # -- pods --------------------------------------------------------------------------------------------

    def bind(self, name: str, chips: str, time: str | None = None, **more: Any) -> Object:
        """A pod as the scheduler leaves it."""
        self._number += 1
        annotations = {CHIP: chips, "predicate-time": time or str(self._number)}
        count = chips.count(",") + 1
        return self.api.put(
            PODS,
            {
                "metadata": {"namespace": "default", "name": name, "annotations": annotations},
                "spec": {
                    "nodeName": NODE,
                    "containers": [{"name": "main", "resources": {"limits": {CHIP: str(count)}}}],
                },
                "status": {"phase": "Pending"},
                **more,
            },
        )

    async def admit(self, name: str, count: int = 1, **more: Any) -> tuple[int, ...]:
        container = await self.kubelet.admit(f"default/{name}", CHIP, count, **more)
        return container.chips

    def annotations(self, name: str) -> dict[str, str]:
        found: dict[str, str] = self.api.get(PODS, f"default/{name}")["metadata"]["annotations"]
        return found

    def report(self) -> dict[str, str]:
        data: dict[str, str] = self.api.get(CONFIG_MAPS, REPORT)["data"]
        return data

    def device_list(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(self.report()["DeviceInfoCfg"])["DeviceInfo"]["DeviceList"]
        return found

    async def until(self, what: Callable[[], object]) -> None:
        """Wait until something holds; the patience of the test ends it."""
        while True:
            with contextlib.suppress(KeyError):
                if what():
                    return
            await asyncio.sleep(0.01)


@asynccontextmanager
async def rig(
    description: dict[str, Any] | None = None, *, started: bool = True, **settings: Any
) -> AsyncIterator[Rig]:
    """Everything runs and the chips are known to kubelet. Sockets want short paths."""
    folder = Path(tempfile.mkdtemp(prefix="rw"))
    chosen = replace(
        PluginSettings(
            NODE,
            plugin_folder=folder / "p",
            pod_resources=folder / "r" / "kubelet.sock",
            state_folder=folder / "p" / "ringwise",
            cdi_folder=folder / "cdi",
            host_root=folder / "host",
            cgroup_root=folder / "groups",
            period=0.05,
            report_interval=0.01,
            look_period=0.05,
            last_retry=0.1,
        ),
        **settings,
    )
    # Seen, and no pod has processes.
    (folder / "groups" / "kubepods").mkdir(parents=True)
    try:
        async with FakeApiServer() as api:
            api.put(
                NODES,
                {
                    "metadata": {"name": NODE},
                    "status": {"addresses": [{"type": "InternalIP", "address": "10.1.2.3"}]},
                },
            )
            made = Rig(folder, api, chosen, description or {"count": 8})
            async with made.kubelet:
                try:
                    if started:
                        await made.start()
                        await made.devices(len(made.driver.chips()))
                        await made.until(lambda: made.plugin.ready)
                    yield made
                finally:
                    await made.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
