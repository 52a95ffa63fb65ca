"""Connections: half-sent requests, slow readers and many idle clients keep nothing from others."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from aiohttp import web

from ringwise.apps.admission.certificates import make_authority, make_server
from ringwise.apps.admission.serving_certificate import server_context
from ringwise.metrics import endpoints
from ringwise.metrics.connections import OpenConnections, listening_sockets, peer_of
from ringwise.metrics.endpoints import serving
from ringwise.metrics.prometheus import Metrics
from ringwise.web.connections import read_body, serving_application
from tests.kube.harness import until
from tests.web.rig import address_of, dashboard

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

REQUEST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nok"
NEVER = 60.0
LARGE = 32 << 20


class Listening:
    def __init__(self, connections: OpenConnections, port: int) -> None:
        self.connections = connections
        self.port = port
        self.release = asyncio.Event()
        self.held = self.bodies = 0
        self._made: list[Streams] = []

    async def connect(self, host: str = "127.0.0.1", **options: Any) -> Streams:
        """`host` is the client's address: a peer of its own, of which loopback has many."""
        made = await asyncio.open_connection("127.0.0.1", self.port, local_addr=(host, 0), **options)
        self._made.append(made)
        return made

    async def fill(self, count: int, host: str = "127.0.0.1") -> list[Streams]:
        """Connections that send nothing, each accepted before the next one is made."""
        made = []
        for _ in range(count):
            known = set(self.connections.open)
            made.append(await self.connect(host))
            await until(partial(lambda known: self.connections.open - known, known))
        return made

    async def hold_one(self) -> Streams:
        """A connection with a request that is being answered."""
        before, client = self.held, await self.connect()
        client[1].write(b"GET /held HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: self.held > before)
        return client

    async def echo(self, request: web.Request) -> web.Response:
        self.bodies += 1
        return web.Response(body=await read_body(request, NEVER))

    async def hold(self, request: web.Request) -> web.Response:
        self.held += 1
        await self.release.wait()
        return web.Response(body=b"held")

    async def large(self, request: web.Request) -> web.Response:
        return web.Response(body=b"x" * LARGE)

    def close(self) -> None:
        for _, writer in self._made:
            writer.transport.abort()


@asynccontextmanager
async def listening(
    tls: ssl.SSLContext | None = None, keep_alive: float = NEVER, **limits: Any
) -> AsyncIterator[Listening]:
    limits.setdefault("header_timeout", NEVER)
    connections = OpenConnections(**limits)
    at = Listening(connections, 0)
    app = web.Application()
    app.router.add_post("/", at.echo)
    app.router.add_get("/held", at.hold)
    app.router.add_get("/large", at.large)
    sockets = await listening_sockets("127.0.0.1", 0)
    async with serving_application(
        app, sockets, tls, connections, keep_alive=keep_alive, shutdown_timeout=0.1
    ) as port:
        at.port = port
        try:
            yield at
        finally:
            at.release.set()
            at.close()


async def answer(streams: Streams, request: bytes = REQUEST) -> bytes:
    reader, writer = streams
    writer.write(request)
    return await reader.readuntil(b"\r\n\r\n")


async def ended(streams: Streams) -> None:
    """The server closed the connection."""
    with suppress(ConnectionResetError):
        await streams[0].read()


def is_open(streams: Streams) -> bool:
    return not streams[0].at_eof() and streams[0].exception() is None


# -- waiting has an end ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent", [b"", b"POST / HTTP/1.1\r\nHost: x\r\n"], ids=["nothing", "half of a header"]
)
async def test_a_header_that_does_not_come_ends_its_connection(sent: bytes) -> None:
    async with listening(header_timeout=0.05) as at:
        client = await at.connect()
        client[1].write(sent)
        await ended(client)
        await until(lambda: not at.connections.open)


async def test_a_header_that_comes_byte_by_byte_ends_its_connection() -> None:
    async with listening(header_timeout=0.1) as at:
        reader, writer = await at.connect()
        writer.write(b"POST / HTTP/1.1\r\n")
        closed = asyncio.create_task(ended((reader, writer)))
        while not closed.done():
            writer.write(b"a")
            await asyncio.sleep(0.005)
        await until(lambda: not at.connections.open)


async def test_a_second_request_on_a_connection_has_a_time_limit_too() -> None:
    async with listening() as at:
        client = await at.connect()
        # The first has all the time that a slow machine needs.
        assert (await answer(client)).startswith(b"HTTP/1.1 200")
        assert len(at.connections.open) == 1
        at.connections.header_timeout = 0.05
        client[1].write(b"POST / HT")
        await ended(client)


async def test_a_body_that_does_not_come_ends_its_connection() -> None:
    async def echo(request: web.Request) -> web.Response:
        return web.Response(body=await read_body(request, 0.05))

    app = web.Application()
    app.router.add_post("/", echo)
    connections = OpenConnections(header_timeout=NEVER)
    sockets = await listening_sockets("127.0.0.1", 0)
    async with serving_application(app, sockets, None, connections) as port:
        client = await asyncio.open_connection("127.0.0.1", port)
        client[1].write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
        await ended(client)
        await until(lambda: not connections.open)
        client[1].close()


async def test_an_idle_connection_ends_though_it_was_used() -> None:
    async with listening(keep_alive=0.05) as at:
        client = await at.connect()
        assert (await answer(client)).startswith(b"HTTP/1.1 200")
        await ended(client)
        await until(lambda: not at.connections.open)


async def test_an_answer_that_is_not_read_ends_its_connection() -> None:
    async with listening(write_timeout=0.05) as at:
        client = await at.connect(limit=1 << 10)
        await answer(client, b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: not at.connections.open)
        received = 0
        with suppress(ConnectionResetError):
            while chunk := await client[0].read(1 << 16):
                received += len(chunk)
        assert received < LARGE


@pytest.fixture(scope="module")
def certificate() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Of a server, and of its clients."""
    now = datetime.now(UTC)
    authority = make_authority("tests", now, timedelta(days=1))
    pair = make_server(authority, ["localhost"], now, timedelta(days=1))
    return server_context(pair), ssl.create_default_context(cadata=authority.certificate)


async def test_a_handshake_that_does_not_come_ends_its_connection(
    certificate: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    async with listening(certificate[0], header_timeout=0.05) as at:
        (client,) = await at.fill(1)
        await ended(client)
        await until(lambda: not at.connections.open)


# -- idle connections give way ---------------------------------------------------------------------


async def test_the_connection_that_waits_longest_gives_way_to_a_new_one() -> None:
    async with listening(most=4) as at:
        others = [(await at.fill(1, f"127.0.0.{number}"))[0] for number in (2, 3, 4, 5)]
        # The oldest one is used again: now another one waits longest.
        assert (await answer(others[0])).startswith(b"HTTP/1.1 200")
        assert (await answer(await at.connect())).startswith(b"HTTP/1.1 200")
        await ended(others[1])
        assert [is_open(one) for one in others] == [True, False, True, True]
        assert len(at.connections.open) == 4


async def test_a_peer_with_many_connections_closes_none_of_another_peer() -> None:
    async with listening(most=4) as at:
        (api_server,) = await at.fill(1, "127.0.0.2")
        await at.fill(20, "127.0.0.3")
        await at.fill(20, "127.0.0.4")
        assert (await answer(api_server)).startswith(b"HTTP/1.1 200")


async def test_a_peer_has_at_most_half_of_the_connections_as_idle_ones_and_is_never_refused_for_it() -> None:
    async with listening(most=8) as at:
        await at.fill(30)
        assert len(at.connections.open) == at.connections.most_of_peer == 4
        # Behind one address there may be an API server with many reviews at once.
        held = [await at.hold_one() for _ in range(8)]
        at.release.set()
        for reader, _ in held:
            assert (await reader.readuntil(b"held")).startswith(b"HTTP/1.1 200")


async def test_what_is_being_answered_is_not_closed_and_only_then_a_connection_is_refused() -> None:
    async with listening(most=2) as at:
        held = [await at.hold_one() for _ in range(2)]
        await ended(await at.connect())
        at.release.set()
        for reader, _ in held:
            assert (await reader.readuntil(b"held")).startswith(b"HTTP/1.1 200")
        assert (await answer(await at.connect())).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"POST / HT",
        REQUEST,
        b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
    ids=["nothing", "half of a header", "idle after an answer", "an answer is not read"],
)
async def test_whatever_a_connection_waits_for_it_gives_way(sent: bytes) -> None:
    async with listening(most=4) as at:
        for _ in range(12):
            known = set(at.connections.open)
            _, writer = await at.connect(limit=1 << 10)
            await until(partial(lambda known: at.connections.open - known, known))
            writer.write(sent)
        assert (await answer(await at.connect())).startswith(b"HTTP/1.1 200")


async def test_a_body_that_does_not_come_gives_way() -> None:
    async with listening(most=4) as at:
        for number in range(4):
            _, writer = await at.connect()
            writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
            await until(partial(lambda number: at.bodies > number, number))
        assert (await answer(await at.connect())).startswith(b"HTTP/1.1 200")


async def test_unfinished_handshakes_count_and_give_way(
    certificate: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    async with listening(certificate[0], most=4) as at:
        silent = await at.fill(12)
        assert len(at.connections.open) == at.connections.most_of_peer
        for one in silent[:-2]:
            await ended(one)
        client = await at.connect(ssl=certificate[1], server_hostname="localhost")
        assert (await answer(client)).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("page", ["/healthz", "/readyz", "/metrics"])
async def test_health_and_metrics_always_answer(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "MAX_CONNECTIONS", 8)
    address = "127.0.0.1:0"
    async with serving(Metrics(), lambda: True, metrics_address=address, health_address=address) as (port,):
        idle = []
        for number in range(40):
            # Half of them are of the peer that asks, and some have sent half a header.
            local = ("127.0.0.1" if number % 2 else "127.0.0.2", 0)
            idle.append(await asyncio.open_connection("127.0.0.1", port, local_addr=local))
            idle[-1][1].write(b"GET /" if number % 3 else b"")
        client = await asyncio.open_connection("127.0.0.1", port)
        client[1].write(f"GET {page} HTTP/1.1\r\n\r\n".encode())
        assert (await client[0].read()).startswith(b"HTTP/1.1 200")
        for _, writer in [*idle, client]:
            writer.transport.abort()


async def test_the_dashboard_answers_beside_idle_connections() -> None:
    async with dashboard(connections=OpenConnections(8, header_timeout=NEVER)) as at:
        host, port = address_of(at)
        idle = [await asyncio.open_connection(host, port) for _ in range(40)]
        assert (await at.get("api/v1/snapshot"))[0] == 200
        for _, writer in idle:
            writer.transport.abort()


async def test_accepting_goes_on_without_a_file_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    async with listening() as at:
        await at.fill(3)
        loop = asyncio.get_running_loop()
        accept, failures = loop.sock_accept, 2

        async def failing(listened: socket.socket) -> Any:
            nonlocal failures
            if failures:
                failures -= 1
                raise OSError(24, "Too many open files")
            return await accept(listened)

        monkeypatch.setattr(loop, "sock_accept", failing)
        # The accept that began before is the first to end.
        clients = [await at.connect() for _ in range(2)]
        assert (await answer(clients[1])).startswith(b"HTTP/1.1 200")
        # Each failure made room.
        await until(lambda: len(at.connections.open) == 3)


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        (("10.0.0.1", 5), "10.0.0.1"),
        (("::ffff:10.0.0.1", 5, 0, 0), "10.0.0.1"),
        (("2001:db8:1:2:3:4:5:6", 5, 0, 0), "2001:db8:1:2::/64"),
        (("2001:db8:1:2:ffff::9", 5, 0, 0), "2001:db8:1:2::/64"),
        (("fe80::1%eth0", 5, 0, 2), "fe80::/64"),
        ("", ""),
    ],
    ids=str,
)
def test_a_network_of_ipv6_is_one_peer(address: object, peer: str) -> None:
    assert peer_of(address) == peer
