"""Installs Ringwise on a cluster, and removes it. A second run changes nothing.

Existing definitions and an existing configuration are used as they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import msgspec
import yaml

from ringwise.apps.admission.objects import without_conditions
from ringwise.apps.device_plugin_tokens import TOKEN_RISK
from ringwise.apps.install.deployment import (
    ALL_NODES,
    DEVICE_PLUGIN_POLICY,
    Choices,
    Object,
    definitions,
    objects,
)
from ringwise.grammar import counted
from ringwise.kube.write.default_queues import create_if_missing, default_queues
from ringwise.kubeclient.client import STRATEGIC_PATCH, ApiError, Client
from ringwise.kubeclient.list_watch import NamedObject, ObjectName
from ringwise.kubeclient.resources import DISRUPTION_BUDGETS, QUEUES, Resource
from ringwise.kubeclient.server_version import server_minor_version
from ringwise.manifests.config_maps.switch_lists import BlockDumper
from ringwise.records import dataclass
from ringwise.views.documents.changes import InstallDocument, InstalledFields
from ringwise.wellknown import (
    BOARDS_CONFIG_MAP,
    DEFINITION_API,
    DEPLOYMENT_API,
    KUBE_SYSTEM,
    RBAC_API,
    SCHEDULER_CONFIG_MAP,
    VENDOR_DEVICE_PLUGIN_PREFIX,
    VOLCANO_CONTROLLER_DEPLOYMENT,
    VOLCANO_SCHEDULER_DEPLOYMENT,
    VOLCANO_SYSTEM,
    WEBHOOK_API,
)

#: The first minor version of Kubernetes with matchConditions of webhooks.
_MATCH_CONDITIONS_SINCE = 28

DEFINITIONS = Resource(
    DEFINITION_API, "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)
DEPLOYMENTS = Resource(DEPLOYMENT_API, "Deployment", "deployments")
DAEMON_SETS = Resource(DEPLOYMENT_API, "DaemonSet", "daemonsets")
NAMESPACES = Resource("v1", "Namespace", "namespaces", namespaced=False)
SECRETS = Resource("v1", "Secret", "secrets")
WEBHOOKS = Resource(
    WEBHOOK_API,
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
)
MUTATING_WEBHOOKS = Resource(
    WEBHOOK_API, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", namespaced=False
)
POLICIES = Resource(WEBHOOK_API, "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False)
POLICY_BINDINGS = Resource(
    WEBHOOK_API, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", namespaced=False
)
_RESOURCES = {
    resource.kind: resource
    for resource in (
        DEFINITIONS,
        DEPLOYMENTS,
        DAEMON_SETS,
        NAMESPACES,
        WEBHOOKS,
        MUTATING_WEBHOOKS,
        POLICIES,
        POLICY_BINDINGS,
        Resource("v1", "ServiceAccount", "serviceaccounts"),
        Resource("v1", "ConfigMap", "configmaps"),
        Resource("v1", "Service", "services"),
        Resource(RBAC_API, "ClusterRole", "clusterroles", namespaced=False),
        Resource(RBAC_API, "ClusterRoleBinding", "clusterrolebindings", namespaced=False),
        Resource(RBAC_API, "Role", "roles"),
        Resource(RBAC_API, "RoleBinding", "rolebindings"),
        DISRUPTION_BUDGETS,
    )
}

#: How often the creation of a queue is tried while queues are not served yet, and the seconds in between.
_DEFINITION_ATTEMPTS = 20
_DEFINITION_PAUSE = 0.5

CREATED, CONFIGURED, UNCHANGED, KEPT = "created", "configured", "unchanged", "kept"
DELETED, ABSENT = "deleted", "not found"


class InstallError(Exception):
    """The state of the cluster does not allow this; the message names what to do first."""


@dataclass(frozen=True, slots=True)
class Step:
    """What happened to one object."""

    kind: str
    name: str
    outcome: str
    note: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {self.outcome}{f' ({self.note})' if self.note else ''}"

    def as_json(self) -> InstalledFields:
        return {"kind": self.kind, "name": self.name, "outcome": self.outcome, "note": self.note}


def steps_document(steps: Iterable[Step]) -> InstallDocument:
    """What `ringwise install -o json` and `ringwise uninstall -o json` print."""
    return {"schema": "ringwise.io/install/v1", "objects": [step.as_json() for step in steps]}


class _Replicas(msgspec.Struct):
    replicas: int | None = None


class _Deployment(msgspec.Struct):
    spec: _Replicas = msgspec.field(default_factory=_Replicas)


class _Scheduled(msgspec.Struct, rename="camel"):
    desired_number_scheduled: int = 0


class _DaemonSet(msgspec.Struct):
    metadata: ObjectName = msgspec.field(default_factory=ObjectName)
    status: _Scheduled = msgspec.field(default_factory=_Scheduled)


class _DaemonSets(msgspec.Struct):
    items: list[_DaemonSet] = msgspec.field(default_factory=list)


class _Version(msgspec.Struct):
    name: str = ""
    served: bool = False


class _Versions(msgspec.Struct):
    versions: list[_Version] = msgspec.field(default_factory=list)


class _Definition(msgspec.Struct):
    spec: _Versions = msgspec.field(default_factory=_Versions)


def printed(choices: Choices) -> str:
    """All objects, definitions first, as YAML: for `kubectl apply -f -` and for the repository."""
    every = [*definitions(), *objects(choices)]
    return "---\n".join(yaml.dump(one, Dumper=_Plain, sort_keys=False, width=110) for one in every)


class _Plain(BlockDumper):
    """Repeats what is equal instead of referring to it."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


async def install(client: Client, choices: Choices) -> AsyncIterator[Step]:
    """Apply everything, one object after the other. Raises ApiError, UnreachableError or InstallError."""
    await _check_no_other_scheduler(client, choices)
    if choices.with_device_plugin and choices.device_plugin_nodes == ALL_NODES:
        await _check_no_other_device_plugin(client)
    if choices.policies and not await _knows_policies(client):
        for wanted in objects(choices):
            if wanted["kind"] == POLICIES.kind:
                name, why = wanted["metadata"]["name"], "this API server has no such policies"
                if name == DEVICE_PLUGIN_POLICY:
                    why += f"; {TOKEN_RISK}"
                yield Step(POLICIES.kind, name, ABSENT, why)
        choices = choices.without_policies()
    for definition in definitions():
        yield await _define(client, definition)
    minor = await server_minor_version(client)
    # An unknown version is taken for a new one.
    conditions = minor is None or minor >= _MATCH_CONDITIONS_SINCE
    for wanted in objects(choices):
        if wanted["kind"] == WEBHOOKS.kind and not conditions:
            wanted = without_conditions(wanted)
        yield await _apply(client, wanted)
    if not choices.shadow:
        for queue in default_queues():
            yield await _create_queue(client, queue)


async def uninstall(client: Client, choices: Choices) -> AsyncIterator[Step]:
    """Remove what `install` made. What jobs need stays: definitions, queues, namespaces, configuration."""
    for wanted in reversed(objects(choices)):
        resource, meta = _RESOURCES[wanted["kind"]], wanted["metadata"]
        if resource is NAMESPACES or meta["name"] == SCHEDULER_CONFIG_MAP:
            continue
        yield await _remove(client, resource, meta.get("namespace"), meta["name"])
    if choices.with_admission:
        yield await _remove(client, SECRETS, choices.namespace, "ringwise-admission")
    yield await _remove(client, _RESOURCES["ConfigMap"], choices.namespace, BOARDS_CONFIG_MAP)


async def _create_queue(client: Client, queue: Object) -> Step:
    """The API server serves a kind only a moment after its definition was created."""
    name = queue["metadata"]["name"]
    for _ in range(_DEFINITION_ATTEMPTS):
        try:
            created = await create_if_missing(client, queue)
        except ApiError as error:
            if error.status != 404:
                raise
            await asyncio.sleep(_DEFINITION_PAUSE)
            continue
        return Step(QUEUES.kind, name, CREATED if created else KEPT)
    return Step(QUEUES.kind, name, ABSENT, "queues are not served yet; the scheduler creates it")


async def _remove(client: Client, resource: Resource, namespace: str | None, name: str) -> Step:
    try:
        await client.delete(resource, namespace, name)
    except ApiError as error:
        if error.status != 404:
            raise
        return Step(resource.kind, _full(namespace, name), ABSENT)
    return Step(resource.kind, _full(namespace, name), DELETED)


async def _check_no_other_scheduler(client: Client, choices: Choices) -> None:
    """Two schedulers for the same pods, or two controllers for the same jobs, would fight."""
    rivals = [(VOLCANO_SCHEDULER_DEPLOYMENT, "")]
    if choices.with_controller:
        rivals.append((VOLCANO_CONTROLLER_DEPLOYMENT, ", or install with --no-controller"))
    for name, otherwise in rivals:
        try:
            found = await client.get(DEPLOYMENTS, VOLCANO_SYSTEM, name, _Deployment)
        except ApiError as error:
            if error.status == 404:
                continue
            raise
        replicas = 1 if found.spec.replicas is None else found.spec.replicas
        if replicas:
            raise InstallError(
                f"Deployment volcano-system/{name} runs with {counted(replicas, 'replica')} and serves "
                "the same jobs; "
                f"first: kubectl -n volcano-system scale deployment {name} --replicas=0{otherwise}"
            )


async def _check_no_other_device_plugin(client: Client) -> None:
    """Two device plugins on a node would take the same resource from each other."""
    answer = await client.request("GET", DAEMON_SETS.path(KUBE_SYSTEM))
    for found in msgspec.json.decode(answer, type=_DaemonSets).items:
        name, nodes = found.metadata.name or "", found.status.desired_number_scheduled
        if name.startswith(VENDOR_DEVICE_PLUGIN_PREFIX) and nodes:
            raise InstallError(
                f"DaemonSet {KUBE_SYSTEM}/{name} runs on {counted(nodes, 'node')} and serves the same chips; "
                "keep it with --no-device-plugin, or move node by node with --device-plugin-nodes labelled "
                "(docs/migration.md)"
            )


async def _knows_policies(client: Client) -> bool:
    try:
        await client.request("GET", POLICIES.path(), params={"limit": "1"})
    except ApiError as error:
        if error.status != 404:
            raise
        return False
    return True


async def _define(client: Client, definition: Object) -> Step:
    name = definition["metadata"]["name"]
    needed = definition["spec"]["versions"][0]["name"]
    try:
        found = await client.get(DEFINITIONS, None, name, _Definition)
    except ApiError as error:
        if error.status != 404:
            raise
        await client.create(DEFINITIONS, None, definition)
        return Step(DEFINITIONS.kind, name, CREATED)
    served = [version.name for version in found.spec.versions if version.served]
    if needed not in served:
        raise InstallError(
            f"CustomResourceDefinition {name} is there and serves {', '.join(served) or 'no version'}, "
            f"not {needed}, which Ringwise needs; update Volcano, or delete the definition if it is not used"
        )
    return Step(DEFINITIONS.kind, name, KEPT, "exists already")


async def _apply(client: Client, wanted: Object) -> Step:
    resource, meta = _RESOURCES[wanted["kind"]], wanted["metadata"]
    namespace, name = meta.get("namespace"), meta["name"]
    full = _full(namespace, name)
    try:
        before = await client.get(resource, namespace, name, NamedObject)
    except ApiError as error:
        if error.status != 404:
            raise
        await client.create(resource, namespace, wanted)
        return Step(resource.kind, full, CREATED)
    if resource is NAMESPACES:
        return Step(resource.kind, full, UNCHANGED)
    if name == SCHEDULER_CONFIG_MAP:
        return Step(resource.kind, full, KEPT, "your settings")
    # Lists of named things are merged by name: what the webhook wrote about itself stays.
    answer = await client.patch(resource, namespace, name, wanted, content_type=STRATEGIC_PATCH)
    after = msgspec.json.decode(answer, type=NamedObject)
    same = after.metadata == before.metadata
    return Step(resource.kind, full, UNCHANGED if same else CONFIGURED)


def _full(namespace: str | None, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name
