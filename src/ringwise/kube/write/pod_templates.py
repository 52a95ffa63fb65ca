"""Pod templates of vcjobs as they were written, and the pods made from them.

The core knows of a pod only what decides about its place. Images, volumes and commands are none of
its business; they wait here, as bytes, until the controller wants a pod.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from ringwise.controller.job_plugins import HOME_SSH
from ringwise.kubeclient.resources import VCJOBS
from ringwise.messages.commands import CreatePod, PodAdditions
from ringwise.wellknown import RANK_INDEX

_NO_TEMPLATE = b"{}"


class _Task(msgspec.Struct):
    name: str | None = None
    template: msgspec.Raw = msgspec.Raw(_NO_TEMPLATE)


class _Volume(msgspec.Struct, rename="camel"):
    mount_path: str = ""
    volume_claim_name: str | None = None
    volume_claim: Any = None


class _Spec(msgspec.Struct):
    tasks: list[_Task] | None = None
    volumes: list[_Volume] | None = None


class _Meta(msgspec.Struct):
    name: str = ""
    uid: str = ""


class _Job(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec | None = None


_DECODER = msgspec.json.Decoder(_Job)


@dataclass(frozen=True, slots=True)
class JobVolume:
    """A claim mounted in every pod of the job. `claim` is its spec where the job brings it along."""

    path: str
    name: str
    claim: Any = None


@dataclass(frozen=True, slots=True)
class JobTemplates:
    name: str
    uid: str
    tasks: dict[str, bytes]
    volumes: tuple[JobVolume, ...] = ()

    @classmethod
    def of(cls, raw: msgspec.Raw) -> JobTemplates:
        """A part that cannot be read is left out: the job's own reader has told what is wrong with it."""
        try:
            job = _DECODER.decode(raw)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return cls("", "", {})
        spec = job.spec or _Spec()
        tasks = {
            task.name or f"default{position}": bytes(task.template)
            for position, task in enumerate(spec.tasks or ())
        }
        volumes = tuple(
            JobVolume(
                volume.mount_path,
                volume.volume_claim_name or f"{job.metadata.name}-volume-{position}",
                volume.volume_claim,
            )
            for position, volume in enumerate(spec.volumes or ())
            if volume.mount_path
        )
        return cls(job.metadata.name, job.metadata.uid, tasks, volumes)

    @property
    def owner(self) -> dict[str, Any]:
        """The reference that lets everything made for the job go with it."""
        return {
            "apiVersion": VCJOBS.version,
            "kind": VCJOBS.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


class TemplateStore:
    """Templates by job key. Equal templates are kept once: many jobs are copies of each other."""

    def __init__(self) -> None:
        self._jobs: dict[str, JobTemplates] = {}

    def put(self, key: str, templates: JobTemplates) -> None:
        known = self._jobs.get(key)
        if known is None or known != templates:
            self._jobs[key] = templates

    def drop(self, key: str) -> None:
        self._jobs.pop(key, None)

    def get(self, key: str) -> JobTemplates | None:
        return self._jobs.get(key)


def render(command: CreatePod, templates: JobTemplates) -> dict[str, Any]:
    """The Pod object to create."""
    pod = command.pod
    template = msgspec.json.decode(templates.tasks.get(pod.task, _NO_TEMPLATE)) or {}
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
            # ssh refuses keys that others may read; only root's own are mounted for root alone.
            mode = 0o600 if path == HOME_SSH else 0o644
            source: dict[str, Any] = {"secret": {"secretName": name, "defaultMode": mode}}
        else:
            source = {"configMap": {"name": name}}
        _mount(spec, name, path, source)


def _mount(spec: dict[str, Any], name: str, path: str, source: dict[str, Any]) -> None:
    """A volume in every container; what the template mounts at that path stays."""
    spec["volumes"] = [*(spec.get("volumes") or []), {"name": name, **source}]
    for container in _containers(spec):
        mounts = container.get("volumeMounts") or []
        if not any(mount.get("mountPath") == path for mount in mounts):
            container["volumeMounts"] = [*mounts, {"name": name, "mountPath": path}]


def _containers(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
