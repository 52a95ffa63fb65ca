"""Work in order for one object, and concurrently for different objects."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from ringwise.kube.write.terminating_namespaces import TerminatingNamespaces
from ringwise.kubeclient.retry import Action, GivenUpError
from ringwise.log import Logger

_LOG = Logger()


class OrderedWork:
    """Steps by key.

    A step starts when the step before it has ended; the actions of one step run concurrently.
    """

    def __init__(self, concurrency: int = 32, namespaces: TerminatingNamespaces | None = None) -> None:
        self._namespaces = namespaces or TerminatingNamespaces()
        self._steps: dict[str, deque[Sequence[Action]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._limit = asyncio.Semaphore(concurrency)

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, key: str, step: Sequence[Action]) -> None:
        waiting = self._steps.get(key)
        if waiting is not None:
            waiting.append(step)
            return
        self._steps[key] = deque([step])
        task = asyncio.create_task(self._run(key), name=f"ordered work {key}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, key: str) -> None:
        waiting = self._steps[key]
        try:
            while waiting:
                step = waiting.popleft()
                await asyncio.gather(*(self._run_action(action) for action in step))
        finally:
            del self._steps[key]

    async def _run_action(self, action: Action) -> None:
        async with self._limit:
            try:
                await action()
            except GivenUpError as error:
                if not self._namespaces.explain(str(error)):
                    _LOG.warning("request given up", why=str(error))
            except Exception:
                # The next steps must not be lost with this one.
                _LOG.exception("internal error in a step")

    async def finish(self) -> None:
        """Wait for everything that was added."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
