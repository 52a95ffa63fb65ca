"""Calls of a driver that may hang: a caller stops waiting after a time, and the other calls are still made.

A call into a library cannot be ended. So each batch of calls has a thread of its own; when a call does not
return in time, the rest of the batch continues in another thread, and what hangs is not called again before
it has returned. There are never more threads than different calls.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, Generic, TypeVar

from ringwise.device.drivers.port import DriverError
from ringwise.log import Logger

_LOG = Logger()

#: Seconds for each further call of a batch in which one hangs: most likely the whole driver does.
SHORT_TIMEOUT = 1.0

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Outcome = TypeVar("Outcome")


class DriverCalls:
    """The calls of one driver."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._hanging: set[Hashable] = set()

    @property
    def hanging(self) -> int:
        """Calls that have not returned."""
        return len(self._hanging)

    async def one(self, name: str, work: Callable[[], Value]) -> Value:
        """One call. Raises DriverError, also when it hangs."""
        values, problems = await self.each({name: work})
        if problems:
            raise DriverError(problems[name])
        return values[name]

    async def each(
        self, works: Mapping[Key, Callable[[], Value]], timeout: Mapping[Key, float] | None = None
    ) -> tuple[dict[Key, Value], dict[Key, str]]:
        """What each call returned, and why the others did not: one line each.

        `timeout` in seconds, for calls that have one of their own.
        """
        seconds = {key: (timeout or {}).get(key, self._timeout) for key in works}
        values: dict[Key, Value] = {}
        problems = {key: _hangs(seconds[key]) for key in works if key in self._hanging}
        left = {key: work for key, work in works.items() if key not in problems}
        longest = self._timeout
        while left:
            batch = _Batch(left)
            hung = await self._run(batch, seconds, longest)
            values |= batch.values
            problems |= batch.problems
            if hung is not None:
                problems[hung] = _hangs(seconds[hung])
                longest = min(longest, SHORT_TIMEOUT)
            left = {key: work for key, work in left.items() if key not in values and key not in problems}
        return values, problems

    async def _run(
        self, batch: _Batch[Key, Value], seconds: Mapping[Key, float], longest: float
    ) -> Key | None:
        """Until all is done, or the key of a call that hangs."""
        done: Future[None] = Future()
        # A thread of its own, which does not keep the process from ending.
        threading.Thread(target=batch.run, args=(done,), name="driver", daemon=True).start()
        future = asyncio.wrap_future(done)
        while not future.done():
            before = batch.done
            await asyncio.wait({future}, timeout=min(seconds[batch.current], longest))
            if not future.done() and batch.give_up(before):
                hung = batch.current
                self._hanging.add(hung)
                future.add_done_callback(partial(self._returned, hung))
                return hung
        return None

    def _returned(self, key: Hashable, _: asyncio.Future[None]) -> None:
        self._hanging.discard(key)


def _hangs(seconds: float) -> str:
    return f"the driver does not answer within {seconds:g}s"


class _Batch(Generic[Key, Value]):
    """Calls one after the other, in a thread."""

    def __init__(self, works: Mapping[Key, Callable[[], Value]]) -> None:
        self._works = works
        self._lock = threading.Lock()
        self._stopped = False
        self.done = 0
        self.current: Key = next(iter(works))
        self.values: dict[Key, Value] = {}
        self.problems: dict[Key, str] = {}

    def run(self, done: Future[None]) -> None:
        for key, work in self._works.items():
            with self._lock:
                if self._stopped:
                    break
                self.current = key
            try:
                self._finished(self.values, key, work())
            except DriverError as error:
                self._finished(self.problems, key, str(error))
            except Exception as error:
                # What a driver answers may be anything; it ends no loop of the plugin.
                self._finished(self.problems, key, f"{type(error).__name__}: {error}")
        done.set_result(None)

    def _finished(self, outcomes: dict[Key, Outcome], key: Key, outcome: Outcome) -> None:
        """What comes too late is dropped."""
        with self._lock:
            if not self._stopped:
                outcomes[key] = outcome
                self.done += 1

    def give_up(self, done: int) -> bool:
        """End after the current call, unless one has returned since so many were done."""
        with self._lock:
            self._stopped = self.done == done
            return self._stopped


class Notices:
    """Says in the log what does not work, once for each change."""

    def __init__(self) -> None:
        self._said: dict[Hashable, str] = {}

    def problem(self, key: Hashable, event: str, why: str, **fields: Any) -> None:
        if self._said.get(key) != why:
            self._said[key] = why
            _LOG.warning(event, why=why, **fields)

    def works(self, key: Hashable, event: str, **fields: Any) -> None:
        """What did not work before does so again."""
        if self._said.pop(key, None) is not None:
            _LOG.info(event, **fields)
