"""Where time comes from: given by the caller in a simulation, by the machine in a live lab."""

from __future__ import annotations

import time
from typing import Protocol

SECOND = 1_000_000_000


class Clock(Protocol):
    def now(self) -> int:
        """Unix time in nanoseconds. Never goes back."""


class VirtualClock:
    """Time that only moves when told to: a day passes as fast as its events are handled."""

    def __init__(self, start: int = 0) -> None:
        self._now = start

    def now(self) -> int:
        return self._now

    def move_to(self, moment: int) -> None:
        if moment < self._now:
            raise ValueError(f"time cannot go back from {self._now} to {moment}")
        self._now = moment


class RealClock:
    """Wall time that is immune to clock changes: read once, then counted by the monotonic clock.

    It starts no timers. Who runs the lab asks it for the next moment at which something
    happens and waits until then in its own way, for example with asyncio.
    """

    def __init__(self, not_before: int = 0) -> None:
        # A lab that is restarted on a machine with a clock set back must not live through a time twice.
        self._offset = max(time.time_ns(), not_before) - time.monotonic_ns()

    def now(self) -> int:
        return time.monotonic_ns() + self._offset

    def seconds_until(self, moment: int | None) -> float | None:
        """How long to wait for that moment; None waits for ever."""
        return None if moment is None else max(0.0, (moment - self.now()) / SECOND)
