"""Owners of pods that are not vcjobs, as people write them."""

from __future__ import annotations

from typing import Any

from tests.builders.objects import NAMESPACE, Plain, pod_spec

APIS = {
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "ReplicationController": "v1",
    "Job": "batch/v1",
    "AscendJob": "mindxdl.gitee.com/v1",
    "PyTorchJob": "kubeflow.org/v1",
    "TFJob": "kubeflow.org/v1",
    "MPIJob": "kubeflow.org/v2beta1",
    "PaddleJob": "kubeflow.org/v1",
    "XGBoostJob": "kubeflow.org/v1",
    "JAXJob": "kubeflow.org/v1",
}
ROLES = {
    "AscendJob": "replicaSpecs",
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
}


def _metadata(name: str, more: Plain) -> Plain:
    return {"name": name, "namespace": NAMESPACE, **more}


def replicated(
    kind: str,
    chips: int,
    replicas: int | None = 1,
    name: str = "app",
    *,
    metadata: Plain | None = None,
    pod_metadata: Plain | None = None,
    pod: Plain | None = None,
    **spec: Any,
) -> Plain:
    """A Deployment and the like; `replicas` is the parallelism of a Job."""
    count = {"parallelism" if kind == "Job" else "replicas": replicas} if replicas is not None else {}
    template = {
        "metadata": {"labels": {"app": name}, **(pod_metadata or {})},
        "spec": {**pod_spec(chips), **(pod or {})},
    }
    return {
        "apiVersion": APIS[kind],
        "kind": kind,
        "metadata": _metadata(name, metadata or {}),
        "spec": {**count, "template": template, **spec},
    }


def role(chips: int, replicas: int = 1, *, container: str = "ascend", **spec: Any) -> Plain:
    """Pods of one kind; without a `schedulerName`, as people write them."""
    built = pod_spec(chips)
    del built["schedulerName"]
    built["containers"][0]["name"] = container
    return {"replicas": replicas, "restartPolicy": "Never", "template": {"spec": {**built, **spec}}}


def operator_job(
    kind: str,
    roles: dict[str, Plain | None],
    name: str = "train",
    *,
    policy: Plain | None = None,
    metadata: Plain | None = None,
    **spec: Any,
) -> Plain:
    """An AscendJob or a job of Kubeflow; `policy` is its schedulingPolicy."""
    run = {"runPolicy": {"schedulingPolicy": policy}} if policy is not None else {}
    return {
        "apiVersion": APIS[kind],
        "kind": kind,
        "metadata": _metadata(name, metadata or {}),
        "spec": {**run, ROLES[kind]: roles, **spec},
    }


def ascend_job(roles: dict[str, Plain | None], framework: str = "pytorch", **more: Any) -> Plain:
    metadata = more.pop("metadata", {})
    labels = {"framework": framework, **metadata.pop("labels", {})}
    return operator_job("AscendJob", roles, metadata={"labels": labels, **metadata}, **more)
