"""Manifests of nodes, pods and jobs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ringwise.device.report import check_code

Object = dict[str, Any]

CHIP = "huawei.com/Ascend910"
GROUP = "scheduling.k8s.io/group-name"
#: Annotations for the simulated nodes: how a pod ends.
ENDS = "tests.ringwise/ends"
#: With these a bound pod does not start, and a deleted one does not go, until `Cluster.release()`.
HOLDS_START = "tests.ringwise/holds-start"
HOLDS_END = "tests.ringwise/holds-end"


def node(
    name: str,
    chips: int = 8,
    *,
    address: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Object:
    amounts = {"cpu": "192", "memory": "768Gi", "pods": "110", CHIP: str(chips)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "accelerator": "huawei-Ascend910",
                "accelerator-type": "module",
                "host-arch": "huawei-arm",
                **(labels or {}),
            },
            "annotations": dict(annotations or {}),
        },
        "status": {
            "addresses": [{"type": "InternalIP", "address": address}] if address else [],
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "simulated"}
            ],
        },
    }


def nodes(count: int, chips: int = 8) -> list[Object]:
    return [node(f"node-{number}", chips, address=f"10.0.0.{number}") for number in range(1, count + 1)]


def _container(chips: int) -> Object:
    amounts = {CHIP: str(chips)} if chips else {}
    return {
        "name": "main",
        "image": "train:latest",
        "resources": {"requests": amounts, "limits": amounts},
    }


def pod(
    name: str,
    chips: int,
    *,
    group: str = "",
    on: str = "",
    held: Sequence[int] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    scheduler: str = "volcano",
) -> Object:
    """`on` and `held`: bound to this node by another scheduler, with these chips."""
    written = dict(annotations or {})
    if group:
        written[GROUP] = group
    if held is not None:
        written[CHIP] = ",".join(f"Ascend910-{chip}" for chip in held)
        written["predicate-time"] = "18446744073709551615"
    spec: Object = {
        "schedulerName": scheduler,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [_container(chips)],
    }
    if on:
        spec["nodeName"] = on
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": dict(labels or {}),
            "annotations": written,
        },
        "spec": spec,
    }


def pod_group(name: str, members: int, annotations: Mapping[str, str] | None = None) -> Object:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "annotations": dict(annotations or {})},
        "spec": {"minMember": members, "queue": "default"},
    }


def vcjob(
    name: str,
    replicas: int,
    chips: int,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    pod_annotations: Mapping[str, str] | None = None,
    selector: Mapping[str, str] | None = None,
    policies: Iterable[Mapping[str, str]] = (),
) -> Object:
    template_spec: Object = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [_container(chips)],
    }
    if selector:
        template_spec["nodeSelector"] = dict(selector)
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "labels": {"ring-controller.atlas": "ascend-910", **(labels or {})},
            "annotations": dict(annotations or {}),
        },
        "spec": {
            "schedulerName": "volcano",
            "minAvailable": replicas,
            "queue": "default",
            "policies": [dict(policy) for policy in policies],
            "tasks": [
                {
                    "name": "work",
                    "replicas": replicas,
                    "template": {
                        "metadata": {
                            "labels": {"ring-controller.atlas": "ascend-910", **(labels or {})},
                            "annotations": dict(pod_annotations or {}),
                        },
                        "spec": template_spec,
                    },
                }
            ],
        },
    }


def switch_topology(switches: Mapping[str, Sequence[str]]) -> Object:
    """Leaf switches with the addresses of their servers."""
    info = {
        "version": "1.0",
        "tor_count": max(map(len, switches.values())),
        "server_list": [
            {
                "tor_id": number,
                "tor_ip": name,
                "server": [
                    {"server_ip": address, "npu_count": 8, "slice_id": place}
                    for place, address in enumerate(addresses)
                ],
            }
            for number, (name, addresses) in enumerate(switches.items())
        ],
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "basic-tor-node-cm", "namespace": "kube-system"},
        "data": {"tor_level": "double_layer", "tor_info": json.dumps(info)},
    }


def node_report(
    node: str,
    free: Sequence[int],
    *,
    unhealthy: Sequence[int] = (),
    sub_healthy: Sequence[int] = (),
    superpod: int = -2,
    index: int = 0,
) -> Object:
    """The ConfigMap of a node's device plugin."""

    def named(chips: Sequence[int]) -> str:
        return ",".join(f"Ascend910-{chip}" for chip in chips)

    faults = [
        {"npu_name": f"Ascend910-{chip}", "fault_code": "80F78006", "fault_level": "SubHealthFault"}
        for chip in sub_healthy
    ]
    lists = {
        CHIP: named(free),
        f"{CHIP}-Unhealthy": named(unhealthy),
        f"{CHIP}-NetworkUnhealthy": "",
        f"{CHIP}-Fault": json.dumps(faults),
    }
    updated = 1_760_000_000
    report = {
        "DeviceInfo": {"DeviceList": lists, "UpdateTime": updated},
        "SuperPodID": superpod,
        "ServerIndex": index,
        "CheckCode": check_code(lists, updated),
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"mindx-dl-deviceinfo-{node}",
            "namespace": "kube-system",
            "labels": {"mx-consumer-cim": "true"},
        },
        "data": {"DeviceInfoCfg": json.dumps(report)},
    }
