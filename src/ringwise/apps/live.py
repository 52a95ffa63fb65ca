"""The objects of a live cluster, read once with a person's own rights, as if they stood in a file.

What the person may not read is left out and told, with the right that is missing: an answer from part of
the objects is often enough, and everybody must know that it is one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from ringwise.apps.extensions import installed_registry
from ringwise.framework.configuration import Configuration, default_configuration
from ringwise.kube.watch.decoding import bare_page
from ringwise.kube.watch.facts import Fact, NodeReports
from ringwise.kube.watch.kinds import Place, Reader, standard_kinds
from ringwise.kube.write.pod_templates import TemplateStore
from ringwise.kubeclient.client import PAGE, ApiError, Client
from ringwise.manifests.bundle import Bundle
from ringwise.manifests.device_info import RawConfigMap
from ringwise.manifests.errors import Findings
from ringwise.manifests.wire import ConfigMapWire
from ringwise.state.model import Node, Pod, PodGroup, PriorityClass, Queue
from ringwise.state.vcjob import VcJob
from ringwise.wellknown import SCHEDULER_CONFIG_MAP, VOLCANO_SYSTEM

CONFIGURATION_MAP = (VOLCANO_SYSTEM, SCHEDULER_CONFIG_MAP)


class NothingReadableError(Exception):
    """Nodes and pods are what every answer is made of."""


@dataclass(slots=True)
class LiveCluster:
    bundle: Bundle = field(default_factory=Bundle)
    configuration: Configuration = field(default_factory=default_configuration)
    #: What could not be read, and which right would help; one line each.
    missing: list[str] = field(default_factory=list)


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Named(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


async def read_cluster(
    client: Client,
    configuration_map: tuple[str, str] = CONFIGURATION_MAP,
    progress: Callable[[str, int], None] = lambda kind, count: None,
) -> LiveCluster:
    """List everything a decision needs. Raises ApiError, UnreachableError or NothingReadableError."""
    live = LiveCluster()
    registry, _ = installed_registry()
    kinds = standard_kinds(TemplateStore(), {}, configuration_map, plugins=sorted(registry.plugins))
    for place, reader in kinds:
        try:
            await _read(client, place, reader, live, progress)
        except ApiError as error:
            if error.status == 404 and place.optional:
                live.missing.append(f"{place.title}: the cluster does not know this kind (ringwise install)")
            elif error.status == 403:
                live.missing.append(f"{place.title}: not allowed; {_right(place)}")
            else:
                raise
    told = [line for line in live.missing if line.startswith(("nodes:", "pods:"))]
    if told:
        raise NothingReadableError("; ".join(told))
    return live


async def _read(
    client: Client,
    place: Place,
    reader: Reader,
    live: LiveCluster,
    progress: Callable[[str, int], None],
) -> None:
    count = 0
    async for page in client.pages(place.path, place.params, PAGE, bare_page):
        for raw in page.items or ():
            _take(place, reader, raw, live)
            count += 1
        progress(place.title, count)


def _take(place: Place, reader: Reader, raw: msgspec.Raw, live: LiveCluster) -> None:
    try:
        meta = msgspec.json.decode(raw, type=_Named).metadata
    except (msgspec.MsgspecError, ValueError, RecursionError):
        meta = _Meta("(without a name)")
    key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
    found = Findings(f"{place.resource.kind} {key}")
    if place.title == "topology":
        _take_topology(raw, meta, found, live)
    else:
        for _, fact in reader.read(raw, found) or ():
            _keep(fact, live)
    live.bundle.errors.extend(found.errors)


def _take_topology(raw: msgspec.Raw, meta: _Meta, found: Findings, live: LiveCluster) -> None:
    try:
        wire = msgspec.json.decode(raw, type=ConfigMapWire)
    except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
        found.wrong("", str(problem).replace("`", ""))
        return
    data = {key: value or "" for key, value in (wire.data or {}).items()}
    live.bundle.config_maps.append(RawConfigMap(meta.namespace, meta.name, data, found.origin))


def _keep(fact: Fact, live: LiveCluster) -> None:
    bundle = live.bundle
    match fact:
        case Node():
            bundle.nodes.append(fact)
        case Pod():
            bundle.pods.append(fact)
        case PodGroup():
            bundle.pod_groups.append(fact)
        case Queue():
            bundle.queues.append(fact)
        case PriorityClass():
            bundle.priority_classes.append(fact)
        case VcJob():
            bundle.vcjobs.append(fact)
        case NodeReports():
            bundle.reports.extend(fact.reports)
        case Configuration():
            live.configuration = fact


def _right(place: Place) -> str:
    """The permission in the words of RBAC."""
    group = place.resource.version.rpartition("/")[0]
    resource = f"{place.resource.plural}.{group}" if group else place.resource.plural
    where = f" in namespace {place.namespace}" if place.namespace else " in the whole cluster"
    return f"you need the verb list on {resource}{where} (ClusterRole ringwise-reader and docs/rbac.md)"


class AlreadyThereError(Exception):
    """The object of a what-if is in the cluster already."""


def with_submitted(live: LiveCluster, submitted: Bundle) -> set[tuple[str, str]]:
    """Add what somebody thinks of submitting; namespace and name of each job that it brings."""
    bundle = live.bundle
    for kind, there, more in (
        ("Job", bundle.vcjobs, submitted.vcjobs),
        ("PodGroup", bundle.pod_groups, submitted.pod_groups),
        ("Pod", bundle.pods, submitted.pods),
    ):
        known = {one.key for one in there}
        for one in more:
            if one.key in known:
                raise AlreadyThereError(
                    f"{one.origin}: {kind} {one.key} is in the cluster already; "
                    f"`kubectl ringwise why {one.key}` tells about it, another name makes it a what-if"
                )
    bundle.vcjobs.extend(submitted.vcjobs)
    bundle.pod_groups.extend(submitted.pod_groups)
    bundle.pods.extend(submitted.pods)
    return {
        *((job.namespace, job.name) for job in submitted.vcjobs),
        *((group.namespace, group.name) for group in submitted.pod_groups),
        *((pod.namespace, pod.group or pod.name) for pod in submitted.pods),
    }
