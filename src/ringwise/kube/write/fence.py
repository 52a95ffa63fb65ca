"""The fence: whether this replica may write to the API now."""

from __future__ import annotations

from ringwise.kubeclient.clock import Clock

#: Smallest number of seconds between the closing of the fence and the end of the lease. A binding that was
#: sent just before the fence closed must end within it, so its timeout is shorter.
MIN_FENCE_GAP = 5.0


class Fence:
    """Closed until leader election opens it. It closes by this replica's own clock, without a request."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = float("-inf")

    @property
    def is_open(self) -> bool:
        return self._clock.monotonic() < self._until

    def open_until(self, moment: float) -> None:
        self._until = moment

    def open_forever(self) -> None:
        """For a component with a single replica."""
        self._until = float("inf")

    def close(self) -> None:
        self._until = float("-inf")
