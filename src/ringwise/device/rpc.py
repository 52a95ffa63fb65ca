"""Kubelet's services over unix sockets: the client of its own, the server of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import grpc
import grpc.aio

from ringwise.device.api import deviceplugin_pb2 as messages
from ringwise.device.api import podresources_pb2 as resources

#: Version of the device plugin API.
API_VERSION = "v1beta1"
KUBELET_SOCKET = "kubelet.sock"
_LARGEST = 16 << 20
_CONNECT_TIMEOUT = 1.0
_LIST_TIMEOUT = 2.0
_CLIENT_OPTIONS = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", _LARGEST),
    # A kubelet that comes back is met soon.
    ("grpc.max_reconnect_backoff_ms", 1000),
)


class KubeletError(Exception):
    """Kubelet does not answer or refuses; one line."""


def _sent(message: Any) -> bytes:
    written: bytes = message.SerializeToString()
    return written


def channel(socket: Path) -> grpc.aio.Channel:
    return grpc.aio.insecure_channel(f"unix://{socket}", options=_CLIENT_OPTIONS)


def method(way: grpc.aio.Channel, name: str, answer: Any) -> grpc.aio.UnaryUnaryMultiCallable[Any, Any]:
    """A call of a service of kubelet or of a plugin, which returns such an answer."""
    return way.unary_unary(name, request_serializer=_sent, response_deserializer=answer.FromString)


def service(
    name: str, methods: Mapping[str, tuple[Any, Any]], streams: Mapping[str, tuple[Any, Any]] | None = None
) -> grpc.GenericRpcHandler:
    """A service; of each method what answers and the message that it takes."""
    handlers = {
        one: grpc.unary_unary_rpc_method_handler(call, request.FromString, _sent)
        for one, (call, request) in methods.items()
    }
    for one, (call, request) in (streams or {}).items():
        handlers[one] = grpc.unary_stream_rpc_method_handler(call, request.FromString, _sent)
    return grpc.method_handlers_generic_handler(name, handlers)


async def register(folder: Path, endpoint: str, resource: str, options: messages.DevicePluginOptions) -> None:
    """Make a plugin known to kubelet. Raises KubeletError."""
    async with channel(folder / KUBELET_SOCKET) as way:
        call = method(way, "/v1beta1.Registration/Register", messages.Empty)
        request = messages.RegisterRequest(
            version=API_VERSION, endpoint=endpoint, resource_name=resource, options=options
        )
        try:
            await call(request, timeout=5)
        except grpc.aio.AioRpcError as error:
            raise KubeletError(f"kubelet did not register {resource}: {_why(error)}") from None


class PodResources(Protocol):
    """Which pods have which ids of one resource."""

    async def list(self) -> dict[str, list[list[str]]]:
        """Pod (namespace/name) to the ids of each of its containers. Raises KubeletError."""

    async def close(self) -> None: ...


class PodResourcesClient:
    """Kubelet's pod-resources API. The connection is kept."""

    def __init__(self, socket: Path, resource: str) -> None:
        self._socket = socket
        self._resource = resource
        self._channel: grpc.aio.Channel | None = None

    async def list(self) -> dict[str, list[list[str]]]:
        """Raises KubeletError."""
        if self._channel is None:
            self._channel = channel(self._socket)
        call = method(self._channel, "/v1.PodResourcesLister/List", resources.ListPodResourcesResponse)
        try:
            answer: resources.ListPodResourcesResponse = await call(
                resources.ListPodResourcesRequest(), timeout=_LIST_TIMEOUT
            )
        except grpc.aio.AioRpcError as error:
            raise KubeletError(f"kubelet did not list pod resources: {_why(error)}") from None
        return listing_of(answer, self._resource)

    async def close(self) -> None:
        way, self._channel = self._channel, None
        if way is not None:
            await way.close()


def listing_of(answer: resources.ListPodResourcesResponse, resource: str) -> dict[str, list[list[str]]]:
    """Pod (namespace/name) to the ids of each of its containers."""
    listing: dict[str, list[list[str]]] = {}
    for pod in answer.pod_resources:
        lists = []
        for container in pod.containers:
            # A container's ids come in one entry for each NUMA node.
            ids = [
                one for item in container.devices if item.resource_name == resource for one in item.device_ids
            ]
            if ids:
                lists.append(ids)
        if lists:
            listing[f"{pod.namespace}/{pod.name}"] = lists
    return listing


class PluginServer:
    """Serves the calls of one resource on one socket."""

    def __init__(self, socket: Path, calls: grpc.GenericRpcHandler) -> None:
        self.socket = socket
        self._calls = calls
        self._server: grpc.aio.Server | None = None
        self._inode = 0

    @property
    def is_whole(self) -> bool:
        """Whether the socket is still ours: a kubelet that starts removes all sockets."""
        try:
            return self._server is not None and self.socket.stat().st_ino == self._inode
        except OSError:
            return False

    async def start(self) -> None:
        """Raises OSError where the socket cannot be made, or another plugin serves it."""
        await self.stop()
        if await _is_served(self.socket):
            raise OSError(
                f"another device plugin serves {self.socket}; a node can have only one for each resource"
            )
        self.socket.unlink(missing_ok=True)
        server = grpc.aio.server(
            options=(("grpc.max_receive_message_length", 4 << 20), ("grpc.max_concurrent_streams", 64)),
        )
        server.add_generic_rpc_handlers((self._calls,))
        try:
            server.add_insecure_port(f"unix://{self.socket}")
        except RuntimeError as problem:
            raise OSError(f"cannot listen on {self.socket}: {problem}") from None
        await server.start()
        self.socket.chmod(0o600)
        self._inode = self.socket.stat().st_ino
        self._server = server

    async def stop(self, grace: float = 0.5) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.stop(grace)


async def _is_served(socket: Path) -> bool:
    """Whether a process listens there; a socket that a dead one left behind does not count."""
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT):
            _, writer = await asyncio.open_unix_connection(socket)
    except OSError:
        return False
    writer.close()
    return True


def _why(error: grpc.aio.AioRpcError) -> str:
    return f"{error.code().name}: {error.details()}"
