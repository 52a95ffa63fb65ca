"""Fewer requests a second than the API server could bear, where an operator wants it so."""

from __future__ import annotations

from collections.abc import Mapping

from ringwise.kubeclient.client import TIMEOUT, Client
from ringwise.kubeclient.clock import Clock, RealClock
from ringwise.kubeclient.config import Access
from ringwise.kubeclient.resources import LEASES


class Pace:
    """So many turns a second on average, and so many at once after a rest. First come, first served."""

    def __init__(self, per_second: float, burst: int, clock: Clock) -> None:
        self._between = 1 / per_second
        #: How far ahead of the average a burst may run, in seconds.
        self._ahead = (burst - 1) / per_second
        self._clock = clock
        #: When the next turn would be, were there no bursts.
        self._next = clock.monotonic()

    async def turn(self) -> None:
        now = self._clock.monotonic()
        due = max(self._next, now)
        self._next = due + self._between
        wait = due - self._ahead - now
        if wait > 0:
            await self._clock.sleep(wait)


class PacedClient(Client):
    """Every request waits for its turn, but those for which waiting here would be wrong.

    A lease that is renewed too late is lost, so it never waits. A binding has waited already, before the
    fence was looked at: between that look and the request no time may pass.
    """

    def __init__(
        self, access: Access, per_second: float, burst: int, *, component: str, clock: Clock | None = None
    ) -> None:
        super().__init__(access, component=component)
        self._pace = Pace(per_second, burst, clock or RealClock())

    async def turn(self) -> None:
        await self._pace.turn()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float = TIMEOUT,
    ) -> bytes:
        if not _goes_at_once(path):
            await self._pace.turn()
        return await super().request(
            method, path, params=params, body=body, content_type=content_type, timeout=timeout
        )


def _goes_at_once(path: str) -> bool:
    return path.partition("?")[0].endswith("/binding") or path.startswith(f"{LEASES.root}/")
