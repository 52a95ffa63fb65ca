"""Words about objects that wait to be written, a few at a time and none faster than it may."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, TypeVar

import structlog

from ringwise.kube.observer import Observer
from ringwise.kube.write.ordered_work import GivenUpError, Persistence
from ringwise.kubeclient.clock import Clock

_LOG = structlog.get_logger("ringwise.kube")

#: Words that wait to be written; above that the oldest is dropped and counted.
MOST_WAITING = 20_000
_ATTEMPTS = 5

Word = TypeVar("Word")
Gate = Callable[[], Awaitable[None]]


class Lane(Generic[Word]):
    """Words by object, written by a few workers in the order in which objects came up.

    A newer word about an object takes the place of one that was not written yet. `gate` is passed before
    each word; which word that is, is decided behind it. Words are dropped after a few attempts, but those of
    a `lasting` lane only when the server does not want them.
    """

    def __init__(
        self,
        name: str,
        write: Callable[[Word], Awaitable[object]],
        persistence: Persistence,
        workers: int,
        observer: Observer,
        gate: Gate | None = None,
        *,
        lasting: bool = False,
    ) -> None:
        self._name = name
        self._write = write
        self._persistence = persistence
        self._most = workers
        self._observer = observer
        self._gate = gate
        self._lasting = lasting
        # The first of many is found at once here, and not in a plain dict that lost those before it.
        self._waiting: OrderedDict[str, Word] = OrderedDict()
        #: Objects that are being written: the next word about them waits, or it could be overtaken.
        self._busy: set[str] = set()
        #: Of those, the ones whose word is not true any more: it is not tried again.
        self._void: set[str] = set()
        self._workers: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, key: str, word: Word) -> None:
        waiting = self._waiting
        if len(waiting) >= MOST_WAITING and key not in waiting:
            waiting.popitem(last=False)
            self._observer.status_dropped(self._name)
        waiting[key] = word
        if len(self._workers) < self._most:
            worker = asyncio.create_task(self._work(), name=f"status {self._name}")
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    @property
    def is_silent(self) -> bool:
        """Nothing waits, and nothing is being written."""
        return not self._waiting and not self._busy

    def withdraw(self, key: str) -> None:
        """What was to be said about this object is not true any more."""
        self._waiting.pop(key, None)
        if key in self._busy:
            self._void.add(key)

    async def _work(self) -> None:
        while self._waiting:
            if self._gate is not None:
                await self._gate()
            key = next((key for key in self._waiting if key not in self._busy), None)
            if key is None:
                # Whoever writes these objects now takes up what waits for them.
                break
            word = self._waiting.pop(key)
            self._busy.add(key)
            try:
                await self._persistence.insist(partial(self._try, key, word), _ATTEMPTS)
            except GivenUpError as error:
                if error.passes and self._lasting and key not in self._void:
                    # Somebody waits for it: it stands in line again, unless there is a newer one.
                    self._waiting.setdefault(key, word)
                    continue
                # Gone objects need no word any more.
                if error.status != 404:
                    self._observer.status_dropped(self._name)
                    _LOG.info("status not written", object=key, why=str(error))
            except Exception:
                # One word that cannot be said must not silence the others.
                self._observer.status_dropped(self._name)
                _LOG.exception("defect while writing a status", object=key)
            finally:
                self._busy.discard(key)
                self._void.discard(key)
            self._observer.queue_length(self._name, len(self._waiting))
        # Now, not in a callback: a word that comes in between would count on a worker that has ended.
        if (worker := asyncio.current_task()) is not None:
            self._workers.discard(worker)

    async def _try(self, key: str, word: Word) -> None:
        if key not in self._void:
            await self._write(word)

    async def finish(self) -> None:
        while self._workers:
            await asyncio.gather(*self._workers, return_exceptions=True)

    async def stop(self) -> None:
        self._waiting.clear()
        for worker in list(self._workers):
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)


class Rate:
    """So many per second, after so many at once. Who comes too early waits; nobody is turned away."""

    def __init__(self, clock: Clock, per_second: float, at_once: int) -> None:
        self._clock = clock
        self._per_second = per_second
        self._at_once = at_once
        self._left = float(at_once)
        self._filled = clock.monotonic()

    async def turn(self) -> None:
        moment = self._clock.monotonic()
        self._left = min(self._at_once, self._left + (moment - self._filled) * self._per_second)
        self._filled = moment
        self._left -= 1
        if self._left < 0:
            await self._clock.sleep(-self._left / self._per_second)
