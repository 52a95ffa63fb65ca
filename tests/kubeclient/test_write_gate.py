"""The write gate: credentials first, then the gate, then one attempt. And the cap of Retry-After."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from ringwise.kube.write.fence import MIN_FENCE_GAP, Fence
from ringwise.kubeclient.client import (
    MAX_RETRY_AFTER,
    ApiError,
    Client,
    FencedError,
    UnreachableError,
)
from ringwise.kubeclient.config import Access
from tests.kube.fake_api_server import FakeApiServer
from tests.kube.harness import NODES, HeldCredentials, ManualClock, node, until

WRITES = ["POST", "PUT", "PATCH", "DELETE"]


class QueryRecorder(FakeApiServer):
    """Records the query of every request."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.queries: list[dict[str, str]] = []

    async def _answer(self, request: web.Request, path: str, body: bytes) -> web.StreamResponse:
        self.queries.append(dict(request.query))
        return await super()._answer(request, path, body)


class Gated:
    def __init__(self, api: QueryRecorder) -> None:
        self.api = api
        self.clock = ManualClock()
        self.fence = Fence(self.clock)
        self.fence.open_until(self.clock.moment + 10)
        self.credentials = HeldCredentials()
        self.client = Client(Access(api.url, self.credentials))
        self.gated = self.client.gated(self.fence)

    async def write(self, method: str, **more: Any) -> bytes:
        return await self.gated.request(method, f"{NODES}/a", body=b"{}", **more)


@asynccontextmanager
async def gated() -> AsyncIterator[Gated]:
    api = QueryRecorder()
    async with api:
        api.put(NODES, node("a"))
        one = Gated(api)
        async with one.client:
            yield one


@pytest.mark.parametrize("method", WRITES)
async def test_a_write_that_waits_for_credentials_is_not_sent_after_the_fence_closed(method: str) -> None:
    async with gated() as one:
        one.credentials.available.clear()
        writing = asyncio.create_task(one.write(method))
        await until(lambda: one.credentials.waiting)
        one.clock.moment += 11
        one.credentials.available.set()
        with pytest.raises(FencedError):
            await writing
        assert one.api.requests == []


@pytest.mark.parametrize("method", WRITES)
@pytest.mark.parametrize("closed", [True, False])
async def test_after_a_401_a_write_passes_the_fence_again(method: str, closed: bool) -> None:
    async with gated() as one:
        hold = asyncio.Event()
        one.api.fault("/nodes/a", status=401, times=9, until=hold)
        writing = asyncio.create_task(one.write(method))
        await until(lambda: one.api.requests)
        if closed:
            one.clock.moment += 11
        hold.set()
        with pytest.raises(FencedError if closed else ApiError):
            await writing
        assert one.credentials.rejections == 1
        assert len(one.api.requests) == (1 if closed else 2)


async def test_reads_are_not_gated() -> None:
    async with gated() as one:
        one.fence.close()
        assert b'"a"' in await one.gated.request("GET", f"{NODES}/a")
        assert one.api.queries == [{}]


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_credentials_that_never_come_end_the_request(method: str) -> None:
    async with gated() as one:
        one.credentials.available.clear()
        with pytest.raises(UnreachableError, match=r"no credentials within 0.01s") as raised:
            await one.write(method, timeout=0.01)
        assert not raised.value.maybe_done


async def test_a_watch_does_not_wait_for_credentials_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ringwise.kubeclient.client.TIMEOUT", 0.01)
    async with gated() as one:
        one.credentials.available.clear()
        with pytest.raises(UnreachableError, match="no credentials"):
            async with one.client.watch(NODES, {}, "0"):
                raise AssertionError("the watch cannot start")


@pytest.mark.parametrize(
    ("left", "timeout", "server"),
    [(10.0, 30.0, "14000ms"), (0.25, 30.0, "4250ms"), (10.0, 4.5, "4000ms")],
)
async def test_a_gated_write_ends_before_another_replica_may_write(
    left: float, timeout: float, server: str
) -> None:
    """Also on the server: its limit is the shorter one."""
    async with gated() as one:
        one.fence.open_until(one.clock.moment + left)
        assert one.fence.seconds_left() < left + MIN_FENCE_GAP
        await one.write("PATCH", timeout=timeout)
        assert one.api.queries == [{"timeout": server}]


def test_a_closed_fence_has_no_time_left() -> None:
    clock = ManualClock()
    fence = Fence(clock)
    assert fence.seconds_left() == 0
    fence.open_until(clock.moment + 1)
    clock.moment += 1
    assert fence.seconds_left() == 0


@pytest.mark.parametrize(
    ("header", "expected"),
    [("7", 7.0), ("86400", MAX_RETRY_AFTER), ("9" * 400, MAX_RETRY_AFTER), ("-5", None), ("soon", None)],
)
async def test_the_retry_after_header_is_capped(header: str, expected: float | None) -> None:
    async with gated() as one:
        one.api.fault("/nodes/a", status=429, retry_after=header)
        with pytest.raises(ApiError) as raised:
            await one.gated.request("GET", f"{NODES}/a")
        assert raised.value.retry_after == expected


@pytest.mark.parametrize(("seconds", "expected"), [(3, 3.0), (10**12, MAX_RETRY_AFTER), (-10, 0.0)])
async def test_the_retry_after_of_a_status_is_capped(seconds: int, expected: float) -> None:
    class Busy(FakeApiServer):
        async def _answer(self, request: web.Request, path: str, body: bytes) -> web.StreamResponse:
            return web.json_response({"details": {"retryAfterSeconds": seconds}}, status=429)

    async with Busy() as api, Client(Access(api.url, HeldCredentials())) as client:
        with pytest.raises(ApiError) as raised:
            await client.request("GET", NODES)
        assert raised.value.retry_after == expected
