"""What is known of a job that is being rescheduled: where its lost and leaving pods were (F1)."""

from __future__ import annotations

from dataclasses import field

from ringwise.framework.job import Job, PreviousNode
from ringwise.placement.switches.classes import asks_for_switches
from ringwise.records import NOT_RECORDED, dataclass
from ringwise.scheduler.faults.successors import owner_id
from ringwise.state.loads import Load
from ringwise.state.model import Pod
from ringwise.wellknown import LOGICAL_RACK, SP_BLOCK, TOR_AFFINITY


@dataclass(slots=True)
class Rescheduling:
    """A job that lost pods."""

    job: str
    resource: str
    #: Who creates a pod without a PodGroup again, perhaps under another name; empty for other jobs.
    pods_owner: str = ""
    #: By rank. The job has the very same dict as `previous_nodes`.
    nodes: dict[int, PreviousNode] = field(default_factory=dict)
    #: rank -> chips on that node
    chips: dict[int, int] = field(default_factory=dict)
    #: rank -> what else its pod asks for
    loads: dict[int, Load] = field(default_factory=dict)
    until: int = 0
    stale: bool = field(default=True, metadata=NOT_RECORDED)
    #: It was suspended: its nodes are preferred when it is resumed, and nothing is reserved.
    suspended: bool = False


@dataclass(frozen=True, slots=True)
class HeldPlacement:
    """The placement of a pod, taken before an event that may end it."""

    job: Job
    pod: Pod
    node: int
    chips: int
    rank: int
    #: S9: its node is held for the job while that is rescheduled.
    is_held: bool
    #: Somebody wants what it had to be for others: the job returns where it is free.
    given_back: bool = False


@dataclass(frozen=True, slots=True)
class LeavingPod:
    """F1: the placement of a pod that is being deleted: it may be gone before the next leader looks."""

    owner: str
    job: str
    resource: str
    rank: int
    node: PreviousNode
    chips: int
    load: Load
    pods_owner: str = ""


def placed_as_a_whole(job: Job, pod: Pod) -> bool:
    """Whether leaf switches, SuperPoDs or racks decide where the job goes."""
    return (
        asks_for_switches(job.labels.get(TOR_AFFINITY))
        or SP_BLOCK in job.annotations
        or LOGICAL_RACK in pod.annotations
    )


def owner_key(job: Job, pod: Pod | None) -> str:
    """The vcjob, whatever its PodGroup is called; for other jobs their key."""
    if pod is not None and pod.group is None:
        return job.key
    for owner in (job.group.owner if job.group is not None else None, pod.owner if pod is not None else None):
        if owner is not None and owner.is_vcjob and owner.uid:
            return owner_id(job.namespace, owner.uid)
    return job.key
