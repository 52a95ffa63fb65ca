"""Queues of status updates, conditions and events that wait to be written, each with a few workers."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, TypeVar

from ringwise.kube.observer import ComponentObserver
from ringwise.kube.write.terminating_namespaces import TerminatingNamespaces
from ringwise.kubeclient.retry import GivenUpError, Retrier
from ringwise.log import Logger

_LOG = Logger()

#: Entries that wait in one queue; above that the oldest is dropped and counted.
MAX_WAITING = 20_000
#: Seconds for which conditions and events wait for bindings before some are written all the same.
MAX_BINDING_WAIT = 2.0
_ATTEMPTS = 5

Entry = TypeVar("Entry")


class StatusQueue(Generic[Entry]):
    """Entries by object, written by a few workers in the order in which the objects came.

    A newer entry replaces one of the same object that was not written yet. `before_write` is awaited before
    each write; the entry is chosen after it, so it is the newest. An entry is dropped after a few attempts;
    with `requeue` it goes back into the queue instead, unless the server refused it for good.
    """

    def __init__(
        self,
        name: str,
        write: Callable[[Entry], Awaitable[object]],
        retrier: Retrier,
        workers: int,
        observer: ComponentObserver,
        before_write: Callable[[], Awaitable[None]] | None = None,
        *,
        requeue: bool = False,
        namespaces: TerminatingNamespaces | None = None,
    ) -> None:
        self._namespaces = namespaces or TerminatingNamespaces()
        self._name = name
        self._write = write
        self._retrier = retrier
        self._max_workers = workers
        self._observer = observer
        self._before_write = before_write
        self._requeue = requeue
        # An OrderedDict finds its first key at once; a plain dict that lost many leading keys does not.
        self._waiting: OrderedDict[str, Entry] = OrderedDict()
        #: Objects that are being written. Their next entry waits, or it could be overtaken.
        self._writing: set[str] = set()
        #: Of those, the ones whose entry is obsolete: it is not retried.
        self._obsolete: set[str] = set()
        self._workers: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, key: str, entry: Entry) -> None:
        waiting = self._waiting
        if len(waiting) >= MAX_WAITING and key not in waiting:
            waiting.popitem(last=False)
            self._observer.status_dropped(self._name)
        waiting[key] = entry
        if len(self._workers) < self._max_workers:
            worker = asyncio.create_task(self._work(), name=f"status {self._name}")
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    @property
    def is_idle(self) -> bool:
        """Nothing waits, and nothing is being written."""
        return not self._waiting and not self._writing

    def discard(self, key: str) -> bool:
        """The entry of this object is obsolete: do not write it. Whether one is being written already."""
        self._waiting.pop(key, None)
        if key not in self._writing:
            return False
        self._obsolete.add(key)
        return True

    async def _work(self) -> None:
        while self._waiting:
            if self._before_write is not None:
                await self._before_write()
            key = next((key for key in self._waiting if key not in self._writing), None)
            if key is None:
                # The workers that write these objects take their next entries, too.
                break
            entry = self._waiting.pop(key)
            self._writing.add(key)
            try:
                await self._retrier.run(partial(self._attempt, key, entry), _ATTEMPTS)
            except GivenUpError as error:
                if error.retryable and self._requeue and key not in self._obsolete:
                    # Controllers wait for it, so it is queued again, unless there is a newer entry.
                    self._waiting.setdefault(key, entry)
                    continue
                # An object that is gone needs no status.
                if error.status != 404:
                    self._observer.status_dropped(self._name)
                    if not self._namespaces.explain(str(error)):
                        _LOG.info("status not written", object=key, why=str(error))
            except Exception:
                # One entry that cannot be written must not stop the others.
                self._observer.status_dropped(self._name)
                _LOG.exception("internal error while writing a status", object=key)
            finally:
                self._writing.discard(key)
                self._obsolete.discard(key)
            self._observer.queue_length(self._name, len(self._waiting))
        # Here and not in a callback: an entry put in between would rely on a worker that has ended.
        if (worker := asyncio.current_task()) is not None:
            self._workers.discard(worker)

    async def _attempt(self, key: str, entry: Entry) -> None:
        if key not in self._obsolete:
            await self._write(entry)

    async def finish(self) -> None:
        while self._workers:
            await asyncio.gather(*self._workers, return_exceptions=True)

    async def stop(self) -> None:
        self._waiting.clear()
        for worker in list(self._workers):
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)


async def wait_for_bindings(bindings_idle: asyncio.Event | None) -> None:
    """Bindings have precedence: wait until none is under way, for `MAX_BINDING_WAIT` seconds at most."""
    if bindings_idle is None or bindings_idle.is_set():
        return
    try:
        async with asyncio.timeout(MAX_BINDING_WAIT):
            await bindings_idle.wait()
    except TimeoutError:
        return
