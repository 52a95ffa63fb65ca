"""An embedded cluster that remembers what its objects said, and what follows from that for accounting.

It counts in the plainest way and knows nothing of the accounting: from all pods that ever were.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ringwise.durations import SECOND
from ringwise.embed.cluster import EmbeddedCluster
from ringwise.messages.accounting import WaitEnded
from ringwise.messages.commands import Command, DeletePod, Evict
from ringwise.messages.events import Event
from ringwise.state.model import Pod, PodGroup

LOSSES = {"fault", "move", "drain", "preempt", "reclaim", "limit"}


@dataclass
class PodHistory:
    pod: Pod
    #: When it began to be deleted, and when it was removed.
    deleting: int | None = None
    removed: int | None = None
    #: Why the scheduler ended it.
    cause: str = ""

    @property
    def end(self) -> int | None:
        """When it held its chips no more."""
        if not self.pod.live:
            return self.pod.ended
        return self.removed

    def held(self, now: int) -> int:
        if self.pod.node is None:
            return 0
        end = now if self.end is None else self.end
        return self.pod.cls.chips * (end // SECOND - self.pod.bound // SECOND)

    @property
    def job(self) -> str:
        return self.pod.owner.uid if self.pod.owner is not None else self.pod.uid


@dataclass
class Counted:
    held: int = 0
    lost: dict[str, int] = field(default_factory=dict)
    starts: int = 0
    #: Seconds since its pods were created, and since the run before ended.
    waited: int = 0
    waited_at_most: int = 0
    failures: int = 0


class RememberingCluster(EmbeddedCluster):
    histories: dict[str, PodHistory]
    created: dict[str, int]
    #: Jobs that stopped waiting and did not start.
    stopped: set[str]

    def _store(self, value: object) -> int:
        if not hasattr(self, "histories"):
            self.histories, self.created, self.stopped = {}, {}, set()
        if isinstance(value, Pod):
            known = self.histories.setdefault(value.uid, PodHistory(value))
            known.pod = value
            if value.deleting and known.deleting is None:
                known.deleting = self.now
        version = super()._store(value)
        if isinstance(value, PodGroup) and value.owner is not None:
            self.created.setdefault(value.owner.uid, value.created)
        return version

    def _remove_pod(self, pod: Pod) -> None:
        super()._remove_pod(pod)
        if pod.uid in self.histories:
            self.histories[pod.uid].removed = self.now

    def apply(self, command: Command) -> list[Event]:
        if isinstance(command, (Evict, DeletePod)) and str(command.cause) in LOSSES:
            known = self.histories.get(command.uid)
            if known is not None and known.pod.live and known.removed is None:
                known.cause = str(command.cause)
        if isinstance(command, WaitEnded) and not command.started:
            self.stopped.add(command.job.uid)
        return super().apply(command)

    def unfinished_waits(self) -> set[str]:
        """Jobs that waited and did not start then: the count does not know until when."""
        waiting = set() if self.accounts is None else {wait.job.uid for wait in self.accounts.state().waits}
        return waiting | self.stopped

    def counted(self) -> dict[str, Counted]:
        """By the uid of the job."""
        found: dict[str, Counted] = {}
        pods = [one for one in self.histories.values() if one.pod.cls.chips]
        for one in pods:
            job = found.setdefault(one.job, Counted())
            job.held += one.held(self.now)
            if one.cause and one.end is not None and one.pod.phase != "Succeeded":
                work = one.pod.cls.chips * (one.end // SECOND - one.pod.bound // SECOND)
                job.lost[one.cause] = job.lost.get(one.cause, 0) + work
        for uid, job in found.items():
            self._count_runs(job, [one for one in pods if one.job == uid], uid)
        return found

    def _count_runs(self, job: Counted, pods: Iterable[PodHistory], uid: str) -> None:
        placed = sorted((one for one in pods if one.pod.node is not None), key=lambda one: one.pod.bound)
        until: int | None = None
        failed = False
        for one in placed:
            if until is None or one.pod.bound >= until:
                since = self.created[uid]
                if job.starts:
                    since = min(
                        other.pod.created
                        for other in pods
                        if other.pod.created <= one.pod.bound
                        and not (other.end is not None and other.end <= one.pod.bound)
                        and not (other.deleting is not None and other.deleting <= one.pod.bound)
                    )
                longest = since if until is None else min(since, until)
                job.starts += 1
                job.waited += one.pod.bound // SECOND - min(since, one.pod.bound) // SECOND
                job.waited_at_most += one.pod.bound // SECOND - min(longest, one.pod.bound) // SECOND
                failed = False
            by_itself = one.pod.phase == "Failed" and not one.pod.deleting and not one.cause
            if by_itself and not failed:
                job.failures += 1
                failed = True
            end = self.now + 1 if one.end is None else one.end
            until = end if until is None else max(until, end)
