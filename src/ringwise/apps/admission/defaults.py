"""What the mutating webhook fills in, as Volcano's does: fields that a user may leave out
of a job or queue, the queue that a namespace names for its PodGroups, and the scheduling gate that a pod
asks for.

Everything that reads these objects knows the same defaults, so nothing depends on the webhook but the queue
of a namespace and the gate. It makes them visible: `kubectl get vcjob -o yaml` shows what will happen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from copy import copy
from functools import partial
from typing import Any

from ringwise import wellknown
from ringwise.manifests.objects.jobs import DEFAULT_RETRIES, default_task_name
from ringwise.state.job_plugins import NEEDED_PLUGINS
from ringwise.state.model import DEFAULT_QUEUE, ROOT_QUEUE

#: One operation of a JSON patch.
Operation = dict[str, Any]


class Patch:
    """Sets fields of an object and notes the operations that do the same at the API server."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []

    def set(self, holder: dict[str, Any], path: str, field: str, value: Any) -> None:
        # The patch keeps what is set now: fields that are set in the value later are operations of their own.
        holder[field] = value
        self.operations.append({"op": "add", "path": f"{path}/{escaped(field)}", "value": copy(value)})

    def remove(self, holder: dict[str, Any], path: str, field: str) -> None:
        del holder[field]
        self.operations.append({"op": "remove", "path": f"{path}/{escaped(field)}"})


def mapping(value: Any) -> dict[str, Any]:
    """An object as it is, and nothing in place of anything else: the check reports it."""
    return value if isinstance(value, dict) else {}


def escaped(field: str) -> str:
    """A part of the path of an operation."""
    return field.replace("~", "~0").replace("/", "~1")


def fill_job(job: dict[str, Any]) -> list[Operation]:
    """Fill in a vcjob in place. What is not an object or list is left as it is: the check reports it."""
    patch, spec = Patch(), job.get("spec")
    if not isinstance(spec, dict):
        return []
    if not spec.get("queue"):
        patch.set(spec, "/spec", "queue", DEFAULT_QUEUE)
    if not spec.get("schedulerName"):
        patch.set(spec, "/spec", "schedulerName", wellknown.VOLCANO_SCHEDULER)
    if not spec.get("maxRetry"):
        patch.set(spec, "/spec", "maxRetry", DEFAULT_RETRIES)
    total = 0
    for position, task in enumerate(_list(spec.get("tasks"))):
        if isinstance(task, dict):
            total += _fill_task(task, position, patch)
    if not spec.get("minAvailable") and total:
        patch.set(spec, "/spec", "minAvailable", total)
    plugins = spec.get("plugins")
    if isinstance(plugins, dict):
        for name in list(plugins):
            for needed in NEEDED_PLUGINS.get(name, ()):
                if needed not in plugins:
                    patch.set(plugins, "/spec/plugins", needed, [])
    return patch.operations


def _fill_task(task: dict[str, Any], position: int, patch: Patch) -> int:
    """Fill in a task, and return how many pods of it must run."""
    path = f"/spec/tasks/{position}"
    if not task.get("name"):
        patch.set(task, path, "name", default_task_name(position))
    replicas = task.get("replicas") or 0
    if task.get("minAvailable") is None:
        patch.set(task, path, "minAvailable", _smallest(task, replicas))
    if not task.get("maxRetry"):
        patch.set(task, path, "maxRetry", DEFAULT_RETRIES)
    template = task.get("template")
    pod = template.get("spec") if isinstance(template, dict) else None
    if isinstance(pod, dict) and pod.get("hostNetwork") is True and not pod.get("dnsPolicy"):
        patch.set(pod, f"{path}/template/spec", "dnsPolicy", "ClusterFirstWithHostNet")
    return task["minAvailable"] if isinstance(task["minAvailable"], int) else 0


def _smallest(task: Mapping[str, Any], replicas: Any) -> Any:
    policy = task.get("partitionPolicy")
    if isinstance(policy, dict):
        partitions, size = policy.get("minPartitions"), policy.get("partitionSize")
        if isinstance(partitions, int) and isinstance(size, int) and partitions > 0:
            return partitions * size
    return replicas


def fill_queue(queue: dict[str, Any]) -> list[Operation]:
    """Fill in a Queue in place."""
    patch = Patch()
    if not isinstance(queue.get("spec"), dict):
        patch.set(queue, "", "spec", {})
    spec = queue["spec"]
    if spec.get("reclaimable") is None:
        patch.set(spec, "/spec", "reclaimable", True)
    if not spec.get("weight"):
        patch.set(spec, "/spec", "weight", 1)
    meta = queue.get("metadata")
    if not spec.get("parent") and not (isinstance(meta, dict) and meta.get("name") == ROOT_QUEUE):
        patch.set(spec, "/spec", "parent", ROOT_QUEUE)
    annotations = meta.get("annotations") if isinstance(meta, dict) else None
    if isinstance(annotations, dict):
        path, weights = annotations.get(wellknown.HIERARCHY), annotations.get(wellknown.HIERARCHY_WEIGHTS)
        if _is_text(path) and _is_text(weights) and str(path).split("/")[0] != "root":
            patch.set(annotations, "/metadata/annotations", wellknown.HIERARCHY, f"root/{path}")
            patch.set(annotations, "/metadata/annotations", wellknown.HIERARCHY_WEIGHTS, f"1/{weights}")
    return patch.operations


def fill_pod_group(group: dict[str, Any], queue: str | None) -> list[Operation]:
    """In the default queue it gets the queue that its namespace names, if it names one, in place."""
    patch, spec = Patch(), group.get("spec")
    if queue and isinstance(spec, dict) and spec.get("queue") in (None, "", DEFAULT_QUEUE):
        patch.set(spec, "/spec", "queue", queue)
    return patch.operations


def fill_pod(
    pod: dict[str, Any], scheduler_names: Collection[str] = wellknown.SCHEDULER_NAMES
) -> list[Operation]:
    """Add the scheduling gate that the pod asks for in place: the scheduler removes it with the admission."""
    patch, meta, spec = Patch(), pod.get("metadata"), pod.get("spec")
    if not isinstance(meta, dict) or not isinstance(spec, dict):
        return []
    if spec.get("schedulerName") not in scheduler_names:
        # Another scheduler would not remove it.
        return []
    annotations = meta.get("annotations")
    gates = spec.get("schedulingGates") or []
    if not isinstance(annotations, dict) or annotations.get(wellknown.QUEUE_GATE) != "true":
        return []
    if spec.get("nodeName") or not isinstance(gates, list) or {"name": wellknown.QUEUE_GATE} in gates:
        # A pod that has a node cannot wait.
        return []
    patch.set(spec, "/spec", "schedulingGates", [*gates, {"name": wellknown.QUEUE_GATE}])
    return patch.operations


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def filled_kinds(
    scheduler_names: Collection[str], queue: str | None = None
) -> Mapping[tuple[str, str], Callable[[dict[str, Any]], list[Operation]]]:
    """By group and kind: what is filled in when an object is created in a namespace that names this queue."""
    return {
        (wellknown.BATCH_GROUP, "Job"): fill_job,
        (wellknown.SCHEDULING_GROUP, "Queue"): fill_queue,
        (wellknown.SCHEDULING_GROUP, "PodGroup"): partial(fill_pod_group, queue=queue),
        ("", "Pod"): partial(fill_pod, scheduler_names=scheduler_names),
    }
