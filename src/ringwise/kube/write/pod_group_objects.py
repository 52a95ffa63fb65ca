"""PodGroups as the API server gets them."""

from __future__ import annotations

from typing import Any

from ringwise.kubeclient.resources import POD_GROUPS, VCJOBS
from ringwise.manifests.quantities import written
from ringwise.state.model import PodGroup


def group_body(group: PodGroup) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "minMember": group.min_member,
        "minTaskMember": dict(group.min_task_member),
        "queue": group.queue,
        "minResources": {name: written(name, count) for name, count in group.min_resources.items()},
    }
    if group.priority_class:
        spec["priorityClassName"] = group.priority_class
    meta: dict[str, Any] = {
        "name": group.name,
        "namespace": group.namespace,
        "labels": dict(group.labels),
        "annotations": dict(group.annotations),
    }
    owner = group.owner
    if owner is not None:
        reference: dict[str, Any] = {
            "apiVersion": owner.api or VCJOBS.version,
            "kind": owner.kind,
            "name": owner.name,
            "uid": owner.uid,
            "controller": True,
        }
        if owner.is_vcjob:
            # API servers that check owner references ask for a permission on each such kind.
            reference["blockOwnerDeletion"] = True
        meta["ownerReferences"] = [reference]
    return {"apiVersion": POD_GROUPS.version, "kind": POD_GROUPS.kind, "metadata": meta, "spec": spec}
