"""Limits on the connections of a server: their number, and the time for header and body of a request.

aiohttp waits for the rest of a request for ever, so a client that sends half of one would keep its connection
until the server has no file descriptor left.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import cast

from aiohttp import web

#: Connections at once. The API server reuses a few.
MAX_CONNECTIONS = 256
#: Seconds for the TLS handshake, from the first byte of a request to the end of its header, and for its body.
HEADER_TIMEOUT = 5.0
BODY_TIMEOUT = 5.0

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class _Connection(asyncio.Protocol):
    """Between the transport and aiohttp: closes the connection when a header does not arrive in time."""

    def __init__(self, inner: asyncio.Protocol, connections: OpenConnections) -> None:
        self._inner = inner
        self._connections = connections
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._requests = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if len(self._connections.open) >= self._connections.most:
            self._transport.abort()
            return
        self._connections.open[self._transport] = self
        self._inner.connection_made(transport)
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        if not self._requests:
            self._start_timer()
        if self._is_accepted:
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received() if self._is_accepted else None

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, problem: Exception | None) -> None:
        self._stop_timer()
        if self._transport is not None and self._connections.open.pop(self._transport, None) is not None:
            self._inner.connection_lost(problem)

    def request_started(self) -> None:
        """The header is complete."""
        self._requests += 1
        self._stop_timer()

    def request_ended(self) -> None:
        self._requests -= 1

    @property
    def _is_accepted(self) -> bool:
        return self._transport in self._connections.open

    def _start_timer(self) -> None:
        if self._timer is None and self._transport is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._connections.header_timeout, self._transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class OpenConnections:
    """The open connections of one listening address, and their limits."""

    def __init__(self, most: int = MAX_CONNECTIONS, header_timeout: float = HEADER_TIMEOUT) -> None:
        self.most = most
        self.header_timeout = header_timeout
        self.open: dict[asyncio.BaseTransport, _Connection] = {}

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The application must have it: it reports that a header is complete."""
        connection = self.open.get(request.transport) if request.transport is not None else None
        if connection is None:
            return await handler(request)
        connection.request_started()
        try:
            return await handler(request)
        finally:
            connection.request_ended()


class LimitedSite(web.BaseSite):
    """A listening address with limits; made, like every site, after the runner's setup."""

    def __init__(
        self,
        runner: web.AppRunner,
        host: str | None,
        port: int,
        tls: ssl.SSLContext | None,
        connections: OpenConnections,
    ) -> None:
        super().__init__(runner, ssl_context=tls)
        self._app_runner = runner
        self._host = host
        self._port = port
        self._connections = connections

    @property
    def name(self) -> str:
        return f"{self._host or '*'}:{self._port}"

    async def start(self) -> None:
        await super().start()
        inner, connections = self._app_runner.server, self._connections
        assert inner is not None
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _Connection(inner(), connections),
            self._host,
            self._port,
            ssl=self._ssl_context,
            ssl_handshake_timeout=connections.header_timeout if self._ssl_context is not None else None,
            backlog=self._backlog,
        )


async def read_body(request: web.Request, timeout: float = BODY_TIMEOUT) -> bytes:
    """The whole body. One that does not arrive in time ends the connection."""
    try:
        async with asyncio.timeout(timeout):
            return await request.read()
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
        raise web.HTTPRequestTimeout(text=f"no complete body within {timeout:g} s") from None
