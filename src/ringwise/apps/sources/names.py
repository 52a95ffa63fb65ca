"""The names of a cluster's objects, as people write them."""

from __future__ import annotations

from ringwise.topology.nearest import did_you_mean
from ringwise.views.cluster import ClusterObjects, job_views

KINDS = ("node", "job", "queue", "pod")


class UnknownNameError(LookupError):
    """No object, or more than one, has that name."""


def qualified(name: str, namespace: str | None) -> str:
    """`namespace/name` where the namespace is given apart from the name."""
    return name if namespace is None or "/" in name else f"{namespace}/{name}"


def all_names(objects: ClusterObjects, kind: str, namespace: str | None = None) -> list[str]:
    """The keys of all objects of a kind, in this namespace or in all. The queue default is not among them."""
    if kind == "node":
        return [node.name for node in objects.nodes]
    if kind == "queue":
        return [queue.name for queue in objects.queues if queue.name != "default"]
    if kind == "hypernode":
        return [one.name for one in objects.view.hyper_nodes]
    if kind == "reservation":
        return [one.name for one in objects.view.cluster.node_reservations.entries]
    if kind == "job":
        return [
            view.key
            for view in job_views(objects)
            # Pods of a deleted job that still terminate are no job to delete.
            if namespace in (None, view.namespace)
            and not (view.pods and all(pod.deleting for pod in view.pods))
        ]
    return [pod.key for pod in objects.pods if namespace in (None, pod.namespace)]


def find_name(objects: ClusterObjects, kind: str, name: str, namespace: str | None = None) -> str:
    """The key of the object with this name; `namespace/name` and a bare name both do."""
    if kind in ("node", "queue", "hypernode"):
        known = {
            "node": [one.name for one in objects.nodes],
            "queue": [one.name for one in objects.queues],
            "hypernode": [one.name for one in objects.view.hyper_nodes],
        }[kind]
        if name not in known:
            word = "HyperNode" if kind == "hypernode" else kind
            raise UnknownNameError(f"there is no {word} {name}{did_you_mean(name, known)}")
        return name
    keys = [view.key for view in job_views(objects)] if kind == "job" else [pod.key for pod in objects.pods]
    name = qualified(name, namespace)
    if name in keys:
        return name
    matches = sorted(key for key in keys if key.partition("/")[2] == name)
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UnknownNameError(
            f"{len(matches)} {kind}s are called {name}; say which: {', '.join(matches[:5])}"
        )
    known = [*keys, *(key.partition("/")[2] for key in keys)]
    raise UnknownNameError(f"there is no {kind} {name}{did_you_mean(name, known)}")
