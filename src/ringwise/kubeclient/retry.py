"""Backoff, and retries of requests that may succeed later."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ringwise.kubeclient.client import MAX_CONFLICTS, ApiError, FencedError, UnreachableError
from ringwise.kubeclient.clock import Clock
from ringwise.kubeclient.credentials import KubeConfigError

Action = Callable[[], Awaitable[object]]
Answer = TypeVar("Answer")


class Backoff:
    """Pauses that double up to a limit, with jitter: replicas must not return to a server all at once."""

    def __init__(self, first: float = 0.2, most: float = 30.0, rng: random.Random | None = None) -> None:
        self._first = first
        self._most = most
        self._rng = rng or random.Random()
        self._next = first

    def reset(self) -> None:
        self._next = self._first

    def pause(self) -> float:
        """Seconds to wait now: between half of the current step and all of it."""
        step = self._next
        self._next = min(self._next * 2, self._most)
        return step * (0.5 + self._rng.random() / 2)


class GivenUpError(Exception):
    """The server refused for good, the attempts are used up, or this process can no longer write."""

    def __init__(self, why: str, status: int = 0, *, retryable: bool = False) -> None:
        super().__init__(why)
        #: HTTP status of the refusal; 0 where there was none.
        self.status = status
        #: Only the attempts were used up: the server cannot be reached, or is overloaded.
        self.retryable = retryable


class Retrier:
    """Runs requests and retries those that fail for a reason that can pass.

    `may_write` is checked before every attempt: a replica that lost its lease stops retrying, also while
    nothing can be sent. What is sent passes the write gate of the client.

    At most `in_flight` attempts are made at once. A request that pauses before its next attempt is none of
    them: one that always fails, because of one object or one namespace, must not delay the others.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        may_write: Callable[[], bool] = lambda: True,
        rng: random.Random | None = None,
        in_flight: int = 64,
    ) -> None:
        self._clock = clock
        self._in_flight = asyncio.Semaphore(in_flight)
        self._may_write = may_write
        self._rng = rng or random.Random()

    async def run(self, action: Callable[[], Awaitable[Answer]], attempts: int | None = None) -> Answer:
        """The action's result. Raises GivenUpError; without `attempts` only for what a retry cannot fix."""
        backoff = Backoff(0.2, 10.0, self._rng)
        made = conflicts = 0
        while True:
            pause = 0.0
            try:
                async with self._in_flight:
                    if not self._may_write():
                        raise GivenUpError("this replica is no longer the leader")
                    return await action()
            except ApiError as error:
                # Creations and patches can meet conflicts that pass, for example on a quota.
                conflicts += error.status == 409
                conflict_passes = (
                    error.status == 409 and error.reason == "Conflict" and conflicts < MAX_CONFLICTS
                )
                if not conflict_passes and error.status != 429 and error.status < 500:
                    raise GivenUpError(str(error), error.status) from None
                why, pause = str(error), error.retry_after or 0.0
            except FencedError as error:
                raise GivenUpError(str(error)) from None
            except (UnreachableError, KubeConfigError) as error:
                why = str(error)
            made += 1
            if attempts is not None and made >= attempts:
                raise GivenUpError(f"{why} ({made} attempts)", retryable=True)
            await self._clock.sleep(max(pause, backoff.pause()))
