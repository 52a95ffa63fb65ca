"""The events that scheduler and controller handle. Each describes an object completely; none is an order.

An event may arrive twice or late: handling it again changes nothing.
"""

from __future__ import annotations

import enum

from ringwise.framework.configuration import Configuration
from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.state.model import (
    DeviceReport,
    Isolations,
    Node,
    NodeReport,
    Pod,
    PodGroup,
    PriorityClass,
    Queue,
    ResourceQuota,
)
from ringwise.state.queue_rules import DEFAULT_NAMESPACE
from ringwise.state.vcjob import VcJob
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


@dataclass(frozen=True, slots=True)
class NodeSeen:
    node: Node


@dataclass(frozen=True, slots=True)
class NodeGone:
    name: str


@dataclass(frozen=True, slots=True)
class PodSeen:
    pod: Pod


@dataclass(frozen=True, slots=True)
class PodGone:
    uid: str


@dataclass(frozen=True, slots=True)
class PodGroupSeen:
    group: PodGroup


@dataclass(frozen=True, slots=True)
class PodGroupGone:
    key: str


@dataclass(frozen=True, slots=True)
class QueueSeen:
    queue: Queue


@dataclass(frozen=True, slots=True)
class QueueGone:
    name: str


@dataclass(frozen=True, slots=True)
class PriorityClassSeen:
    priority_class: PriorityClass


@dataclass(frozen=True, slots=True)
class PriorityClassGone:
    name: str


@dataclass(frozen=True, slots=True)
class QuotaSeen:
    quota: ResourceQuota


@dataclass(frozen=True, slots=True)
class QuotaGone:
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class VcJobSeen:
    job: VcJob


@dataclass(frozen=True, slots=True)
class VcJobGone:
    key: str


@dataclass(frozen=True, slots=True)
class PodOwnerSeen:
    """For the controller alone."""

    owner: PodOwner


@dataclass(frozen=True, slots=True)
class PodOwnerGone:
    uid: str


@dataclass(frozen=True, slots=True)
class ReportSeen:
    report: DeviceReport


@dataclass(frozen=True, slots=True)
class ReportGone:
    node: str
    aggregated: bool = False


@dataclass(frozen=True, slots=True)
class NodeReportSeen:
    """NodeD's report of a node, or that of the node's own switches."""

    report: NodeReport


@dataclass(frozen=True, slots=True)
class NodeReportGone:
    node: str
    source: str
    aggregated: bool = False


@dataclass(frozen=True, slots=True)
class ReschedulingRead:
    """F1: what the previous leader wrote about jobs that are being rescheduled. Read once, at the start."""

    document: str = ""
    #: The value of `recent-reschedule-records`.
    records: str = ""
    #: F3: the chips that jobs avoid.
    cool_downs: str = ""
    #: The value of `fault-node`.
    fault_nodes: str = ""


@dataclass(frozen=True, slots=True)
class TopologySeen:
    """The leaf switches; None when the ConfigMap is absent or unusable, with the reason."""

    topology: SwitchTopology | None
    problem: Reason | None = None


@dataclass(frozen=True, slots=True)
class IsolationsSeen:
    """All nodes and chips that are isolated; none when the ConfigMap is absent."""

    isolations: Isolations


@dataclass(frozen=True, slots=True)
class ConfigurationSeen:
    configuration: Configuration


@dataclass(frozen=True, slots=True)
class BindFailed:
    """A binding failed; its chips are free again."""

    uid: str
    why: str


@dataclass(frozen=True, slots=True)
class EvictFailed:
    """An eviction, or the deletion of a faulty pod, failed; the pod stays."""

    uid: str
    #: Which disruption budget does not allow it; empty for any other reason.
    why: str = ""


@dataclass(frozen=True, slots=True)
class JobCommand:
    """A bus.volcano.sh Command for a vcjob: AbortJob, ResumeJob, RestartJob, TerminateJob, CompleteJob."""

    key: str
    action: str


@dataclass(frozen=True, slots=True)
class JobHeldUp:
    """What a vcjob needs before its pods could not be made, and is tried again. For the controller alone."""

    key: str
    uid: str
    why: str


@dataclass(frozen=True, slots=True)
class QueueCommand:
    """A bus.volcano.sh Command for a queue: OpenQueue or CloseQueue. For the controller alone."""

    name: str
    action: str
    #: Namespace, name and uid of the Command itself. Queues have no namespace: who may write into this one
    #: asks for it.
    namespace: str = DEFAULT_NAMESPACE
    command: str = ""
    uid: str = ""


Event = (
    NodeSeen
    | NodeGone
    | PodSeen
    | PodGone
    | PodGroupSeen
    | PodGroupGone
    | QueueSeen
    | QueueGone
    | PriorityClassSeen
    | PriorityClassGone
    | QuotaSeen
    | QuotaGone
    | PodOwnerSeen
    | PodOwnerGone
    | VcJobSeen
    | VcJobGone
    | ReportSeen
    | ReportGone
    | NodeReportSeen
    | NodeReportGone
    | ReschedulingRead
    | TopologySeen
    | IsolationsSeen
    | ConfigurationSeen
    | BindFailed
    | EvictFailed
    | JobCommand
    | JobHeldUp
    | QueueCommand
)
