"""The objects of a live cluster, listed once with the permissions of the user.

What the user may not list is left out and reported with the missing permission: an answer from a part of the
objects is often enough, if the user knows that it is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace

import msgspec

from ringwise.apps.extensions import installed_registry
from ringwise.apps.place import JOB_OBJECTS, WITH_JOBS, AlreadyThereError, jobs_in
from ringwise.apps.scheduler_health import SchedulerLeases
from ringwise.framework.configuration import Configuration
from ringwise.kube.watch.invalid_objects import UNNAMED
from ringwise.kube.watch.kinds import Reader, WatchTarget, read_object, stand_in_for, watched_kinds
from ringwise.kube.watch.objects import NodeReports
from ringwise.kube.watch.readers import DataReader, Observed
from ringwise.kubeclient.client import PAGE_SIZE, ApiError, Client
from ringwise.kubeclient.list_watch import name_of, raw_page
from ringwise.kubeclient.resources import NAMESPACES, NODES, PODS
from ringwise.manifests.bundle import Bundle
from ringwise.manifests.kinds import KIND_OF, KINDS, STORED, Watcher
from ringwise.manifests.objects.groups import namespace_from_wire
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.readable import readable
from ringwise.manifests.text.wire import NamespaceWire
from ringwise.messages.ordinary_groups import has_siblings
from ringwise.records import dataclass
from ringwise.scheduler.defaults import default_configuration
from ringwise.state.limits import UsageLimit
from ringwise.state.model import DeviceReport, Pod
from ringwise.views.written_reasons import WrittenReasons
from ringwise.wellknown import OPERATOR_GROUP, PREDICATE_TIME, SCHEDULER_CONFIG_MAP, VOLCANO_SYSTEM

CONFIGURATION_MAP = (VOLCANO_SYSTEM, SCHEDULER_CONFIG_MAP)


_NOT_SERVED = "the API server does not serve this kind; install the Helm chart"
_RETAINED = {
    kind.resource.plural: kind.resource.kind for kind in KINDS if kind.resource.group == OPERATOR_GROUP
}


class NothingReadableError(Exception):
    """Nodes or pods may not be listed, and every answer needs both."""


@dataclass(slots=True)
class LiveCluster:
    bundle: Bundle = field(default_factory=Bundle)
    configuration: Configuration = field(default_factory=default_configuration)
    #: What could not be listed, and the missing permission; one line each.
    missing: list[str] = field(default_factory=list)
    #: Why the records of the scheduler could not be read; empty: they were, or there are none.
    records_missing: str = ""
    #: By data key: why a leader did not read parts of the record, of which there is a copy.
    unread_record: Mapping[str, str] = field(default_factory=dict)
    #: The second number of the API server's version; None if it is not known.
    server_minor: int | None = None
    #: What schedulers wrote about pending jobs.
    written: WrittenReasons = field(default_factory=WrittenReasons)
    #: Which scheduler leads; None: not read.
    leases: SchedulerLeases | None = None


async def read_cluster(
    client: Client,
    progress: Callable[[str, int], None] = lambda kind, count: None,
    *,
    jobs_only: bool = False,
) -> LiveCluster:
    """List everything that a decision needs. Raises ApiError, UnreachableError or NothingReadableError.

    `jobs_only`: vcjobs, PodGroups, pods and priority classes.
    """
    live = LiveCluster()
    return await _read_all(client, kinds_to_read(live.written, jobs_only=jobs_only), live, progress)


async def read_namespace(client: Client, namespace: str) -> LiveCluster:
    """List what a user may read who has rights in one namespace alone, with the limits that hold in it.

    Raises ApiError, UnreachableError or NothingReadableError.
    """
    live, target = LiveCluster(), WatchTarget(NAMESPACES, namespace)
    try:
        wire = await client.get(NAMESPACES, None, namespace, NamespaceWire)
    except ApiError as error:
        if error.status != 403:
            raise
        raise NothingReadableError(f"namespaces: not allowed; {target.permission('get')}") from None
    text = namespace_from_wire(wire, Findings(namespace)).limits
    live.bundle.of(UsageLimit).extend(readable(text or "[]", list[UsageLimit], []))
    own = [
        (replace(target, namespace=namespace), reader)
        for target, reader in kinds_to_read(jobs_only=True)
        if target.resource.namespaced
    ]
    return await _read_all(client, own, live, lambda kind, count: None)


def kinds_to_read(
    written: WrittenReasons | None = None, *, jobs_only: bool = False
) -> list[tuple[WatchTarget, Reader]]:
    """`written` gets what conditions say about pending jobs."""
    registry = installed_registry()
    component = Watcher.CONTROLLER if jobs_only else Watcher.SCHEDULER
    return list(
        watched_kinds(Observed(), CONFIGURATION_MAP, registry=registry, component=component, written=written)
    )


def missing_line(target: WatchTarget, error: ApiError) -> str:
    """Why a kind could not be listed. Raises the error where nothing can be answered without it."""
    if error.status == 404 and target.optional:
        return f"{target.title}: {_NOT_SERVED}"
    if error.status == 403:
        return f"{target.title}: not allowed; {target.permission()}"
    raise error


def finish(live: LiveCluster) -> None:
    """When everything was added. Raises NothingReadableError."""
    required = [line for line in live.missing if line.startswith(("nodes:", "pods:"))]
    if required:
        raise NothingReadableError("; ".join(required))
    titles = [line.removesuffix(f": {_NOT_SERVED}") for line in live.missing]
    live.bundle.not_served = tuple(_RETAINED[title] for title in titles if title in _RETAINED)
    live.bundle.served = frozenset(vcjob.key for vcjob in live.bundle.vcjobs)
    live.bundle.awaits_groups = not any(map(_was_placed_without_group, live.bundle.pods))


def _was_placed_without_group(pod: Pod) -> bool:
    """Whether it shows a scheduler with `--no-pod-groups`, the option that a user cannot see."""
    placed = pod.node is not None and pod.live and PREDICATE_TIME in pod.annotations
    return placed and pod.group is None and has_siblings(pod)


async def check_readable(client: Client) -> None:
    """Whether the user may list what every answer needs. Raises the same errors, before anything is read."""
    missing = []
    for target in (WatchTarget(NODES), WatchTarget(PODS)):
        try:
            async for _ in client.pages(target.path, target.params, 1, raw_page):
                break
        except ApiError as error:
            missing.append(missing_line(target, error))
    if missing:
        raise NothingReadableError("; ".join(missing))


async def _read_all(
    client: Client,
    kinds: Iterable[tuple[WatchTarget, Reader]],
    live: LiveCluster,
    progress: Callable[[str, int], None],
) -> LiveCluster:
    for target, reader in kinds:
        count = 0
        try:
            async for page in client.pages(target.path, target.params, PAGE_SIZE, raw_page):
                for raw in page.items or ():
                    add_object(target, reader, raw, live)
                    count += 1
                progress(target.title, count)
        except ApiError as error:
            live.missing.append(missing_line(target, error))
    finish(live)
    return live


def add_object(target: WatchTarget, reader: Reader, raw: msgspec.Raw, live: LiveCluster) -> None:
    meta = name_of(raw)
    namespace, name = (meta.namespace or "", meta.name or "") if meta is not None else ("", UNNAMED)
    key = f"{namespace}/{name}" if namespace else name
    issues = Findings(f"{target.resource.kind} {key}")
    objects = read_object(reader, raw, issues)
    if not (isinstance(reader, DataReader) and objects):
        # What is wrong in such data is the reason of the jobs that need it.
        live.bundle.errors.extend(issues.errors)
    if objects is None:
        objects = stand_in_for(reader, raw, (), issues.origin)
    for _, value in objects:
        _add_object(value, live)


def _add_object(value: object, live: LiveCluster) -> None:
    if isinstance(value, NodeReports):
        live.bundle.of(DeviceReport).extend(value.reports)
    elif isinstance(value, Configuration):
        live.configuration = value
    elif type(value) in STORED:
        live.bundle.of(type(value)).append(value)


def with_submitted(bundle: Bundle, submitted: Bundle) -> set[tuple[str, str]]:
    """Add objects that are not submitted yet to a cluster's; namespace and name of each job among them.

    Raises AlreadyThereError.
    """
    for kind in JOB_OBJECTS:
        keys = {one.key for one in bundle.of(kind)}
        for one in submitted.of(kind):
            if one.key in keys:
                raise AlreadyThereError(
                    f"{one.origin}: {KIND_OF[kind].resource.kind} {one.key} exists in the cluster; "
                    f"`kubectl ringwise why {one.key}` explains it; use another name for a what-if"
                )
        bundle.of(kind).extend(submitted.of(kind))
    for kind in WITH_JOBS:
        keys = {one.key for one in bundle.of(kind)}
        bundle.of(kind).extend(one for one in submitted.of(kind) if one.key not in keys)
    return jobs_in(submitted)
