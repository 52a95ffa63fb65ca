"""One timer per pod: what happens to it next by itself."""

from __future__ import annotations

from heapq import heappop, heappush

from ringwise.embed.kubelet import Next, Step


class Timers:
    """Moments in order; those of the same time in the order in which they were set."""

    def __init__(self) -> None:
        self._queue: list[tuple[int, int, str]] = []
        self._current: dict[str, tuple[int, Next]] = {}
        self._ticket = 0

    def set(self, uid: str, coming: Next | None) -> None:
        """Replace the pod's timer; None takes it away."""
        self._current.pop(uid, None)
        if coming is not None:
            self._ticket += 1
            self._current[uid] = (self._ticket, coming)
            heappush(self._queue, (coming.at, self._ticket, uid))

    def next(self) -> int | None:
        while self._queue:
            at, ticket, uid = self._queue[0]
            current = self._current.get(uid)
            if current is not None and current[0] == ticket:
                return at
            heappop(self._queue)
        return None

    def pop(self) -> tuple[str, Step]:
        """The next one, which must exist."""
        _, _, uid = heappop(self._queue)
        _, coming = self._current.pop(uid)
        return uid, coming.step
