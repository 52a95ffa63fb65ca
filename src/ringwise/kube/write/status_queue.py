"""Queues of status updates, conditions and events that wait to be written, each with a few workers."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field
from functools import partial

from ringwise.kube.write.context import WriteContext
from ringwise.kubeclient.clock import Clock
from ringwise.kubeclient.retry import Action, GivenUpError, Retrier
from ringwise.kubeclient.tasks import end, first_of
from ringwise.log import Logger
from ringwise.records import dataclass

_LOG = Logger()

#: Entries that wait in one queue; above that the oldest is dropped and counted.
MAX_WAITING = 20_000
#: Seconds for which status and conditions wait at most for work that comes first, and events.
MAX_STATUS_WAIT = 10.0
MAX_EVENT_WAIT = 30.0
_ATTEMPTS = 5

#: Since when it waits, and what writes it.
_Entry = tuple[float, Action]


class Precedence:
    """Bindings come first, and the creation of pods: other writes wait until none is under way.

    They wait for a limited time: under a load that never ends they are late, and are written all the same.
    """

    def __init__(self, clock: Clock, idle: Sequence[asyncio.Event] = ()) -> None:
        self._clock = clock
        #: Each is set while there is nothing of its kind to do.
        self._idle = idle

    async def wait(self, since: float, longest: float) -> None:
        """Until there is no such work, but not longer than this many seconds after `since`."""
        while (busy := next((one for one in self._idle if not one.is_set()), None)) is not None:
            left = since + longest - self._clock.monotonic()
            if left <= 0:
                return
            await first_of(busy.wait(), self._clock.sleep(left))


@dataclass(slots=True, eq=False)
class StatusQueue:
    """Writes by object, made by a few workers in the order in which the objects came.

    A newer entry replaces one of the same object that was not written yet. `before_write` is awaited before
    each write, with the time since which the oldest entry waits; the entry is chosen after it, so it is the
    newest. Urgent entries do not wait for it and have workers of their own. An entry is dropped after a few
    attempts; with `requeue` it goes back into the queue instead, unless the server refused it for good.
    """

    name: str
    context: WriteContext
    retrier: Retrier
    max_workers: int
    before_write: Callable[[float], Awaitable[None]]
    requeue: bool = False
    # An OrderedDict finds its first key at once; a plain dict that lost many leading keys does not.
    _waiting: OrderedDict[str, _Entry] = field(init=False, default_factory=OrderedDict)
    _urgent: OrderedDict[str, _Entry] = field(init=False, default_factory=OrderedDict)
    #: Objects that are being written. Their next entry waits, or it could be overtaken.
    _writing: set[str] = field(init=False, default_factory=set)
    #: Of those, the ones whose entry is obsolete: it is not retried.
    _obsolete: set[str] = field(init=False, default_factory=set)
    _workers: set[asyncio.Task[None]] = field(init=False, default_factory=set)
    _urgent_workers: set[asyncio.Task[None]] = field(init=False, default_factory=set)

    def __len__(self) -> int:
        return len(self._waiting) + len(self._urgent)

    def put(self, key: str, write: Action, *, urgent: bool = False) -> None:
        queue, other = (self._urgent, self._waiting) if urgent else (self._waiting, self._urgent)
        if other:
            other.pop(key, None)
        before = queue.get(key)
        if before is None and len(queue) >= MAX_WAITING:
            queue.popitem(last=False)
            self.context.observer.dropped_updates.inc(self.name)
        queue[key] = (self.context.clock.monotonic() if before is None else before[0], write)
        self._start(urgent)

    def _start(self, urgent: bool) -> None:
        workers = self._urgent_workers if urgent else self._workers
        if len(workers) < self.max_workers:
            worker = asyncio.create_task(self._work(urgent), name=f"status {self.name}")
            workers.add(worker)
            worker.add_done_callback(workers.discard)

    @property
    def is_idle(self) -> bool:
        """Nothing waits, and nothing is being written."""
        return not self._waiting and not self._urgent and not self._writing

    def discard(self, key: str) -> bool:
        """The entry of this object is obsolete: do not write it. Whether one is being written already."""
        self._waiting.pop(key, None)
        self._urgent.pop(key, None)
        if key not in self._writing:
            return False
        self._obsolete.add(key)
        return True

    async def _work(self, urgent: bool) -> None:
        while (taken := await self._take(urgent)) is not None:
            queue, key, entry = taken
            try:
                await self.retrier.run(partial(self._attempt, key, entry[1]), _ATTEMPTS)
            except GivenUpError as error:
                if error.retryable and self.requeue and key not in self._obsolete:
                    # Controllers wait for it, so it is queued again, unless there is a newer entry.
                    if key not in self._waiting and key not in self._urgent:
                        queue[key] = entry
                    continue
                # An object that is gone needs no status.
                if error.status != 404:
                    self.context.observer.dropped_updates.inc(self.name)
                    if not self.context.namespaces.explain(str(error)):
                        _LOG.info("status not written", object=key, why=str(error))
            except Exception:
                # One entry that cannot be written must not stop the others.
                self.context.observer.dropped_updates.inc(self.name)
                _LOG.exception("internal error while writing a status", object=key)
            finally:
                self._writing.discard(key)
                self._obsolete.discard(key)
            self.context.observer.queue_length(self.name, len(self))
        # Here and not in a callback: an entry put in between would rely on a worker that has ended.
        if (worker := asyncio.current_task()) is not None:
            (self._urgent_workers if urgent else self._workers).discard(worker)
        # The next entry of an object that this worker wrote may be for workers of the other kind.
        for left, kind in ((self._urgent, True), (self._waiting, False)):
            if self._first(left) is not None:
                self._start(kind)

    async def _take(self, urgent: bool) -> tuple[OrderedDict[str, _Entry], str, _Entry] | None:
        """The next entry, which counts as being written from now on."""
        if self._first(self._urgent) is None:
            if urgent or not self._waiting:
                return None
            await self.before_write(next(iter(self._waiting.values()))[0])
        for queue in (self._urgent, self._waiting):
            if (key := self._first(queue)) is not None:
                self._writing.add(key)
                return queue, key, queue.pop(key)
        # The workers that write these objects take their next entries, too.
        return None

    def _first(self, queue: OrderedDict[str, _Entry]) -> str | None:
        return next((key for key in queue if key not in self._writing), None)

    async def _attempt(self, key: str, write: Action) -> None:
        if key not in self._obsolete:
            await write()

    async def finish(self) -> None:
        while workers := (self._workers | self._urgent_workers):
            await asyncio.gather(*workers, return_exceptions=True)

    async def stop(self) -> None:
        self._waiting.clear()
        self._urgent.clear()
        await end(*self._workers, *self._urgent_workers)
