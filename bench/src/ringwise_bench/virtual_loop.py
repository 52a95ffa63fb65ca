"""An event loop whose time jumps: an idle hour takes as long as the work in it."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar, TypeVarTuple

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")


class _JumpingSelector(selectors.DefaultSelector):
    """Where the loop would wait for a timer, the time moves on instead."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is not None and timeout > 0:
            self.time += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """For programs without sockets. What they give to threads is done at once."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.time

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*_Ts], _T], *args: *_Ts
    ) -> asyncio.Future[_T]:
        future: asyncio.Future[_T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future


class LoopClock:
    """The clock of the running virtual loop."""

    def __init__(self, start: int) -> None:
        self._start = start

    def now(self) -> int:
        return self._start + int(self.monotonic() * 1e9)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
