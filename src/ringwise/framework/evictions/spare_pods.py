"""Which pods a running job can lose and still run: its safe bundle. The others go together or not at all."""

from __future__ import annotations

from collections.abc import Sequence, Set

from ringwise.framework.job import Job, task_minimums_count
from ringwise.framework.session import Session
from ringwise.framework.sub_groups import SubGroup
from ringwise.framework.victim_queues import JobPod

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
        found: list[VictimGroup] = []
        for member in members:
            job, pod = member
            counts = left.get(job.key)
            if counts is None:
                counts = self._of(job)
                if counts.spare <= 0:
                    continue
                counts = left[job.key] = counts.copy()
            if counts.groups and not uids:
                uids = {one[1].uid: one for one in members}
            together = counts.take(pod.uid, uids.keys())
            if together:
                found.append((member,) if len(together) == 1 else tuple(uids[uid] for uid in together))
        return found

    def pick(self, members: Sequence[JobPod]) -> list[JobPod]:
        """The pods of these units."""
        return [member for unit in self.units(members) for member in unit]

    def _of(self, job: Job) -> _Counts:
        found = self._counts.get(job.key)
        if found is None:
            found = self._counts[job.key] = self._count(job)
        return found

    def _count(self, job: Job) -> _Counts:
        placements = self._session.state.pods
        running: dict[str, str] = {}
        done: set[str] = set()
        for uid, pod in job.pods.items():
            if pod.phase == "Succeeded":
                done.add(uid)
            elif placements[uid].node >= 0 and pod.live and not pod.deleting and uid not in self._going:
                running[uid] = pod.task
        # Backup pods stand in for others: they are none of the minimum.
        members = [*(uid for uid in running if uid not in job.backups), *done]
        tasks: dict[str, int] = {}
        if task_minimums_count(job):
            tasks = {task: -least for task, least in job.min_per_task.items()}
            for uid in members:
                if job.pods[uid].task in tasks:
                    tasks[job.pods[uid].task] += 1
        counts = _Counts(running, len(members) - job.min_available, tasks)
        if job.sub_groups and job.group is not None:
            counts.policies = [-policy.min_groups for policy in job.group.sub_groups]
            for group in job.sub_groups:
                counts.add(group, set(members))
        return counts


class _Counts:
    __slots__ = ("groups", "have", "policies", "running", "spare", "taken", "tasks")

    def __init__(self, running: dict[str, str], spare: int, tasks: dict[str, int]) -> None:
        #: Uid -> task.
        self.running = running
        #: Beyond the minimum of the job; and of each task, where tasks have minimums that count.
        self.spare = spare
        self.tasks = tasks
        #: By uid: the sub-group. By sub-group: its pods that run or have succeeded.
        self.groups: dict[str, SubGroup] = {}
        self.have: dict[tuple[int, str], set[str]] = {}
        #: Of each policy: complete sub-groups beyond those that must run.
        self.policies: list[int] = []
        self.taken: set[str] = set()

    def add(self, group: SubGroup, members: set[str]) -> None:
        if group.policy is not None:
            self.groups.update(dict.fromkeys(group.pods, group))
            have = self.have[group.position, group.name] = members.intersection(group.pods)
            self.policies[group.position] += len(have) >= group.size

    def copy(self) -> _Counts:
        found = _Counts(self.running, self.spare, dict(self.tasks))
        if self.groups:
            found.groups = self.groups
            found.have = {key: set(have) for key, have in self.have.items()}
            found.policies = list(self.policies)
        return found

    def take(self, uid: str, candidates: Set[str]) -> tuple[str, ...]:
        """The pods that go with this one, where they can."""
        if uid in self.taken:
            return ()
        group = self.groups.get(uid)
        have = self.have[group.position, group.name] if group is not None else set[str]()
        if group is None or uid not in have or len(have) != group.size:
            # No sub-group is complete because of it.
            have.discard(uid)
            return self._take((uid,))
        together = tuple(one for one in group.pods if one in have and one in self.running)
        if self.policies[group.position] <= 0 or not candidates >= set(together):
            return ()
        taken = self._take(together)
        if taken:
            self.policies[group.position] -= 1
            have.clear()
        return taken

    def _take(self, uids: tuple[str, ...]) -> tuple[str, ...]:
        if self.spare < len(uids):
            return ()
        if self.tasks:
            tasks = dict(self.tasks)
            for uid in uids:
                task = self.running[uid]
                tasks[task] = tasks.get(task, len(uids)) - 1
                if tasks[task] < 0:
                    return ()
            self.tasks = {task: tasks[task] for task in self.tasks}
        self.spare -= len(uids)
        self.taken.update(uids)
        return uids
