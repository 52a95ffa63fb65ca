"""The table of kinds: what a watched or stored object is, who hears of it, and how it is read.

Everything that goes over all kinds goes over this table: watches and the rights for them, files, labs and
their folders, journals, the events of objects that come, change and go. CONTRIBUTING.md has the recipe for a
new kind.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Generic, TypeVar

from ringwise import wellknown
from ringwise.framework.configuration import Configuration
from ringwise.manifests.config_maps.switches import topology_from_data
from ringwise.manifests.objects.custom_resources import CustomResourceWire
from ringwise.manifests.objects.groups import (
    namespace_from_wire,
    pod_group_from_wire,
    priority_class_from_wire,
    queue_from_wire,
    resource_quota_from_wire,
)
from ringwise.manifests.objects.isolations import isolation_from_wire
from ringwise.manifests.objects.jobs import vcjob_from_wire
from ringwise.manifests.objects.move_plans import move_plan_from_wire
from ringwise.manifests.objects.network_topology import hyper_node_from_wire
from ringwise.manifests.objects.new_objects import check_new_pod, check_new_pod_group
from ringwise.manifests.objects.node_reservations import node_reservation_from_wire
from ringwise.manifests.objects.nodes import node_from_wire
from ringwise.manifests.objects.pods import PodClassCache, pod_from_wire
from ringwise.manifests.objects.usage_limits import usage_limit_from_wire
from ringwise.manifests.objects.volumes import (
    claim_from_wire,
    csi_driver_from_wire,
    csi_node_from_wire,
    storage_capacity_from_wire,
    storage_class_from_wire,
    volume_from_wire,
)
from ringwise.manifests.objects.workloads import pod_owner_from_wire
from ringwise.manifests.text.errors import DocumentError, Findings
from ringwise.manifests.text.wire import (
    ClaimWire,
    CsiDriverWire,
    CsiNodeWire,
    HyperNodeWire,
    JobWire,
    NamespaceWire,
    NodeWire,
    PersistentVolumeWire,
    PodGroupWire,
    PodOwnerWire,
    PodWire,
    PriorityClassWire,
    QueueWire,
    ResourceQuotaWire,
    StorageCapacityWire,
    StorageClassWire,
)
from ringwise.messages import events as ev
from ringwise.messages.move_plan import MovePlan
from ringwise.records import dataclass
from ringwise.state.limits import UsageLimit
from ringwise.state.model import (
    DeviceReport,
    HyperNode,
    Isolation,
    Namespace,
    Node,
    NodeReport,
    NodeReservation,
    Pod,
    PodGroup,
    PriorityClass,
    Queue,
    ResourceQuota,
)
from ringwise.state.topology_discovery import NO_DISCOVERY, TopologyDiscovery
from ringwise.state.vcjob import VcJob
from ringwise.state.volumes import (
    CsiDriver,
    CsiNode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageCapacity,
    StorageClass,
)
from ringwise.state.workload import PodOwner
from ringwise.topology.switches import SwitchTopology


def discovery_from_data(data: Mapping[str, str], issues: Findings) -> TopologyDiscovery:
    """`networkTopologyDiscovery` in the ConfigMap of the controller; if invalid none, with all errors."""
    from ringwise.manifests.settings.discovery import read_discovery

    field = f"data.{wellknown.CONTROLLER_CONFIG_KEY}"
    try:
        if wellknown.CONTROLLER_CONFIG_KEY in data:
            return read_discovery(data[wellknown.CONTROLLER_CONFIG_KEY], "")
        issues.add_error(field, "Required value")
    except DocumentError as error:
        for problem in error.errors:
            issues.add_error(field, str(problem))
    return NO_DISCOVERY


Value = TypeVar("Value")
Wire = TypeVar("Wire")


class Watcher(enum.Enum):
    """A component that watches kinds; the value names the rights for it in the chart."""

    SCHEDULER = "reader"
    CONTROLLER = "controller"
    ADMISSION = "admission"
    #: The controller, where it makes HyperNodes from labels of nodes.
    DISCOVERY = "discovery"


@dataclass(frozen=True, slots=True)
class Watch:
    """What one list and watch selects of a kind."""

    #: Name in logs and metrics; empty: the plural of the kind.
    name: str = ""
    #: None: the whole cluster.
    namespace: str | None = None
    #: Only objects with this label set to `true`, or the one object of this name.
    label: str = ""
    object: str = ""
    #: A part of one object may move to another object: a node from one chunk of a report to the next.
    #: It is deleted only when no object has it.
    parts_move: bool = False

    @property
    def params(self) -> Mapping[str, str]:
        if self.label:
            return {"labelSelector": f"{self.label}=true"}
        return {"fieldSelector": f"metadata.name={self.object}"} if self.object else {}


@dataclass(frozen=True, slots=True)
class Kind(Generic[Value]):
    """One row."""

    value: type[Value]
    resource: wellknown.ApiResource
    #: The events of one that was added or changed, and of one that was deleted; None: the last one counts on.
    event_type: type[ev.Event]
    gone: type[ev.Event] | None
    #: What they are made of.
    gone_with: Callable[[Any], tuple[Any, ...]] = lambda value: (value.name,)
    event_fields: Callable[[Value], tuple[Any, ...]] = lambda value: (value,)
    watched_by: tuple[Watcher, ...] = (Watcher.SCHEDULER,)
    #: Only where PodGroups are created for pods whose owner creates none.
    for_pod_groups: bool = False
    #: Its struct on the wire, and the reader of that. None: it is in a ConfigMap.
    reader: tuple[type, Callable[[Any, PodClassCache, Findings], Value]] | None = None
    #: What is refused of one that is new, beyond what the reader needs.
    check_new: Callable[[Any, Value, Findings], None] | None = None
    #: For one that is all of a ConfigMap: the reader of its data.
    read_data: Callable[[Mapping[str, str], Findings], Value] | None = None
    #: What is wrong in its data is an error of the file; else it is the reason of the jobs that need it.
    checks_data: bool = False
    watches: tuple[Watch, ...] = (Watch(),)
    #: The API server may not know the kind, where its CRD is not installed.
    optional: bool = False
    #: If it may not be read or is not known, the component continues without it.
    dispensable: bool = False
    #: Whether files and labs have it, and its key in a lab where it is not what a deletion is made of.
    stored: bool = True
    key: Callable[[Value], str] | None = None

    @property
    def name(self) -> str:
        """The name in lab folders and submissions."""
        return self.value.__name__

    def key_of(self, value: Value) -> str:
        return "/".join(self.gone_with(value)) if self.key is None else self.key(value)


def _reader(
    wire: type[Wire], read: Callable[[Wire, Findings], Value]
) -> tuple[type, Callable[[Any, PodClassCache, Findings], Value]]:
    """One that needs no classes of pods."""
    return wire, lambda received, classes, issues: read(received, issues)


def _check_new_pod(wire: PodWire, pod: Pod, issues: Findings) -> None:
    if pod.scheduler in wellknown.SCHEDULER_NAMES:
        check_new_pod(wire, issues)


def report_key(node: str, what: str, aggregated: bool = False) -> str:
    """`what`: the resource of a device report, the source of a report on the node itself."""
    return f"{node}/{what}" + ("/aggregated" if aggregated else "")


def _pod_owner(resource: wellknown.ApiResource, title: str = "") -> Kind[PodOwner]:
    """The PodGroups of its pods follow its annotations and replicas."""
    return Kind(
        PodOwner,
        resource,
        ev.PodOwnerSeen,
        ev.PodOwnerGone,
        lambda owner: (owner.uid,),
        watched_by=(Watcher.CONTROLLER,),
        for_pod_groups=True,
        reader=_reader(PodOwnerWire, partial(pod_owner_from_wire, resource.kind)),
        watches=(Watch(title),),
        stored=False,
    )


_ALL = (Watcher.SCHEDULER, Watcher.CONTROLLER, Watcher.ADMISSION)
_BOTH = (Watcher.SCHEDULER, Watcher.CONTROLLER)
_DISCOVERED = (Watcher.SCHEDULER, Watcher.DISCOVERY)

#: In the order in which they are watched, loaded and stored: what others need comes first.
KINDS: tuple[Kind[Any], ...] = (
    _pod_owner(wellknown.ApiResource(wellknown.DEPLOYMENT_API, "ReplicaSet", "replicasets")),
    _pod_owner(wellknown.ApiResource(wellknown.DEPLOYMENT_API, "StatefulSet", "statefulsets")),
    _pod_owner(wellknown.DAEMON_SETS),
    # Jobs of Kubernetes and vcjobs have the same plural.
    _pod_owner(wellknown.ApiResource(wellknown.KUBERNETES_JOB_API, "Job", "jobs"), "kubernetes-jobs"),
    _pod_owner(wellknown.ApiResource("v1", "ReplicationController", "replicationcontrollers")),
    Kind(
        Configuration,
        wellknown.CONFIG_MAPS,
        ev.ConfigurationSeen,
        None,
        watched_by=(Watcher.SCHEDULER, Watcher.ADMISSION),
        # Which ConfigMap it is, is an option of the component.
        watches=(),
        stored=False,
    ),
    Kind(
        Node,
        wellknown.NODES,
        ev.NodeSeen,
        ev.NodeGone,
        watched_by=_DISCOVERED,
        reader=_reader(NodeWire, node_from_wire),
    ),
    Kind(
        DeviceReport,
        wellknown.CONFIG_MAPS,
        ev.ReportSeen,
        ev.ReportGone,
        lambda report: (report.node, report.aggregated),
        watches=(
            Watch("node-reports", wellknown.KUBE_SYSTEM, wellknown.NODE_REPORT_LABEL),
            Watch("node-health", wellknown.MINDX_DL, wellknown.NODE_REPORT_LABEL),
            Watch("cluster-reports", wellknown.MINDX_DL, wellknown.CLUSTER_REPORT_LABEL, parts_move=True),
        ),
        key=lambda report: report_key(report.node, report.resource, report.aggregated),
    ),
    Kind(
        NodeReport,
        wellknown.CONFIG_MAPS,
        ev.NodeReportSeen,
        ev.NodeReportGone,
        lambda report: (report.node, report.source, report.aggregated),
        # In the ConfigMaps of the device reports and beside them.
        watches=(),
        key=lambda report: report_key(report.node, report.source, report.aggregated),
    ),
    Kind(
        SwitchTopology,
        wellknown.CONFIG_MAPS,
        ev.TopologySeen,
        ev.TopologySeen,
        lambda topology: (None,),
        lambda topology: (topology, topology.unusable),
        watched_by=(Watcher.SCHEDULER, Watcher.ADMISSION),
        read_data=topology_from_data,
        watches=(Watch("topology", wellknown.KUBE_SYSTEM, object=wellknown.TOR_NODE_CONFIG_MAP),),
        key=lambda topology: "leaf-switches",
    ),
    Kind(
        Isolation,
        wellknown.ISOLATIONS,
        ev.IsolationSeen,
        ev.IsolationGone,
        reader=_reader(CustomResourceWire, isolation_from_wire),
        optional=True,
    ),
    Kind(
        NodeReservation,
        wellknown.NODE_RESERVATIONS,
        ev.NodeReservationSeen,
        ev.NodeReservationGone,
        reader=_reader(CustomResourceWire, node_reservation_from_wire),
        optional=True,
    ),
    Kind(
        MovePlan,
        wellknown.MOVE_PLANS,
        ev.MovePlanSeen,
        ev.MovePlanGone,
        lambda plan: (plan.id,),
        reader=_reader(CustomResourceWire, move_plan_from_wire),
        optional=True,
    ),
    Kind(
        UsageLimit,
        wellknown.USAGE_LIMITS,
        ev.UsageLimitSeen,
        ev.UsageLimitGone,
        reader=_reader(CustomResourceWire, usage_limit_from_wire),
        optional=True,
    ),
    Kind(
        TopologyDiscovery,
        wellknown.CONFIG_MAPS,
        ev.TopologyDiscoverySeen,
        ev.TopologyDiscoverySeen,
        lambda discovery: (NO_DISCOVERY,),
        watched_by=(Watcher.DISCOVERY,),
        read_data=discovery_from_data,
        checks_data=True,
        # On a cluster its namespace and name are an option of the component.
        watches=(Watch("discovery", wellknown.VOLCANO_SYSTEM, object=wellknown.CONTROLLER_CONFIG_MAP),),
        key=lambda discovery: wellknown.CONTROLLER_CONFIG_MAP,
    ),
    Kind(
        Queue,
        wellknown.QUEUES,
        ev.QueueSeen,
        ev.QueueGone,
        watched_by=_ALL,
        reader=_reader(QueueWire, queue_from_wire),
        optional=True,
    ),
    Kind(
        Namespace,
        wellknown.ApiResource("v1", "Namespace", "namespaces", namespaced=False),
        ev.NamespaceSeen,
        ev.NamespaceGone,
        reader=_reader(NamespaceWire, namespace_from_wire),
        optional=True,
    ),
    Kind(
        HyperNode,
        wellknown.HYPER_NODES,
        ev.HyperNodeSeen,
        ev.HyperNodeGone,
        watched_by=_DISCOVERED,
        reader=_reader(HyperNodeWire, hyper_node_from_wire),
        dispensable=True,
    ),
    Kind(
        StorageClass,
        wellknown.ApiResource(wellknown.STORAGE_API, "StorageClass", "storageclasses", namespaced=False),
        ev.StorageClassSeen,
        ev.StorageClassGone,
        reader=_reader(StorageClassWire, storage_class_from_wire),
        dispensable=True,
    ),
    Kind(
        CsiNode,
        wellknown.ApiResource(wellknown.STORAGE_API, "CSINode", "csinodes", namespaced=False),
        ev.CsiNodeSeen,
        ev.CsiNodeGone,
        reader=_reader(CsiNodeWire, csi_node_from_wire),
        dispensable=True,
    ),
    Kind(
        CsiDriver,
        wellknown.ApiResource(wellknown.STORAGE_API, "CSIDriver", "csidrivers", namespaced=False),
        ev.CsiDriverSeen,
        ev.CsiDriverGone,
        reader=_reader(CsiDriverWire, csi_driver_from_wire),
        dispensable=True,
    ),
    Kind(
        StorageCapacity,
        wellknown.ApiResource(wellknown.STORAGE_API, "CSIStorageCapacity", "csistoragecapacities"),
        ev.StorageCapacitySeen,
        ev.StorageCapacityGone,
        lambda capacity: (capacity.namespace, capacity.name),
        reader=_reader(StorageCapacityWire, storage_capacity_from_wire),
        dispensable=True,
    ),
    Kind(
        PersistentVolume,
        wellknown.VOLUMES,
        ev.VolumeSeen,
        ev.VolumeGone,
        reader=_reader(PersistentVolumeWire, volume_from_wire),
        dispensable=True,
    ),
    Kind(
        PersistentVolumeClaim,
        wellknown.CLAIMS,
        ev.ClaimSeen,
        ev.ClaimGone,
        lambda claim: (claim.key,),
        reader=_reader(ClaimWire, claim_from_wire),
        dispensable=True,
    ),
    Kind(
        PriorityClass,
        wellknown.ApiResource(wellknown.PRIORITY_API, "PriorityClass", "priorityclasses", namespaced=False),
        ev.PriorityClassSeen,
        ev.PriorityClassGone,
        watched_by=_BOTH,
        reader=_reader(PriorityClassWire, priority_class_from_wire),
    ),
    Kind(
        ResourceQuota,
        wellknown.ApiResource("v1", "ResourceQuota", "resourcequotas"),
        ev.QuotaSeen,
        ev.QuotaGone,
        lambda quota: (quota.namespace, quota.name),
        watched_by=(Watcher.SCHEDULER, Watcher.ADMISSION),
        reader=_reader(ResourceQuotaWire, resource_quota_from_wire),
        optional=True,
    ),
    Kind(
        VcJob,
        wellknown.VCJOBS,
        ev.VcJobSeen,
        ev.VcJobGone,
        lambda job: (job.key,),
        watched_by=_BOTH,
        reader=(JobWire, vcjob_from_wire),
        optional=True,
    ),
    Kind(
        PodGroup,
        wellknown.POD_GROUPS,
        ev.PodGroupSeen,
        ev.PodGroupGone,
        lambda group: (group.key,),
        watched_by=_BOTH,
        reader=_reader(PodGroupWire, pod_group_from_wire),
        check_new=lambda wire, group, issues: check_new_pod_group(wire, issues),
        optional=True,
    ),
    Kind(
        Pod,
        wellknown.PODS,
        ev.PodSeen,
        ev.PodGone,
        lambda pod: (pod.uid,),
        watched_by=_BOTH,
        reader=(PodWire, pod_from_wire),
        check_new=_check_new_pod,
        key=lambda pod: pod.key,
    ),
)

#: By the type of their values; those of all owners of pods are alike.
KIND_OF: Mapping[type, Kind[Any]] = {kind.value: kind for kind in KINDS}
_BY_EVENT_TYPE: dict[type, Kind[Any]] = {kind.event_type: kind for kind in KINDS}
#: Those that files contain and labs store, by the type of their values.
STORED: Mapping[type, Kind[Any]] = {kind.value: kind for kind in KINDS if kind.stored}
#: Of these, those with a reader of their own, by group and kind.
READABLE: Mapping[tuple[str, str], Kind[Any]] = {
    (kind.resource.group, kind.resource.kind): kind for kind in STORED.values() if kind.reader is not None
}
#: Those that are all of one ConfigMap, by its name.
IN_CONFIG_MAPS: Mapping[str, Kind[Any]] = {
    kind.watches[0].object: kind for kind in KINDS if kind.read_data is not None
}


def event_of_object(value: object) -> ev.Event | None:
    """The event of an object that was added or changed; None for objects that no decision depends on."""
    kind = KIND_OF.get(type(value))
    return None if kind is None else kind.event_type(*kind.event_fields(value))


def event_of_deletion(value: object) -> ev.Event | None:
    """The event of an object that was deleted; None where nothing follows from that."""
    kind = KIND_OF.get(type(value))
    return None if kind is None or kind.gone is None else kind.gone(*kind.gone_with(value))


def deletion_of(event: ev.Event) -> ev.Event:
    """The event of the deletion of the object that was seen; that of a deletion is itself."""
    kind = _BY_EVENT_TYPE.get(type(event))
    value = None if kind is None else getattr(event, type(event).__match_args__[0])
    return event if kind is None or kind.gone is None else kind.gone(*kind.gone_with(value))


def events_of(kinds: Iterable[Kind[Any]] = KINDS) -> Iterator[type[ev.Event]]:
    for kind in kinds:
        yield kind.event_type
        if kind.gone is not None:
            yield kind.gone


def watched_by(component: Watcher) -> frozenset[type[ev.Event]]:
    """The events that it needs."""
    return frozenset(events_of(kind for kind in KINDS if component in kind.watched_by))


def rights(component: Watcher) -> list[dict[str, list[str]]]:
    """Rules of RBAC for what it watches in the whole cluster; its ConfigMaps are in single namespaces."""
    watched: dict[str, list[str]] = {}
    for kind in KINDS:
        if component in kind.watched_by and any(watch.namespace is None for watch in kind.watches):
            watched.setdefault(kind.resource.group, []).append(kind.resource.plural)
    return [
        {"apiGroups": [group], "resources": sorted(plurals), "verbs": ["list", "watch"]}
        for group, plurals in sorted(watched.items())
    ]
