"""Serving an application of aiohttp with limited connections.

aiohttp waits for the rest of a request, and for a client that does not read, for ever, and keeps an idle
connection for an hour.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from contextvars import ContextVar

from aiohttp import web
from aiohttp.typedefs import Middleware

from ringwise.metrics.connections import Connection, Listener, OpenConnections

#: Seconds for the body of a request.
BODY_TIMEOUT = 5.0
#: Seconds that a connection stays open without a request.
KEEP_ALIVE = 15.0

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

#: Of the request that the task answers.
_CONNECTION: ContextVar[Connection | None] = ContextVar("connection", default=None)


def _reporting(connections: OpenConnections) -> Middleware:
    """A middleware that tells the connection when a header is complete, and when its request is answered."""

    @web.middleware
    async def report(request: web.Request, handler: Handler) -> web.StreamResponse:
        connection = connections.of(request.transport)
        if connection is None:
            return await handler(request)
        _CONNECTION.set(connection)
        with connection.answering():
            return await handler(request)

    return report


@asynccontextmanager
async def serving_application(
    app: web.Application,
    sockets: Sequence[socket.socket],
    tls: ssl.SSLContext | None = None,
    connections: OpenConnections | None = None,
    *,
    keep_alive: float = KEEP_ALIVE,
    shutdown_timeout: float = 1.0,
    handler_cancellation: bool = False,
) -> AsyncIterator[int]:
    """Serve until the block ends, and close the sockets then; yields the port."""
    connections = connections or OpenConnections()
    app.middlewares.insert(0, _reporting(connections))
    runner = web.AppRunner(
        app,
        access_log=None,
        shutdown_timeout=shutdown_timeout,
        handler_cancellation=handler_cancellation,
        keepalive_timeout=keep_alive,
    )
    await runner.setup()
    server = runner.server
    assert server is not None
    listener = Listener(sockets, server, connections, tls)
    try:
        yield listener.port
    finally:
        await listener.close()
        await runner.cleanup()


async def read_body(request: web.Request, timeout: float = BODY_TIMEOUT) -> bytes:
    """The whole body. One that does not arrive in time ends the connection."""
    connection = _CONNECTION.get()
    try:
        with nullcontext() if connection is None else connection.awaiting():
            async with asyncio.timeout(timeout):
                return await request.read()
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
        raise web.HTTPRequestTimeout(text=f"the request body was not received within {timeout:g}s") from None
