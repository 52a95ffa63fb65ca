"""The kinds that are watched: which objects, in which namespace, and the reader of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import partial
from typing import Any

from ringwise.framework.configuration import Configuration
from ringwise.framework.registry import Registry
from ringwise.kube.watch import readers
from ringwise.kube.watch.config_map_readers import ConfigurationReader, DiscoveryReader, ReportReader
from ringwise.kube.watch.objects import KeyedObjects
from ringwise.kubeclient.resources import Resource
from ringwise.log import Logger
from ringwise.manifests.kinds import KINDS, Kind, Watch, Watcher
from ringwise.manifests.objects.pods import PodClassCache
from ringwise.manifests.text.errors import Findings, shown
from ringwise.records import dataclass
from ringwise.scheduler.defaults import BUILT_IN
from ringwise.state.model import DeviceReport, HyperNode, Pod, PodGroup, Queue
from ringwise.state.topology_discovery import TopologyDiscovery
from ringwise.state.vcjob import VcJob
from ringwise.views.written_reasons import WrittenReasons
from ringwise.wellknown import OPERATOR_GROUP

_LOG = Logger()


@dataclass(frozen=True, slots=True)
class WatchTarget:
    """The objects of one list and watch."""

    resource: Resource
    namespace: str | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    #: The server may not know the kind, where its CRD is not installed.
    optional: bool = False
    #: If the component may not read the kind, it continues without it.
    dispensable: bool = False
    #: A part of one object may move to another object: a node from one chunk of a report to the next.
    #: It is deleted only when no object has it.
    parts_move: bool = False
    #: Name in logs and metrics.
    name: str = ""

    @classmethod
    def of(cls, kind: Kind[Any], watch: Watch) -> WatchTarget:
        return cls(
            Resource(*kind.resource),
            watch.namespace,
            watch.params,
            kind.optional or kind.dispensable,
            kind.dispensable,
            watch.parts_move,
            watch.name,
        )

    @property
    def path(self) -> str:
        return self.resource.path(self.namespace)

    @property
    def is_retained(self) -> bool:
        """A kind that is not served is not an empty list: the last known objects stay."""
        return self.resource.group == OPERATOR_GROUP

    @property
    def title(self) -> str:
        return self.name or self.resource.plural

    def permission(self, verb: str = "list") -> str:
        """The missing permission in the terms of RBAC."""
        group = self.resource.group
        resource = f"{self.resource.plural}.{group}" if group else self.resource.plural
        where = f" in namespace {self.namespace}" if self.namespace else " in the whole cluster"
        roles = "ClusterRole ringwise-reader and docs/reference/rbac.md"
        return f"you need the verb {verb} on {resource}{where} ({roles})"


#: Turns bytes of the API into state objects.
Reader = readers.ObjectReader[Any]


def read_object(reader: Reader, received: object, issues: Findings) -> KeyedObjects | None:
    """Readers report what is wrong with an object. One that raises must cost that object only."""
    try:
        return reader.read(received, issues)
    except Exception as error:
        _LOG.error("reader failed", object=issues.origin, error=error)
        issues.add_error("", f"cannot be read: {type(error).__name__}: {shown(str(error))}")
        return None


def stand_in_for(reader: Reader, received: object, before: KeyedObjects, origin: str) -> KeyedObjects:
    """What stands for an unreadable object; its last good version if even that raises."""
    try:
        return reader.stand_in(received, before, origin)
    except Exception as error:
        _LOG.error("reader failed", object=origin, error=error)
        return before


def watched_kinds(
    observed: readers.Observed,
    configuration: tuple[str, str] | None = None,
    *,
    discovery: tuple[str, str] | None = None,
    component: Watcher = Watcher.SCHEDULER,
    pod_owners: bool = False,
    registry: Registry = BUILT_IN,
    written: WrittenReasons | None = None,
    warn: Callable[[str], object] = lambda warning: None,
) -> list[tuple[WatchTarget, Reader]]:
    """Everything that `component` watches; pods last, when all nodes are known.

    `configuration` is namespace and name of the ConfigMap with the scheduler's configuration, None when it
    comes from a file. `discovery` is that of the ConfigMap that says which HyperNodes the controller makes;
    None: none. `pod_owners` adds what the PodGroups of ordinary pods follow. `written` gets the reasons that
    conditions tell. `warn` is called with each warning about the configuration.
    """
    classes = PodClassCache()
    # Those that keep more than values. All others need their row in the table alone.
    special: Mapping[type, Callable[[], Reader]] = {
        Configuration: lambda: ConfigurationReader(registry, warn),
        TopologyDiscovery: lambda: DiscoveryReader(warn),
        DeviceReport: ReportReader,
        Queue: lambda: readers.QueueReader(observed.queues),
        HyperNode: lambda: readers.HyperNodeReader(observed.hyper_nodes),
        VcJob: lambda: readers.JobReader(classes, observed.templates),
        PodGroup: lambda: (
            readers.GroupReader(observed.groups)
            if written is None
            else readers.ReasonGroupReader(observed.groups, written)
        ),
        Pod: lambda: (
            readers.PodReader(classes) if written is None else readers.ReasonPodReader(classes, written)
        ),
    }
    result: list[tuple[WatchTarget, Reader]] = []
    for kind in KINDS:
        discovers = discovery is not None and Watcher.DISCOVERY in kind.watched_by
        if not (pod_owners if kind.for_pod_groups else component in kind.watched_by or discovers):
            continue
        watches = kind.watches
        if kind.value is TopologyDiscovery and discovery is not None:
            watches = (Watch("discovery", discovery[0], object=discovery[1]),)
        if kind.value is Configuration and configuration is not None:
            watches = (Watch("configuration", configuration[0], object=configuration[1]),)
        plain: Callable[[], Reader] = partial(readers.PlainReader, kind, classes, observed.conditions)
        if kind.read_data is not None:
            plain = partial(readers.DataReader, kind)
        result += [(WatchTarget.of(kind, watch), special.get(kind.value, plain)()) for watch in watches]
    return result
