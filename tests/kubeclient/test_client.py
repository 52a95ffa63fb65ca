"""Connections of a client whose certificate changes while it is used."""

from __future__ import annotations

import asyncio
from functools import partial

from ringwise.kubeclient.client import Client
from ringwise.kubeclient.config import Access
from ringwise.kubeclient.connection_pool import Connections
from ringwise.kubeclient.credentials import Credential
from tests.kube.fake_api_server import FakeApiServer
from tests.kube.harness import NODES, node, until


class Changing:
    """Returns the certificate that the test has set."""

    def __init__(self) -> None:
        self.credential = Credential(certificate="first", key="first")

    async def current(self) -> Credential:
        return self.credential

    def refused(self) -> None:
        """There is no other credential."""


def is_in(lines: list[bytes], word: bytes) -> bool:
    return any(word in line for line in lines)


def is_closed(connections: Connections) -> bool:
    return connections.session.closed


def connections_of(client: Client) -> Connections:
    assert client._pool._current is not None
    return client._pool._current


async def test_a_watch_continues_when_the_certificate_changes() -> None:
    """Its connection stays open until it ends: after a close the watch would hang for ever."""
    async with FakeApiServer() as api:
        credentials = Changing()
        async with Client(Access(api.url, credentials)) as client:
            seen: list[bytes] = []

            async def follow() -> None:
                async with client.watch(NODES, {}, "0") as batches:
                    async for lines in batches:
                        seen.extend(lines)

            watching = asyncio.create_task(follow())
            api.put(NODES, node("before"))
            await until(partial(is_in, seen, b"before"))
            for name in ("second", "third"):
                credentials.credential = Credential(certificate=name, key=name)
                await client.request("GET", NODES)
                api.put(NODES, node(f"with-{name}"))
                wanted = f"with-{name}".encode()
                await until(partial(is_in, seen, wanted))
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)


async def test_connections_of_an_old_certificate_are_closed_when_the_last_request_ends() -> None:
    async with FakeApiServer() as api:
        credentials = Changing()
        async with Client(Access(api.url, credentials)) as client:
            await client.request("GET", NODES)
            idle = connections_of(client)
            credentials.credential = Credential(certificate="second", key="second")
            async with client.watch(NODES, {}, "0"):
                assert is_closed(idle)
                used = connections_of(client)
                credentials.credential = Credential(certificate="third", key="third")
                await client.request("GET", NODES)
                assert not is_closed(used)
            assert connections_of(client) is not used
            assert is_closed(used)


async def test_concurrent_requests_with_a_new_certificate_share_its_connections() -> None:
    async with FakeApiServer() as api:
        credentials = Changing()
        async with Client(Access(api.url, credentials)) as client:
            await client.request("GET", NODES)
            first = connections_of(client)
            credentials.credential = Credential(certificate="second", key="second")
            await asyncio.gather(*(client.request("GET", NODES) for _ in range(8)))
            second = connections_of(client)
            assert second is not first
            assert second.in_use == 0
            await client.request("GET", NODES)
            assert connections_of(client) is second
