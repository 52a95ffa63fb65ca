"""Work in order for one object, and concurrently for different objects."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from ringwise.kube.write.terminating_namespaces import TerminatingNamespaces
from ringwise.kubeclient.retry import Action, GivenUpError
from ringwise.kubeclient.tasks import end
from ringwise.log import Logger
from ringwise.records import dataclass

_LOG = Logger()


@dataclass(frozen=True, slots=True)
class _Step:
    """Actions that run concurrently."""

    actions: Sequence[Action]
    #: A step that waits right before one of the same kind is left out: the later one says all it says.
    kind: str = ""
    #: Wait for work that comes first, unless another step waits for this one.
    patient: bool = False


class OrderedWork:
    """Steps by key. A step starts when the step before it has ended."""

    def __init__(
        self,
        namespaces: TerminatingNamespaces | None = None,
        wait: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        self._namespaces = namespaces or TerminatingNamespaces()
        self._steps: dict[str, deque[_Step]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        #: What patient steps wait for.
        self._wait = wait
        #: The waits of patient steps, by key: another step of that key ends them.
        self._waits: dict[str, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._steps)

    def waiting(self, key: str) -> int:
        """Return how many steps of the key have not started."""
        return len(self._steps.get(key, ()))

    def add(self, key: str, actions: Sequence[Action], *, kind: str = "", patient: bool = False) -> None:
        step = _Step(actions, kind, patient)
        waiting = self._steps.get(key)
        if waiting is not None:
            if kind and waiting and waiting[-1].kind == kind:
                waiting[-1] = step
                return
            waiting.append(step)
            if key in self._waits:
                self._waits[key].cancel()
            return
        self._steps[key] = deque([step])
        task = asyncio.create_task(self._run(key), name=f"ordered work {key}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, key: str) -> None:
        waiting = self._steps[key]
        try:
            while waiting:
                if waiting[0].patient and len(waiting) == 1 and self._wait is not None:
                    await self._wait_for(key, self._wait)
                step = waiting.popleft()
                await asyncio.gather(*(self._run_action(action) for action in step.actions))
        finally:
            del self._steps[key]

    async def _wait_for(self, key: str, wait: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """A step stays in the queue meanwhile, so that a later one can take its place."""
        waits = self._waits[key] = asyncio.ensure_future(wait())
        try:
            await asyncio.wait([waits])
        finally:
            del self._waits[key]
            await end(waits)

    async def _run_action(self, action: Action) -> None:
        try:
            await action()
        except GivenUpError as error:
            if not self._namespaces.explain(str(error)):
                _LOG.warning("request abandoned", why=str(error))
        except Exception:
            # The next steps must not be lost with this one.
            _LOG.exception("internal error in a step")

    async def finish(self) -> None:
        """Wait for everything that was added."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def stop(self) -> None:
        await end(*self._tasks)
