"""Kubelet's side: the gRPC service of the node's resource, and its registration for as long as it runs."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc

from ringwise.device.allocation import AllocationError
from ringwise.device.api import deviceplugin_pb2 as messages
from ringwise.device.cards import device_type
from ringwise.device.plugin import NodePlugin
from ringwise.device.rpc import KUBELET_SOCKET, KubeletError, PluginServer, register, service
from ringwise.kubeclient.retry import Backoff
from ringwise.log import Logger

_LOG = Logger()

OPTIONS = messages.DevicePluginOptions(get_preferred_allocation_available=True)
HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"
#: Looks at a kubelet that registered us and does not watch: after so many the plugin registers again, after
#: so many the process exits, to be restarted.
REGISTER_AGAIN_AFTER = 5
END_AFTER = 15
#: Of <sys/inotify.h>: a file was made in the folder, or moved into it.
_CREATED, _MOVED_HERE = 0x100, 0x80
#: The watch is gone with its folder.
_IGNORED = 0x8000
#: Watch, what happened, cookie, length of the name that follows.
_EVENT = struct.Struct("iIII")
_MAX_BYTES = 1 << 16
#: What `after_failures` returns beside nothing.
REGISTER_AGAIN, END = "reRegistry", "exit"


class SilentKubeletError(Exception):
    """Kubelet registers the plugin again and again and never watches its devices."""


def after_failures(failures: int) -> str:
    """What follows so many looks at which no kubelet watched."""
    if failures >= END_AFTER:
        return END
    return REGISTER_AGAIN if failures and failures % REGISTER_AGAIN_AFTER == 0 else ""


class ResourceService:
    """The calls of kubelet for one resource."""

    def __init__(self, plugin: NodePlugin) -> None:
        self._plugin = plugin
        #: How many kubelets watch the list of devices: one, or none while it is away.
        self.streams = 0

    def calls(self) -> grpc.GenericRpcHandler:
        methods = {
            "GetDevicePluginOptions": (self.options, messages.Empty),
            "GetPreferredAllocation": (self.preferred, messages.PreferredAllocationRequest),
            "Allocate": (self.allocate, messages.AllocateRequest),
            "PreStartContainer": (self.pre_start, messages.PreStartContainerRequest),
        }
        lists = {"ListAndWatch": (self.device_lists, messages.Empty)}
        return service("v1beta1.DevicePlugin", methods, lists)

    async def options(self, _request: messages.Empty, _context: object) -> messages.DevicePluginOptions:
        return OPTIONS

    async def device_lists(
        self, _request: messages.Empty, _context: object
    ) -> AsyncIterator[messages.ListAndWatchResponse]:
        self.streams += 1
        self._plugin.watched()
        try:
            while True:
                version = self._plugin.version
                yield self._devices()
                await self._plugin.changed(version)
        finally:
            self.streams -= 1

    def _devices(self) -> messages.ListAndWatchResponse:
        ids = self._plugin.allocator.device_ids()
        numa = {
            identity: chip.numa
            for chip in self._plugin.chips
            if chip.numa is not None
            for identity in ids.get(self._plugin.names[chip.physical], ())
        }
        answer = messages.ListAndWatchResponse()
        for identity, healthy in self._plugin.devices:
            device = answer.devices.add(ID=identity, health=HEALTHY if healthy else UNHEALTHY)
            if identity in numa:
                device.topology.nodes.add(ID=numa[identity])
        return answer

    async def preferred(
        self, request: messages.PreferredAllocationRequest, _context: object
    ) -> messages.PreferredAllocationResponse:
        answer = messages.PreferredAllocationResponse()
        for one in request.container_requests:
            ids = self._plugin.allocator.preferred(
                list(one.available_deviceIDs),
                list(one.must_include_deviceIDs),
                one.allocation_size,
                self._plugin.why_not,
            )
            answer.container_responses.add(deviceIDs=ids)
        return answer

    async def allocate(self, request: messages.AllocateRequest, context: Any) -> messages.AllocateResponse:
        requests = [list(one.devices_ids) for one in request.container_requests]
        answers: list[messages.ContainerAllocateResponse] = []
        try:
            answers = await self._plugin.allocate(requests)
        except AllocationError as problem:
            _LOG.error("allocation failed", ids=requests, why=str(problem))
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(problem))
        return messages.AllocateResponse(container_responses=answers)

    async def pre_start(
        self, _request: messages.PreStartContainerRequest, _context: object
    ) -> messages.PreStartContainerResponse:
        return messages.PreStartContainerResponse()


class FileWatch:
    """Tells at once when a file of one name is made in a folder, while it is entered.

    It uses Linux's inotify, by three calls of the C library. Where that cannot be had (another system, no
    watches left) the caller's own pauses remain.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = os.fsencode(name)
        self._library = ctypes.CDLL(None, use_errno=True)
        self._descriptor = -1
        self._made = asyncio.Event()

    def __enter__(self) -> Self:
        start = getattr(self._library, "inotify_init1", None)
        self._descriptor = -1 if start is None else start(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            _LOG.info("files are not watched, only looked at", folder=str(self._folder))
        else:
            asyncio.get_running_loop().add_reader(self._descriptor, self._read)
            self._watch()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._descriptor >= 0:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    async def made(self, seconds: float) -> bool:
        """Wait until the file is made, at most so long; whether it was, since the last time."""
        self._watch()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._made.wait()
        was, self._made = self._made.is_set(), asyncio.Event()
        return was

    def _watch(self) -> None:
        """Watch the folder, which may be created later or again. Watching it twice changes nothing."""
        if self._descriptor >= 0:
            path = os.fsencode(self._folder)
            self._library.inotify_add_watch(self._descriptor, path, _CREATED | _MOVED_HERE)

    def _read(self) -> None:
        try:
            events = os.read(self._descriptor, _MAX_BYTES)
        except BlockingIOError:
            return
        at = 0
        while at < len(events):
            _, what, _, length = _EVENT.unpack_from(events, at)
            name = events[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0")
            at += _EVENT.size + length
            if not what & _IGNORED and (name == self._name or not length):
                # Without a name: events were lost, so it may have been ours.
                self._made.set()


class Registration:
    """Serves the socket and keeps kubelet knowing it: after a start of ours, and of kubelet's."""

    def __init__(self, plugin: NodePlugin) -> None:
        self._folder = plugin.settings.plugin_folder
        self.service = ResourceService(plugin)
        self._plugin = plugin
        self._endpoint = f"{device_type(plugin.card)}.sock"
        self.server = PluginServer(self._folder / self._endpoint, self.service.calls())
        #: Kubelet's socket when we registered there.
        self._registered: tuple[int, int] | None = None
        #: Looks in a row at which kubelet did not watch.
        self._silent = 0

    async def run(self) -> None:
        """Until it is canceled; then the server ends and its socket is gone. Raises SilentKubeletError."""
        settings = self._plugin.settings
        # A chip with a fault is never offered, not even for a moment.
        await self._plugin.looked.wait()
        retries = Backoff(settings.first_retry, settings.last_retry)
        try:
            with FileWatch(self._folder, KUBELET_SOCKET) as files:
                in_time = True
                while True:
                    pause = settings.look_period
                    if not self._must_register(in_time):
                        retries.reset()
                    elif (problem := await self._register()) is not None:
                        pause = retries.pause()
                        _LOG.warning("not registered", why=problem, again_in=round(pause, 2))
                    # A kubelet that starts rejects the pods that it has to start before it knows us.
                    in_time = not await files.made(pause)
                    if not in_time:
                        retries.reset()
        finally:
            await self.server.stop()
            self.server.socket.unlink(missing_ok=True)

    def _must_register(self, in_time: bool) -> bool:
        """`in_time`: a look after the usual pause, which counts, and not because of a new socket."""
        kubelet = self._kubelet()
        if kubelet is None:
            # Away: nothing can be done, and its socket will be another one.
            return False
        if kubelet != self._registered or not self.server.is_whole:
            return True
        self._silent = 0 if self.service.streams else self._silent + in_time
        step = after_failures(self._silent) if in_time else ""
        if step == END:
            raise SilentKubeletError(
                f"kubelet has registered {self._plugin.resource} but does not watch its devices"
            )
        return step == REGISTER_AGAIN

    def _kubelet(self) -> tuple[int, int] | None:
        try:
            about = (self._folder / KUBELET_SOCKET).stat()
        except OSError:
            return None
        return about.st_ino, about.st_mtime_ns

    async def _register(self) -> str | None:
        """Why it failed; None when it is done."""
        kubelet = self._kubelet()
        try:
            await self.server.start()
            await register(self._folder, self._endpoint, self._plugin.resource, OPTIONS)
        except (OSError, KubeletError) as problem:
            self._registered = None
            return str(problem)
        self._registered = kubelet
        _LOG.info("registered", resource=self._plugin.resource, endpoint=self._endpoint)
        return None
