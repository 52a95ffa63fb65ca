"""Previous nodes that are preferred and not reserved (`prefer-previous-node`).

They are not written anywhere: after a restart of the scheduler the nodes of the pods that run then are known,
those of pods that were lost before are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ringwise.durations import SECOND
from ringwise.framework.job import Job, PreviousNode
from ringwise.records import dataclass
from ringwise.scheduler.faults.successors import Successors, lone_pod, owner_of_pod

#: Nanoseconds for which the previous nodes of jobs without a reservation and of suspended jobs are kept.
RETENTION = 72 * 3600 * SECOND
#: Entries that are kept; the one that lost no pod for longest goes first.
MAX_ENTRIES = 16384


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
        pod = lone_pod(job)
        if pod is not None and pod.node is None:
            taken = self._successors.take(owner_of_pod(pod), key)
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
