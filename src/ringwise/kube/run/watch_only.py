"""Watching a cluster without a decision: for the dashboard beside a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ringwise.kube.run.core_thread import Deliver, SchedulerAdapter
from ringwise.messages import events as ev
from ringwise.messages.commands import Command


class WatchOnlyAdapter(SchedulerAdapter):
    """A scheduler that knows everything and decides nothing."""

    def send_early(self, deliver: Deliver, yield_to_loop: Callable[[], object]) -> None:
        """Nothing is sent."""

    def decide(self, events: Sequence[ev.Event], now: int) -> list[Command]:
        self.absorb(events, now)
        return []

    def next_deadline(self) -> int | None:
        return None

    def prepare(self, now: int) -> None:
        """There is no first decision."""
