"""Connections of a client whose certificate changes while it is used."""

from __future__ import annotations

import asyncio
from functools import partial

from ringwise.kubeclient.client import Client
from ringwise.kubeclient.config import Access
from ringwise.kubeclient.connection_pool import Line
from ringwise.kubeclient.credentials import Credential
from tests.kube.harness import NODES, node, run, until
from tests.kube.standin import StandIn


class Changing:
    """Hands out the certificate that the test put there."""

    def __init__(self) -> None:
        self.credential = Credential(certificate="first", key="first")

    async def current(self) -> Credential:
        return self.credential

    def refused(self) -> None:
        """There is no other."""


def is_in(lines: list[bytes], word: bytes) -> bool:
    return any(word in line for line in lines)


def is_closed(line: Line) -> bool:
    return line.session.closed


def line_of(client: Client) -> Line:
    assert client._line is not None
    return client._line


def test_a_watch_goes_on_when_the_certificate_changes() -> None:
    """Its connection stays until it ends: one that was closed under it would be silent for ever."""

    async def test() -> None:
        async with StandIn() as standin:
            credentials = Changing()
            async with Client(Access(standin.url, credentials)) as client:
                seen: list[bytes] = []

                async def follow() -> None:
                    async with client.watch(NODES, {}, "0") as bundles:
                        async for lines in bundles:
                            seen.extend(lines)

                watching = asyncio.create_task(follow())
                standin.put(NODES, node("before"))
                await until(partial(is_in, seen, b"before"))
                for name in ("second", "third"):
                    credentials.credential = Credential(certificate=name, key=name)
                    await client.request("GET", NODES)
                    standin.put(NODES, node(f"with-{name}"))
                    wanted = f"with-{name}".encode()
                    await until(partial(is_in, seen, wanted))
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)

    run(test())


def test_connections_of_an_old_certificate_are_closed_when_the_last_request_ends() -> None:
    async def test() -> None:
        async with StandIn() as standin:
            credentials = Changing()
            async with Client(Access(standin.url, credentials)) as client:
                await client.request("GET", NODES)
                idle = line_of(client)
                credentials.credential = Credential(certificate="second", key="second")
                async with client.watch(NODES, {}, "0"):
                    assert is_closed(idle)
                    used = line_of(client)
                    credentials.credential = Credential(certificate="third", key="third")
                    await client.request("GET", NODES)
                    assert not is_closed(used)
                assert line_of(client) is not used
                assert is_closed(used)

    run(test())


def test_requests_that_bring_the_same_new_certificate_share_its_connections() -> None:
    async def test() -> None:
        async with StandIn() as standin:
            credentials = Changing()
            async with Client(Access(standin.url, credentials)) as client:
                await client.request("GET", NODES)
                first = line_of(client)
                credentials.credential = Credential(certificate="second", key="second")
                await asyncio.gather(*(client.request("GET", NODES) for _ in range(8)))
                second = line_of(client)
                assert second is not first
                assert second.busy == 0
                await client.request("GET", NODES)
                assert line_of(client) is second

    run(test())
