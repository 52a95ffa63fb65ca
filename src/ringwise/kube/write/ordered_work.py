"""Work that must happen in order for one object, beside work for others; and how long to insist on it."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import structlog

from ringwise.kube.run.leader_election import Fence
from ringwise.kubeclient.client import ApiError, UnreachableError
from ringwise.kubeclient.clock import Backoff, Clock
from ringwise.kubeclient.credentials import KubeConfigError

_LOG = structlog.get_logger("ringwise.kube")

Action = Callable[[], Awaitable[object]]

#: Conflicts after which it is not chance any more: somebody else has the name.
MOST_CONFLICTS = 5


class GivenUpError(Exception):
    """The server said no for good, or nobody may write any more."""

    def __init__(self, why: str, status: int = 0, *, passes: bool = False) -> None:
        super().__init__(why)
        self.status = status
        #: It would go on, were it not tried often enough: the server is away, or has too much to do.
        self.passes = passes


class Persistence:
    """Tries again what may work the next time."""

    def __init__(self, fence: Fence, clock: Clock, chance: random.Random | None = None) -> None:
        self._fence = fence
        self._clock = clock
        self._chance = chance or random.Random()

    async def insist(self, action: Action, attempts: int | None = None) -> object:
        """The action's answer. What time does not mend is raised as GivenUpError with its status."""
        backoff = Backoff(0.2, 10.0, self._chance)
        made = conflicts = 0
        while True:
            if not self._fence.is_open:
                raise GivenUpError("this replica does not lead any more")
            pause = 0.0
            try:
                return await action()
            except ApiError as error:
                # Also a patch or a creation meets conflicts that pass: a quota that others change, too.
                conflicts += error.status == 409
                passes = error.status == 409 and error.reason == "Conflict" and conflicts < MOST_CONFLICTS
                if not passes and error.status != 429 and error.status < 500:
                    raise GivenUpError(str(error), error.status) from None
                why, pause = str(error), error.retry_after or 0.0
            except (UnreachableError, KubeConfigError) as error:
                why = str(error)
            made += 1
            if attempts is not None and made >= attempts:
                raise GivenUpError(f"{why} ({made} attempts)", passes=True)
            await self._clock.sleep(max(pause, backoff.pause()))


class Chains:
    """Steps by key: a step begins when the one before it has ended; actions of one step run side by side."""

    def __init__(self, at_once: int = 32) -> None:
        self._steps: dict[str, deque[Sequence[Action]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._limit = asyncio.Semaphore(at_once)

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, key: str, step: Sequence[Action]) -> None:
        waiting = self._steps.get(key)
        if waiting is not None:
            waiting.append(step)
            return
        self._steps[key] = deque([step])
        task = asyncio.create_task(self._run(key), name=f"chain {key}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, key: str) -> None:
        waiting = self._steps[key]
        try:
            while waiting:
                step = waiting.popleft()
                await asyncio.gather(*(self._one(action) for action in step))
        finally:
            del self._steps[key]

    async def _one(self, action: Action) -> None:
        async with self._limit:
            try:
                await action()
            except GivenUpError as error:
                _LOG.warning("given up", why=str(error))
            except Exception:
                # The next steps are for others to read: they must not be lost with this one.
                _LOG.exception("defect in a step")

    async def finish(self) -> None:
        """Wait for everything that was begun."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
