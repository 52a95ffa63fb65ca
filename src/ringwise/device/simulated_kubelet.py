"""A simulated kubelet, written from its API: it registers plugins, watches their devices and asks for some.

The lab and the tests run the plugin's real code against it, over real sockets.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from ringwise.device.api import deviceplugin_pb2 as messages
from ringwise.device.api import podresources_pb2 as resources
from ringwise.device.rpc import API_VERSION, KUBELET_SOCKET, channel, method, service
from ringwise.grammar import counted
from ringwise.kubeclient.tasks import end
from ringwise.records import dataclass
from ringwise.topology.natural import natural_key
from ringwise.wellknown import VISIBLE_DEVICES


class AdmissionError(Exception):
    """A pod that kubelet does not start: `UnexpectedAdmissionError` with this message."""


@dataclass(frozen=True, slots=True)
class Container:
    """What the one container of a pod got."""

    ids: tuple[str, ...]
    answer: messages.ContainerAllocateResponse

    @property
    def chips(self) -> tuple[int, ...]:
        """Physical ids, whatever the way of mounting."""
        visible = self.answer.envs.get(VISIBLE_DEVICES)
        if visible:
            return tuple(int(one) for one in visible.split(","))
        if self.answer.cdi_devices:
            return tuple(int(one.name.rpartition("-")[2]) for one in self.answer.cdi_devices)
        paths = [one.host_path.removeprefix("/dev/davinci") for one in self.answer.devices]
        return tuple(int(path) for path in paths if path.isdigit())


@dataclass(slots=True)
class RegisteredPlugin:
    """A plugin that registered."""

    resource: str
    channel: grpc.aio.Channel
    options: messages.DevicePluginOptions
    #: Id to whether it is healthy.
    devices: dict[str, bool] = field(default_factory=dict)
    lists: int = 0
    following: asyncio.Task[None] | None = None


class SimulatedKubelet:
    """Serves `kubelet.sock` in the plugin folder and the pod-resources socket beside it."""

    def __init__(self, plugin_folder: Path, pod_resources: Path) -> None:
        self._folder = plugin_folder
        self._pod_resources = pod_resources
        self._servers: list[grpc.aio.Server] = []
        self.plugins: dict[str, RegisteredPlugin] = {}
        #: Pod (namespace/name) to resource and container; kept over a restart, like kubelet's own records.
        self.containers: dict[str, tuple[str, Container]] = {}
        self.registrations = 0
        #: So many registrations are refused.
        self.refusals = 0
        #: While set, nothing is listed: kubelet has not read its records yet.
        self.starting = False
        self._changed = asyncio.Event()

    async def __aenter__(self) -> SimulatedKubelet:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        for folder in (self._folder, self._pod_resources.parent):
            folder.mkdir(parents=True, exist_ok=True)
        # As kubelet does: all sockets of plugins go, each plugin has to come again.
        for path in self._folder.iterdir():
            if not path.is_dir():
                path.unlink()
        self._pod_resources.unlink(missing_ok=True)
        registration, listing = grpc.aio.server(), grpc.aio.server()
        register = {"Register": (self._register, messages.RegisterRequest)}
        listed = {"List": (self._list, resources.ListPodResourcesRequest)}
        registration.add_generic_rpc_handlers((service("v1beta1.Registration", register),))
        listing.add_generic_rpc_handlers((service("v1.PodResourcesLister", listed),))
        registration.add_insecure_port(f"unix://{self._folder / KUBELET_SOCKET}")
        listing.add_insecure_port(f"unix://{self._pod_resources}")
        for server in (registration, listing):
            await server.start()
        self._servers = [registration, listing]

    async def stop(self) -> None:
        servers, self._servers = self._servers, []
        await self.forget_plugins()
        for server in servers:
            await server.stop(0)
        (self._folder / KUBELET_SOCKET).unlink(missing_ok=True)

    async def forget_plugins(self) -> None:
        """End all calls to plugins."""
        for plugin in list(self.plugins.values()):
            await self._drop(plugin)

    async def _drop(self, plugin: RegisteredPlugin) -> None:
        self.plugins.pop(plugin.resource, None)
        await end(plugin.following)
        await plugin.channel.close()

    # -- plugins -----------------------------------------------------------------------------------------

    async def _register(self, request: messages.RegisterRequest, context: Any) -> messages.Empty:
        if request.version != API_VERSION:
            await context.abort(
                grpc.StatusCode.INVALID_ARGUMENT, f"version {request.version} is not supported"
            )
        if self.refusals:
            self.refusals -= 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "kubelet starts")
        previous = self.plugins.get(request.resource_name)
        if previous is not None:
            await self._drop(previous)
        plugin = RegisteredPlugin(
            request.resource_name, channel(self._folder / request.endpoint), request.options
        )
        self.plugins[request.resource_name] = plugin
        self.registrations += 1
        plugin.following = asyncio.create_task(self._follow(plugin))
        return messages.Empty()

    async def _follow(self, plugin: RegisteredPlugin) -> None:
        call = plugin.channel.unary_stream(
            "/v1beta1.DevicePlugin/ListAndWatch",
            request_serializer=messages.Empty.SerializeToString,
            response_deserializer=messages.ListAndWatchResponse.FromString,
        )
        with contextlib.suppress(grpc.aio.AioRpcError):
            async for answer in call(messages.Empty()):
                plugin.devices = {device.ID: device.health == "Healthy" for device in answer.devices}
                plugin.lists += 1
                self._wake()
        # The endpoint is gone: its devices are no longer healthy.
        plugin.devices = dict.fromkeys(plugin.devices, False)
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def devices(self, resource: str, healthy: int) -> dict[str, bool]:
        """The devices of a resource, when so many of them are healthy."""
        return await self.devices_when(resource, lambda devices: sum(devices.values()) == healthy)

    async def devices_when(
        self, resource: str, wanted: Callable[[Mapping[str, bool]], bool]
    ) -> dict[str, bool]:
        """The devices of a resource, id to whether it is healthy, when they are as wanted."""
        while True:
            changed = self._changed
            plugin = self.plugins.get(resource)
            if plugin is not None and plugin.lists and wanted(plugin.devices):
                return plugin.devices
            await changed.wait()

    # -- pods --------------------------------------------------------------------------------------------

    async def admit(self, pod: str, resource: str, count: int, ids: Sequence[str] = ()) -> Container:
        """Ask the plugin for devices of a pod; `ids` instead of kubelet's own choice."""
        plugin = self.plugins.get(resource)
        if plugin is None:
            raise AdmissionError(f"no plugin serves {resource}")
        taken = {one for _, container in self.containers.values() for one in container.ids}
        free = sorted(
            (one for one, good in plugin.devices.items() if good and one not in taken), key=natural_key
        )
        if len(free) < count:
            raise AdmissionError(f"free: {counted(free, 'device')} of {resource}; needed: {count}")
        chosen = list(ids) or await self._preferred(plugin, free, count)
        call = method(plugin.channel, "/v1beta1.DevicePlugin/Allocate", messages.AllocateResponse)
        request = messages.AllocateRequest(
            container_requests=[messages.ContainerAllocateRequest(devices_ids=chosen)]
        )
        try:
            answer: messages.AllocateResponse = await call(request)
        except grpc.aio.AioRpcError as error:
            raise AdmissionError(error.details() or error.code().name) from None
        container = Container(tuple(chosen), answer.container_responses[0])
        self.containers[pod] = (resource, container)
        return container

    async def _preferred(self, plugin: RegisteredPlugin, free: Sequence[str], count: int) -> list[str]:
        if not plugin.options.get_preferred_allocation_available:
            return list(free[:count])
        name = "/v1beta1.DevicePlugin/GetPreferredAllocation"
        call = method(plugin.channel, name, messages.PreferredAllocationResponse)
        request = messages.PreferredAllocationRequest(
            container_requests=[
                messages.ContainerPreferredAllocationRequest(available_deviceIDs=free, allocation_size=count)
            ]
        )
        try:
            answer: messages.PreferredAllocationResponse = await call(request)
        except grpc.aio.AioRpcError:
            return list(free[:count])
        return list(answer.container_responses[0].deviceIDs)

    def remove(self, pod: str) -> None:
        self.containers.pop(pod, None)

    async def _list(
        self, _request: resources.ListPodResourcesRequest, _context: Any
    ) -> resources.ListPodResourcesResponse:
        answer = resources.ListPodResourcesResponse()
        if self.starting:
            return answer
        for pod, (resource, container) in self.containers.items():
            namespace, _, name = pod.partition("/")
            entry = answer.pod_resources.add(namespace=namespace, name=name)
            entry.containers.add(name="main").devices.add(resource_name=resource, device_ids=container.ids)
        return answer
