"""The events that scheduler and controller handle. Each describes an object completely; none is an order.

An event may arrive twice or late: handling it again changes nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from ringwise.framework.configuration import Configuration
from ringwise.messages.accounting import AccountedJob, JobWaits, PodHeld
from ringwise.messages.expected_start import ExpectedStart
from ringwise.messages.move_plan import MovePlan
from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.state.limits import UsageLimit
from ringwise.state.model import (
    EMPTY,
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
from ringwise.state.queue_rules import DEFAULT_NAMESPACE
from ringwise.state.topology_discovery import TopologyDiscovery
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


class Decide(enum.Enum):
    """How much the scheduler decides in a turn."""

    #: Only apply the events: a standby replica, admission.
    NOTHING = "nothing"
    #: One cycle over the active jobs, without new reservations: a what-if on manifests.
    ONE_CYCLE = "one-cycle"
    #: Cycles until no job is active, then everything that is due.
    ALL = "all"


class Event:
    """Those about objects of a kind stand in the table of kinds (`manifests/kinds.py`)."""

    __slots__ = ()
    __match_args__: tuple[str, ...]
    #: Kind of the object that it is about.
    kind = "ConfigMap"

    def __init_subclass__(cls, kind: str = "") -> None:
        if kind:
            cls.kind = kind

    @property
    def subject(self) -> Any:
        """Its object; the key, name or uid of an object that is gone."""
        return getattr(self, type(self).__match_args__[0])

    @property
    def about(self) -> tuple[str, str]:
        """Kind and key (`namespace/name`, name or uid) of its object."""
        first = self.subject
        if isinstance(first, str):
            return self.kind, first
        names = (getattr(first, name, "") for name in ("key", "name", "id", "node"))
        return self.kind, next(filter(None, names), type(self).__name__)


@dataclass(frozen=True, slots=True)
class NamedObjectGone(Event):
    name: str


@dataclass(frozen=True, slots=True)
class KeyedObjectGone(Event):
    key: str


@dataclass(frozen=True, slots=True)
class NamespacedObjectGone(Event):
    namespace: str
    name: str

    @property
    def about(self) -> tuple[str, str]:
        return self.kind, f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class NodeSeen(Event, kind="Node"):
    node: Node


class NodeGone(NamedObjectGone, kind="Node"):
    """The Node was deleted."""


@dataclass(frozen=True, slots=True)
class PodSeen(Event, kind="Pod"):
    pod: Pod


@dataclass(frozen=True, slots=True)
class PodGone(Event, kind="Pod"):
    uid: str


@dataclass(frozen=True, slots=True)
class PodGroupSeen(Event, kind="PodGroup"):
    group: PodGroup


class PodGroupGone(KeyedObjectGone, kind="PodGroup"):
    """The PodGroup was deleted."""


@dataclass(frozen=True, slots=True)
class QueueSeen(Event, kind="Queue"):
    queue: Queue


class QueueGone(NamedObjectGone, kind="Queue"):
    """The Queue was deleted."""


@dataclass(frozen=True, slots=True)
class NamespaceSeen(Event, kind="Namespace"):
    namespace: Namespace


class NamespaceGone(NamedObjectGone, kind="Namespace"):
    """The Namespace was deleted."""


@dataclass(frozen=True, slots=True)
class HyperNodeSeen(Event, kind="HyperNode"):
    hyper_node: HyperNode


class HyperNodeGone(NamedObjectGone, kind="HyperNode"):
    """The HyperNode was deleted."""


@dataclass(frozen=True, slots=True)
class StorageClassSeen(Event, kind="StorageClass"):
    storage_class: StorageClass


class StorageClassGone(NamedObjectGone, kind="StorageClass"):
    """The StorageClass was deleted."""


@dataclass(frozen=True, slots=True)
class CsiNodeSeen(Event, kind="CSINode"):
    csi_node: CsiNode


class CsiNodeGone(NamedObjectGone, kind="CSINode"):
    """The CSINode was deleted."""


@dataclass(frozen=True, slots=True)
class CsiDriverSeen(Event, kind="CSIDriver"):
    driver: CsiDriver


class CsiDriverGone(NamedObjectGone, kind="CSIDriver"):
    """The CSIDriver was deleted."""


@dataclass(frozen=True, slots=True)
class StorageCapacitySeen(Event, kind="CSIStorageCapacity"):
    capacity: StorageCapacity


class StorageCapacityGone(NamespacedObjectGone, kind="CSIStorageCapacity"):
    """The CSIStorageCapacity was deleted."""


@dataclass(frozen=True, slots=True)
class VolumeSeen(Event, kind="PersistentVolume"):
    volume: PersistentVolume


class VolumeGone(NamedObjectGone, kind="PersistentVolume"):
    """The PersistentVolume was deleted."""


@dataclass(frozen=True, slots=True)
class ClaimSeen(Event, kind="PersistentVolumeClaim"):
    claim: PersistentVolumeClaim


class ClaimGone(KeyedObjectGone, kind="PersistentVolumeClaim"):
    """The PersistentVolumeClaim was deleted."""


@dataclass(frozen=True, slots=True)
class PriorityClassSeen(Event, kind="PriorityClass"):
    priority_class: PriorityClass


class PriorityClassGone(NamedObjectGone, kind="PriorityClass"):
    """The PriorityClass was deleted."""


@dataclass(frozen=True, slots=True)
class QuotaSeen(Event, kind="ResourceQuota"):
    quota: ResourceQuota


class QuotaGone(NamespacedObjectGone, kind="ResourceQuota"):
    """The ResourceQuota was deleted."""


@dataclass(frozen=True, slots=True)
class VcJobSeen(Event, kind="Job"):
    job: VcJob


class VcJobGone(KeyedObjectGone, kind="Job"):
    """The Job was deleted."""


@dataclass(frozen=True, slots=True)
class PodOwnerSeen(Event):
    """For the controller alone."""

    owner: PodOwner

    @property
    def about(self) -> tuple[str, str]:
        return self.owner.kind, self.owner.key


@dataclass(frozen=True, slots=True)
class PodOwnerGone(Event, kind="PodOwner"):
    uid: str


@dataclass(frozen=True, slots=True)
class ReportSeen(Event):
    report: DeviceReport


@dataclass(frozen=True, slots=True)
class ReportGone(Event):
    node: str
    aggregated: bool = False


@dataclass(frozen=True, slots=True)
class NodeReportSeen(Event):
    """NodeD's report of a node, or that of the node's own switches."""

    report: NodeReport

    @property
    def about(self) -> tuple[str, str]:
        return self.kind, f"{self.report.source}/{self.report.node}"


@dataclass(frozen=True, slots=True)
class NodeReportGone(Event):
    node: str
    source: str
    aggregated: bool = False

    @property
    def about(self) -> tuple[str, str]:
        return self.kind, f"{self.source}/{self.node}"


@dataclass(frozen=True, slots=True)
class LeaderRecordRead(Event):
    """F1: the record of the previous leader, read once at the start. Copies and questions get it, too."""

    #: By data key, from all its objects.
    tables: Mapping[str, str] = field(default=EMPTY, hash=False)
    #: The value of `recent-reschedule-records`.
    records: str = ""
    #: The value of `fault-node`.
    fault_nodes: str = ""
    #: Whether the reader takes over from the writer.
    takes_over: bool = True


@dataclass(frozen=True, slots=True)
class AccountsRead(Event):
    """What the previous leader accounted for. Read once, at the start; without it there is no accounting."""

    #: Pods that held chips, and jobs that waited, when it was written.
    held: tuple[PodHeld, ...] = ()
    waits: tuple[JobWaits, ...] = ()
    #: Uids of pods that ended shortly before, and are counted.
    ended: tuple[str, ...] = ()
    #: Jobs that had started before, and were not gone.
    ran: tuple[AccountedJob, ...] = ()
    #: When it was written, in nanoseconds; 0: nothing was written before.
    written: int = 0


@dataclass(frozen=True, slots=True)
class EstimatedStart:
    """When a job is expected to start, by its key."""

    job: str
    start: ExpectedStart


@dataclass(frozen=True, slots=True)
class StartsEstimated(Event):
    """When the waiting jobs are expected to start: all of them, as found on a copy of the state.

    In the order in which the jobs of a queue are served. It takes the place of the one before.
    """

    starts: tuple[EstimatedStart, ...]


@dataclass(frozen=True, slots=True)
class TopologySeen(Event):
    """The leaf switches; None when the ConfigMap is absent or unusable, with the reason."""

    topology: SwitchTopology | None
    problem: Reason | None = None


@dataclass(frozen=True, slots=True)
class IsolationSeen(Event, kind="Isolation"):
    isolation: Isolation


class IsolationGone(NamedObjectGone, kind="Isolation"):
    """The Isolation was deleted."""


@dataclass(frozen=True, slots=True)
class NodeReservationSeen(Event, kind="NodeReservation"):
    reservation: NodeReservation


class NodeReservationGone(NamedObjectGone, kind="NodeReservation"):
    """The NodeReservation was deleted."""


@dataclass(frozen=True, slots=True)
class KindServed(Event):
    """Whether the API server serves a kind, such as `NodeReservation`, whose last known objects stay."""

    resource: str
    served: bool


@dataclass(frozen=True, slots=True)
class MovePlanSeen(Event, kind="MovePlan"):
    """M1: jobs are to be moved as this plan says, if it is approved and still holds."""

    plan: MovePlan


class MovePlanGone(NamedObjectGone, kind="MovePlan"):
    """The MovePlan was deleted."""


@dataclass(frozen=True, slots=True)
class UsageLimitSeen(Event, kind="UsageLimit"):
    limit: UsageLimit


class UsageLimitGone(NamedObjectGone, kind="UsageLimit"):
    """The UsageLimit was deleted."""


@dataclass(frozen=True, slots=True)
class TopologyDiscoverySeen(Event):
    """Which HyperNodes are made from labels of nodes; none where the ConfigMap is absent."""

    discovery: TopologyDiscovery


@dataclass(frozen=True, slots=True)
class ConfigurationSeen(Event):
    configuration: Configuration


@dataclass(frozen=True, slots=True)
class BindFailed(Event, kind="Pod"):
    """A binding failed; its chips are free again."""

    uid: str
    why: str


@dataclass(frozen=True, slots=True)
class ClaimFailed(Event, kind="PersistentVolumeClaim"):
    """Its node or its volume could not be written (`SelectNode`, `BindVolume`): the job is tried again."""

    #: Of the claim.
    key: str
    why: str


@dataclass(frozen=True, slots=True)
class EvictFailed(Event, kind="Pod"):
    """An eviction, or the deletion of a faulty pod, failed; the pod stays."""

    uid: str
    #: Which disruption budget does not allow it, or what the API server said.
    why: str = ""
    #: Nothing forbids it: others were refused with which it makes room, and it would have been in vain.
    in_vain: bool = False


@dataclass(frozen=True, slots=True)
class JobCommand(Event, kind="Job"):
    """A bus.volcano.sh Command for a vcjob: AbortJob, ResumeJob, RestartJob, TerminateJob, CompleteJob."""

    key: str
    action: str
    #: What its user says about it.
    message: str = ""


@dataclass(frozen=True, slots=True)
class JobHeldUp(Event, kind="Job"):
    """What a vcjob needs before its pods could not be made, and is tried again. For the controller alone."""

    key: str
    uid: str
    why: str


@dataclass(frozen=True, slots=True)
class QueueCommand(Event, kind="Queue"):
    """A bus.volcano.sh Command for a queue: OpenQueue or CloseQueue. For the controller alone."""

    name: str
    action: str
    #: Namespace, name and uid of the Command itself. Queues have no namespace: who may write into this one
    #: asks for it.
    namespace: str = DEFAULT_NAMESPACE
    command: str = ""
    uid: str = ""
