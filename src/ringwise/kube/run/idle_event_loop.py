"""An event loop that tells when it has nothing to do.

One interpreter runs one thread at a time. Whoever sends a request lets go of it for a moment, and a thread
that decides would take it for milliseconds: each request would wait for several decisions. So the thread
that decides looks here first, and works while the event loop waits.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

Answer = TypeVar("Answer")


class _TellingSelector(selectors.DefaultSelector):
    def __init__(self, idle: threading.Event) -> None:
        super().__init__()
        self._idle = idle

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            # It only looks; there is something to do.
            return super().select(timeout)
        self._idle.set()
        try:
            return super().select(timeout)
        finally:
            self._idle.clear()


class TellingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        #: Set while it waits for the world.
        self.idle = threading.Event()
        super().__init__(_TellingSelector(self.idle))


def idleness() -> threading.Event:
    """Set while the running loop has nothing to do; always, where it does not tell."""
    loop = asyncio.get_running_loop()
    if isinstance(loop, TellingLoop):
        return loop.idle
    always = threading.Event()
    always.set()
    return always


def run(main: Coroutine[Any, Any, Answer]) -> Answer:
    """Like `asyncio.run`, in a loop that tells."""
    with asyncio.Runner(loop_factory=TellingLoop) as runner:
        return runner.run(main)
