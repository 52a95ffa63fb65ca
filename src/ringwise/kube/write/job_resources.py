"""Objects that a job needs besides its pods.

Service, NetworkPolicy, ConfigMap with host lists, Secret with ssh keys, volume claims.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from ringwise.kube.watch.job_templates import JobTemplates, TemplateStore
from ringwise.kube.write.ownership import (
    ExistingObject,
    Ownership,
    existing,
    exists,
    foreign_message,
    not_yet_deleted,
    remove_left_over,
)
from ringwise.kube.write.ssh_keys import SSH_FILES, key_pair, public_key_of
from ringwise.kubeclient.client import JSON_PATCH, ApiError, Client, UnreachableError
from ringwise.kubeclient.resources import (
    CLAIMS,
    CONFIG_MAPS,
    NETWORK_POLICIES,
    SECRETS,
    SERVICES,
    VCJOBS,
    Resource,
)
from ringwise.kubeclient.retry import GivenUpError, Retrier
from ringwise.messages.commands import CreateJobResources, JobKeys, JobService
from ringwise.wellknown import APP_MANAGED_BY, JOB_NAME, JOB_NAMESPACE, TASK_SPEC

#: Jobs of which something is remembered.
_MAX_REMEMBERED = 10_000

Key = TypeVar("Key")
Value = TypeVar("Value")


#: Reports to the job, in its namespace, an object of its name that is not its own.
OnForeign = Callable[[JobTemplates, str, str], None]


class JobResources:
    """Creates them once for each job. The job owns them, so they are deleted with it.

    What exists already and has another owner is not changed: the pods get it as it is, and the job an event.
    """

    def __init__(
        self, client: Client, templates: TemplateStore, retrier: Retrier, on_foreign: OnForeign
    ) -> None:
        self._client = client
        self._templates = templates
        self._retrier = retrier
        self._on_foreign = on_foreign
        #: What was last wanted, by job key.
        self._wanted: dict[str, CreateJobResources] = {}
        self._complete: dict[str, None] = {}
        #: UID of the job and name of the Secrets that were created for jobs that are not complete yet.
        self._secrets: dict[str, set[str]] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        #: By UID of the job: the attempts that failed, and why the last one did.
        self._failed: dict[str, tuple[int, GivenUpError]] = {}
        #: By namespace and name: the Secrets that were created, and the UIDs of their jobs.
        self._created: dict[tuple[str, str], tuple[str, str]] = {}

    def want(self, wanted: CreateJobResources) -> None:
        """What `ensure` creates for the job before its next pod."""
        _remember(self._wanted, wanted.key, wanted)

    async def ensure(self, job: str, namespace: str, attempts: int) -> None:
        """Raises GivenUpError. All that wait for one attempt share its outcome."""
        templates = self._templates.get(job)
        if templates is None or templates.uid in self._complete:
            return
        before, _ = self._failed.get(templates.uid, (0, None))
        lock = self._locks.setdefault(templates.uid, asyncio.Lock())
        try:
            async with lock:
                if templates.uid in self._complete:
                    return
                number, failure = self._failed.get(templates.uid, (0, None))
                if failure is not None and number > before:
                    raise failure
                await self._try(templates, namespace, self._wanted.get(job), attempts, number)
                self._wanted.pop(job, None)
        finally:
            self._locks.pop(templates.uid, None)

    async def _try(
        self,
        templates: JobTemplates,
        namespace: str,
        wanted: CreateJobResources | None,
        attempts: int,
        number: int,
    ) -> None:
        create = partial(self._create_all, templates, namespace, wanted)
        try:
            await self._retrier.run(create, attempts)
        except GivenUpError as error:
            _remember(self._failed, templates.uid, (number + 1, error))
            raise
        _remember(self._complete, templates.uid, None)
        self._failed.pop(templates.uid, None)
        self._secrets.pop(templates.uid, None)

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
        try:
            await self._patch(namespace, name, patch)
        except ApiError as error:
            if error.status == 422 and "is invalid" not in error.message:
                await self._take_over(templates, namespace, name, data)
                return
            if error.status != 404:
                raise
            body = _body(templates, namespace, name, {"data": dict(data)})
            await self._client.create(CONFIG_MAPS, namespace, body)

    async def _patch(self, namespace: str, name: str, patch: Sequence[object]) -> None:
        body, path = msgspec.json.encode(patch), CONFIG_MAPS.path(namespace, name)
        await self._client.request("PATCH", path, body=body, content_type=JSON_PATCH)

    async def _take_over(
        self, templates: JobTemplates, namespace: str, name: str, data: Mapping[str, str]
    ) -> None:
        """A ConfigMap of an earlier job of the name, which is gone, becomes that of the job."""
        if not await exists(self._client, namespace, templates):
            raise not_yet_deleted(CONFIG_MAPS.kind, name)
        owner = "/metadata/ownerReferences/0"
        patch = [
            {"op": "test", "path": f"{owner}/apiVersion", "value": VCJOBS.version},
            {"op": "test", "path": f"{owner}/kind", "value": VCJOBS.kind},
            {"op": "test", "path": f"{owner}/name", "value": templates.name},
            {"op": "add", "path": f"{owner}/uid", "value": templates.uid},
            {"op": "add", "path": "/data", "value": dict(data)},
        ]
        try:
            await self._patch(namespace, name, patch)
        except ApiError as error:
            if error.status == 404:
                raise not_yet_deleted(CONFIG_MAPS.kind, name) from None
            if error.status != 422:
                raise
            raise ApiError(409, "AlreadyExists", foreign_message(CONFIG_MAPS.kind, name)) from None

    def report_foreign(self, job: str, namespace: str, resource: Resource, name: str) -> None:
        templates = self._templates.get(job)
        if templates is not None:
            self._on_foreign(templates, namespace, foreign_message(resource.kind, name))

    async def _create(
        self, resource: Resource, templates: JobTemplates, namespace: str, name: str, content: dict[str, Any]
    ) -> None:
        body = _body(templates, namespace, name, content)
        if await self._client.create_if_missing(resource, namespace, body) is None:
            await self._check_existing(resource, templates, namespace, name)

    async def _create_secret(
        self, templates: JobTemplates, namespace: str, name: str, content: dict[str, Any]
    ) -> None:
        """The controller has no permission to read Secrets. It deletes those it created, by their UID."""
        created = self._secrets.setdefault(templates.uid, set())
        if name in created:
            return
        try:
            body = _body(templates, namespace, name, content)
            answer = await self._client.create_if_missing(SECRETS, namespace, body)
        except UnreachableError as error:
            if not error.maybe_done:
                raise
            # Possibly created: a second attempt could not tell ours from another.
            created.add(name)
            return
        if answer is not None:
            made = msgspec.json.decode(answer, type=ExistingObject)
            _remember(self._created, (namespace, name), (templates.uid, made.metadata.uid or ""))
        else:
            job, uid = self._created.get((namespace, name), (templates.uid, ""))
            if job != templates.uid:
                await self._remove_secret(templates, namespace, name, uid)
                raise not_yet_deleted(SECRETS.kind, name)
            message = (
                f"Secret {name} exists, this controller did not create it since it started, and the pods "
                "get it as it is. What helps, if it is not of this job: rename the job, or delete the Secret"
            )
            self._on_foreign(templates, namespace, message)
        created.add(name)

    async def _remove_secret(self, templates: JobTemplates, namespace: str, name: str, uid: str) -> None:
        """One that was created here for an earlier job of the name. Another one by now has another UID."""
        if not await exists(self._client, namespace, templates):
            return
        await self._client.delete(SECRETS, namespace, name, uid=uid)
        # What is there from now on is not known to be of that job.
        self._created.pop((namespace, name), None)

    async def _check_existing(
        self, resource: Resource, templates: JobTemplates, namespace: str, name: str
    ) -> None:
        current = await existing(self._client, resource, namespace, name)
        match current.ownership(templates.name, templates.uid):
            case Ownership.EARLIER_JOB:
                await remove_left_over(self._client, resource, namespace, name, current, templates)
                raise not_yet_deleted(resource.kind, name)
            case Ownership.FOREIGN:
                self._on_foreign(templates, namespace, foreign_message(resource.kind, name))


def _remember(cache: dict[Key, Value], key: Key, value: Value) -> None:
    if key not in cache and len(cache) >= _MAX_REMEMBERED:
        del cache[next(iter(cache))]
    cache[key] = value


def _body(templates: JobTemplates, namespace: str, name: str, content: dict[str, Any]) -> dict[str, Any]:
    labels = {APP_MANAGED_BY: "ringwise"}
    meta = {"name": name, "namespace": namespace, "labels": labels, "ownerReferences": [templates.owner]}
    return {"metadata": meta, **content}


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
