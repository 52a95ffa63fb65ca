"""Readers that also remember why a scheduler could not place a job: the conditions that it wrote.

For the dashboard beside a cluster. A scheduler knows its own reasons and does not read them back.
"""

from __future__ import annotations

from ringwise.framework.job import job_key
from ringwise.kube.watch.objects import KeyedObjects
from ringwise.kube.watch.readers import (
    GroupReader,
    ObservedGroup,
    PodReader,
    WatchedGroup,
    WatchedPod,
)
from ringwise.manifests.objects.pods import PodClassCache
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.wire import ConditionWire
from ringwise.state.model import Pod
from ringwise.views.written_reasons import WrittenReason, WrittenReasons

#: Characters of a message that are kept: conditions may be long, and there may be one for each pod.
MAX_MESSAGE = 1000


class ReasonGroupReader(GroupReader):
    """PodGroups: the last condition `Unschedulable`, of Ringwise as of Volcano."""

    def __init__(self, observed: dict[str, ObservedGroup], written: WrittenReasons) -> None:
        super().__init__(observed)
        self._written = written

    def objects(self, wire: WatchedGroup, issues: Findings) -> KeyedObjects | None:
        objects = super().objects(wire, issues)
        if objects is not None:
            key = objects[0][0]
            conditions = (wire.status.conditions if wire.status is not None else None) or []
            reason = _written("PodGroup", "Unschedulable", "True", conditions)
            self._written.put(f"PodGroup {key}", key, reason)
        return objects

    def forget(self, key: str) -> None:
        super().forget(key)
        self._written.forget(f"PodGroup {key}")


class ReasonPodReader(PodReader):
    """Pods: the condition `PodScheduled`, while it says that the pod could not be scheduled."""

    def __init__(self, classes: PodClassCache, written: WrittenReasons) -> None:
        super().__init__(classes)
        self._written = written

    def objects(self, wire: WatchedPod, issues: Findings) -> KeyedObjects | None:
        objects = super().objects(wire, issues)
        if objects is not None and wire.status is not None:
            pod = objects[0][1]
            assert isinstance(pod, Pod)
            waits = pod.node is None and pod.live
            conditions = (wire.status.conditions or []) if waits else []
            reason = _written("Pod", "PodScheduled", "False", conditions)
            self._written.put(f"Pod {pod.key}", job_key(pod), reason)
        return objects

    def forget(self, key: str) -> None:
        super().forget(key)
        self._written.forget(f"Pod {key}")


def _written(kind: str, type_: str, status: str, conditions: list[ConditionWire]) -> WrittenReason | None:
    for one in reversed(conditions):
        if one.type == type_ and one.status == status and one.reason:
            return WrittenReason(kind, one.reason[:MAX_MESSAGE], (one.message or "")[:MAX_MESSAGE])
    return None
