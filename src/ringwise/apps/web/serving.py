"""Listening for clients of the dashboard."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from ringwise.apps.certificate_files import CertificateFiles
from ringwise.apps.web.options import WebOptions
from ringwise.kubeclient.tasks import running
from ringwise.metrics.connections import OpenConnections, listening_sockets
from ringwise.metrics.endpoints import AddressError, parse_address
from ringwise.web.application import DashboardServer
from ringwise.web.connections import serving_application

#: Seconds between two looks at the files of the certificate.
CERTIFICATE_INTERVAL = 60.0


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
    try:
        try:
            sockets = await listening_sockets(host, port)
        except OSError:
            if not or_any_port:
                raise
            sockets = await listening_sockets(host, 0)
    except OSError as problem:
        raise AddressError(f"cannot listen on {address}: {problem.strerror or problem}") from None
    bound = sockets[0].getsockname()
    name = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
    # A client that goes away ends its stream at once.
    app = server.application()
    async with serving_application(app, sockets, tls, connections, handler_cancellation=True):
        yield f"{'http' if tls is None else 'https'}://{name}:{bound[1]}/"


@asynccontextmanager
async def listening_with_files(
    server: DashboardServer, options: WebOptions, interval: float = CERTIFICATE_INTERVAL
) -> AsyncIterator[str]:
    """The same with the certificate of the options, which is read again when its files change.

    `interval` is the number of seconds between two looks at the files.
    """
    options.check()
    tls = None
    async with AsyncExitStack() as stack:
        if options.certificate is not None and options.key is not None:
            files = CertificateFiles(options.certificate, options.key)
            await stack.enter_async_context(running(dashboard_certificate=files.renew(interval)))
            tls = files.context
        yield await stack.enter_async_context(
            listening(server, options.address, tls, or_any_port=options.or_any_port)
        )
