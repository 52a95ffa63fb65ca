"""What is known of a job that is being rescheduled: where its lost and leaving pods were (F1).

Also as values of JSON: the next leader reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from ringwise.framework.job import Job, PreviousNode
from ringwise.placement.switches.classes import asks_for_switches
from ringwise.records import dataclass
from ringwise.scheduler.faults.successors import owner_id
from ringwise.state.loads import Load
from ringwise.state.model import Pod
from ringwise.state.ranges import MAX_NODE_CHIPS
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
    stale: bool = True
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


def plain_job(owner: str, kept: Rescheduling, leaving: Mapping[str, LeavingPod]) -> dict[str, Any]:
    """F1: a job that is being rescheduled or loses pods, as values of JSON."""
    return {
        "owner": owner,
        "job": kept.job,
        "resource": kept.resource,
        "podsOwner": kept.pods_owner,
        "until": kept.until,
        "suspended": kept.suspended,
        "ranks": {
            str(rank): plain_rank(one, kept.chips[rank], kept.loads[rank]) for rank, one in kept.nodes.items()
        },
        "leaving": {
            uid: [pod.rank, *plain_rank(pod.node, pod.chips, pod.load)] for uid, pod in leaving.items()
        },
    }


def plain_rank(node: PreviousNode, chips: int, load: Load) -> list[Any]:
    return [node.node, dict(node.annotations), node.faulty, node.lost, chips, plain_load(load)]


def read_plain(given: Mapping[str, Any]) -> tuple[str, Rescheduling, dict[str, LeavingPod]]:
    kept = Rescheduling(str(given["job"]), str(given["resource"]), until=int(given["until"]))
    kept.pods_owner = str(given["podsOwner"])
    suspended = kept.suspended = given["suspended"] is True
    for text, written in given["ranks"].items():
        rank = int(text)
        kept.nodes[rank], kept.chips[rank], kept.loads[rank] = _read_rank(written, suspended)
    owner = str(given["owner"])
    leaving = {
        str(uid): LeavingPod(
            owner, kept.job, kept.resource, int(rank), *_read_rank(written, suspended), kept.pods_owner
        )
        for uid, (rank, *written) in given["leaving"].items()
    }
    return owner, kept, leaving


def _read_rank(given: list[Any], suspended: bool) -> tuple[PreviousNode, int, Load]:
    node, marks, faulty, lost, chips, load = given
    written = {str(key): str(value) for key, value in marks.items()}
    if not isinstance(chips, int) or not 0 <= chips < 1 << MAX_NODE_CHIPS:
        raise ValueError("chips are no mask")
    read = PreviousNode(str(node), written, bool(faulty), int(lost), held=not suspended, suspended=suspended)
    return read, chips, read_load(load)


def plain_load(load: Load) -> list[Any]:
    return [load.cpu_milli, load.memory, load.pods, dict(load.extended)]


def read_load(given: list[Any]) -> Load:
    cpu, memory, pods, extended = given
    amounts = (cpu, memory, pods, *extended.values())
    if not all(type(amount) is int and amount >= 0 for amount in amounts):
        raise ValueError("an amount is no number from 0")
    return Load(cpu, memory, pods, tuple((str(name), amount) for name, amount in extended.items()))


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
