"""Pods that were lost while nothing said that their job is suspended: objects are watched independently.

What says so may be seen only when the pods are gone. Then they return to their nodes, too.
"""

from __future__ import annotations

from collections.abc import Iterable

from ringwise.scheduler.faults.rescheduling import LeavingPod

#: Nanoseconds for which the old nodes of a suspended job are remembered.
KEPT_FOR = 72 * 3600 * 1_000_000_000
#: Jobs that lost pods and may turn out to be suspended.
MAX_JOBS = 1024
#: Nanoseconds after which a lost pod was not lost because its job is suspended.
SOON = 60 * 1_000_000_000


class LatelyLost:
    def __init__(self) -> None:
        #: By owner and rank; the owner that lost a pod last comes last.
        self._owners: dict[str, dict[int, LeavingPod]] = {}

    def add(self, pod: LeavingPod, now: int) -> None:
        ranks = self._owners.pop(pod.owner, {})
        ranks[pod.rank] = pod
        self._owners[pod.owner] = ranks
        while self._owners:
            owner, oldest = next(iter(self._owners.items()))
            if len(self._owners) <= MAX_JOBS and max(one.node.lost for one in oldest.values()) + SOON > now:
                return
            del self._owners[owner]

    def take(self, owner: str, now: int) -> Iterable[LeavingPod]:
        return [one for one in self._owners.pop(owner, {}).values() if one.node.lost + SOON > now]
