"""The observer of a component: what `metrics` counts, without a dependency on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class ComponentObserver(Protocol):
    """Called from the event loop; `cycle`, `pending`, `chips` and `shadow` from the core thread."""

    def cycle(self, seconds: float, events: int, commands: int) -> None: ...

    def bound(self, seconds: float) -> None:
        """A pod was bound this many seconds after the decision."""

    def bind_failed(self, kind: str) -> None: ...

    def bind_retried(self, kind: str) -> None: ...

    def queue_length(self, queue: str, length: int) -> None: ...

    def leading(self, leads: bool) -> None: ...

    def relisted(self, kind: str, why: str) -> None: ...

    def malformed(self, count: int) -> None: ...

    def status_dropped(self, kind: str) -> None: ...

    def pending(self, by_reason: Mapping[str, int]) -> None: ...

    def jobs_set_aside(self, reason: str, times: int) -> None:
        """So many more attempts to place a job took too many steps. Called from the core thread."""

    def chips(self, resource: str, counts: Mapping[str, int], before_drain: int) -> None:
        """`before_drain`: of the free ones, on nodes that are drained later."""

    def rescheduling_left_out(self, entries: int) -> None: ...

    def shadow(self, outcome: str) -> None: ...

    def journal_dropped(self) -> None:
        """A turn is missing in the journal. Called from the core thread and from the journal's."""


class NullObserver(ComponentObserver):
    """Ignores everything."""
