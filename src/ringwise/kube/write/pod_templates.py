"""The Pod objects of vcjobs, rendered from their templates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ringwise.kube.watch.job_templates import NO_TEMPLATE, JobTemplates
from ringwise.kube.write.ssh_keys import SSH_FILES
from ringwise.messages.commands import ContainerPort, CreatePod, PodAdditions
from ringwise.state.job_plugins import HOME_SSH
from ringwise.wellknown import RANK_INDEX

#: Folder of the keys inside their volume.
_SSH_FOLDER = ".ssh"


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
    for init in additions.init_containers:
        containers = spec.get("initContainers") or []
        if not any(one.get("name") == init.name for one in containers):
            made = {"name": init.name, "image": init.image, "command": list(init.command)}
            spec["initContainers"] = [*containers, made]
    everywhere: list[dict[str, Any]] = [{"name": name, "value": value} for name, value in additions.env]
    everywhere += [
        {"name": name, "valueFrom": {"configMapKeyRef": {"name": source, "key": name}}}
        for name, source in additions.env_from
    ]
    in_containers = [{"name": name, "value": value} for name, value in additions.container_env]
    commands = dict(additions.commands)
    for container in spec.get("initContainers") or []:
        _add_env(container, everywhere)
        _add_ports(container, [port for port in additions.ports if port.in_init_containers])
    for container in spec.get("containers") or []:
        _add_env(container, everywhere + in_containers)
        _add_ports(container, additions.ports)
        command = commands.get(container.get("name", ""))
        if command is not None:
            container["command"] = list(command)
    if additions.hostname and not spec.get("hostname"):
        spec["hostname"] = additions.hostname
    if additions.subdomain and not spec.get("subdomain"):
        spec["subdomain"] = additions.subdomain
    for path, kind, name in additions.mounts:
        if kind == "Secret":
            # Root's own keys are mounted readable for root only: ssh rejects keys that others may read.
            mode = 0o600 if path == HOME_SSH else 0o644
            # In a folder of their own, because sshd rejects keys in a folder that everyone may write, which
            # the root of a volume is.
            items = [{"key": key, "path": f"{_SSH_FOLDER}/{key}"} for key in SSH_FILES]
            secret = {"secretName": name, "defaultMode": mode, "items": items}
            _mount(spec, name, path, {"secret": secret}, _SSH_FOLDER)
        else:
            _mount(spec, name, path, {"configMap": {"name": name}})


def _add_env(container: dict[str, Any], added: list[dict[str, Any]]) -> None:
    names = {one["name"] for one in added}
    own = [one for one in container.get("env") or [] if one.get("name") not in names]
    if own or added:
        container["env"] = own + added


def _add_ports(container: dict[str, Any], ports: Iterable[ContainerPort]) -> None:
    for port in ports:
        listed = container.get("ports") or []
        is_meant = port.container in ("", container.get("name"))
        if is_meant and not any(one.get("containerPort") == port.number for one in listed):
            container["ports"] = [*listed, {"name": port.name, "containerPort": port.number}]


def _mount(spec: dict[str, Any], name: str, path: str, source: dict[str, Any], folder: str = "") -> None:
    """Mount a volume in every container, unless the template mounts something at that path."""
    spec["volumes"] = [*(spec.get("volumes") or []), {"name": name, **source}]
    mount = {"name": name, "mountPath": path, **({"subPath": folder} if folder else {})}
    for container in [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]:
        mounts = container.get("volumeMounts") or []
        if not any(one.get("mountPath") == path for one in mounts):
            container["volumeMounts"] = [*mounts, mount]
