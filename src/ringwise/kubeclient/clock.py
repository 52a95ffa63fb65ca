"""The clock of components that use the API, as a protocol so that tests can pass their own; a rate limit."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from ringwise.durations import SECOND


class Clock(Protocol):
    def now(self) -> int:
        """Unix time in nanoseconds, for timestamps in objects."""

    def monotonic(self) -> float:
        """Seconds that never decrease, for leases and timeouts."""

    async def sleep(self, seconds: float) -> None: ...


#: Linux: the monotonic clock stands still while the machine is suspended, and leases of other machines end.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class RealClock:
    def now(self) -> int:
        return time.time_ns()

    def monotonic(self) -> float:
        return time.clock_gettime(_CLOCK)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SteadyTime:
    """Unix time in nanoseconds that is never set back: no deadline moves away when the clock is corrected.

    It follows the wall clock. If that was set back, the monotonic clock continues from the last value.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = clock.now()
        self._moment = clock.monotonic()

    def now(self) -> int:
        wall, moment = self._clock.now(), self._clock.monotonic()
        expected = self._last + int((moment - self._moment) * SECOND)
        # Less than a second is not a correction: the two clocks were not read at the same time.
        self._last = max(wall, self._last) if expected - wall < SECOND else expected
        self._moment = moment
        return self._last


#: Seconds. Sums of intervals are rounded; the last request of a burst must not wait for that reason.
_ROUNDING = 1e-6


class RateLimit:
    """A token bucket. Callers of `wait` get tokens in the order of their calls; none is rejected.

    With a `pause` of so many seconds those who have to wait wait at least that long, so that several come
    together.
    """

    def __init__(self, per_second: float, burst: int, clock: Clock, *, pause: float = 0.0) -> None:
        self._interval = 1 / per_second
        #: How many seconds a burst may run ahead of the average rate.
        self._burst_seconds = (burst - 1) / per_second
        self._clock = clock
        self._pause = pause
        #: When the next turn would be at the average rate.
        self._next = clock.monotonic()

    async def wait(self) -> None:
        """Return when one more request may be sent."""
        now = self._clock.monotonic()
        due = max(self._next, now)
        self._next = due + self._interval
        pause = due - self._burst_seconds - now
        if pause > _ROUNDING:
            await self._clock.sleep(max(pause, self._pause))

    def take(self) -> bool:
        """Take a token if one is available, and return whether it was."""
        now = self._clock.monotonic()
        due = max(self._next, now)
        if due - self._burst_seconds - now > _ROUNDING:
            return False
        self._next = due + self._interval
        return True
