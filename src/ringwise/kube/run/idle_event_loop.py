"""An event loop that shows when it is idle.

The interpreter runs one thread at a time. The event loop releases it for a moment with every request it
sends, and a deciding thread would keep it for milliseconds: each request would wait for several decisions. So
the core thread decides while the event loop is idle.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

Answer = TypeVar("Answer")


class _IdleEvent(threading.Event):
    """Set and cleared with every request, and seldom waited for: only those who wait cost a lock."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()
        self._is_set = False
        self._waiting = 0

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        if self._waiting:
            with self._changed:
                self._changed.notify_all()

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Also returns when it was set and cleared meanwhile."""
        with self._changed:
            # Before it is looked at: whoever sets it after that sees that somebody waits.
            self._waiting += 1
            try:
                return self._is_set or self._changed.wait(timeout)
            finally:
                self._waiting -= 1


class _IdleSelector(selectors.DefaultSelector):
    def __init__(self, idle: threading.Event) -> None:
        super().__init__()
        self._idle = idle

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            # The loop only polls, because callbacks are waiting.
            return super().select(timeout)
        self._idle.set()
        try:
            return super().select(timeout)
        finally:
            self._idle.clear()


class IdleEventLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        #: Set while the loop waits for I/O or for a timer.
        self.idle: threading.Event = _IdleEvent()
        super().__init__(_IdleSelector(self.idle))


def loop_idle_event() -> threading.Event:
    """Set while the running loop is idle; always set, where it is not an `IdleEventLoop`."""
    loop = asyncio.get_running_loop()
    if isinstance(loop, IdleEventLoop):
        return loop.idle
    always = threading.Event()
    always.set()
    return always


def run(main: Coroutine[Any, Any, Answer]) -> Answer:
    """Like `asyncio.run`, in an `IdleEventLoop`."""
    with asyncio.Runner(loop_factory=IdleEventLoop) as runner:
        return runner.run(main)
