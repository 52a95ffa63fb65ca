"""Previous nodes that are preferred and not reserved (`prefer-previous-node`)."""

from __future__ import annotations

from dataclasses import field

from ringwise.framework.job import Job, PreviousNode
from ringwise.records import dataclass

#: Nanoseconds for which the previous nodes of jobs without a reservation are kept.
KEPT_FOR = 72 * 3600 * 1_000_000_000


@dataclass(slots=True)
class _OwnerNodes:
    #: The job has the very same dict as `previous_nodes`.
    by_rank: dict[int, PreviousNode] = field(default_factory=dict)
    lost: int = 0


class RememberedNodes:
    """Previous nodes without a reservation, by owner (`prefer-previous-node`)."""

    def __init__(self) -> None:
        #: In the order in which the owners last lost a pod.
        self._owners: dict[str, _OwnerNodes] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def lost(self, owner: str, job: Job, rank: int, node: PreviousNode) -> None:
        nodes = self._owners.pop(owner, None) or _OwnerNodes()
        self._owners[owner] = nodes
        nodes.by_rank[rank] = node
        nodes.lost = node.lost
        job.previous_nodes = nodes.by_rank

    def attach(self, job: Job) -> None:
        if self._owners and not job.previous_nodes:
            nodes = self._owners.get(_pods_owner(job))
            if nodes is not None:
                job.previous_nodes = nodes.by_rank

    def forget(self, owner: str) -> None:
        nodes = self._owners.pop(owner, None)
        if nodes is not None:
            nodes.by_rank.clear()

    def forget_old(self, now: int) -> None:
        while self._owners:
            owner, nodes = next(iter(self._owners.items()))
            if nodes.lost + KEPT_FOR > now:
                return
            self.forget(owner)

    def settle(self, job: Job, placed: set[int]) -> None:
        """After a cycle: once all remembered ranks are placed again, only their present nodes count."""
        owner = _pods_owner(job)
        nodes = self._owners.get(owner)
        if nodes is not None and nodes.by_rank.keys() <= placed:
            self.forget(owner)


def _pods_owner(job: Job) -> str:
    owner = next(iter(job.pods.values())).owner if job.pods else None
    return "" if owner is None else owner.uid
