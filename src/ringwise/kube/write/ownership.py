"""Whether an object that exists already belongs to the job that it would be written for.

The controller writes only to objects that name the job as owner. A name is not proof: whoever may create
a ConfigMap `big-svc` would otherwise have it overwritten by a job `big`, and the other way round.
"""

from __future__ import annotations

from enum import Enum

from ringwise.kube.watch.job_templates import JobTemplates
from ringwise.kubeclient.client import ApiError, Client
from ringwise.kubeclient.resources import VCJOBS, Resource
from ringwise.manifests.text.wire import ObjectWire, OwnerReferenceWire
from ringwise.state.model import ordinary_group_name


class Ownership(Enum):
    OWN = "own"
    #: Of a deleted job of the same name: the garbage collector has not deleted it yet.
    EARLIER_JOB = "earlier job"
    FOREIGN = "foreign"


class ExistingObject(ObjectWire):
    @property
    def job_owners(self) -> list[OwnerReferenceWire]:
        group = VCJOBS.version.partition("/")[0]
        return [
            owner
            for owner in self.metadata.owner_references or ()
            if owner.kind == VCJOBS.kind and owner.api_version.partition("/")[0] == group
        ]

    def is_owned_by(self, uid: str) -> bool:
        return any(owner.uid == uid for owner in self.metadata.owner_references or ())

    def ownership(self, job: str, uid: str) -> Ownership:
        """Its relation to the job of this name and UID."""
        owners = self.job_owners
        if any(owner.uid == uid for owner in owners):
            return Ownership.OWN
        if any(owner.name == job for owner in owners):
            return Ownership.EARLIER_JOB
        return Ownership.FOREIGN

    def is_owned_by_named_owner(self, group: str) -> bool:
        """Whether a PodGroup of this name belongs to the vcjob or pod owner from which the name is made."""
        if any(group == ordinary_group_name(owner.uid) for owner in self.metadata.owner_references or ()):
            return True
        return any(group in (owner.name, f"{owner.name}-{owner.uid}") for owner in self.job_owners)


async def existing(client: Client, resource: Resource, namespace: str, name: str) -> ExistingObject:
    """The object that a creation found in its way. One that is gone by now is a conflict that passes."""
    result = await client.find(resource, namespace, name, ExistingObject)
    if result is None:
        raise ApiError(409, "Conflict", f"{resource.kind} {name} was deleted meanwhile")
    return result


async def remove_left_over(
    client: Client,
    resource: Resource,
    namespace: str,
    name: str,
    actual: ExistingObject,
    job: JobTemplates,
) -> None:
    """Delete what an earlier job owns alone, as the garbage collector would.

    It is gone if the API server has a later one under its name: `job`.
    """
    owners = actual.metadata.owner_references or []
    alone = len(owners) == len(actual.job_owners) and all(owner.name == job.name for owner in owners)
    if alone and actual.metadata.deletion_timestamp is None and await exists(client, namespace, job):
        await client.delete(resource, namespace, name, uid=actual.metadata.uid or "")


async def exists(client: Client, namespace: str, job: JobTemplates) -> bool:
    """Whether the vcjob of this name is the one with this UID."""
    actual = await client.find(VCJOBS, namespace, job.name, ExistingObject)
    return actual is not None and actual.metadata.uid == job.uid


def not_yet_deleted(kind: str, name: str) -> ApiError:
    """A conflict that passes: the retrier tries again."""
    message = (
        f"{kind} {name} belongs to an earlier job of the same name and is not deleted yet. What helps, if it "
        "stays: look at its finalizers, and delete it"
    )
    return ApiError(409, "Conflict", message)


def foreign_message(kind: str, name: str) -> str:
    return (
        f"{kind} {name} exists and is not owned by this job; nothing is written to it. "
        f"What helps: rename the job, or delete that {kind}"
    )
