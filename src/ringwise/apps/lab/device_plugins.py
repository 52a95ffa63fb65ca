"""The device plugins of a lab: the plugin's real code for its nodes, each with a kubelet stand-in.

All of them share one thread and one event loop; kubelet and plugin talk gRPC over unix sockets in a temporary
folder. A node's plugin is started when the node first has work for it, and the one that was not needed for
longest is stopped when there are too many: it finds its mounts again as after any restart.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from ringwise.apps.node_api import MemoryClient, NodeApi, Object
from ringwise.device.api import deviceplugin_pb2 as messages
from ringwise.device.container_response import BY_NODES, node_numbers
from ringwise.device.drivers.simulated import SimulatedDriver
from ringwise.device.health.configuration import NETWORK_CODES
from ringwise.device.ledger import Mount
from ringwise.device.plugin import NodePlugin
from ringwise.device.service import Registration
from ringwise.device.settings import PluginSettings
from ringwise.device.simulated_kubelet import AdmissionError, Container, SimulatedKubelet
from ringwise.durations import time_text
from ringwise.embed.cluster import EmbeddedCluster
from ringwise.embed.containers import ContainerDevice, PodContainer
from ringwise.kubeclient.tasks import end
from ringwise.manifests.config_maps.device_info import config_map_from_wire
from ringwise.manifests.objects.isolations import isolated_chips, isolation_body
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.wire import ConfigMapWire, MetaWire
from ringwise.records import dataclass
from ringwise.state.model import DeviceReport, Isolation, Node, Pod
from ringwise.topology.chips import mask_of
from ringwise.topology.numbers import whole_number
from ringwise.wellknown import (
    ACCELERATOR_TYPE,
    ASCEND910,
    CHIP_RESOURCE_PREFIX,
    DEVICE_INFO_PREFIX,
    INFERENCE_CARD_LABEL,
    KUBE_SYSTEM,
    NPU,
)

#: Plugins that run at the same time. Each has about a dozen open files.
MAX_RUNNING = 64
#: Seconds after which something that does not happen has failed.
_TIMEOUT = 60.0
#: Seconds between two turns of a plugin by itself. The lab asks for one whenever something changes.
_PERIOD = 1800.0
#: Fault codes of a chip that is broken (SeparateNPU), and of one whose network is (PreSeparateNPU).
BROKEN_CHIP, BROKEN_NETWORK = 0x80E18402, 0x110001024
#: What the host of a simulated node has.
_HOST_FILES = (
    *("dev/davinci_manager", "dev/devmm_svm", "dev/hisi_hdc"),
    "usr/local/Ascend/driver/version.info",
    "usr/local/bin/npu-smi",
)
_HOST_FOLDERS = ("usr/local/Ascend/driver/lib64", "usr/local/dcmi", "sys/fs/cgroup/kubepods")

Answer = TypeVar("Answer")


def chip_facts(node: Node, resource: str) -> dict[str, Any] | None:
    """Chip and board as the driver would name them; None for a resource that no known card has."""
    kind = node.labels.get(ACCELERATOR_TYPE, "")
    if resource == ASCEND910:
        if "a3" in kind:
            return {"chip_name": "910C", "board": 0xB0, "ai_cores": 24}
        return {"chip_name": "910B3", "board": 0x30} if "910b" in kind else {"chip_name": "910ProB"}
    if resource == NPU:
        return {"chip_name": "Ascend950PR", "superpod_type": 1 if node.rack is not None else -1}
    if resource == f"{CHIP_RESOURCE_PREFIX}Ascend310P":
        duo = node.labels.get(INFERENCE_CARD_LABEL) == "card-300i-duo"
        return {"chip_name": "310P3", "product": "Atlas 300I Duo" if duo else ""}
    return {"chip_name": "310"} if resource == f"{CHIP_RESOURCE_PREFIX}Ascend310" else None


def description_of(node: Node, resource: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The chips of a node, for the simulated driver."""
    devices, index = node.devices, whole_number(node.server_index, 0)
    chips: list[dict[str, Any]] = [{"physical": at} for at in range(node.chips_capacity[resource])]
    if devices is not None:
        chips = [
            {
                "physical": device.chip,
                "ip": device.ip,
                "super_device": whole_number(device.super_device_id, 0) or 0,
            }
            for device in devices
        ]
    return {
        **facts,
        "chips": chips,
        "superpod": -2 if node.superpod is None else node.superpod,
        "server_index": -2 if index is None else index,
        "rack": node.rack or 0,
    }


@dataclass(frozen=True, slots=True)
class MountSettings:
    """How the chips come into the containers of a lab."""

    mount_method: str = BY_NODES
    mount_driver: bool = True


class _LabClock:
    """Timestamps are those of the lab; waiting takes real time."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now

    def now(self) -> int:
        return self._now()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class _RunningNode:
    """Kubelet, plugin and API of one node and resource. Everything here runs on the loop of the plugins."""

    def __init__(
        self,
        folder: Path,
        host: Path,
        node: Node,
        resource: str,
        driver: SimulatedDriver,
        mounting: MountSettings,
        clock: _LabClock,
    ) -> None:
        self.resource = resource
        self._name = node.name
        self._driver = driver
        self._folder = folder
        self.api = NodeApi()
        self.api.put("nodes", _node_object(node))
        #: Pods whose annotations the plugin wrote: uid to all of them.
        self.written: dict[str, dict[str, str]] = {}
        self.api.on_change = self._heard
        settings = PluginSettings(
            node.name,
            plugin_folder=folder / "device-plugins",
            pod_resources=folder / "pod-resources" / "kubelet.sock",
            state_folder=folder / "state",
            cdi_folder=folder / "cdi",
            host_root=host,
            cgroup_root=host / "sys/fs/cgroup",
            mount_method=mounting.mount_method,
            mount_driver=mounting.mount_driver,
            period=_PERIOD,
            set_labels=False,
            report_interval=0.0,
            look_period=_PERIOD,
        )
        self.kubelet = SimulatedKubelet(settings.plugin_folder, settings.pod_resources)
        self.plugin = NodePlugin(settings, driver, driver.chips(), MemoryClient(self.api), clock=clock)
        self._isolations: dict[str, Isolation] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def _heard(self, _change: str, plural: str, one: Object) -> None:
        if plural == "pods":
            meta = one["metadata"]
            self.written[meta["uid"]] = dict(meta.get("annotations") or {})

    def restore(self, pod: Pod, container: Container) -> None:
        """What kubelet and the plugin have on the node's disk about a pod that was started before."""
        self.kubelet.containers[pod.key] = (self.resource, container)
        numbers = node_numbers(self.plugin.card, self.plugin.chips)
        names = dict(zip(numbers, self.plugin.names.values(), strict=True))
        chips = tuple(names[number] for number in container.chips if number in names)
        self.plugin.allocator.ledger.add(
            Mount(self.resource, container.ids, chips, pod.uid, pod.key, owner=pod.uid)
        )

    async def start(self) -> None:
        await self.kubelet.start()
        self._tasks = [
            asyncio.create_task(self.plugin.run()),
            asyncio.create_task(Registration(self.plugin).run()),
        ]
        await self._in_step()

    async def stop(self) -> None:
        # A server that ends waits for calls that are open.
        await self.kubelet.forget_plugins()
        await end(*self._tasks)
        await self.kubelet.stop()

    async def put_pod(self, one: Object) -> None:
        """Make a pod known, and wait until the plugin knows it."""
        meta = one["metadata"]
        present = self.api.get("pods", meta["namespace"], meta["name"])
        if present is None or _differs(present, one):
            self.api.put("pods", one)
            version = int(one["metadata"]["resourceVersion"])
            await _until(lambda: self._knows(meta["uid"], version))

    def _knows(self, uid: str, version: int) -> bool:
        pod = self.plugin.allocator.pods.get(uid)
        return pod is not None and pod.version >= version

    async def remove_pod(self, namespace: str, name: str) -> None:
        present = self.api.get("pods", namespace, name)
        self.kubelet.remove(f"{namespace}/{name}")
        if present is not None:
            uid = present["metadata"]["uid"]
            self.api.remove("pods", namespace, name)
            await _until(lambda: uid not in self.plugin.allocator.pods)

    async def isolate(self, isolations: list[Isolation]) -> None:
        """Publish what is isolated on this node, and wait until the plugin knows it."""
        for name in self._isolations.keys() - {one.name for one in isolations}:
            self.api.remove("isolations", "", name)
        before, self._isolations = self._isolations, {one.name: one for one in isolations}
        for one in isolations:
            if one != before.get(one.name):
                self.api.put("isolations", isolation_body(one))
        if before != self._isolations:
            names = tuple(self.plugin.names.values())
            wanted = frozenset(isolated_chips(isolations, self._name, names))
            await _until(lambda: self.plugin.monitor.isolated == wanted)

    async def admit(self, key: str, count: int) -> PodContainer:
        """Kubelet's part of a pod's start."""
        try:
            container = await self.kubelet.admit(key, self.resource, count)
        except AdmissionError as problem:
            return PodContainer(refused=str(problem))
        await self.plugin.report()
        return container_of(container)

    async def report(self, wanted: DeviceReport) -> DeviceReport:
        """Give the chips this health, and read what the node reports then."""
        for chip in self.plugin.chips:
            at = 1 << chip.physical
            codes = [
                int(fault.code, 16) for fault in wanted.faults if fault.chip == chip.physical and fault.code
            ]
            ports = [code for code in codes if code in NETWORK_CODES]
            if wanted.unhealthy & at and len(ports) == len(codes):
                codes.append(BROKEN_CHIP)
            if (wanted.network_unhealthy or 0) & at and not ports:
                codes.append(BROKEN_NETWORK)
            if self._driver.codes(chip) != codes:
                self._driver.change(chip.physical, codes)
        await self._in_step()
        await self.plugin.report()
        stored = self.api.get("configmaps", KUBE_SYSTEM, DEVICE_INFO_PREFIX + self._name)
        assert stored is not None, "the plugin wrote its report to this very API"
        issues = Findings(f"ConfigMap {DEVICE_INFO_PREFIX}{self._name}")
        wire = ConfigMapWire(
            metadata=MetaWire(name=DEVICE_INFO_PREFIX + self._name, namespace=KUBE_SYSTEM),
            data=stored["data"],
        )
        read = config_map_from_wire(wire, issues)
        reports = read[0] if read is not None else []
        return next(report for report in reports if report.resource == self.resource)

    async def _in_step(self) -> None:
        """The plugin has looked at its chips, and kubelet knows what it saw."""
        await self.plugin.look()
        await self.kubelet.devices_when(self.resource, lambda devices: devices == dict(self.plugin.devices))


async def _until(holds: Callable[[], bool]) -> None:
    """For what the loop does without waiting for anything outside."""
    while not holds():
        await asyncio.sleep(0)


class DevicePlugins:
    """The port of the embedded cluster to the plugins. Its methods are called on the lab's thread."""

    def __init__(
        self, cluster: EmbeddedCluster, mounting: MountSettings | None = None, most: int = MAX_RUNNING
    ) -> None:
        self._cluster = cluster
        self._mounting = mounting or MountSettings()
        #: Plugins that may run at the same time.
        self.most = most
        self._clock = _LabClock(lambda: cluster.now)
        self._watch = cluster.watch()
        #: Live pods with chips by node and key, as far as the table showed them.
        self._pods: dict[str, dict[str, Pod]] = {}
        #: In the order in which they were needed last.
        self._running: dict[tuple[str, str], _RunningNode] = {}
        self._written: dict[str, dict[str, str]] = {}
        self._made = 0
        # The paths of sockets are short.
        self._temporary = TemporaryDirectory(prefix="rw")
        self._folder = Path(self._temporary.name)
        self._host = self._folder / "host"
        for name in (*_HOST_FILES, *_HOST_FOLDERS):
            path = self._host / name
            folder = path if name in _HOST_FOLDERS else path.parent
            folder.mkdir(parents=True, exist_ok=True)
            if name in _HOST_FILES:
                path.touch()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="device-plugins", daemon=True)
        self._thread.start()

    def close(self) -> None:
        async def stop() -> None:
            await asyncio.gather(*(node.stop() for node in self._running.values()))

        self._do(stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._temporary.cleanup()

    @property
    def running(self) -> list[str]:
        """The nodes whose plugin runs now."""
        return [name for name, _ in self._running]

    # -- the port ----------------------------------------------------------------------------------------

    def serve(self, node: Node, resource: str) -> bool:
        return bool(node.chips_capacity.get(resource)) and chip_facts(node, resource) is not None

    def start(self, pod: Pod) -> PodContainer:
        return self._with(pod.node or "", pod.cls.resource or "", lambda node: self._admitted(node, pod))

    async def _admitted(self, node: _RunningNode, pod: Pod) -> PodContainer:
        await node.put_pod(self._object(pod))
        return await node.admit(pod.key, pod.cls.chips)

    def release(self, pod: Pod) -> None:
        self._follow()
        self._pods.get(pod.node or "", {}).pop(pod.key, None)
        running = self._running.get((pod.node or "", pod.cls.resource or ""))
        if running is not None:
            self._do(running.remove_pod(pod.namespace, pod.name))

    def broken(self, report: DeviceReport) -> tuple[int, int]:
        if report.faults:
            # An isolation has no code.
            codes = [(one.chip, int(one.code, 16)) for one in report.faults if one.code]
            ports = mask_of(chip for chip, code in codes if code in NETWORK_CODES)
            chips = mask_of(chip for chip, code in codes if code not in NETWORK_CODES)
            return report.unhealthy & chips, (report.network_unhealthy or 0) & ports
        # Broken before plugins ran, or not at all.
        away = self._cluster.nodes.isolated(report.node)
        return report.unhealthy & ~away, (report.network_unhealthy or 0)

    def _isolated(self, node: str) -> list[Isolation]:
        return [one for one in self._cluster.all(Isolation) if one.node == node and one.start is None]

    def forget(self, node: str) -> None:
        self._follow()
        self._pods.pop(node, None)
        for key in [key for key in self._running if key[0] == node]:
            self._do(self._running.pop(key).stop())

    def report(self, report: DeviceReport) -> DeviceReport:
        return self._with(report.node, report.resource, lambda node: node.report(report))

    def changes(self) -> Mapping[str, Mapping[str, str]]:
        written, self._written = self._written, {}
        return written

    # -- nodes -------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        """Learn from the table which pods are on which node."""
        for change in self._watch.poll():
            pod = change.object
            if not isinstance(pod, Pod) or not pod.cls.chips:
                continue
            here = self._pods.setdefault(pod.node or "", {})
            if change.gone or not pod.live or pod.node is None:
                here.pop(pod.key, None)
            else:
                here[pod.key] = pod

    def _with(
        self, name: str, resource: str, work: Callable[[_RunningNode], Coroutine[Any, Any, Answer]]
    ) -> Answer:
        """Let the plugin of a node work; it is started where it does not run."""
        self._follow()
        here = [pod for pod in self._pods.get(name, {}).values() if pod.cls.resource == resource]
        isolated = self._isolated(name)

        async def worked() -> Answer:
            running = self._running.pop((name, resource), None)
            if running is None:
                running = await self._started(name, resource)
            self._running[name, resource] = running
            self._take(running)
            await running.isolate(isolated)
            for pod in here:
                await running.put_pod(self._object(pod))
            answer = await work(running)
            self._take(running)
            return answer

        return self._do(worked())

    def _take(self, running: _RunningNode) -> None:
        self._written.update(running.written)
        running.written.clear()

    def _object(self, pod: Pod) -> Object:
        """The pod with what the plugin wrote to it and the cluster has not read yet."""
        return _pod_object(pod, self._written.get(pod.uid, pod.annotations))

    async def _started(self, name: str, resource: str) -> _RunningNode:
        while len(self._running) >= self.most:
            await self._running.pop(next(iter(self._running))).stop()
        node = self._cluster.nodes.get(name)
        assert node is not None, "only nodes of the cluster have pods and reports"
        facts = chip_facts(node, resource)
        assert facts is not None, "serve() was asked before"
        driver = SimulatedDriver(description_of(node, resource, facts))
        self._made += 1
        folder = self._folder / str(self._made)
        made = _RunningNode(folder, self._host, node, resource, driver, self._mounting, self._clock)
        for pod in self._pods.get(name, {}).values():
            container = self._cluster.container(pod.uid)
            if container is not None and not container.refused and pod.cls.resource == resource:
                made.restore(pod, _kubelet_container(container))
            if pod.cls.resource == resource:
                made.api.put("pods", self._object(pod))
        await made.start()
        return made

    def _do(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        return asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, _TIMEOUT), self._loop).result()


# -- objects -----------------------------------------------------------------------------------------------


def _node_object(node: Node) -> Object:
    return {
        "metadata": {"name": node.name, "labels": dict(node.labels)},
        "status": {"addresses": [{"type": "InternalIP", "address": node.internal_ip}]},
    }


def _pod_object(pod: Pod, annotations: Mapping[str, str]) -> Object:
    meta: Object = {
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "creationTimestamp": time_text(pod.created),
        "annotations": dict(annotations),
    }
    if pod.deleting:
        meta["deletionTimestamp"] = meta["creationTimestamp"]
    limits = {pod.cls.resource: str(pod.cls.chips)} if pod.cls.resource else {}
    return {
        "metadata": meta,
        "spec": {"nodeName": pod.node, "containers": [{"name": "main", "resources": {"limits": limits}}]},
        "status": {"phase": pod.phase},
    }


def _differs(one: Object, other: Object) -> bool:
    def facts(pod: Object) -> tuple[Any, ...]:
        meta = pod["metadata"]
        return meta["uid"], "deletionTimestamp" in meta, meta["annotations"], pod["status"]

    return facts(one) != facts(other)


def container_of(container: Container) -> PodContainer:
    answer = container.answer
    return PodContainer(
        ids=container.ids,
        devices=tuple(
            ContainerDevice(one.container_path, one.host_path, one.permissions) for one in answer.devices
        ),
        mounts=tuple(one.host_path for one in answer.mounts),
        environment=dict(answer.envs),
        cdi_devices=tuple(one.name for one in answer.cdi_devices),
    )


def _kubelet_container(saved: PodContainer) -> Container:
    answer = messages.ContainerAllocateResponse(
        envs=dict(saved.environment),
        devices=[
            messages.DeviceSpec(container_path=one.container, host_path=one.host, permissions=one.permissions)
            for one in saved.devices
        ],
        mounts=[messages.Mount(container_path=path, host_path=path, read_only=True) for path in saved.mounts],
        cdi_devices=[messages.CDIDevice(name=name) for name in saved.cdi_devices],
    )
    return Container(saved.ids, answer)
