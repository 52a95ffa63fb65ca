"""A simulated container runtime, from the public interface: it starts nothing and records what it was told.

Run as a program: `runtime.py SOCKET RECORDS CGROUPS`. Each container that kubelet creates becomes one line of
JSON in RECORDS: pod, devices, CDI devices, mounts and environment. While it runs, the folder CGROUPS has a
control group of it, below that of its pod, with a process in it. A container whose pod has a file of its name
beside RECORDS, with `.stuck` behind it, does not end before the file is gone, like a process that waits in a
driver.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import grpc.aio

from tests.node.cri import runtime_pb2 as cri
from tests.node.cri.runtime_pb2_grpc import (
    ImageServiceServicer,
    RuntimeServiceServicer,
    add_ImageServiceServicer_to_server,
    add_RuntimeServiceServicer_to_server,
)

IMAGE_ID = "sha256:" + "0" * 64


class Runtime(RuntimeServiceServicer, ImageServiceServicer):
    """Sandboxes and containers are entries in two tables."""

    def __init__(self, records: Path, groups: Path) -> None:
        self._records = records
        self._groups = groups
        self._sandboxes: dict[str, Any] = {}
        self._containers: dict[str, Any] = {}
        self._sandbox_of: dict[str, str] = {}

    # -- about the runtime -------------------------------------------------------------------------------

    async def Version(self, request: Any, context: Any) -> Any:
        return cri.VersionResponse(
            version="0.1.0", runtime_name="recorder", runtime_version="1.0.0", runtime_api_version="v1"
        )

    async def Status(self, request: Any, context: Any) -> Any:
        conditions = [
            cri.RuntimeCondition(type=kind, status=True) for kind in ("RuntimeReady", "NetworkReady")
        ]
        return cri.StatusResponse(status=cri.RuntimeStatus(conditions=conditions))

    async def RuntimeConfig(self, request: Any, context: Any) -> Any:
        return cri.RuntimeConfigResponse(
            linux=cri.LinuxRuntimeConfiguration(cgroup_driver=cri.CgroupDriver.CGROUPFS)
        )

    async def UpdateRuntimeConfig(self, request: Any, context: Any) -> Any:
        return cri.UpdateRuntimeConfigResponse()

    # -- sandboxes ---------------------------------------------------------------------------------------

    async def RunPodSandbox(self, request: Any, context: Any) -> Any:
        identity = uuid.uuid4().hex
        config = request.config
        self._sandboxes[identity] = cri.PodSandbox(
            id=identity,
            metadata=config.metadata,
            state=cri.SANDBOX_READY,
            created_at=time.time_ns(),
            labels=config.labels,
            annotations=config.annotations,
        )
        return cri.RunPodSandboxResponse(pod_sandbox_id=identity)

    async def StopPodSandbox(self, request: Any, context: Any) -> Any:
        sandbox = self._sandboxes.get(request.pod_sandbox_id)
        if sandbox is not None:
            sandbox.state = cri.SANDBOX_NOTREADY
        for identity, owner in list(self._sandbox_of.items()):
            if owner == request.pod_sandbox_id:
                await self._end(identity)
        return cri.StopPodSandboxResponse()

    async def RemovePodSandbox(self, request: Any, context: Any) -> Any:
        self._sandboxes.pop(request.pod_sandbox_id, None)
        return cri.RemovePodSandboxResponse()

    async def PodSandboxStatus(self, request: Any, context: Any) -> Any:
        if request.pod_sandbox_id not in self._sandboxes:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such sandbox")
        sandbox = self._sandboxes[request.pod_sandbox_id]
        status = cri.PodSandboxStatus(
            id=sandbox.id,
            metadata=sandbox.metadata,
            state=sandbox.state,
            created_at=sandbox.created_at,
            network=cri.PodSandboxNetworkStatus(ip="127.0.0.1"),
            labels=sandbox.labels,
            annotations=sandbox.annotations,
        )
        return cri.PodSandboxStatusResponse(status=status)

    async def ListPodSandbox(self, request: Any, context: Any) -> Any:
        wanted = request.filter
        found = [
            one
            for one in self._sandboxes.values()
            if (not wanted.id or one.id == wanted.id)
            and (not wanted.HasField("state") or one.state == wanted.state.state)
            and all(one.labels.get(key) == value for key, value in wanted.label_selector.items())
        ]
        return cri.ListPodSandboxResponse(items=found)

    # -- containers --------------------------------------------------------------------------------------

    async def CreateContainer(self, request: Any, context: Any) -> Any:
        identity = uuid.uuid4().hex
        config = request.config
        self._containers[identity] = cri.ContainerStatus(
            id=identity,
            metadata=config.metadata,
            state=cri.CONTAINER_CREATED,
            created_at=time.time_ns(),
            image=config.image,
            image_ref=IMAGE_ID,
            labels=config.labels,
            annotations=config.annotations,
        )
        self._sandbox_of[identity] = request.pod_sandbox_id
        pod = request.sandbox_config.metadata
        record = {
            "pod": f"{pod.namespace}/{pod.name}",
            "uid": pod.uid,
            "container": config.metadata.name,
            "devices": [[one.host_path, one.container_path, one.permissions] for one in config.devices],
            "cdi": [one.name for one in config.CDI_devices],
            "mounts": [[one.host_path, one.container_path] for one in config.mounts],
            "envs": {one.key: one.value for one in config.envs},
        }
        with self._records.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        return cri.CreateContainerResponse(container_id=identity)

    async def StartContainer(self, request: Any, context: Any) -> Any:
        container = self._containers[request.container_id]
        container.state = cri.CONTAINER_RUNNING
        container.started_at = time.time_ns()
        group = self._group(request.container_id)
        group.mkdir(parents=True)
        (group / "cgroup.procs").write_text("1\n")
        return cri.StartContainerResponse()

    async def StopContainer(self, request: Any, context: Any) -> Any:
        await self._end(request.container_id)
        return cri.StopContainerResponse()

    async def _end(self, identity: str) -> None:
        container = self._containers.get(identity)
        if container is None or container.state == cri.CONTAINER_EXITED:
            return
        stuck = self._records.with_name(f"{container.labels['io.kubernetes.pod.name']}.stuck")
        while stuck.exists():
            await asyncio.sleep(0.05)
        shutil.rmtree(self._group(identity), ignore_errors=True)
        container.state = cri.CONTAINER_EXITED
        container.finished_at = time.time_ns()
        container.exit_code = 0
        container.reason = "Completed"

    def _group(self, identity: str) -> Path:
        """As kubelet names that of a pod in the middle class of service."""
        uid = self._containers[identity].labels["io.kubernetes.pod.uid"]
        return self._groups / f"kubepods/burstable/pod{uid}" / identity

    async def RemoveContainer(self, request: Any, context: Any) -> Any:
        self._containers.pop(request.container_id, None)
        self._sandbox_of.pop(request.container_id, None)
        return cri.RemoveContainerResponse()

    async def ContainerStatus(self, request: Any, context: Any) -> Any:
        container = self._containers.get(request.container_id)
        if container is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such container")
        return cri.ContainerStatusResponse(status=container)

    async def ListContainers(self, request: Any, context: Any) -> Any:
        wanted = request.filter
        found = [
            cri.Container(
                id=identity,
                pod_sandbox_id=self._sandbox_of[identity],
                metadata=one.metadata,
                image=one.image,
                image_ref=one.image_ref,
                state=one.state,
                created_at=one.created_at,
                labels=one.labels,
                annotations=one.annotations,
            )
            for identity, one in self._containers.items()
            if (not wanted.id or identity == wanted.id)
            and (not wanted.pod_sandbox_id or self._sandbox_of[identity] == wanted.pod_sandbox_id)
            and (not wanted.HasField("state") or one.state == wanted.state.state)
            and all(one.labels.get(key) == value for key, value in wanted.label_selector.items())
        ]
        return cri.ListContainersResponse(containers=found)

    async def ListContainerStats(self, request: Any, context: Any) -> Any:
        return cri.ListContainerStatsResponse()

    async def ListPodSandboxStats(self, request: Any, context: Any) -> Any:
        return cri.ListPodSandboxStatsResponse()

    async def UpdateContainerResources(self, request: Any, context: Any) -> Any:
        return cri.UpdateContainerResourcesResponse()

    # -- images: every image is there --------------------------------------------------------------------

    async def ImageStatus(self, request: Any, context: Any) -> Any:
        image = cri.Image(id=IMAGE_ID, repo_tags=[request.image.image], size=1, uid=cri.Int64Value(value=0))
        return cri.ImageStatusResponse(image=image)

    async def PullImage(self, request: Any, context: Any) -> Any:
        return cri.PullImageResponse(image_ref=IMAGE_ID)

    async def ListImages(self, request: Any, context: Any) -> Any:
        return cri.ListImagesResponse()

    async def ImageFsInfo(self, request: Any, context: Any) -> Any:
        usage = cri.FilesystemUsage(
            timestamp=time.time_ns(),
            fs_id=cri.FilesystemIdentifier(mountpoint="/"),
            used_bytes=cri.UInt64Value(value=1),
            inodes_used=cri.UInt64Value(value=1),
        )
        return cri.ImageFsInfoResponse(image_filesystems=[usage], container_filesystems=[usage])


async def serve(socket: Path, records: Path, groups: Path) -> None:
    socket.unlink(missing_ok=True)
    runtime = Runtime(records, groups)
    server = grpc.aio.server()
    add_RuntimeServiceServicer_to_server(runtime, server)
    add_ImageServiceServicer_to_server(runtime, server)
    server.add_insecure_port(f"unix://{socket}")
    await server.start()
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    await stop.wait()
    await server.stop(0)


if __name__ == "__main__":
    asyncio.run(serve(*map(Path, sys.argv[1:4])))
