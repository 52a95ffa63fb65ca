"""`ringwise bench allocate`: what an Allocate call costs beside the PATCH that it must make.

The API server is a real one, with etcd, on this machine. Kubelet, the plugin and, in turn, a client that only
sends PATCHes of the same content for pods of another node are in this process, so that a busy machine slows
both alike. Memory is that of the plugin as it is shipped, in a process of its own, after the same calls.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import grpc

from ringwise.apps.node_api import MemoryClient, NodeApi, Object
from ringwise.device.api import deviceplugin_pb2 as messages
from ringwise.device.drivers.simulated import SimulatedDriver
from ringwise.device.plugin import NodePlugin
from ringwise.device.service import Registration
from ringwise.device.settings import PluginSettings
from ringwise.device.simulated_kubelet import Container, SimulatedKubelet
from ringwise.kubeclient.client import Client
from ringwise.kubeclient.config import find_access
from ringwise.kubeclient.resources import NODES, PODS
from ringwise.messages.rank_table import rank_table_key
from ringwise.records import dataclass
from ringwise.wellknown import (
    ASCEND910,
    ASCEND_REAL,
    DEVICE_INFO_KEY,
    DEVICE_INFO_PREFIX,
    KUBE_SYSTEM,
    KUBELET_DEVICES,
    MOUNTED_CHIPS_KEY,
    PREDICATE_TIME,
)
from ringwise_bench.control_plane import ControlPlane, ringwise_command
from ringwise_bench.report import Figure, at_most, shown
from ringwise_bench.virtual_loop import LoopClock, VirtualLoop

RATIO_GOAL, MEMORY_GOAL, REQUESTS_GOAL = 1.5, 100, 20
POD_COUNT, CHIP_COUNT = 100, 16
ROUNDS = 8
_NODE, _OTHER_NODE, _NAMESPACE = "node-1", "node-2", "default"
_CHIPS = {"count": CHIP_COUNT, "chip_name": "910B3", "board": 48}
_HOUR = 3600.0
_START = 1_760_000_000_000_000_000
_MIB = 1 << 20
#: Seconds after which something that does not happen has failed.
TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of each call."""

    allocate: list[float]
    patch: list[float]


def run(full: bool = False) -> list[Figure]:
    """`full` makes four times as many calls."""
    times = asyncio.run(_times(ROUNDS * 4 if full else ROUNDS))
    memory = asyncio.run(_memory())
    allocate, patch = median(times.allocate), median(times.patch)
    idle = json.loads(
        subprocess.run(
            [sys.executable, "-c", "from ringwise_bench.allocate import idle_hour; idle_hour()"],
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
    )
    return [
        at_most("Allocate over its PATCH, medians", allocate / patch, "x", RATIO_GOAL),
        shown(f"Allocate with {POD_COUNT} pods on the node, median", allocate * 1000, "ms"),
        shown("Allocate, p99", quantiles(times.allocate, n=100)[98] * 1000, "ms"),
        shown("PATCH, median", patch * 1000, "ms"),
        shown("PATCH, p99", quantiles(times.patch, n=100)[98] * 1000, "ms"),
        shown("calls", len(times.allocate), ""),
        at_most("resident memory of the plugin", memory / _MIB, "MiB", MEMORY_GOAL),
        at_most("requests to the API server in an idle hour", idle["requests"], "", REQUESTS_GOAL),
        shown("processor time in an idle hour", idle["seconds"], "s"),
    ]


# -- calls


@dataclass(frozen=True, slots=True)
class _Node:
    folder: Path
    kubeconfig: str
    client: Client
    kubelet: SimulatedKubelet


@asynccontextmanager
async def _node() -> AsyncIterator[_Node]:
    """A node with its pods and its kubelet, without a plugin."""
    # The paths of sockets are short.
    with tempfile.TemporaryDirectory(prefix="rw") as name:
        folder = Path(name)
        (folder / "plane").mkdir()
        with ControlPlane(folder / "plane") as plane:
            kubeconfig = str(plane.kubeconfig("admin", plane.admin_token))
            async with Client(find_access(kubeconfig)) as client:
                await client.create(NODES, None, {"metadata": {"name": _NODE}})
                for number in range(POD_COUNT - CHIP_COUNT):
                    await client.create(PODS, _NAMESPACE, _pod(f"other-{number}", _NODE))
                kubelet = SimulatedKubelet(folder / "device-plugins", folder / "pod-resources/kubelet.sock")
                async with kubelet:
                    yield _Node(folder, kubeconfig, client, kubelet)


async def _times(rounds: int) -> Times:
    async with _node() as node, asyncio.timeout(TIMEOUT + 10 * rounds):
        settings = PluginSettings(
            _NODE,
            plugin_folder=node.folder / "device-plugins",
            pod_resources=node.folder / "pod-resources/kubelet.sock",
            state_folder=node.folder / "device-plugins/ringwise",
        )
        driver = SimulatedDriver(_CHIPS)
        plugin = NodePlugin(settings, driver, driver.chips(), node.client)
        work = [
            asyncio.create_task(plugin.run()),
            asyncio.create_task(Registration(plugin).run()),
        ]
        try:
            return await _rounds(rounds, node)
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)


async def _memory() -> int:
    """Resident bytes of the plugin after some calls."""
    async with _node() as node, asyncio.timeout(TIMEOUT), _plugin(node.folder, node.kubeconfig) as plugin:
        await _rounds(1, node)
        return _resident(plugin.pid)


async def _rounds(rounds: int, node: _Node) -> Times:
    client, kubelet = node.client, node.kubelet
    await kubelet.devices(ASCEND910, CHIP_COUNT)
    way = kubelet.plugins[ASCEND910].channel
    caller = _Caller(node.folder / "device-plugins/Ascend910.sock")
    served: list[float] = []
    patched: list[float] = []
    for turn in range(rounds + 1):
        names = [f"round-{turn}-{number}" for number in range(CHIP_COUNT)]
        for number, name in enumerate(names):
            # The last one comes first, so that all are known when it is.
            order = f"{turn + 1}{CHIP_COUNT - number:02d}"
            await client.create(PODS, _NAMESPACE, _pod(name, _NODE, number, order))
            await client.create(PODS, _NAMESPACE, _pod(f"bare-{name}", _OTHER_NODE, number, order))
        await _preferred(way, f"Ascend910-{CHIP_COUNT - 1}")
        for number in reversed(range(CHIP_COUNT)):
            identity = f"Ascend910-{number}"
            seconds, container = await asyncio.to_thread(caller.allocate, identity)
            kubelet.containers[f"{_NAMESPACE}/{names[number]}"] = (ASCEND910, container)
            bare = await _patched(client, f"bare-{names[number]}", number)
            if turn:
                # The first round opens connections.
                served.append(seconds)
                patched.append(bare)
        await _reported_mounts(client, CHIP_COUNT)
        for name in names:
            await _deleted(client, name)
            await _deleted(client, f"bare-{name}")
        kubelet.containers.clear()
        await _reported_mounts(client, 0)
    caller.close()
    return Times(served, patched)


class _Caller:
    """Makes kubelet's calls in a thread of its own: what a caller in Python costs is not the plugin's."""

    def __init__(self, socket: Path) -> None:
        self._channel = grpc.insecure_channel(f"unix://{socket}")
        self._call = self._channel.unary_unary(
            "/v1beta1.DevicePlugin/Allocate",
            request_serializer=messages.AllocateRequest.SerializeToString,
            response_deserializer=messages.AllocateResponse.FromString,
        )

    def allocate(self, identity: str) -> tuple[float, Container]:
        """Seconds of the call, and its answer."""
        request = messages.AllocateRequest()
        request.container_requests.add(devices_ids=[identity])
        began = time.perf_counter()
        answer = self._call(request)
        seconds = time.perf_counter() - began
        return seconds, Container((identity,), answer.container_responses[0])

    def close(self) -> None:
        self._channel.close()


async def _preferred(way: Any, identity: str) -> None:
    """Until the plugin would serve the pod with this chip next."""
    call = way.unary_unary(
        "/v1beta1.DevicePlugin/GetPreferredAllocation",
        request_serializer=messages.PreferredAllocationRequest.SerializeToString,
        response_deserializer=messages.PreferredAllocationResponse.FromString,
    )
    request = messages.PreferredAllocationRequest()
    ids = [f"Ascend910-{number}" for number in range(CHIP_COUNT)]
    request.container_requests.add(available_deviceIDs=ids, allocation_size=1)
    while True:
        answer = await call(request)
        if list(answer.container_responses[0].deviceIDs) == [identity]:
            return
        await asyncio.sleep(0.01)


async def _patched(client: Client, name: str, number: int) -> float:
    """Seconds of one PATCH with what Allocate writes."""
    body = {"metadata": {"annotations": _written(number)}}
    began = time.perf_counter()
    await client.patch(PODS, _NAMESPACE, name, body)
    return time.perf_counter() - began


async def _reported_mounts(client: Client, count: int) -> None:
    """Until the plugin has reported so many pods with chips, and the others as free."""
    path = f"/api/v1/namespaces/{KUBE_SYSTEM}/configmaps/{DEVICE_INFO_PREFIX}{_NODE}"
    while True:
        report = json.loads(await client.request("GET", path))["data"]
        lists = json.loads(report[DEVICE_INFO_KEY])["DeviceInfo"]["DeviceList"]
        free = lists[ASCEND910].count("Ascend910-")
        if len(json.loads(report[MOUNTED_CHIPS_KEY])) == count and free == CHIP_COUNT - count:
            return
        await asyncio.sleep(0.05)


async def _deleted(client: Client, name: str) -> None:
    """As kubelet deletes a pod: at once when it has ended, and that is written."""
    ended = {"status": {"phase": "Succeeded"}}
    await client.patch(PODS, _NAMESPACE, name, ended, subresource="status")
    await client.request("DELETE", PODS.path(_NAMESPACE, name), body=b'{"gracePeriodSeconds": 0}')


def _pod(name: str, node: str, chip: int | None = None, order: str = "") -> Object:
    annotations = {f"example.com/note-{number}": "x" * 40 for number in range(8)}
    limits = {"cpu": "8", "memory": "32Gi"}
    if chip is not None:
        annotations |= {ASCEND910: f"Ascend910-{chip}", PREDICATE_TIME: order}
        limits[ASCEND910] = "1"
    return {
        "metadata": {
            "name": name,
            "namespace": _NAMESPACE,
            "annotations": annotations,
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "image": "train", "resources": {"limits": limits}}],
        },
    }


def _written(chip: int) -> dict[str, str]:
    table = {"pod_name": "p", "server_id": "0" * 36, "devices": [{"device_id": str(chip), "device_ip": ""}]}
    return {
        PREDICATE_TIME: "18446744073709551615",
        ASCEND_REAL: f"Ascend910-{chip}",
        KUBELET_DEVICES: f"Ascend910-{chip}",
        rank_table_key(ASCEND910): json.dumps(table),
    }


# -- processes


@asynccontextmanager
async def _plugin(folder: Path, kubeconfig: str) -> AsyncIterator[asyncio.subprocess.Process]:
    chips = folder / "chips.json"
    chips.write_text(json.dumps(_CHIPS), encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        *ringwise_command(
            "run",
            "device-plugin",
            f"--node-name={_NODE}",
            f"--simulated-chips={chips}",
            f"--kubelet-dir={folder}",
            f"--kubeconfig={kubeconfig}",
            "--mount-method=ascend-docker",
            "--metrics-address=127.0.0.1:0",
            "--enable-healthz=false",
            "-logLevel=1",
        ),
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.terminate()
        await process.wait()


def _resident(process: int) -> int:
    with open(f"/proc/{process}/statm", encoding="ascii") as figures:
        return int(figures.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# -- an idle hour


class _NoPods:
    """Kubelet's listing, without kubelet."""

    async def list(self) -> dict[str, list[list[str]]]:
        return {}

    async def close(self) -> None: ...


def idle_hour() -> None:
    """Print the requests and the processor seconds of one hour, after the start."""
    api = NodeApi()
    api.put("nodes", {"metadata": {"name": _NODE}})
    for number in range(POD_COUNT):
        api.put("pods", _pod(f"other-{number}", _NODE))

    async def hour() -> dict[str, float]:
        with tempfile.TemporaryDirectory() as name:
            settings = PluginSettings(_NODE, state_folder=Path(name), cdi_folder=Path(name))
            driver = SimulatedDriver(_CHIPS)
            plugin = NodePlugin(
                settings,
                driver,
                driver.chips(),
                MemoryClient(api),
                clock=LoopClock(_START),
                pod_resources=_NoPods(),
            )
            running = asyncio.create_task(plugin.run())
            await asyncio.sleep(10.0)
            before, began = api.requests.total(), time.process_time()
            await asyncio.sleep(_HOUR)
            figures = {"requests": api.requests.total() - before, "seconds": time.process_time() - began}
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            return figures

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        print(json.dumps(runner.run(hour())))
