"""What changed since a reader last looked: names only, so that recording costs a set entry for each change.

Nothing is recorded unless something reads it. The record may name more than what really changed, because
decisions that were rolled back are in it, too; it never names less.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class Changes:
    """Grows at most to the number of nodes and jobs; the reader takes it and leaves an empty one."""

    __slots__ = ("_recording", "foreign_pods", "jobs", "nodes", "queues", "topology", "vcjobs")

    def __init__(self, *, recording: bool = True) -> None:
        self._recording = recording
        #: Ids of nodes.
        self.nodes: set[int] = set()
        #: Keys of jobs and of vcjobs.
        self.jobs: set[str] = set()
        self.vcjobs: set[str] = set()
        #: Uids of pods of other schedulers that belong to no group.
        self.foreign_pods: set[str] = set()
        self.queues = False
        #: The leaf switches: any node may have another one.
        self.topology = False

    def node(self, number: int) -> None:
        if self._recording:
            self.nodes.add(number)

    def job(self, key: str) -> None:
        if self._recording:
            self.jobs.add(key)

    def several_jobs(self, keys: Iterable[str]) -> None:
        if self._recording:
            self.jobs.update(keys)

    def vcjob(self, key: str) -> None:
        if self._recording:
            self.vcjobs.add(key)

    def foreign_pod(self, uid: str) -> None:
        if self._recording:
            self.foreign_pods.add(uid)

    def some_queue(self) -> None:
        self.queues = self._recording

    def the_topology(self) -> None:
        self.topology = self._recording

    @property
    def recording(self) -> bool:
        return self._recording

    def take(self) -> Changes:
        """All of it; the record is empty afterwards."""
        taken = Changes()
        for name in ("nodes", "jobs", "vcjobs", "foreign_pods", "queues", "topology"):
            value = getattr(self, name)
            setattr(taken, name, value)
            setattr(self, name, type(value)())
        return taken


class RecentChanges(Generic[T]):
    """The names of what changed last, for readers that come often. Who comes late has to look at all."""

    __slots__ = ("_dropped", "_names")

    #: So many are kept.
    MOST = 4_096

    def __init__(self) -> None:
        self._names: list[T] = []
        self._dropped = 0

    @property
    def end(self) -> int:
        """The position after the last change."""
        return self._dropped + len(self._names)

    def add(self, name: T) -> None:
        self._names.append(name)
        if len(self._names) > 2 * self.MOST:
            self._dropped += self.MOST
            del self._names[: self.MOST]

    def since(self, position: int) -> list[T] | None:
        """What changed since this position; None where that is no longer known."""
        if position < self._dropped:
            return None
        return self._names[position - self._dropped :]
