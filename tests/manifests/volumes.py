"""Manifests of claims, volumes, classes, CSINodes, drivers and their storage, and pods that use claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Plain = dict[str, Any]

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


def storage_class(
    name: str,
    provisioner: str = "csi.example.com",
    *,
    waits: bool = False,
    zones: Sequence[str] = (),
    default: bool = False,
) -> Plain:
    made: Plain = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": {DEFAULT_CLASS: "true"} if default else {}},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer" if waits else "Immediate",
    }
    if zones:
        expression = {"key": ZONE, "values": list(zones)}
        made["allowedTopologies"] = [{"matchLabelExpressions": [expression]}]
    return made


def csi_node(name: str, limits: Mapping[str, int | None], keys: Sequence[str] = ()) -> Plain:
    """The drivers of a node, and how many volumes of each it attaches."""
    drivers = [
        {
            "name": driver,
            "nodeID": name,
            "topologyKeys": list(keys),
            **({} if limit is None else {"allocatable": {"count": limit}}),
        }
        for driver, limit in limits.items()
    ]
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name},
        "spec": {"drivers": drivers},
    }


def csi_driver(name: str = "csi.example.com", *, capacity: bool = True) -> Plain:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": name},
        "spec": {"storageCapacity": capacity},
    }


def storage_capacity(name: str, storage_class: str, size: str | None, node: str = "", **more: Any) -> Plain:
    """How much the driver has room for on one node, or on all."""
    made: Plain = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": name, "namespace": "kube-system"},
        "storageClassName": storage_class,
        "nodeTopology": {"matchLabels": {HOST: node}} if node else {},
    }
    return {**made, **({} if size is None else {"capacity": size}), **more}


def claim_spec(storage_class: str | None = None, size: str = "10Gi", mode: str = "ReadWriteOnce") -> Plain:
    spec: Plain = {"accessModes": [mode], "resources": {"requests": {"storage": size}}}
    return spec if storage_class is None else {**spec, "storageClassName": storage_class}


def claim(
    name: str,
    storage_class: str | None = None,
    size: str = "10Gi",
    *,
    namespace: str = "default",
    mode: str = "ReadWriteOnce",
    bound: str = "",
    node: str = "",
    **more: Any,
) -> Plain:
    """`bound`: to this volume; `node`: selected for it."""
    annotations = {SELECTED_NODE: node} if node else {}
    spec = {**claim_spec(storage_class, size, mode), **more}
    if bound:
        annotations[BIND_COMPLETED] = "yes"
        spec["volumeName"] = bound
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
        "spec": spec,
    }


def volume(
    name: str,
    storage_class: str = "",
    size: str = "10Gi",
    *,
    node: str = "",
    zone: str = "",
    claim: str = "",
    mode: str = "ReadWriteOnce",
    driver: str = "",
    **more: Any,
) -> Plain:
    """On one node, in one zone, or everywhere. `claim`: the one that it is for."""
    spec: Plain = {
        "capacity": {"storage": size},
        "accessModes": [mode],
        "storageClassName": storage_class,
        "persistentVolumeReclaimPolicy": "Retain",
        **more,
    }
    place = (HOST, node) if node else (ZONE, zone) if zone else None
    if place is not None:
        expression = {"key": place[0], "operator": "In", "values": [place[1]]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    if claim:
        namespace, _, named = claim.partition("/")
        spec["claimRef"] = {"namespace": namespace, "name": named}
    if driver:
        spec["csi"] = {"driver": driver, "volumeHandle": name}
    elif node:
        spec["local"] = {"path": f"/mnt/{name}"}
    else:
        spec["hostPath"] = {"path": f"/mnt/{name}"}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def with_claims(pod_spec: Plain, *claims: str) -> Plain:
    """The spec of a pod with volumes by these claims."""
    volumes = [
        {"name": f"volume-{number}", "persistentVolumeClaim": {"claimName": name}}
        for number, name in enumerate(claims)
    ]
    return {**pod_spec, "volumes": [*pod_spec.get("volumes", ()), *volumes]}


def with_ephemeral(pod_spec: Plain, name: str, storage_class: str | None = None, size: str = "10Gi") -> Plain:
    """The spec of a pod with a generic ephemeral volume."""
    template = {"spec": claim_spec(storage_class, size)}
    volume = {"name": name, "ephemeral": {"volumeClaimTemplate": template}}
    return {**pod_spec, "volumes": [*pod_spec.get("volumes", ()), volume]}
