"""Placements of suspended jobs: how many are remembered, and those of pods that were lost just before.

The number has a bound, which costs whoever suspends most.

A job that was suspended returns to its old nodes where they are free. Nothing is reserved for it, and it may
be suspended for days, so what is kept must not grow with what people suspend.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ringwise.scheduler.faults.rescheduling import LeavingPod

#: Nanoseconds for which the old nodes of a suspended job are kept.
KEPT_FOR = 72 * 3600 * 1_000_000_000
#: Jobs, and ranks of all of them together, that are kept. The document of F1 is written anew with every
#: change of what a fault hit, too, and a rank costs three millionths of a second of that.
MAX_JOBS = 1024
MAX_RANKS = 8192
#: Nanoseconds after which a lost pod was not lost because its job is suspended.
SOON = 60 * 1_000_000_000


class SuspendedJobs:
    """Owners of jobs that are kept, in the order in which they were suspended, with their ranks."""

    def __init__(self) -> None:
        self._ranks: dict[str, int] = {}
        self._total = 0

    def __contains__(self, owner: str) -> bool:
        return owner in self._ranks

    def __len__(self) -> int:
        return len(self._ranks)

    def keep(self, owner: str, ranks: int) -> None:
        self._total += ranks - self._ranks.get(owner, 0)
        self._ranks[owner] = ranks

    def forget(self, owner: str) -> None:
        self._total -= self._ranks.pop(owner, 0)

    def too_many(self) -> str | None:
        """The owner to forget now: the oldest one of the namespace that keeps most ranks."""
        if len(self._ranks) <= MAX_JOBS and self._total <= MAX_RANKS:
            return None
        kept: Counter[str] = Counter()
        for owner, ranks in self._ranks.items():
            # A job without pods is one entry, too.
            kept[_namespace(owner)] += ranks + 1
        most = max(kept.items(), key=lambda entry: (entry[1], entry[0]))[0]
        return next(owner for owner in self._ranks if _namespace(owner) == most)


def _namespace(owner: str) -> str:
    return owner.partition("/")[0]


class LatelyLost:
    """Pods that were lost while nothing said that their job is suspended: objects are watched apart.

    What says so may be seen only when the pods are gone. Then they return to their nodes, too.
    """

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
