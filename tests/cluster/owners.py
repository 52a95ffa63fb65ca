"""Owners of pods: operators that wait for their PodGroup, and workload controllers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ringwise_bench.control_plane import ApiAnswer
from tests.cluster.cluster import GROUPS, PODS, Cluster
from tests.cluster.objects import CHIP, NAMESPACE, Object, pod

_APIS = {"ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "Job": "batch/v1"}


class Workload:
    """A ReplicaSet, StatefulSet or Job of Kubernetes with its pods, as their controllers write them."""

    def __init__(
        self,
        cluster: Cluster,
        kind: str,
        name: str,
        replicas: int,
        chips: int,
        *,
        annotations: Mapping[str, str] | None = None,
        pod_annotations: Mapping[str, str] | None = None,
        selector: Mapping[str, str] | None = None,
    ) -> None:
        self._cluster = cluster
        self.name, self._chips = name, chips
        self._annotations, self._selector = pod_annotations, selector
        self._path = f"/apis/{_APIS[kind]}/namespaces/{NAMESPACE}/{kind.lower()}s"
        template = pod(name, chips)["spec"]
        labels = {"app": name}
        spec: Object = {"template": {"metadata": {"labels": labels}, "spec": template}}
        if kind == "Job":
            spec |= {"parallelism": replicas, "completions": replicas}
        else:
            template["restartPolicy"] = "Always"
            spec |= {"replicas": replicas, "selector": {"matchLabels": labels}, "serviceName": name}
        if kind == "ReplicaSet":
            del spec["serviceName"]
        made = cluster.api.create(
            self._path,
            {
                "apiVersion": _APIS[kind],
                "kind": kind,
                "metadata": {"name": name, "namespace": NAMESPACE, "annotations": dict(annotations or {})},
                "spec": spec,
            },
        )
        self.uid: str = made["metadata"]["uid"]
        self.reference: Object = {
            "apiVersion": _APIS[kind],
            "kind": kind,
            "name": name,
            "uid": self.uid,
            "controller": True,
        }

    @property
    def group_name(self) -> str:
        return f"podgroup-{self.uid}"

    @property
    def group(self) -> Object | None:
        found = self._cluster.api.items(GROUPS)
        return next((one for one in found if one["metadata"]["name"] == self.group_name), None)

    def create_pods(self, *numbers: int) -> None:
        for number in numbers:
            made = pod(f"{self.name}-{number}", self._chips, annotations=self._annotations)
            made["spec"]["nodeSelector"] = dict(self._selector or {})
            made["metadata"]["ownerReferences"] = [self.reference]
            self._cluster.api.create(PODS, made)

    def scale(self, replicas: int) -> None:
        self._cluster.api.patch(f"{self._path}/{self.name}", {"spec": {"replicas": replicas}})

    def delete(self) -> None:
        self._cluster.api.delete(f"{self._path}/{self.name}", {"propagationPolicy": "Background"})


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
            "metadata": {"name": name, "namespace": NAMESPACE},
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
