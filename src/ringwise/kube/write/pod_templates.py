"""The Pod objects of vcjobs, rendered from their templates."""

from __future__ import annotations

from typing import Any

import msgspec

from ringwise.controller.job_plugins import HOME_SSH
from ringwise.kube.watch.job_templates import NO_TEMPLATE, JobTemplates
from ringwise.messages.commands import CreatePod, PodAdditions
from ringwise.wellknown import RANK_INDEX


def render(command: CreatePod, templates: JobTemplates) -> dict[str, Any]:
    """The Pod object to create."""
    pod = command.pod
    template = msgspec.json.decode(templates.tasks.get(pod.task, NO_TEMPLATE)) or {}
    meta = dict(template.get("metadata") or {})
    spec = dict(template.get("spec") or {})
    written = {key: value for key, value in (meta.get("annotations") or {}).items() if key != RANK_INDEX}
    meta.update(
        name=pod.name,
        namespace=pod.namespace,
        labels={**(meta.get("labels") or {}), **pod.labels},
        annotations={**written, **pod.annotations},
        ownerReferences=[templates.owner],
    )
    meta.pop("generateName", None)
    meta.pop("creationTimestamp", None)
    spec["schedulerName"] = pod.scheduler
    if pod.priority_class:
        spec.setdefault("priorityClassName", pod.priority_class)
    if spec.get("hostNetwork"):
        spec.setdefault("dnsPolicy", "ClusterFirstWithHostNet")
    _add(spec, command.additions)
    for position, volume in enumerate(templates.volumes):
        source = {"persistentVolumeClaim": {"claimName": volume.name}}
        _mount(spec, f"job-volume-{position}", volume.path, source)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _add(spec: dict[str, Any], additions: PodAdditions) -> None:
    names = {name for name, _ in additions.env}
    added = [{"name": name, "value": value} for name, value in additions.env]
    for container in _containers(spec):
        own = [one for one in container.get("env") or [] if one.get("name") not in names]
        if own or added:
            container["env"] = own + added
    if additions.hostname:
        spec["hostname"] = additions.hostname
    if additions.subdomain:
        spec["subdomain"] = additions.subdomain
    for path, kind, name in additions.mounts:
        if kind == "Secret":
            # ssh rejects keys that other users may read. Root's own keys are mounted readable for root only.
            mode = 0o600 if path == HOME_SSH else 0o644
            source: dict[str, Any] = {"secret": {"secretName": name, "defaultMode": mode}}
        else:
            source = {"configMap": {"name": name}}
        _mount(spec, name, path, source)


def _mount(spec: dict[str, Any], name: str, path: str, source: dict[str, Any]) -> None:
    """Mount a volume in every container, unless the template mounts something at that path."""
    spec["volumes"] = [*(spec.get("volumes") or []), {"name": name, **source}]
    for container in _containers(spec):
        mounts = container.get("volumeMounts") or []
        if not any(mount.get("mountPath") == path for mount in mounts):
            container["volumeMounts"] = [*mounts, {"name": name, "mountPath": path}]


def _containers(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
