"""Pods that wait for the PodGroup that a controller creates for them.

A controller that runs creates it at once, so that the wait is no news. A pod that has none after a while is
told: no controller may run that serves it.

The time counts from when this scheduler saw the pod.
"""

from __future__ import annotations

#: Nanoseconds after which a pod is told.
PATIENCE = 30_000_000_000


class AwaitedGroups:
    def __init__(self) -> None:
        #: Jobs whose pod waits, and since when, in order of time; and those of them that are told.
        self._since: dict[str, int] = {}
        self._overdue: set[str] = set()

    def wait(self, key: str, now: int) -> None:
        if key not in self._overdue:
            self._since.setdefault(key, now)

    def forget(self, key: str) -> None:
        self._since.pop(key, None)
        self._overdue.discard(key)

    def is_overdue(self, key: str) -> bool:
        return key in self._overdue

    def deadline(self) -> int | None:
        return next(iter(self._since.values())) + PATIENCE if self._since else None

    def review(self, now: int) -> list[str]:
        """The jobs that are told from now on."""
        due: list[str] = []
        for key, since in self._since.items():
            if since + PATIENCE > now:
                break
            due.append(key)
        for key in due:
            del self._since[key]
        self._overdue.update(due)
        return due
