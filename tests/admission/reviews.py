"""Reviews as the API server sends them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from ringwise.apps.admission.rules import ClusterFacts
from ringwise.apps.admission.webhook import Reviews
from tests.builders.values import CHIP

GROUPS = {
    "Job": "batch.volcano.sh",
    "PodGroup": "scheduling.volcano.sh",
    "Queue": "scheduling.volcano.sh",
    "HyperNode": "topology.volcano.sh",
    "Pod": "",
}


def container(chips: int, name: str = "main", chip: str = CHIP) -> dict[str, Any]:
    return {
        "name": name,
        "image": "train:1",
        "resources": {"limits": {chip: chips}, "requests": {chip: chips}},
    }


def vcjob(chips: int = 8, replicas: int = 1, *, scheduler: str = "volcano", **more: Any) -> dict[str, Any]:
    meta = {"name": "train", "namespace": "team", **more.pop("metadata", {})}
    template = {"spec": {"containers": [container(chips)]}}
    tasks = [{"name": "worker", "replicas": replicas, "template": template}]
    return {
        "kind": "Job",
        "metadata": meta,
        "spec": {"schedulerName": scheduler, "minAvailable": replicas, "tasks": tasks, **more},
    }


def pod(
    chips: int, *more: dict[str, Any], scheduler: str = "volcano", chip: str = CHIP, **meta: Any
) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {"name": "pod", "namespace": "team", **meta},
        "spec": {"schedulerName": scheduler, "containers": [container(chips, chip=chip), *more]},
    }


def group(queue: str = "default") -> dict[str, Any]:
    return {
        "kind": "PodGroup",
        "metadata": {"name": "gang", "namespace": "team"},
        "spec": {"minMember": 4, "queue": queue},
    }


def answer(body: bytes, cluster: ClusterFacts) -> dict[str, Any] | None:
    """Return the AdmissionReview that answers one."""
    return asyncio.run(Reviews(cluster).answer(body))


def deletion(kind: str, name: str, status: Any = None) -> bytes:
    """The API server sends the object as it was."""
    request = {
        "uid": "the-review",
        "kind": {"group": GROUPS[kind], "kind": kind},
        "name": name,
        "operation": "DELETE",
        "object": None,
        "oldObject": {"kind": kind, "metadata": {"name": name}, "status": status},
    }
    return json.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    ).encode()


def review(object: dict[str, Any], operation: str = "CREATE", old: dict[str, Any] | None = None) -> bytes:
    group = GROUPS.get(object.get("kind", ""), "")
    if isinstance(api := object.get("apiVersion"), str):
        group = api.rpartition("/")[0]
    request = {
        "uid": "the-review",
        "kind": {"group": group, "kind": object.get("kind", "")},
        "namespace": _namespace(object),
        "operation": operation,
        "object": object,
        "oldObject": old,
    }
    return json.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    ).encode()


def _namespace(object: dict[str, Any]) -> str:
    meta = object.get("metadata")
    return str(meta.get("namespace", "")) if isinstance(meta, dict) else ""
