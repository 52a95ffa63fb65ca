"""Owners of pods: workloads of Kubernetes, and operators that wait for their PodGroup."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ringwise_bench.control_plane import ApiAnswer
from tests.cluster.cluster import (
    BATCH_JOBS,
    DEPLOYMENTS,
    GROUPS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Cluster,
)
from tests.cluster.objects import CHIP, Object, pod

_KINDS = {
    "Deployment": ("apps/v1", DEPLOYMENTS),
    "ReplicaSet": ("apps/v1", REPLICA_SETS),
    "StatefulSet": ("apps/v1", STATEFUL_SETS),
    "Job": ("batch/v1", BATCH_JOBS),
}
_REVISION = "deployment.kubernetes.io/revision"


class Workload:
    """A Deployment, ReplicaSet, StatefulSet or Job of Kubernetes, whose controller makes the pods."""

    def __init__(
        self,
        cluster: Cluster,
        kind: str,
        name: str,
        replicas: int,
        chips: int,
        *,
        annotations: Mapping[str, str] | None = None,
        pod_labels: Mapping[str, str] | None = None,
        pod_annotations: Mapping[str, str] | None = None,
        selector: Mapping[str, str] | None = None,
        pod_spec: Object | None = None,
    ) -> None:
        self._cluster = cluster
        self.name = name
        version, self._path = _KINDS[kind]
        labels = {"app": name}
        made = pod(name, chips, labels={**labels, **(pod_labels or {})}, annotations=pod_annotations)
        made["spec"] |= {"nodeSelector": dict(selector or {}), **(pod_spec or {})}
        metadata = {key: made["metadata"][key] for key in ("labels", "annotations")}
        spec: Object = {"template": {"metadata": metadata, "spec": made["spec"]}}
        if kind == "Job":
            spec |= {"parallelism": replicas, "completions": replicas}
        else:
            made["spec"]["restartPolicy"] = "Always"
            spec |= {"replicas": replicas, "selector": {"matchLabels": labels}}
        if kind == "StatefulSet":
            # One after the other they would never be a gang.
            spec |= {"serviceName": name, "podManagementPolicy": "Parallel"}
        created = cluster.api.create(
            self._path,
            {
                "apiVersion": version,
                "kind": kind,
                "metadata": {"name": name, "annotations": dict(annotations or {})},
                "spec": spec,
            },
        )
        self._uid: str = created["metadata"]["uid"]
        self._is_deployment = kind == "Deployment"

    @property
    def owner(self) -> str:
        """The uid of what owns its pods: of a Deployment the ReplicaSet of its present template."""
        if not self._is_deployment:
            return self._uid
        own = [
            one["metadata"]
            for one in self._cluster.api.items(REPLICA_SETS)
            if any(owner["uid"] == self._uid for owner in one["metadata"].get("ownerReferences", ()))
        ]
        newest = max(own, key=lambda meta: int(meta["annotations"][_REVISION]))
        return str(newest["uid"])

    @property
    def group_name(self) -> str:
        return f"podgroup-{self.owner}"

    @property
    def status(self) -> Object:
        status: Object = self._cluster.api.get(f"{self._path}/{self.name}").get("status", {})
        return status

    def scale(self, replicas: int) -> None:
        self._patch({"replicas": replicas})

    def roll_out(self, annotations: Mapping[str, str]) -> None:
        """Another template: its controller replaces the pods."""
        self._patch({"template": {"metadata": {"annotations": dict(annotations)}}})

    def _patch(self, spec: Object) -> None:
        self._cluster.api.patch(f"{self._path}/{self.name}", {"spec": spec})


def pod_group_named(cluster: Cluster, name: str) -> Object | None:
    return next((one for one in cluster.api.items(GROUPS) if one["metadata"]["name"] == name), None)


def evict(cluster: Cluster, name: str) -> None:
    """As `kubectl drain` asks for it."""
    metadata = {"name": name}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    cluster.api.create(f"{PODS}/{name}/eviction", body)


class Operator:
    """Creates a PodGroup, and its pods only once that is Inqueue: ascend-operator, training-operator."""

    def __init__(self, cluster: Cluster, name: str, pods: int, chips: int, **spec: Any) -> None:
        self._cluster = cluster
        self.name = name
        self._wanted = [pod(f"{name}-{index}", chips, group=name) for index in range(pods)]
        least = {CHIP: str(pods * chips)}
        group: Object = {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": name},
            "spec": {"minMember": pods, "queue": "default", "minResources": least, **spec},
        }
        cluster.apply([group])

    @property
    def phase(self) -> str:
        group = self._cluster.api.get(f"{GROUPS}/{self.name}")
        return str(group.get("status", {}).get("phase", ""))

    def reconcile(self) -> bool:
        """What the operator does when something changed; True once its pods exist."""
        if self.phase in ("", "Pending"):
            return False
        for wanted in self._wanted:
            try:
                self._cluster.api.create(PODS, wanted)
            except ApiAnswer as answer:
                if answer.status != 409:
                    raise
        return True
