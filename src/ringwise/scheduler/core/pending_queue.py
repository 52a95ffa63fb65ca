"""Who waits for what. A job sleeps until something happens that its reason names as a cure."""

from __future__ import annotations

from collections.abc import Iterable

from ringwise.framework.job import Job
from ringwise.reasons import ROOM, Trigger


class Waiting:
    def __init__(self) -> None:
        #: Jobs to look at in the next cycle, in the order in which they woke.
        self.awake: dict[str, None] = {}
        self._asleep: dict[str, frozenset[Trigger]] = {}
        self._by_trigger: dict[Trigger, dict[str, None]] = {trigger: {} for trigger in Trigger}

    def __len__(self) -> int:
        return len(self._asleep)

    def touch(self, key: str) -> None:
        """The job itself changed: look at it again."""
        self._rise(key)

    def forget(self, key: str) -> None:
        self._rise(key)
        self.awake.pop(key, None)

    def wake(self, triggers: Iterable[Trigger], now: int) -> None:
        if Trigger.CONFIGURATION_CHANGED in triggers:
            # New actions or plugins may help anybody, whatever the reason was under the old ones.
            for key in list(self._asleep):
                self._rise(key)
        for trigger in sorted(triggers, key=lambda trigger: trigger.name):
            for key in list(self._by_trigger[trigger]):
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
        for trigger in cures:
            self._by_trigger[trigger][job.key] = None

    def _rise(self, key: str) -> None:
        for trigger in self._asleep.pop(key, ()):
            self._by_trigger[trigger].pop(key, None)
        self.awake[key] = None
