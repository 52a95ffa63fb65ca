"""Listening for clients of the dashboard."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from ringwise.metrics.endpoints import AddressError, parse_address
from ringwise.web.application import DashboardServer
from ringwise.web.connections import LimitedSite, OpenConnections

#: Port of the dashboard, where it is free.
DASHBOARD_PORT = 8090
#: Connections at once: a page has one stream and some requests.
MAX_CONNECTIONS = 512


@asynccontextmanager
async def listening(
    server: DashboardServer,
    address: str,
    tls: ssl.SSLContext | None = None,
    *,
    or_any_port: bool = False,
    connections: OpenConnections | None = None,
) -> AsyncIterator[str]:
    """Serve until the block ends; yields the URL of the page. Raises AddressError.

    `or_any_port`: where the port is taken, another one is used.
    """
    host, port = parse_address(address)
    connections = connections or OpenConnections(MAX_CONNECTIONS)
    runner = web.AppRunner(
        # A client that goes away ends its stream at once.
        server.application(connections),
        access_log=None,
        shutdown_timeout=1,
        handler_cancellation=True,
    )
    await runner.setup()
    try:
        for number in (port, 0) if or_any_port else (port,):
            try:
                await LimitedSite(runner, host, number, tls, connections).start()
                break
            except OSError as problem:
                if number == 0 or not or_any_port:
                    why = problem.strerror or problem
                    raise AddressError(f"cannot listen on {address}: {why}") from None
        bound = runner.addresses[0]
        name = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        yield f"{'http' if tls is None else 'https'}://{name}:{bound[1]}/"
    finally:
        await runner.cleanup()
