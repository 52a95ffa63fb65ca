"""A rate limit: so many requests per second on average, with bursts."""

from __future__ import annotations

from ringwise.kubeclient.clock import Clock


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
        if pause > 0:
            await self._clock.sleep(max(pause, self._pause))

    def take(self) -> bool:
        """Take a token if one is available, and return whether it was."""
        now = self._clock.monotonic()
        due = max(self._next, now)
        if due - self._burst_seconds > now:
            return False
        self._next = due + self._interval
        return True
