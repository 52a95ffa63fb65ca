"""The clock of components that use the API, as a protocol so that tests can pass their own."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> int:
        """Unix time in nanoseconds, for timestamps in objects."""

    def monotonic(self) -> float:
        """Seconds that never decrease, for leases and timeouts."""

    async def sleep(self, seconds: float) -> None: ...


class RealClock:
    def now(self) -> int:
        return time.time_ns()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
