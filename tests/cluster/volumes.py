"""Volumes for stories: manifests of them, who uses them, and a provisioner that a story plays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ringwise_bench.control_plane import ApiAnswer
from tests.cluster.cluster import CLAIMS, GROUPS, VOLUMES, Cluster, node_of
from tests.cluster.objects import Object
from tests.manifests import volumes as manifests
from tests.manifests.volumes import SELECTED_NODE, with_claims, with_ephemeral

#: A provisioner that nobody runs; where a story plays it, `provision` does.
PROVISIONER = "tests.ringwise/disk"


def claim(name: str, storage_class: str, **more: Any) -> Object:
    return manifests.claim(name, storage_class, "1Gi", namespace="", **more)


def volume(name: str, storage_class: str, **more: Any) -> Object:
    return manifests.volume(name, storage_class, "1Gi", **more)


def using(one: Object, *claims: str) -> Object:
    """The pod with these claims."""
    return {**one, "spec": with_claims(one["spec"], *claims)}


def with_scratch(job: Object, storage_class: str) -> Object:
    """The vcjob; each pod of it gets a claim of its own."""
    template = job["spec"]["tasks"][0]["template"]
    template["spec"] = with_ephemeral(template["spec"], "scratch", storage_class, "1Gi")
    return job


def stored(cluster: Cluster, path: str) -> dict[str, Object]:
    return {one["metadata"]["name"]: one for one in cluster.api.items(path)}


def selected(cluster: Cluster, name: str) -> str:
    """The node that is selected for a claim; empty: none, or there is no claim."""
    found = stored(cluster, CLAIMS).get(name, {"metadata": {}})
    node: str = found["metadata"].get("annotations", {}).get(SELECTED_NODE, "")
    return node


def volume_of(cluster: Cluster, name: str) -> Object:
    """The volume of a claim that is being bound: its phase is written last."""

    def bound() -> Object | None:
        found = stored(cluster, CLAIMS)[name]
        return found if found["status"]["phase"] == "Bound" else None

    found = cluster.wait(bound, f"claim {name} is bound")
    return stored(cluster, VOLUMES)[found["spec"]["volumeName"]]


def provision(cluster: Cluster, storage_class: str, place: Callable[[str], dict[str, str]]) -> None:
    """Make volumes for claims of the class that have a node. `place`: where one can be used, by its node."""
    for name, one in stored(cluster, CLAIMS).items():
        node, spec = selected(cluster, name), one["spec"]
        if spec.get("storageClassName") != storage_class or spec.get("volumeName") or not node:
            continue
        uid, mode = one["metadata"]["uid"], spec["accessModes"][0]
        owner = f"{cluster.namespace}/{name}"
        made = volume(f"pv-{uid}", storage_class, mode=mode, claim=owner, **place(node))
        made["spec"]["claimRef"]["uid"] = uid
        try:
            cluster.api.create(VOLUMES, made)
        except ApiAnswer as answer:
            # It is there, and not bound yet.
            if answer.status != 409:
                raise


def told(cluster: Cluster, name: str) -> str:
    """All that is told about the pods whose names begin so, and about PodGroups."""
    pods = [pod["status"].get("conditions", ()) for pod in cluster.pods() if _is_of(pod, name)]
    return f"{pods} {[group.get('status', {}) for group in cluster.api.items(GROUPS)]}"


def wait_told(cluster: Cluster, name: str, *words: str) -> None:
    """Wait until pods of this name have no node and it is told why, with these words."""

    def is_told() -> bool:
        pods = [pod for pod in cluster.pods() if _is_of(pod, name)]
        text = told(cluster, name)
        return bool(pods) and not any(map(node_of, pods)) and all(word in text for word in words)

    cluster.wait(is_told, f"{name} waits, with {words}")


def wait_on(cluster: Cluster, name: str, node: str) -> None:
    """Wait until the one pod of this name is on the node."""

    def is_there() -> bool:
        return [node_of(pod) for pod in cluster.pods() if _is_of(pod, name)] == [node]

    cluster.wait(is_there, f"{name} is on {node}")


def _is_of(pod: Object, name: str) -> bool:
    found: str = pod["metadata"]["name"]
    return found == name or found.startswith(f"{name}-")
