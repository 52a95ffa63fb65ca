"""Who waits for what. A job sleeps until something happens that its reason names as a cure."""

from __future__ import annotations

from collections.abc import Iterable

from ringwise.framework.job import Job
from ringwise.reasons import ROOM, Event


class Waiting:
    def __init__(self) -> None:
        #: Jobs to look at in the next cycle, in the order in which they woke.
        self.awake: dict[str, None] = {}
        self._asleep: dict[str, frozenset[Event]] = {}
        self._by_event: dict[Event, dict[str, None]] = {event: {} for event in Event}

    def __len__(self) -> int:
        return len(self._asleep)

    def touch(self, key: str) -> None:
        """The job itself changed: look at it again."""
        self._rise(key)

    def forget(self, key: str) -> None:
        self._rise(key)
        self.awake.pop(key, None)

    def wake(self, happened: Iterable[Event], now: int) -> None:
        if Event.CONFIGURATION_CHANGED in happened:
            # New actions or plugins may help anybody, whatever the reason was under the old ones.
            for key in list(self._asleep):
                self._rise(key)
        for event in sorted(happened, key=lambda event: event.name):
            for key in list(self._by_event[event]):
                self._rise(key)

    def take(self) -> list[str]:
        """The jobs that are awake; they sleep again, or are done, when `settle` says so."""
        keys = list(self.awake)
        self.awake.clear()
        return keys

    def settle(self, job: Job, waits: bool, now: int) -> None:
        """After a cycle: a job that still waits sleeps on its reason."""
        if not waits:
            job.waiting_since = None
            return
        if job.waiting_since is None:
            job.waiting_since = now
        cures = job.reason.kind.cured_by if job.reason is not None else ROOM
        self._asleep[job.key] = cures
        for event in cures:
            self._by_event[event][job.key] = None

    def _rise(self, key: str) -> None:
        for event in self._asleep.pop(key, ()):
            self._by_event[event].pop(key, None)
        self.awake[key] = None
