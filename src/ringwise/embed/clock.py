"""Clocks of the embedded cluster: virtual time for simulations, scaled real time for a live lab."""

from __future__ import annotations

import time
from typing import Protocol

from ringwise.durations import SECOND


class SimulationClock(Protocol):
    def now(self) -> int:
        """Unix time in nanoseconds. Never decreases."""


class VirtualClock:
    """Time that moves only when it is set: a day takes as long as its events take to handle."""

    def __init__(self, start: int = 0) -> None:
        self._now = start

    def now(self) -> int:
        return self._now

    def move_to(self, moment: int) -> None:
        if moment < self._now:
            raise ValueError(f"time cannot go back from {self._now} to {moment}")
        self._now = moment


class ScaledClock:
    """Real time, faster or slower by a factor. It follows the monotonic clock of the machine.

    It never starts before `not_before`, so that a lab does not repeat a time when the machine's clock was set
    back. It starts no timers: the caller waits for `seconds_until` the next deadline.
    """

    def __init__(self, not_before: int = 0, speed: float = 1.0) -> None:
        self._speed = speed
        self._began = time.monotonic_ns()
        self._start = max(time.time_ns(), not_before)

    def now(self) -> int:
        return self._start + int((time.monotonic_ns() - self._began) * self._speed)

    def seconds_until(self, moment: int) -> float:
        """Real seconds until that moment."""
        return max(0.0, (moment - self.now()) / SECOND / self._speed)
