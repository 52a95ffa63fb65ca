"""Which pods a running job can lose and still run: its safe bundle. The others go together or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from ringwise.framework.gangs.gang_count import GangCount, is_placed
from ringwise.framework.job import Job
from ringwise.framework.session import Session
from ringwise.framework.victim_queues import JobPod
from ringwise.state.model import Pod

#: Pods that are evicted together: what a job can spare, or all the pods of a job.
VictimGroup = tuple[JobPod, ...]


class SparePods:
    """Counted once for each job of a cycle, while none of its pods is placed or evicted."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._counts: dict[str, _Counts] = {}
        self._bound = self._evicted = 0
        #: Uids of the pods that are evicted in this cycle.
        self._going: set[str] = set()

    def refresh(self) -> None:
        """Called before each search."""
        session = self._session
        if len(session.bound) != self._bound:
            self._bound = len(session.bound)
            self._counts.clear()
        for eviction in session.evicted[self._evicted :]:
            self._going.add(eviction.pod.uid)
            self._counts.pop(eviction.job.key, None)
        self._evicted = len(session.evicted)

    def running(self, job: Job) -> int:
        """How many of its pods can be evicted at all."""
        return len(self._of(job).running)

    def any_of(self, job: Job) -> bool:
        return self._of(job).spare > 0

    def units(self, members: Sequence[JobPod]) -> list[VictimGroup]:
        """Those that their jobs can spare; each counts for the next.

        A pod goes alone, but with all of its sub-group where that would not be complete without it.
        """
        left: dict[str, _Counts] = {}
        uids: dict[str, JobPod] = {}
        result: list[VictimGroup] = []
        for member in members:
            job, pod = member
            counts = left.get(job.key)
            if counts is None:
                counts = self._of(job)
                if counts.spare <= 0:
                    continue
                counts = left[job.key] = counts.copy()
            if job.sub_groups and not uids:
                uids = {one[1].uid: one for one in members}
            together = counts.take(pod.uid, uids.keys())
            if together:
                result.append((member,) if len(together) == 1 else tuple(uids[uid] for uid in together))
        return result

    def pick(self, members: Sequence[JobPod]) -> list[JobPod]:
        """The pods of these units."""
        return [member for unit in self.units(members) for member in unit]

    def _of(self, job: Job) -> _Counts:
        result = self._counts.get(job.key)
        if result is None:
            result = self._counts[job.key] = self._count(job)
        return result

    def _count(self, job: Job) -> _Counts:
        state = self._session.state
        placed = {
            uid: pod for uid, pod in job.pods.items() if uid not in self._going and is_placed(state, pod)
        }
        running = {uid: pod for uid, pod in placed.items() if pod.live}
        # Backup pods stand in for others: they are none of the minimum.
        backups = job.backups
        members = [pod for uid, pod in placed.items() if uid not in backups or not pod.live]
        return _Counts(job, running, GangCount(job, members))


class _Counts:
    __slots__ = ("_gang", "_job", "_taken", "running", "spare")

    def __init__(self, job: Job, running: Mapping[str, Pod], gang: GangCount) -> None:
        self._job = job
        #: By uid.
        self.running = running
        #: With the pods that run or have succeeded, without those that were taken.
        self._gang = gang
        #: Pods beyond the minimum of the job.
        self.spare = gang.pods - job.min_available
        self._taken: set[str] = set()

    def copy(self) -> _Counts:
        return _Counts(self._job, self.running, self._gang.copy())

    def take(self, uid: str, candidates: Set[str]) -> tuple[str, ...]:
        """The pods that go with this one, where they can."""
        if uid in self._taken:
            return ()
        backups = self._job.backups
        group = None if uid in backups else self._gang.group_broken_without(uid)
        if group is None:
            return self._take((uid,))
        counted = self.running.keys() - backups.keys() - self._taken
        together = tuple(one for one in group.pods if one in counted)
        if self._gang.spare_groups[group.position] <= 0 or not candidates >= set(together):
            return ()
        return self._take(together)

    def _take(self, uids: tuple[str, ...]) -> tuple[str, ...]:
        if self.spare < len(uids):
            return ()
        members = [self.running[uid] for uid in uids if uid not in self._job.backups]
        for pod in members:
            self._gang.remove(pod)
        if any(self._gang.is_short_of(pod.task) for pod in members):
            for pod in members:
                self._gang.add(pod)
            return ()
        self.spare -= len(uids)
        self._taken.update(uids)
        return uids
