"""Detects a core thread that hangs: it works, and makes no progress.

    healthy ──timeout──> /healthz fails, the lease is released ──timeout again──> the process exits

Progress is a number that the core changes with every event, every job and every attempt to place a job. While
the core waits for events there is no number, and that counts as progress.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from ringwise.kubeclient.clock import Clock
from ringwise.log import Logger

_LOG = Logger()

#: Seconds without progress after which the core counts as hung.
STALL_TIMEOUT = 15.0
#: Seconds between two checks, where the timeout is not shorter than a few of them.
CHECK_INTERVAL = 1.0
#: Exit code of an internal error.
_EXIT_CODE = 70


def end_process() -> None:
    """At once: a hung thread cannot be joined, so an orderly end could hang as well."""
    sys.stderr.flush()
    os._exit(_EXIT_CODE)


class Watchdog:
    """Checks the progress of the core in the event loop, by the clock of the event loop.

    Time in which the event loop did not run either, as in a process that was paused, does not count: the core
    could not make progress in it.
    """

    def __init__(
        self,
        progress: Callable[[], int | None],
        clock: Clock,
        timeout: float = STALL_TIMEOUT,
        on_hung: Callable[[], object] = end_process,
    ) -> None:
        self._progress = progress
        self._clock = clock
        self._timeout = timeout
        self._on_hung = on_hung
        self._interval = min(CHECK_INTERVAL, timeout / 4)
        self._seen: int | None = None
        self._stalled = 0.0

    @property
    def healthy(self) -> bool:
        return self._stalled < self._timeout

    async def run(self) -> None:
        while True:
            began = self._clock.monotonic()
            await self._clock.sleep(self._interval)
            self._check(min(self._clock.monotonic() - began, 2 * self._interval))

    def _check(self, elapsed: float) -> None:
        progress = self._progress()
        if progress is None or progress != self._seen:
            if not self.healthy:
                _LOG.warning("the core makes progress again", seconds=round(self._stalled, 1))
            self._seen = progress
            self._stalled = 0.0
            return
        before, self._stalled = self._stalled, self._stalled + elapsed
        if before < self._timeout <= self._stalled:
            _LOG.error("the core makes no progress", seconds=round(self._stalled, 1))
        if before < 2 * self._timeout <= self._stalled:
            _LOG.error("the core hangs; the process exits", seconds=round(self._stalled, 1))
            self._on_hung()
