"""Kubernetes objects as files and the API server have them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.builders.values import CHIP

Plain = dict[str, Any]

NAMESPACE = "vcjob"
CREATED = "2025-11-15T00:00:00Z"


def chip_list(resource: str, chips: Iterable[int]) -> str:
    """`Ascend910-0,Ascend910-1`, in the order given."""
    prefix = resource.removeprefix("huawei.com/")
    return ",".join(f"{prefix}-{chip}" for chip in chips)


def node(
    name: str,
    *,
    chips: int | None = 8,
    resource: str = CHIP,
    devices: Iterable[int] | None = None,
    capacity: int | None = None,
    ip: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    ready: bool = True,
    **spec: Any,
) -> Plain:
    """A node with `chips` allocatable; `devices` are those of its `baseDeviceInfos`, None for none."""
    notes = dict(annotations or {})
    if devices is not None:
        infos = {chip_list(resource, [chip]): {"IP": f"10.1.0.{chip}"} for chip in devices}
        notes["baseDeviceInfos"] = json.dumps(infos)
    offered: Plain = {"cpu": "192", "memory": "1Ti", "pods": "250"}
    if chips is not None:
        offered[resource] = str(chips)
    most = {**offered, **({resource: str(capacity)} if capacity is not None else {})}
    status: Plain = {
        "allocatable": offered,
        "capacity": most,
        "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        "addresses": [{"type": "Hostname", "address": name}],
    }
    if ip:
        status["addresses"].append({"type": "InternalIP", "address": ip})
    metadata: Plain = {"name": name, "labels": dict(labels or {}), "creationTimestamp": CREATED}
    if notes:
        metadata["annotations"] = notes
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": dict(spec), "status": status}


def pod_spec(
    chips: int, resource: str = CHIP, *, selector: Mapping[str, str] | None = None, **spec: Any
) -> Plain:
    limits = {resource: chips} if chips else {"cpu": "1"}
    built: Plain = {
        "schedulerName": "volcano",
        "containers": [
            {"name": "main", "image": "train", "resources": {"limits": limits, "requests": limits}}
        ],
        **spec,
    }
    if selector:
        built["nodeSelector"] = dict(selector)
    return built


def pod(
    name: str,
    spec: Plain,
    *,
    on: str | None = None,
    phase: str | None = None,
    group: str | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    terminating: bool = False,
) -> Plain:
    notes = dict(annotations or {})
    if group is not None:
        notes["scheduling.k8s.io/group-name"] = group
    metadata: Plain = {"name": name, "namespace": NAMESPACE, "creationTimestamp": CREATED}
    if labels:
        metadata["labels"] = dict(labels)
    if notes:
        metadata["annotations"] = notes
    if terminating:
        metadata["deletionTimestamp"] = "2025-11-15T00:10:00Z"
    spec = {**spec, **({"nodeName": on} if on else {})}
    status = {"phase": phase or ("Running" if on else "Pending")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def filler(
    name: str, on: str, chips: Sequence[int], resource: str = CHIP, *, key: str = "", **more: Any
) -> Plain:
    """A running pod that holds these chips. `key` is the annotation that names them."""
    notes = {key or resource: chip_list(resource, chips), "predicate-time": "18446744073709551615"}
    notes.update(more.pop("annotations", {}))
    return pod(name, pod_spec(len(chips), resource), on=on, annotations=notes, **more)


def vcjob(
    name: str,
    tasks: Sequence[tuple[str, int, Plain]],
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    pod_labels: Mapping[str, str] | None = None,
    pod_annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Plain:
    """A vcjob of tasks (name, replicas, pod spec)."""
    template: Plain = {"labels": dict(pod_labels or {}), "annotations": dict(pod_annotations or {})}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
            "creationTimestamp": CREATED,
        },
        "spec": {
            "schedulerName": "volcano",
            "minAvailable": sum(replicas for _, replicas, _ in tasks),
            "queue": "default",
            "tasks": [
                {"name": task, "replicas": replicas, "template": {"metadata": template, "spec": body}}
                for task, replicas, body in tasks
            ],
            **spec,
        },
    }


def pod_group(
    name: str,
    members: int,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    phase: str = "",
    **spec: Any,
) -> Plain:
    built: Plain = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
            "creationTimestamp": CREATED,
        },
        "spec": {"minMember": members, "queue": "default", **spec},
    }
    if phase:
        built["status"] = {"phase": phase}
    return built


def queue(
    name: str, *, state: str = "Open", annotations: Mapping[str, str] | None = None, **spec: Any
) -> Plain:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name, "annotations": dict(annotations or {})},
        "spec": {"weight": 1, **spec},
        "status": {"state": state},
    }


def usage_limit(name: str, subject: Mapping[str, str], **spec: Any) -> Plain:
    return {
        "apiVersion": "ringwise.io/v1alpha1",
        "kind": "UsageLimit",
        "metadata": {"name": name},
        "spec": {"subject": dict(subject), **spec},
    }


def hyper_node(name: str, *members: str | Plain, **spec: Any) -> Plain:
    """Of nodes with these names, or with these selectors."""
    selectors = [{"exactMatch": {"name": one}} if isinstance(one, str) else one for one in members]
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": 1, "members": [{"type": "Node", "selector": one} for one in selectors], **spec},
    }


def config_map(namespace: str, name: str, data: Mapping[str, str]) -> Plain:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": dict(data),
    }


def report(
    free: Iterable[int],
    *,
    unhealthy: Iterable[int] = (),
    network: Iterable[int] | None = (),
    recovering: Iterable[int] = (),
    resource: str = CHIP,
    superpod: int | None = None,
    rack: int | None = None,
) -> Plain:
    """The text inside a device-info ConfigMap; `network` None leaves the key out."""
    lists = {
        resource: chip_list(resource, free),
        f"{resource}-Unhealthy": chip_list(resource, unhealthy),
        f"{resource}-Recovering": chip_list(resource, recovering),
    }
    if network is not None:
        lists[f"{resource}-NetworkUnhealthy"] = chip_list(resource, network)
    reported: Plain = {"DeviceInfo": {"DeviceList": lists, "UpdateTime": 1763164800}, "CheckCode": "x"}
    if superpod is not None:
        reported["SuperPodID"] = superpod
        reported["ServerIndex"] = 0
    if rack is not None:
        reported["RackID"] = rack
    return reported


def node_report(name: str, reported: Plain) -> Plain:
    data = {"DeviceInfoCfg": json.dumps(reported)}
    return config_map("kube-system", f"mindx-dl-deviceinfo-{name}", data)


def cluster_report(reported: Mapping[str, Plain], number: int = 0) -> Plain:
    """The aggregate: the same facts for many nodes in one ConfigMap, without the inner wrapping."""
    name = f"cluster-info-device-{number}"
    entries = {}
    for host, facts in reported.items():
        rest = {key: value for key, value in facts.items() if key != "DeviceInfo"}
        entries[f"mindx-dl-deviceinfo-{host}"] = {**facts["DeviceInfo"], **rest}
    return config_map("mindx-dl", name, {name: json.dumps(entries)})


def topology(
    switches: Sequence[tuple[str, Sequence[tuple[str, int]]]], tor_count: int, level: str | None = None
) -> Plain:
    """`basic-tor-node-cm`: switches as (name, [(server address, slice)])."""
    info = {
        "version": "1.0",
        "tor_count": tor_count,
        "server_list": [
            {
                "tor_id": number,
                "tor_ip": name,
                "server": [{"server_ip": ip, "npu_count": 8, "slice_id": place} for ip, place in servers],
            }
            for number, (name, servers) in enumerate(switches)
        ],
    }
    data = {"tor_info": json.dumps(info)}
    if level is not None:
        data["tor_level"] = level
    return config_map("kube-system", "basic-tor-node-cm", data)
