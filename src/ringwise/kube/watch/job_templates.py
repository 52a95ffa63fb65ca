"""Pod templates of vcjobs, stored as raw bytes until the controller creates a pod from them.

The core keeps only the parts of a pod that decide about its placement; images, volumes and commands stay
here.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ringwise.durations import unix_nanoseconds
from ringwise.kubeclient.resources import VCJOBS
from ringwise.manifests.text.readable import readable
from ringwise.manifests.text.wire import ObjectWire
from ringwise.records import dataclass

NO_TEMPLATE = b"{}"


class _Task(msgspec.Struct):
    name: str | None = None
    template: msgspec.Raw = msgspec.Raw(NO_TEMPLATE)


class _Volume(msgspec.Struct, rename="camel"):
    mount_path: str = ""
    volume_claim_name: str | None = None
    volume_claim: Any = None


class _Spec(msgspec.Struct):
    tasks: list[_Task] | None = None
    volumes: list[_Volume] | None = None


class _Job(ObjectWire):
    spec: _Spec | None = None


@dataclass(frozen=True, slots=True)
class JobVolume:
    """A PersistentVolumeClaim mounted in every pod of the job.

    `claim` is its spec where the job contains it.
    """

    path: str
    name: str
    claim: Any = None


@dataclass(frozen=True, slots=True)
class JobTemplates:
    name: str
    uid: str
    tasks: dict[str, bytes]
    volumes: tuple[JobVolume, ...] = ()
    #: When the job was created, in nanoseconds; 0 if it does not say.
    created: int = 0

    @classmethod
    def of(cls, raw: msgspec.Raw) -> JobTemplates:
        """What cannot be decoded is left out: the reader of the job has reported it."""
        job = readable(raw, _Job, _Job())
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
        meta = job.metadata
        created = unix_nanoseconds(meta.creation_timestamp or "") or 0
        return cls(meta.name or "", meta.uid or "", tasks, volumes, created)

    @property
    def owner(self) -> dict[str, Any]:
        """The owner reference of objects that are created for the job and deleted with it."""
        return VCJOBS.reference(self.name, self.uid, controller=True, blockOwnerDeletion=True)


#: By key of the job.
TemplateStore = dict[str, JobTemplates]
