"""What is remembered of pods that are lost or leave, by their owner, and which new pods take their place.

Pods without a PodGroup are jobs of their own. A StatefulSet creates a pod again under its name; a ReplicaSet
or a Job under another one.

Previous nodes that are preferred and not reserved (`prefer-previous-node`) are not written anywhere: after a
restart of the scheduler the nodes of the pods that run then are known, those of pods that were lost before
are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ringwise.durations import SECOND
from ringwise.framework.job import Job, PreviousNode
from ringwise.placement.switches.classes import asks_for_switches
from ringwise.records import NOT_RECORDED, dataclass
from ringwise.state.loads import Load
from ringwise.state.model import Pod
from ringwise.state.nested import discard
from ringwise.wellknown import LOGICAL_RACK, SP_BLOCK, TOR_AFFINITY

#: Nanoseconds for which the previous nodes of jobs without a reservation and of suspended jobs are kept.
RETENTION = 72 * 3600 * SECOND
#: Entries that are kept; the one that lost no pod for longest goes first.
MAX_ENTRIES = 16384


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
    #: Its chips were released for other jobs: the job returns to them only if they are free.
    given_back: bool = False
    #: The pod failed.
    failed: bool = False


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


class Successors:
    """By owner of the pods: the keys of places that no new pod has taken yet, oldest first."""

    def __init__(self) -> None:
        self._open: dict[str, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def leave(self, owner: str, key: str) -> None:
        """The pod of this place is gone."""
        if owner:
            self._open.setdefault(owner, {})[key] = None

    def take(self, job: Job, key: str) -> str | None:
        """The place for the new pod of a job that has no other: the one of its own key, else the oldest."""
        owner = owner_of_pod(new_pod(job))
        places = self._open.get(owner)
        if not places:
            return None
        taken = key if key in places else next(iter(places))
        self.forget(owner, taken)
        return taken

    def forget(self, owner: str, key: str) -> None:
        discard(self._open, owner, key)


class EarlySuccessors:
    """New pods that their owner created while the old ones still terminate, as a ReplicaSet does."""

    def __init__(self) -> None:
        #: By owner: uids of pods that terminate.
        self._going: dict[str, dict[str, None]] = {}
        #: By owner: keys of the jobs of new pods, oldest first; at most as many as pods that terminate.
        self._came: dict[str, dict[str, None]] = {}

    def leaves(self, owner: str, uid: str) -> None:
        if owner:
            self._going.setdefault(owner, {})[uid] = None

    def comes(self, pod: Pod, job: str) -> None:
        """A pod that has no node yet."""
        owner = owner_of_pod(pod)
        going = self._going.get(owner)
        if not going or pod.uid in going:
            return
        came = self._came.setdefault(owner, {})
        if len(came) < len(going):
            came[job] = None

    def gone(self, owner: str, uid: str) -> str | None:
        """The pod no longer terminates. Returns the key of its successor, where that came before."""
        if uid not in self._going.get(owner, ()):
            return None
        result = next(iter(self._came.get(owner, ())), None)
        if result is not None:
            discard(self._came, owner, result)
        discard(self._going, owner, uid)
        if owner not in self._going:
            self._came.pop(owner, None)
        return result


@dataclass(slots=True)
class _Entry:
    owner: str
    #: The job has the very same dict as `previous_nodes`.
    by_rank: dict[int, PreviousNode] = field(default_factory=dict)
    lost: int = 0


class RememberedNodes:
    """By owner; of pods without a PodGroup each has an entry of its own."""

    def __init__(self) -> None:
        #: In the order in which they last lost a pod.
        self._entries: dict[str, _Entry] = {}
        self._successors = Successors()

    def __len__(self) -> int:
        return len({entry.owner for entry in self._entries.values()})

    def lost(self, owner: str, job: Job, nodes: Mapping[int, PreviousNode], *, alone: bool) -> None:
        """Pods of these ranks are lost; `alone`: a pod without a PodGroup."""
        key = f"{owner}/{job.key}" if alone else owner
        entry = self._entries.pop(key, None) or _Entry(owner)
        self._entries[key] = entry
        entry.by_rank.update(nodes)
        entry.lost = max(node.lost for node in nodes.values())
        job.previous_nodes = entry.by_rank
        if alone:
            self._successors.leave(owner, key)
        if len(self._entries) > MAX_ENTRIES:
            self.forget(next(iter(self._entries)))

    def attach(self, job: Job) -> None:
        if not self._entries or job.previous_nodes:
            return
        key = _key(job)
        taken = self._successors.take(job, key)
        if taken is not None:
            self._entries[key] = self._entries.pop(taken)
        entry = self._entries.get(key)
        if entry is not None:
            job.previous_nodes = entry.by_rank

    def forget(self, key: str) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            entry.by_rank.clear()
            self._successors.forget(entry.owner, key)

    def forget_old(self, now: int) -> None:
        while self._entries:
            key, entry = next(iter(self._entries.items()))
            if entry.lost + RETENTION > now:
                return
            self.forget(key)

    def settle(self, job: Job, placed: set[int]) -> None:
        """After a cycle: once all remembered ranks are placed again, only their present nodes count."""
        key = _key(job)
        entry = self._entries.get(key)
        if entry is not None and entry.by_rank.keys() <= placed:
            self.forget(key)


def _key(job: Job) -> str:
    first = next(iter(job.pods.values()), None)
    owner = owner_of_pod(first)
    return f"{owner}/{job.key}" if owner and lone_pod(job) is not None else owner


def lone_pod(job: Job) -> Pod | None:
    """The pod of a job that is nothing but this pod."""
    if len(job.pods) != 1 or job.group is not None:
        return None
    (pod,) = job.pods.values()
    return pod if pod.group is None else None


def new_pod(job: Job) -> Pod | None:
    """The pod of a job that is nothing but this pod, if it has no node yet."""
    pod = lone_pod(job)
    return pod if pod is not None and pod.node is None else None


def owner_id(namespace: str, uid: str) -> str:
    """An owner, for those that remember by it.

    Anyone may write the uid of a foreign owner into an object: it counts in its namespace only.
    """
    return f"{namespace}/{uid}"


def owner_of_pod(pod: Pod | None) -> str:
    """Who creates the pod again; empty where none does."""
    if pod is None or pod.owner is None or not pod.owner.uid:
        return ""
    return owner_id(pod.namespace, pod.owner.uid)


def is_recreated(job: Job, pod: Pod) -> bool:
    """Whether anyone creates the pod again."""
    return job.group is not None or bool(owner_of_pod(pod))


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
