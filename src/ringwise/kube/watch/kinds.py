"""The kinds that are watched: which objects, in which namespace, and the reader of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Protocol

from ringwise.framework.registry import Registry
from ringwise.kube.watch.config_map_readers import (
    ConfigurationReader,
    IsolationReader,
    ReportReader,
    TopologyReader,
)
from ringwise.kube.watch.job_templates import TemplateStore
from ringwise.kube.watch.objects import KeyedObjects
from ringwise.kube.watch.readers import (
    GroupReader,
    JobReader,
    NodeReader,
    ObservedGroup,
    ObservedQueue,
    PodOwnerReader,
    PodReader,
    PriorityReader,
    QueueReader,
    QuotaReader,
)
from ringwise.kube.watch.reason_readers import ReasonGroupReader, ReasonPodReader
from ringwise.kubeclient.client import Page
from ringwise.kubeclient.list_watch import WatchEvent
from ringwise.kubeclient.resources import (
    CONFIG_MAPS,
    DAEMON_SETS,
    KUBERNETES_JOBS,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    RESOURCE_QUOTAS,
    STATEFUL_SETS,
    VCJOBS,
    Resource,
)
from ringwise.log import Logger
from ringwise.manifests.errors import Findings, shown
from ringwise.manifests.pods import PodClassCache
from ringwise.records import dataclass
from ringwise.scheduler.defaults import BUILT_IN
from ringwise.views.written_reasons import WrittenReasons
from ringwise.wellknown import (
    CLUSTER_REPORT_LABEL,
    ISOLATION_CONFIG_MAP,
    KUBE_SYSTEM,
    MINDX_DL,
    NODE_REPORT_LABEL,
    TOR_NODE_CONFIG_MAP,
)

_LOG = Logger()
#: What the controller alone needs.
_OF_CONTROLLER = (PRIORITY_CLASSES, QUEUES, VCJOBS, POD_GROUPS, PODS)
#: Owners of pods whose annotations and replicas the PodGroups of their pods follow.
_OWNERS = (REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, KUBERNETES_JOBS, REPLICATION_CONTROLLERS)


@dataclass(frozen=True, slots=True)
class WatchTarget:
    """The objects of one list and watch."""

    resource: Resource
    namespace: str | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    #: The server may not know the kind, where its CRD is not installed.
    optional: bool = False
    #: A part of one object may move to another object: a node from one chunk of a report to the next.
    #: It is deleted only when no object has it.
    parts_move: bool = False
    #: Name in logs and metrics.
    name: str = ""

    @property
    def path(self) -> str:
        return self.resource.path(self.namespace)

    @property
    def title(self) -> str:
        return self.name or self.resource.plural

    def permission(self, verb: str = "list") -> str:
        """The missing permission in the terms of RBAC."""
        group = self.resource.version.rpartition("/")[0]
        resource = f"{self.resource.plural}.{group}" if group else self.resource.plural
        where = f" in namespace {self.namespace}" if self.namespace else " in the whole cluster"
        return f"you need the verb {verb} on {resource}{where} (ClusterRole ringwise-reader and docs/rbac.md)"


class Reader(Protocol):
    """Turns bytes of the API into state objects."""

    def page(self, answer: bytes) -> Page[Any]:
        """A page of a list. Its items are decoded structs, or raw bytes."""

    def watch_event(self, line: bytes) -> WatchEvent[Any]:
        """A line of a watch; its object is a decoded struct, or raw bytes. Raises UnreachableError."""

    def read(self, received: object, found: Findings) -> KeyedObjects | None:
        """The objects in a received one; errors are in `found`.

        None: unreadable, what was known before stays.
        """

    def stand_in(self, received: object, before: KeyedObjects, origin: str) -> KeyedObjects:
        """What stands for an object that cannot be read; `before` is its last good version, if any."""

    def forget(self, key: str) -> None:
        """The object was deleted."""


def read_object(reader: Reader, received: object, found: Findings) -> KeyedObjects | None:
    """Readers report what is wrong with an object. One that raises must cost that object only."""
    try:
        return reader.read(received, found)
    except Exception as error:
        _LOG.error("reader failed", object=found.origin, error=error)
        found.wrong("", f"cannot be read: {type(error).__name__}: {shown(str(error))}")
        return None


def stand_in_for(reader: Reader, received: object, before: KeyedObjects, origin: str) -> KeyedObjects:
    """What stands for an unreadable object; its last good version if even that raises."""
    try:
        return reader.stand_in(received, before, origin)
    except Exception as error:
        _LOG.error("reader failed", object=origin, error=error)
        return before


def watched_kinds(
    templates: TemplateStore,
    groups: dict[str, ObservedGroup],
    configuration: tuple[str, str] | None,
    *,
    queues: dict[str, ObservedQueue] | None = None,
    jobs_only: bool = False,
    pod_owners: bool = False,
    registry: Registry = BUILT_IN,
    written: WrittenReasons | None = None,
    warn: Callable[[str], object] = lambda warning: None,
) -> list[tuple[WatchTarget, Reader]]:
    """Everything the scheduler and the controller watch; pods last, when all nodes are known.

    `configuration` is namespace and name of the ConfigMap with the scheduler's configuration, None when it
    comes from a file. `jobs_only` leaves out what the job controller alone does not need; `pod_owners` adds
    what the PodGroups of ordinary pods follow. `written` gets the reasons that conditions tell. `warn` is
    called with each warning about the configuration.
    """
    classes = PodClassCache()
    kinds: list[tuple[WatchTarget, Reader]] = [
        (WatchTarget(NODES), NodeReader()),
        (WatchTarget(PRIORITY_CLASSES), PriorityReader()),
        (WatchTarget(QUEUES, optional=True), QueueReader({} if queues is None else queues)),
        (WatchTarget(RESOURCE_QUOTAS, optional=True), QuotaReader()),
        (
            WatchTarget(
                CONFIG_MAPS, KUBE_SYSTEM, {"labelSelector": f"{NODE_REPORT_LABEL}=true"}, name="node-reports"
            ),
            ReportReader(),
        ),
        (
            WatchTarget(
                CONFIG_MAPS, MINDX_DL, {"labelSelector": f"{NODE_REPORT_LABEL}=true"}, name="node-health"
            ),
            ReportReader(),
        ),
        (
            WatchTarget(
                CONFIG_MAPS,
                MINDX_DL,
                {"labelSelector": f"{CLUSTER_REPORT_LABEL}=true"},
                parts_move=True,
                name="cluster-reports",
            ),
            ReportReader(),
        ),
        (
            WatchTarget(
                CONFIG_MAPS,
                KUBE_SYSTEM,
                {"fieldSelector": f"metadata.name={TOR_NODE_CONFIG_MAP}"},
                name="topology",
            ),
            TopologyReader(),
        ),
        (
            WatchTarget(
                CONFIG_MAPS,
                KUBE_SYSTEM,
                {"fieldSelector": f"metadata.name={ISOLATION_CONFIG_MAP}"},
                name="isolations",
            ),
            IsolationReader(),
        ),
        (WatchTarget(VCJOBS, optional=True), JobReader(classes, templates)),
        (
            WatchTarget(POD_GROUPS, optional=True),
            GroupReader(groups) if written is None else ReasonGroupReader(groups, written),
        ),
        (
            WatchTarget(PODS),
            PodReader(classes) if written is None else ReasonPodReader(classes, written),
        ),
    ]
    if configuration is not None:
        namespace, name = configuration
        target = WatchTarget(
            CONFIG_MAPS, namespace, {"fieldSelector": f"metadata.name={name}"}, name="configuration"
        )
        kinds.insert(0, (target, ConfigurationReader(registry, warn)))
    if jobs_only:
        kinds = [kind for kind in kinds if kind[0].resource in _OF_CONTROLLER]
    if pod_owners:
        kinds[:0] = [(WatchTarget(kind, name=_title(kind)), PodOwnerReader(kind.kind)) for kind in _OWNERS]
    return kinds


def _title(resource: Resource) -> str:
    """Jobs of Kubernetes and vcjobs have the same plural."""
    return "kubernetes-jobs" if resource is KUBERNETES_JOBS else resource.plural
