"""F6: what a job lost while it is rescheduled counts as used against the other jobs of its queue.

A rank counts while no pod has it that uses anything: its pod is gone, and its replacement does not exist yet
or has no node. So the share is counted once, at any moment of a cycle: when the replacement is placed, its
use takes the place of what was kept. Whatever ranks its pods say they have, no more of them are kept than the
job had when it lost the first one, less those that it holds.

Who is kept a share, and for how long, is decided elsewhere; here is what it comes to, by queue.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field

from ringwise.framework.amounts import Amount, Amounts, add
from ringwise.records import NOT_RECORDED, dataclass

_NONE: Amounts = {}


@dataclass(slots=True, eq=False)
class ReservedQuota:
    """What a job had before it lost pods."""

    job: str
    queue: str
    #: By rank: what the pods that are lost, or terminate, asked for.
    ranks: dict[int, Mapping[str, Amount]] = field(default_factory=dict)
    #: When a pod was last gone, and the limit, in nanoseconds; None while the first one terminates.
    until: int | None = None
    #: The time is not over. It begins again when another pod is lost.
    counts: bool = field(default=True, metadata=NOT_RECORDED)
    #: By uid: ranks of pods that terminate. The replacement may have the rank of a pod already.
    leaving: dict[str, int] = field(default_factory=dict)
    #: Who creates a pod without a PodGroup again, perhaps under another name; empty for other jobs.
    pods_owner: str = ""
    #: Ranks that it had then. Who creates pods may give each of them another rank.
    most: int = 0
    #: Whether a pod of it was placed with a burst: its replacement is, too.
    lent: bool = False


class ReservedQuotas:
    """By job. The sums follow the pods of the jobs concerned; all others cost nothing."""

    def __init__(self) -> None:
        #: Ranks of a job that have a pod which uses something, or has succeeded. Set by who keeps the shares.
        self.held_ranks: Callable[[ReservedQuota], Collection[int]] = lambda share: ()
        self._shares: dict[str, ReservedQuota] = {}
        #: Job -> its queue and what is kept for it, as it was last counted.
        self._counted: dict[str, tuple[str, Amounts]] = {}
        self._by_queue: dict[str, Amounts] = {}
        #: Queue and resource -> jobs: computed when asked for.
        self._jobs_in: dict[tuple[str, str], list[str]] = {}
        #: Jobs of which a pod came or went since.
        self._stale: dict[str, None] = {}
        self._ignored = False
        #: Changes when what is kept may have changed, or whether a job runs for which something is kept.
        self.version = 0

    def __len__(self) -> int:
        return len(self._shares)

    # -- changes ---------------------------------------------------------------------------

    def put(self, share: ReservedQuota) -> None:
        self._shares[share.job] = share
        self._stale[share.job] = None

    def drop(self, job: str) -> None:
        self._shares.pop(job, None)
        self._stale.pop(job, None)
        self._count(job, "", {})

    def touch(self, job: str) -> None:
        """A pod of the job came, went or got a node."""
        if job in self._shares:
            self._stale[job] = None

    def touch_all(self) -> None:
        self._stale.update(dict.fromkeys(self._shares))

    # -- reading ---------------------------------------------------------------------------

    def of(self, job: str) -> Amounts:
        """What is kept for the job."""
        if job in self._stale:
            self._count_again(job)
        return self._counted.get(job, ("", _NONE))[1]

    def share_of(self, job: str) -> ReservedQuota | None:
        return self._shares.get(job)

    def against(self, queue: str, job: str) -> Amounts:
        """What counts as used in the queue against this job: what is kept there for others."""
        if not self._shares or self._ignored:
            return _NONE
        self._count_stale(job)
        total = self._by_queue.get(queue, _NONE)
        # Its own part as it was last counted: the difference is that of the others.
        own = self._counted.get(job)
        if not total or own is None or own[0] != queue:
            return total
        others = dict(total)
        add(others, own[1], -1)
        return others

    def jobs(self) -> list[str]:
        """The jobs for which something is kept, those that lost pods first first."""
        return [] if self._ignored else [job for job in self._shares if self.of(job)]

    def jobs_in(self, queue: str, resource: str = "") -> list[str]:
        """Those of them in a queue, perhaps only those for which some of a resource is kept."""
        if self._ignored:
            return []
        self._count_stale()
        result = self._jobs_in.get((queue, resource))
        if result is None:
            # Kept, because many jobs that wait ask the same.
            result = self._jobs_in[queue, resource] = [
                job
                for job in self._shares
                if job in self._counted
                and self._counted[job][0] == queue
                and (not resource or resource in self._counted[job][1])
            ]
        return result

    @property
    def is_ignored(self) -> bool:
        return self._ignored

    @contextmanager
    def ignored(self) -> Iterator[None]:
        """Inside this context no quota is reserved for any job."""
        before, self._ignored = self._ignored, True
        try:
            yield
        finally:
            self._ignored = before

    def counted_anew(self) -> dict[str, Amounts]:
        """What is kept in each queue, from the pods. Slow: for checks."""
        total: dict[str, Amounts] = {}
        for share in self._shares.values():
            add(total.setdefault(share.queue, {}), self._amounts_of(share))
        return {queue: amounts for queue, amounts in total.items() if amounts}

    def by_job(self) -> dict[str, tuple[str, Amounts]]:
        """Queue and what is kept, of every job for which something is."""
        if self._ignored:
            return {}
        self._count_stale()
        return self._counted

    def by_queue(self) -> dict[str, Amounts]:
        self._count_stale()
        return {queue: amounts for queue, amounts in self._by_queue.items() if amounts}

    def _count_stale(self, but: str = "") -> None:
        if self._stale:
            for job in [job for job in self._stale if job != but]:
                self._count_again(job)

    def _count_again(self, job: str) -> None:
        self._stale.pop(job, None)
        share = self._shares[job]
        self._count(job, share.queue, self._amounts_of(share))

    def _amounts_of(self, share: ReservedQuota) -> Amounts:
        total: Amounts = {}
        if share.counts and share.ranks:
            held = self.held_ranks(share)
            lost = [amounts for rank, amounts in share.ranks.items() if rank not in held]
            # Pods that came since took the places of those that were lost first.
            for amounts in lost[max(0, len(lost) + len(held) - share.most) :]:
                add(total, amounts)
        return total

    def _count(self, job: str, queue: str, amounts: Amounts) -> None:
        self.version += 1
        before = self._counted.pop(job, None)
        if before != ((queue, amounts) if amounts else None):
            self._jobs_in.clear()
        if before is not None:
            total = self._by_queue[before[0]]
            add(total, before[1], -1)
            if not total:
                del self._by_queue[before[0]]
        if amounts:
            self._counted[job] = queue, amounts
            add(self._by_queue.setdefault(queue, {}), amounts)
