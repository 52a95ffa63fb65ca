"""Objects that a job needs besides its pods.

Service, NetworkPolicy, ConfigMap with host lists, Secret with ssh keys, volume claims.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ringwise.kube.watch.job_templates import JobTemplates, TemplateStore
from ringwise.kube.write.ownership import (
    Ownership,
    existing,
    foreign_message,
    not_yet_deleted,
    ownership,
)
from ringwise.kube.write.ssh_keys import SSH_FILES, key_pair, public_key_of
from ringwise.kubeclient.client import JSON_PATCH, ApiError, Client, UnreachableError
from ringwise.kubeclient.resources import (
    CLAIMS,
    CONFIG_MAPS,
    NETWORK_POLICIES,
    SECRETS,
    SERVICES,
    Resource,
)
from ringwise.messages.commands import CreateJobResources, JobKeys, JobService
from ringwise.wellknown import APP_MANAGED_BY, JOB_NAME, JOB_NAMESPACE, TASK_SPEC

#: Jobs remembered as complete.
_MAX_REMEMBERED = 10_000


#: Reports to the job, in its namespace, an object of its name that is not its own.
OnForeign = Callable[[JobTemplates, str, str], None]


class JobResources:
    """Creates them once for each job. The job owns them, so they are deleted with it.

    What exists already and has another owner is not changed: the pods get it as it is, and the job an event.
    """

    def __init__(self, client: Client, templates: TemplateStore, on_foreign: OnForeign) -> None:
        self._client = client
        self._templates = templates
        self._on_foreign = on_foreign
        #: What was last wanted, by job key.
        self._wanted: dict[str, CreateJobResources] = {}
        self._complete: dict[str, None] = {}
        #: UID of the job and name of the Secrets that were created for jobs that are not complete yet.
        self._secrets: dict[str, set[str]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    def want(self, wanted: CreateJobResources) -> None:
        """What `ensure` creates for the job before its next pod."""
        if len(self._wanted) >= _MAX_REMEMBERED:
            del self._wanted[next(iter(self._wanted))]
        self._wanted[wanted.key] = wanted

    async def ensure(self, job: str, namespace: str) -> None:
        templates = self._templates.get(job)
        if templates is None or templates.uid in self._complete:
            return
        lock = self._locks.setdefault(templates.uid, asyncio.Lock())
        async with lock:
            if templates.uid not in self._complete:
                await self._create_all(templates, namespace, self._wanted.get(job))
                if len(self._complete) >= _MAX_REMEMBERED:
                    del self._complete[next(iter(self._complete))]
                self._complete[templates.uid] = None
                self._wanted.pop(job, None)
                self._secrets.pop(templates.uid, None)
        self._locks.pop(templates.uid, None)

    async def _create_all(
        self, templates: JobTemplates, namespace: str, wanted: CreateJobResources | None
    ) -> None:
        pods = {JOB_NAME: templates.name, JOB_NAMESPACE: namespace}
        for service in wanted.services if wanted is not None else ():
            await self._create(SERVICES, templates, namespace, service.name, _service(pods, service))
        if wanted is not None and wanted.isolated:
            await self._create(NETWORK_POLICIES, templates, namespace, templates.name, _network_policy(pods))
        if wanted is not None and wanted.keys is not None:
            data = await asyncio.to_thread(_key_files, wanted.keys, f"{templates.name}@ringwise")
            await self._create_secret(templates, namespace, wanted.keys.secret, {"stringData": data})
        for volume in templates.volumes:
            if volume.claim is not None:
                await self._create(CLAIMS, templates, namespace, volume.name, {"spec": volume.claim})

    async def publish(self, job: str, namespace: str, name: str, data: Mapping[str, str]) -> None:
        """Write a ConfigMap of the job.

        The server compares the owner and changes the data in one step, so the controller needs no
        permission to read ConfigMaps, and there is no moment in between.
        """
        templates = self._templates.get(job)
        if templates is None:
            # The job was deleted meanwhile, and its ConfigMap with it.
            return
        patch = [
            {"op": "test", "path": "/metadata/ownerReferences/0/uid", "value": templates.uid},
            {"op": "add", "path": "/data", "value": dict(data)},
        ]
        path = CONFIG_MAPS.path(namespace, name)
        try:
            await self._client.request(
                "PATCH", path, body=msgspec.json.encode(patch), content_type=JSON_PATCH
            )
        except ApiError as error:
            if error.status == 422 and "is invalid" not in error.message:
                raise not_yet_deleted(CONFIG_MAPS.kind, name) from None
            if error.status != 404:
                raise
            body = _body(CONFIG_MAPS, templates, namespace, name, {"data": dict(data)})
            await self._client.create(CONFIG_MAPS, namespace, body)

    def report_foreign(self, job: str, namespace: str, resource: Resource, name: str) -> None:
        templates = self._templates.get(job)
        if templates is not None:
            self._on_foreign(templates, namespace, foreign_message(resource.kind, name))

    async def _create(
        self, resource: Resource, templates: JobTemplates, namespace: str, name: str, content: dict[str, Any]
    ) -> None:
        try:
            await self._client.create(
                resource, namespace, _body(resource, templates, namespace, name, content)
            )
        except ApiError as error:
            if error.status != 409 or error.reason == "Conflict":
                raise
            await self._check_existing(resource, templates, namespace, name)

    async def _create_secret(
        self, templates: JobTemplates, namespace: str, name: str, content: dict[str, Any]
    ) -> None:
        """Secrets are only created: the controller has no permission to read or to change one."""
        created = self._secrets.setdefault(templates.uid, set())
        if name in created:
            return
        body = _body(SECRETS, templates, namespace, name, content)
        try:
            await self._client.create(SECRETS, namespace, body)
        except UnreachableError as error:
            if not error.maybe_done:
                raise
            # Possibly created: a second attempt could not tell ours from another.
        except ApiError as error:
            if error.status != 409 or error.reason == "Conflict":
                raise
            message = (
                f"Secret {name} exists, this controller did not create it since it started, and the pods "
                "get it as it is. What helps, if it is not of this job: rename the job, or delete the Secret"
            )
            self._on_foreign(templates, namespace, message)
        created.add(name)

    async def _check_existing(
        self, resource: Resource, templates: JobTemplates, namespace: str, name: str
    ) -> None:
        found = await existing(self._client, resource, namespace, name)
        match ownership(found, templates.name, templates.uid):
            case Ownership.EARLIER_JOB:
                raise not_yet_deleted(resource.kind, name)
            case Ownership.FOREIGN:
                self._on_foreign(templates, namespace, foreign_message(resource.kind, name))


def _body(
    resource: Resource, templates: JobTemplates, namespace: str, name: str, content: dict[str, Any]
) -> dict[str, Any]:
    return {
        "apiVersion": resource.version,
        "kind": resource.kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {APP_MANAGED_BY: "ringwise"},
            "ownerReferences": [templates.owner],
        },
        **content,
    }


def _key_files(keys: JobKeys, comment: str) -> dict[str, str]:
    if keys.private:
        private, public = keys.private, keys.public or public_key_of(keys.private)
    else:
        private, public = key_pair(comment)
    return dict(zip(SSH_FILES, (private, public, public, keys.config), strict=True))


def _service(pods: dict[str, str], service: JobService) -> dict[str, Any]:
    selector = {**pods, TASK_SPEC: service.task} if service.task else pods
    if not service.ports:
        # Headless: it only gives DNS names to pods.
        names: dict[str, Any] = {"clusterIP": "None", "publishNotReadyAddresses": service.found_early}
        return {"spec": {**names, "selector": selector}}
    ports = [
        {"name": name, "port": number, "protocol": "TCP", "targetPort": name}
        for name, number in service.ports
    ]
    return {"spec": {"selector": selector, "ports": ports}}


def _network_policy(pods: dict[str, str]) -> dict[str, Any]:
    """Only pods of the job can connect to each other; outgoing connections are not limited."""
    return {
        "spec": {
            "podSelector": {"matchLabels": pods},
            "ingress": [{"from": [{"podSelector": {"matchLabels": pods}}]}],
            "policyTypes": ["Ingress"],
        }
    }
