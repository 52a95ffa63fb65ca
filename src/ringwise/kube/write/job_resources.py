"""Objects that a job needs besides its pods: Service, NetworkPolicy, Secret with ssh keys, volume claims."""

from __future__ import annotations

import asyncio
from typing import Any

from ringwise.kube.watch.job_templates import JobTemplates, TemplateStore
from ringwise.kube.write.ssh_keys import key_pair
from ringwise.kubeclient.client import ApiError, Client
from ringwise.kubeclient.resources import CLAIMS, NETWORK_POLICIES, SECRETS, SERVICES, Resource
from ringwise.messages.commands import PodAdditions
from ringwise.wellknown import APP_MANAGED_BY, JOB_NAME, JOB_NAMESPACE

#: Jobs remembered as complete.
_MAX_REMEMBERED = 10_000
_SSH_CONFIG = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"


class JobResources:
    """Creates them once for each job. The job owns them, so they are deleted with it."""

    def __init__(self, client: Client, templates: TemplateStore) -> None:
        self._client = client
        self._templates = templates
        self._complete: dict[str, None] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def ensure(self, job: str, namespace: str, additions: PodAdditions) -> None:
        templates = self._templates.get(job)
        if templates is None or templates.uid in self._complete:
            return
        lock = self._locks.setdefault(templates.uid, asyncio.Lock())
        async with lock:
            if templates.uid not in self._complete:
                await self._create_all(templates, namespace, additions)
                if len(self._complete) >= _MAX_REMEMBERED:
                    del self._complete[next(iter(self._complete))]
                self._complete[templates.uid] = None
        self._locks.pop(templates.uid, None)

    async def _create_all(self, templates: JobTemplates, namespace: str, additions: PodAdditions) -> None:
        pods = {JOB_NAME: templates.name, JOB_NAMESPACE: namespace}
        if additions.subdomain:
            service = _service(pods, additions.found_early)
            await self._create(SERVICES, templates, namespace, additions.subdomain, service)
        if additions.isolated:
            await self._create(NETWORK_POLICIES, templates, namespace, templates.name, _network_policy(pods))
        for _, kind, name in additions.mounts:
            if kind == "Secret" and not await self._exists(SECRETS, namespace, name):
                private, public = await asyncio.to_thread(key_pair, f"{templates.name}@ringwise")
                data = {
                    "id_rsa": private,
                    "id_rsa.pub": public,
                    "authorized_keys": public,
                    "config": _SSH_CONFIG,
                }
                await self._create(SECRETS, templates, namespace, name, {"stringData": data})
        for volume in templates.volumes:
            if volume.claim is not None:
                await self._create(CLAIMS, templates, namespace, volume.name, {"spec": volume.claim})

    async def _exists(self, resource: Resource, namespace: str, name: str) -> bool:
        try:
            await self._client.request("GET", resource.path(namespace, name))
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        return True

    async def _create(
        self, resource: Resource, templates: JobTemplates, namespace: str, name: str, content: dict[str, Any]
    ) -> None:
        body = {
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
        try:
            await self._client.create(resource, namespace, body)
        except ApiError as error:
            if error.status != 409:
                raise


def _service(pods: dict[str, str], found_early: bool) -> dict[str, Any]:
    return {
        "spec": {
            # Headless: it only gives DNS names to pods.
            "clusterIP": "None",
            "selector": pods,
            "publishNotReadyAddresses": found_early,
            "ports": [{"name": "placeholder", "port": 1, "protocol": "TCP", "targetPort": 1}],
        }
    }


def _network_policy(pods: dict[str, str]) -> dict[str, Any]:
    """Only pods of the job can connect to each other; outgoing connections are not limited."""
    return {
        "spec": {
            "podSelector": {"matchLabels": pods},
            "ingress": [{"from": [{"podSelector": {"matchLabels": pods}}]}],
            "policyTypes": ["Ingress"],
        }
    }
