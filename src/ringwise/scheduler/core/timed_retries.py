"""Jobs that are tried again at a certain time, although nothing changes in the cluster.

A plugin names the time: what it says about the job is different then.
"""

from __future__ import annotations

from collections.abc import Mapping

from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.pending_queue import PendingQueue
from ringwise.scheduler.component import Component, Handlers


class TimedRetries(Component):
    name = "timed retries"

    def __init__(self, pending: PendingQueue) -> None:
        self._pending = pending
        self._due: dict[str, int] = {}

    def hears(self) -> Handlers:
        return {ie.JobGone: lambda event, now: self.forget(event.job.key)}

    def note(self, times: Mapping[str, int]) -> None:
        """The times that the plugins named in a cycle, by job."""
        self._due.update(times)

    def forget(self, key: str) -> None:
        self._due.pop(key, None)

    def deadline(self) -> int | None:
        return min(self._due.values(), default=None)

    def review(self, now: int) -> None:
        """Activate the jobs whose time has come."""
        for key in [key for key, due in self._due.items() if due <= now]:
            del self._due[key]
            self._pending.activate(key)
