"""The pages that kubelet and Prometheus read: /healthz, /livez, /readyz, /metrics.

A small server of its own: these pages need no web framework, whose import takes longer than that of the
scheduler itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from ringwise.grammar import quoted
from ringwise.metrics.connections import Listener, OpenConnections, listening_sockets
from ringwise.metrics.families import CONTENT_TYPE, MetricSet
from ringwise.topology.numbers import whole_number

if TYPE_CHECKING:
    from ssl import SSLContext

#: Seconds within which a client must have sent its request, and read the answer.
CLIENT_TIMEOUT = 10.0
#: Connections at once. Each is a file descriptor that a connection to the API server may need. One more is
#: always served: the pages are made at once, so there is one that waits for its client and gives way.
MAX_CONNECTIONS = 64
#: Bytes of a request; these pages need no body.
MAX_REQUEST = 16 << 10


class AddressError(Exception):
    """An address to listen on that cannot be used; one line."""


class HttpPage(NamedTuple):
    status: HTTPStatus
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


Pages = Mapping[str, Callable[[], HttpPage]]


def parse_address(text: str) -> tuple[str, int]:
    """`:8080`, `127.0.0.1:8080` or `[::1]:8080`."""
    host, colon, port = text.rpartition(":")
    number = whole_number(port, 0, 65535) if colon and port.isdigit() else None
    if number is None:
        raise AddressError(
            f"invalid address {quoted(text)}: expected an address such as :8080 or 127.0.0.1:8080"
        )
    return host.strip("[]") or "0.0.0.0", number


@asynccontextmanager
async def serving(
    metrics: MetricSet | None,
    ready: Callable[[], bool],
    *,
    healthy: Callable[[], bool] = lambda: True,
    not_ready: str = "not all objects are read yet",
    metrics_address: str,
    health_address: str,
    health_tls: SSLContext | None = None,
) -> AsyncIterator[list[int]]:
    """Serve until the block ends; yields the ports. An empty address serves nothing, equal ones share one.

    `not_ready` is what the readiness page says until then.
    With `health_tls` the health pages, and what shares their address, are served by HTTPS.
    """
    by_address: dict[str, dict[str, Callable[[], HttpPage]]] = {}
    if metrics is not None and metrics_address:
        by_address.setdefault(metrics_address, {}).update(_metrics_pages(metrics))
    if health_address:
        by_address.setdefault(health_address, {}).update(_health_pages(ready, healthy, not_ready))
    async with AsyncExitStack() as stack:
        ports = []
        for address, pages in by_address.items():
            host, port = parse_address(address)
            try:
                sockets = await listening_sockets(host, port)
            except OSError as problem:
                raise AddressError(f"cannot listen on {address}: {problem.strerror or problem}") from None
            tls = health_tls if address == health_address else None
            # The one limit of time holds from the connection to the end of the answer.
            connections = OpenConnections(MAX_CONNECTIONS, header_timeout=CLIENT_TIMEOUT)
            listener = Listener(sockets, PageServer(pages).protocol, connections, tls)
            stack.push_async_callback(listener.close)
            ports.append(listener.port)
        yield ports


class PageServer:
    """Answers requests: one for each connection, which is closed then."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages

    def protocol(self) -> asyncio.Protocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(MAX_REQUEST), self.answer)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            page = _page(self._pages, request)
            body = b"" if request.startswith(b"HEAD ") else page.body
            head = (
                f"HTTP/1.1 {page.status.value} {page.status.phrase}\r\n"
                f"Content-Type: {page.content_type}\r\n"
                f"Content-Length: {len(page.body)}\r\n"
                "Connection: close\r\n\r\n"
            )
            writer.write(head.encode() + body)
            writer.close()
            await writer.wait_closed()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            # The client was too slow, has gone, or speaks no HTTP.
            return
        finally:
            # Closing waits until everything is sent: a client that does not read would keep the connection.
            writer.transport.abort()


def _page(pages: Pages, request: bytes) -> HttpPage:
    method, _, rest = request.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0].decode("ascii", "replace")
    if method not in (b"GET", b"HEAD"):
        return HttpPage(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET and HEAD are allowed\n")
    page = pages.get(path)
    return HttpPage(HTTPStatus.NOT_FOUND, b"no such page\n") if page is None else page()


def _metrics_pages(metrics: MetricSet) -> Pages:
    return {"/metrics": lambda: HttpPage(HTTPStatus.OK, metrics.text(), CONTENT_TYPE)}


def _health_pages(ready: Callable[[], bool], healthy: Callable[[], bool], not_ready: str) -> Pages:
    def alive() -> HttpPage:
        if healthy():
            return HttpPage(HTTPStatus.OK, b"ok")
        return HttpPage(HTTPStatus.SERVICE_UNAVAILABLE, b"the component makes no progress")

    def readiness() -> HttpPage:
        if not healthy() or ready():
            return alive()
        return HttpPage(HTTPStatus.SERVICE_UNAVAILABLE, not_ready.encode())

    # Probes of Huawei's components ask for the root.
    return {"/": alive, "/healthz": alive, "/livez": alive, "/readyz": readiness}
