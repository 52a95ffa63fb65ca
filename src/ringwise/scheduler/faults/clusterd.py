"""Whether Huawei's ClusterD runs: two policies of jobs leave their faults to it."""

from __future__ import annotations

from ringwise.durations import SECOND

#: Seconds without any report of it after which it does not run. It writes every 5 s, changes or not; while it
#: starts, or another replica takes over, its ConfigMaps may be empty.
ABSENT_AFTER = 60


class ClusterDPresence:
    def __init__(self) -> None:
        #: Nodes of which it reports the chips.
        self._nodes: set[str] = set()
        #: When the last of them went, in nanoseconds.
        self._gone: int | None = None

    def seen(self, node: str) -> None:
        self._nodes.add(node)
        self._gone = None

    def gone(self, node: str, now: int) -> None:
        if node in self._nodes:
            self._nodes.discard(node)
            self._gone = None if self._nodes else now

    def runs(self, now: int) -> bool:
        return bool(self._nodes) or (self._gone is not None and now < self._gone + ABSENT_AFTER * SECOND)

    def deadline(self) -> int | None:
        return None if self._gone is None else self._gone + ABSENT_AFTER * SECOND

    def ended(self, now: int) -> bool:
        """Whether it has become certain that it does not run any more; told once."""
        if self._gone is None or self.runs(now):
            return False
        self._gone = None
        return True
