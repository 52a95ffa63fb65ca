"""The fence: whether this replica may write to the API now."""

from __future__ import annotations

from ringwise.kubeclient.clock import Clock

#: Smallest number of seconds between the closing of the fence and the end of the lease. A write that was
#: sent just before the fence closed must end within it.
MIN_FENCE_GAP = 5.0
#: Of these, the seconds in which no write is under way.
CANCEL_MARGIN = 0.5


class Fence:
    """Closed until leader election opens it. It closes by this replica's own clock, without a request."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = float("-inf")

    @property
    def is_open(self) -> bool:
        return self._clock.monotonic() < self._until

    def seconds_left(self) -> float:
        """Seconds until another replica may write; a write sent now must have ended. 0 while it is closed.

        Half a second is left for the write to be canceled.
        """
        left = self._until - self._clock.monotonic()
        return left + MIN_FENCE_GAP - CANCEL_MARGIN if left > 0 else 0.0

    def open_until(self, moment: float) -> None:
        self._until = moment

    def open_forever(self) -> None:
        """For a component with a single replica."""
        self._until = float("inf")

    def close(self) -> None:
        self._until = float("-inf")
