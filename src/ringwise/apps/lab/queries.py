"""Reading a lab: its status, and its objects by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ringwise.apps.lab.lab import LiveLab
from ringwise.apps.lab.maintenance import Goes, affected_jobs, goes_in_cluster, goes_in_lab
from ringwise.apps.targets import find_target
from ringwise.embed.clock import VirtualClock
from ringwise.state.model import Node, Pod, Queue
from ringwise.topology.nearest import did_you_mean
from ringwise.views.cluster import ClusterObjects, chip_totals, job_views
from ringwise.views.documents.cluster import StatusFields

KINDS = ("node", "job", "queue", "pod")


class UnknownNameError(LookupError):
    """No object, or more than one, has that name."""


def status_document(live: LiveLab) -> StatusFields:
    """The lab in a few numbers."""
    views = job_views(live.objects)
    return {
        "folder": str(live.folder.path),
        "now": live.now,
        "speed": None if isinstance(live.clock, VirtualClock) else live.settings.speed,
        "nodes": live.cluster.table.count("Node"),
        **chip_totals(live.view, live.now),
        "jobs": len(views),
        "waiting": sum(1 for view in views if view.outcome == "pending"),
        "placed": sum(1 for view in views if view.outcome == "placed"),
        "refused": sum(1 for view in views if view.outcome == "refused"),
        "pods": live.cluster.table.count("Pod"),
        "commands": dict(live.lab.done),
        "incidents": [str(incident) for incident in live.view.incidents[-5:]],
        "alarms": list(live.cluster.alarms),
    }


def plain(value: object) -> Any:
    """An object as JSON has it."""
    return msgspec.to_builtins(value)


def all_names(live: LiveLab, kind: str, namespace: str | None = None) -> list[str]:
    """The keys of all objects of a kind, in this namespace or in all. The queue default is not among them."""
    if kind == "node":
        return [node.name for node in live.cluster.all(Node)]
    if kind == "queue":
        return [queue.name for queue in live.cluster.all(Queue) if queue.name != "default"]
    if kind == "job":
        return [
            view.key
            for view in job_views(live.objects)
            # Pods of a deleted job that still terminate are no job to delete.
            if namespace in (None, view.namespace)
            and not (view.pods and all(pod.deleting for pod in view.pods))
        ]
    return [pod.key for pod in live.cluster.all(Pod) if namespace in (None, pod.namespace)]


def drain_document(
    objects: ClusterObjects, target: str, left: Mapping[str, str], *, of_cluster: bool = False
) -> dict[str, Any]:
    """The jobs with pods on a target, and what a drain leaves of each. Raises UnknownTargetError.

    `left`: jobs that stay, by key, with the reason (F4). `of_cluster`: it has owners that create their pods
    again; a lab has vcjobs alone.
    """
    goes: Goes = goes_in_cluster if of_cluster else goes_in_lab
    found = find_target(objects.view, target)
    jobs: list[dict[str, Any]] = []
    for view in affected_jobs(objects, found.nodes, goes):
        leaving = [pod for pod in view.pods if pod.node in found.nodes and goes(pod)]
        here = len(leaving)
        if here:
            owned = view.vcjob is not None
            staying = view.placed - here
            jobs.append(
                {
                    "namespace": view.namespace,
                    "name": view.name,
                    "kind": view.kind,
                    "here": here,
                    "staying": staying,
                    "min_available": view.needed,
                    "below_min_available": staying < view.needed,
                    "not_restarted": sum(
                        not owned and (pod.owner is None or not of_cluster) for pod in leaving
                    ),
                    "stays": left.get(view.key, ""),
                }
            )
    pods = sum(job["here"] for job in jobs if not job["stays"])
    return {"target": str(found), "pods": pods, "jobs": jobs}


def find_name(live: LiveLab, kind: str, name: str, namespace: str | None = None) -> str:
    """The key of the object with this name; `namespace/name` and a bare name both do."""
    if kind in ("node", "queue"):
        table = "Node" if kind == "node" else "Queue"
        if live.cluster.table.get(table, name) is None:
            known = [str(getattr(found, "name", "")) for found in live.cluster.table.kind(table)]
            raise UnknownNameError(f"there is no {kind} {name}{did_you_mean(name, known)}")
        return name
    keys = (
        [view.key for view in job_views(live.objects)]
        if kind == "job"
        else [pod.key for pod in live.cluster.all(Pod)]
    )
    if namespace is not None and "/" not in name:
        name = f"{namespace}/{name}"
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
