"""Where this room gets its time and its chance from, so that tests can hand in their own."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> int:
        """Unix time in nanoseconds: what objects carry."""

    def monotonic(self) -> float:
        """Seconds that never go back: what leases and time-outs count by."""

    async def sleep(self, seconds: float) -> None: ...


class RealClock:
    def now(self) -> int:
        return time.time_ns()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Backoff:
    """Growing pauses with jitter: many replicas that lost one server must not come back as one wave."""

    def __init__(self, first: float = 0.2, most: float = 30.0, chance: random.Random | None = None) -> None:
        self._first = first
        self._most = most
        self._chance = chance or random.Random()
        self._next = first

    def reset(self) -> None:
        self._next = self._first

    def pause(self) -> float:
        """Seconds to wait now: between half and all of the present step."""
        step = self._next
        self._next = min(self._next * 2, self._most)
        return step * (0.5 + self._chance.random() / 2)
