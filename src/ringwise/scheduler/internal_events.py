"""Events that follow from the events of the cluster and from decisions: components handle these, too.

An event is never changed. The classes are nevertheless not frozen and not tuples: several events follow from
every report of a pod, and creating such an object would take twice as long.
"""

from __future__ import annotations

from ringwise.framework.job import Job
from ringwise.messages.commands import Evict
from ringwise.records import dataclass
from ringwise.state.model import Pod
from ringwise.state.storage_capacities import StorageGrowth
from ringwise.state.vcjob import VcJob

# -- jobs ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class JobEvent:
    job: Job


class JobSeen(JobEvent):
    """One of its objects was seen, and it is there."""


class JobChanged(JobEvent):
    """Its pods came, went or got other nodes, or it lost an object."""


@dataclass(slots=True)
class JobSpecChanged:
    """A pod or the PodGroup of the job came, went or changed."""

    key: str


class JobSettled(JobEvent):
    """A cycle decided about it."""


class JobRefreshed(JobEvent):
    """It was read again, because one of its objects changed."""


class JobSkipped(JobEvent):
    """It was active, but is not tried in this cycle."""


class JobStatusChanged(JobEvent):
    """Its reason, its priority or its expected start is different."""


class ReservationChanged(JobEvent):
    """A reservation for it was made or ended."""


class JobGone(JobEvent):
    """It has no objects left."""


class AdmissionEnded(JobEvent):
    """It was admitted and is Pending again: what it was promised is free."""


class HardwareBroke(JobEvent):
    """Hardware, not the job itself, is why pods of it failed."""


@dataclass(slots=True)
class GroupSeen:
    job: Job
    #: Its labels, annotations or phase are not those of before.
    changed: bool


@dataclass(slots=True)
class VcJobOver:
    vcjob: VcJob
    job: Job | None


@dataclass(slots=True)
class VcJobRemoved:
    """It is about to be forgotten."""

    vcjob: VcJob


# -- pods ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class PodEnding:
    """State and job have the pod as it was. `pod` is as it will be, ended or terminating; None: gone."""

    uid: str
    pod: Pod | None


@dataclass(slots=True)
class PodChanged:
    job: Job | None
    pod: Pod
    #: The numbers of its node before and now; -1: none.
    before: int
    node: int
    #: It no longer holds its chips.
    lost: bool
    #: A pod without a PodGroup was bound here, and that is confirmed: nothing else follows from it.
    only_confirmed: bool


@dataclass(slots=True)
class PodConfirmed:
    """The first report of it since it was bound here."""

    uid: str


@dataclass(slots=True)
class PodEvent:
    job: Job
    pod: Pod


class PodLeaving(PodEvent):
    """It is on a node and begins to be deleted."""


@dataclass(slots=True)
class PodRemoved:
    """State and job no longer have the pod."""

    job: Job | None
    uid: str
    #: Name and number of the node it was on.
    node: str | None
    number: int


class PlacementLost(PodEvent):
    """A pod whose placement is remembered is gone or has ended."""


class PodDrained(PodEvent):
    """It begins to be deleted because its node is drained."""


@dataclass(slots=True)
class PodBound:
    job: Job
    node: str
    chips: tuple[int, ...]


@dataclass(slots=True)
class BindingFailed(PodEvent):
    node: str
    why: str


@dataclass(slots=True)
class DeletingPod:
    """The pod is about to be deleted because of a fault."""

    uid: str


@dataclass(slots=True)
class PodEvicted:
    """An action evicts it, mostly to make room for another job."""

    command: Evict

    @property
    def uid(self) -> str:
        return self.command.uid


# -- the cluster --------------------------------------------------------------------------------


@dataclass(slots=True)
class NodeChanged:
    """The node, its chips or reports about it."""

    name: str


@dataclass(slots=True)
class ClusterChanged:
    """Nodes, switches or settings."""


@dataclass(slots=True)
class LimitsChanged:
    """The UsageLimits in force."""


@dataclass(slots=True)
class ClaimChanged:
    """The claim of a volume, or a volume that it has or is given."""

    key: str


@dataclass(slots=True)
class StorageGrew:
    """The driver of a StorageClass has room for larger volumes, for some nodes."""

    storage_class: str
    growth: StorageGrowth


@dataclass(slots=True)
class StateRebuilt:
    """Everything that follows from objects is computed again."""


@dataclass(slots=True)
class RelationFault:
    """ClusterD separates a pod of this node."""

    node: str
