"""Owners of pods: operators that wait for their PodGroup, and workload controllers."""

from __future__ import annotations

from typing import Any

from ringwise.apps.control_plane import ApiAnswer
from tests.cluster.cluster import GROUPS, PODS, Cluster
from tests.cluster.objects import CHIP, NAMESPACE, Object, pod


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
