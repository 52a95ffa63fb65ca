"""What follows from the events of the cluster, and from decisions: components hear these, too."""

from __future__ import annotations

from typing import NamedTuple

from ringwise.framework.job import Job
from ringwise.state.model import Pod
from ringwise.state.vcjob import VcJob

# -- jobs ---------------------------------------------------------------------------------------


class JobSeen(NamedTuple):
    """One of its objects was seen, and it is there."""

    job: Job


class JobChanged(NamedTuple):
    """Its pods came, went or got other nodes, or it lost an object."""

    job: Job


class JobSpecChanged(NamedTuple):
    """What it asks for is different."""

    key: str


class JobSettled(NamedTuple):
    """A cycle decided about it."""

    job: Job


class JobGone(NamedTuple):
    """It has no objects left."""

    job: Job


class AdmissionEnded(NamedTuple):
    """It was admitted and is Pending again: what it was promised is free."""

    job: Job


class HardwareBroke(NamedTuple):
    """Hardware, not the job itself, is why pods of it failed."""

    job: Job


class GroupSeen(NamedTuple):
    job: Job
    #: It has other labels or annotations than before.
    relabelled: bool


class VcJobOver(NamedTuple):
    vcjob: VcJob
    job: Job | None


class VcJobRemoved(NamedTuple):
    """It is about to be forgotten."""

    vcjob: VcJob


# -- pods ---------------------------------------------------------------------------------------


class PodEnding(NamedTuple):
    """State and job have the pod as it was. `pod` is as it will be, ended or terminating; None: gone."""

    uid: str
    pod: Pod | None


class PodChanged(NamedTuple):
    job: Job | None
    pod: Pod
    #: The numbers of its node before and now; -1: none.
    before: int
    node: int
    #: It does not hold its chips any more.
    lost: bool
    #: A pod without a PodGroup was bound here, and that is confirmed: nothing else follows from it.
    only_confirmed: bool


class PodConfirmed(NamedTuple):
    """The first report of it since it was bound here."""

    uid: str


class PodLeaving(NamedTuple):
    """It is on a node and begins to be deleted."""

    job: Job
    pod: Pod


class PodRemoved(NamedTuple):
    """State and job do not have the pod any more."""

    job: Job | None
    uid: str
    #: Name and number of the node it was on.
    node: str | None
    number: int


class PlacementLost(NamedTuple):
    """A pod whose placement is remembered is gone or has ended."""

    job: Job
    pod: Pod


class PodDrained(NamedTuple):
    """It begins to be deleted because its node is drained."""

    job: Job
    pod: Pod


class PodBound(NamedTuple):
    job: Job
    node: str
    chips: tuple[int, ...]


class BindingFailed(NamedTuple):
    job: Job
    pod: Pod
    node: str
    why: str


class DeletingPod(NamedTuple):
    """The pod is about to be deleted because of a fault."""

    uid: str


class PodEvicted(NamedTuple):
    """It has to make room for another job."""

    uid: str


# -- the cluster --------------------------------------------------------------------------------


class NodeChanged(NamedTuple):
    """The node, its chips or reports about it."""

    name: str


class ClusterChanged(NamedTuple):
    """Nodes, switches or settings."""


class StateRebuilt(NamedTuple):
    """Everything that follows from objects is computed again."""


class RelationFault(NamedTuple):
    """ClusterD separates a pod of this node."""

    node: str
