"""Manifests as clusters print them, for tests and for measuring by hand.

    python -m tests.manifests.builders 10000 50000 dump.json

writes a List of nodes and pods, each about as large as a real one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from tests.builders.values import CHIP

Plain = dict[str, Any]


def node(name: str = "node-0", chips: int = 8, **metadata: Any) -> Plain:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, **metadata},
        "status": {
            "allocatable": {CHIP: str(chips), "cpu": "192", "memory": "800Gi", "pods": "110"},
            "capacity": {CHIP: str(chips), "cpu": "192", "memory": "800Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        },
    }


def pod(name: str = "pod-0", chips: int = 1, *, node_name: str | None = None, **metadata: Any) -> Plain:
    spec: Plain = {
        "schedulerName": "volcano",
        "containers": [{"name": "main", "resources": {"limits": {CHIP: chips}, "requests": {CHIP: chips}}}],
    }
    if node_name:
        spec["nodeName"] = node_name
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team", **metadata},
        "spec": spec,
    }


def pod_group(name: str = "gang", **spec: Any) -> Plain:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"minMember": 2, **spec},
    }


def queue(name: str = "research", **spec: Any) -> Plain:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 2, **spec},
    }


def priority_class(name: str = "high", value: Any = 1000) -> Plain:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def task(name: str = "work", replicas: Any = 2, chips: int = 8, **more: Any) -> Plain:
    limits = {CHIP: chips} if chips else {}
    return {
        "name": name,
        "replicas": replicas,
        "template": {
            "metadata": {"labels": {"ring-controller.atlas": "ascend-910"}},
            "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]},
        },
        **more,
    }


def vcjob(name: str = "train", tasks: list[Plain] | None = None, **spec: Any) -> Plain:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "team", "uid": "1234"},
        "spec": {"schedulerName": "volcano", "tasks": [task()] if tasks is None else tasks, **spec},
    }


def config_map(name: str, data: dict[str, str], namespace: str | None = "kube-system") -> Plain:
    metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def device_info(**lists: str) -> Plain:
    """The body of a device-info ConfigMap; keywords name the lists: free, Unhealthy, NetworkUnhealthy ..."""
    named = {CHIP if key == "free" else f"{CHIP}-{key}": value for key, value in lists.items()}
    return {
        "DeviceInfo": {"DeviceList": named, "UpdateTime": 1700000005},
        "SuperPodID": 3,
        "ServerIndex": 1,
    }


def text_of(*documents: Plain) -> bytes:
    """JSON documents one after the other."""
    return b"\n".join(json.dumps(document).encode() for document in documents)


def _managed(fields: int) -> list[Plain]:
    """Managed fields of the API server: not read, and half of the bytes of a dump."""
    return [
        {
            "apiVersion": "v1",
            "fieldsType": "FieldsV1",
            "manager": "kubelet",
            "operation": "Update",
            "time": "2025-01-31T08:00:00Z",
            "fieldsV1": {f"f:field{at}": {".": {}, "f:inner": {}, "f:other": {}} for at in range(fields)},
        }
    ]


def real_node(number: int) -> Plain:
    built = node(f"node-{number}")
    infos = {
        f"Ascend910-{chip}": {"IP": f"10.{number >> 8 & 255}.{number & 255}.{chip}"} for chip in range(8)
    }
    built["metadata"].update(
        uid=f"00000000-0000-4000-8000-{number:012d}",
        creationTimestamp="2025-01-31T08:00:00Z",
        labels={
            "kubernetes.io/hostname": f"node-{number}",
            "kubernetes.io/arch": "arm64",
            "kubernetes.io/os": "linux",
            "accelerator": "huawei-Ascend910",
            "accelerator-type": "module",
            "host-arch": "huawei-arm",
            "workerselector": "dls-worker-node",
        },
        annotations={"baseDeviceInfos": json.dumps(infos), "superPodID": "-2", "serverIndex": "-2"},
        managedFields=_managed(4),
    )
    built["status"]["images"] = [
        {"names": [f"registry.example/team/image-{at}@sha256:{'0' * 64}"], "sizeBytes": 123456789}
        for at in range(30)
    ]
    return built


def real_pod(number: int, nodes: int) -> Plain:
    host = number % nodes
    place = number // nodes
    bound = place < 4
    chips = f"Ascend910-{place * 2},Ascend910-{place * 2 + 1}"
    name = f"job-{number // 16}-work-{number % 16}"
    built = pod(name, 2, node_name=f"node-{host}" if bound else None)
    built["metadata"].update(
        uid=f"00000000-0000-4000-9000-{number:012d}",
        creationTimestamp=f"2025-02-01T{number % 24:02d}:00:{number % 60:02d}Z",
        labels={
            "volcano.sh/job-name": f"job-{number // 16}",
            "volcano.sh/task-index": str(number % 16),
            "volcano.sh/task-spec": "work",
            "volcano.sh/queue-name": "default",
            "ring-controller.atlas": "ascend-910",
        },
        annotations={
            "scheduling.k8s.io/group-name": f"job-{number // 16}-1234",
            "volcano.sh/task-spec": "work",
            **({CHIP: chips, "huawei.com/AscendReal": chips, "predicate-time": "1"} if bound else {}),
        },
        ownerReferences=[
            {
                "apiVersion": "batch.volcano.sh/v1alpha1",
                "kind": "Job",
                "name": f"job-{number // 16}",
                "uid": "1",
            }
        ],
        managedFields=_managed(4),
    )
    built["spec"].update(
        nodeSelector={"accelerator-type": "module", "host-arch": "huawei-arm"},
        tolerations=[
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
        ],
        volumes=[{"name": f"data-{at}", "hostPath": {"path": f"/data/{at}"}} for at in range(6)],
    )
    container = built["spec"]["containers"][0]
    container["env"] = [{"name": f"SETTING_{at}", "value": "x" * 20} for at in range(10)]
    container["resources"]["requests"].update(cpu="4", memory="16Gi")
    container["volumeMounts"] = [{"name": f"data-{at}", "mountPath": f"/data/{at}"} for at in range(6)]
    built["status"] = {
        "phase": "Running" if bound else "Pending",
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": "2025-02-01T00:00:00Z"}
            for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
        ],
    }
    return built


def dump(nodes: int, pods: int) -> Iterator[Plain]:
    yield from (real_node(number) for number in range(nodes))
    yield from (real_pod(number, nodes) for number in range(pods))


def write_dump(path: str, nodes: int, pods: int) -> None:
    """Like `kubectl get nodes,pods -A -o json`: indented by four spaces, the kind after the items."""
    with open(path, "w", encoding="utf-8") as file:
        file.write('{\n    "apiVersion": "v1",\n    "items": [\n')
        for at, item in enumerate(dump(nodes, pods)):
            text = json.dumps(item, indent=4, sort_keys=True)
            file.write((",\n" if at else "") + "        " + text.replace("\n", "\n        "))
        file.write('\n    ],\n    "kind": "List",\n    "metadata": {"resourceVersion": ""}\n}\n')


if __name__ == "__main__":
    write_dump(sys.argv[3], int(sys.argv[1]), int(sys.argv[2]))
