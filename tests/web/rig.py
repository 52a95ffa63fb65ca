"""A dashboard on a real socket, on a scheduler that the test drives."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

from aiohttp import ClientSession

from ringwise.apps.extensions import new_scheduler
from ringwise.apps.forked_queries import ForkedQueries
from ringwise.apps.web.job_documents import ReadAccounts, SchedulerAnswers
from ringwise.apps.web.serving import listening
from ringwise.messages.events import Decide
from ringwise.metrics.connections import OpenConnections
from ringwise.scheduler.core.machine import Scheduler
from ringwise.views.documents.dashboard import DashboardSource
from ringwise.web import application, frames
from ringwise.web import hub as hubs
from ringwise.web.application import DashboardServer, PageFile
from ringwise.web.guard import Guard
from ringwise.web.hub import Answer, Hub, NotLeadingError, WatchedScheduler
from tests.builders.values import SECOND, node, seen
from tests.scheduler.rig import NOW
from tests.timeouts import TEST_TIMEOUT

PAGE = {
    "index.html": PageFile(b"<!doctype html>" + b" " * 2000, b"packed", "text/html; charset=utf-8", '"1"'),
    "app.js": PageFile(b"export {}", b"longer than the file", "text/javascript; charset=utf-8", '"2"'),
}


class TestCore:
    """A scheduler on the event loop of the test."""

    __test__ = False

    def __init__(self, *known: object) -> None:
        self.scheduler: Scheduler = new_scheduler()
        self.now = NOW
        self.leading = True
        self.calls = 0
        self.tell(*(known or map(node, ("n1", "n2", "n3", "n4"))))

    def tell(self, *known: object, decide: Decide = Decide.ALL) -> None:
        self.now += SECOND
        self.scheduler.handle(seen(*known), self.now, decide)

    def restart(self) -> None:
        """Another scheduler that knows the same objects."""
        events = self.scheduler.view.current_events()
        self.scheduler = new_scheduler()
        self.tell(events)

    async def call(self, work: Callable[[WatchedScheduler, int], Answer]) -> Answer:
        self.calls += 1
        if not self.leading:
            raise NotLeadingError("replica-2", "https://10.0.0.2:8090/")
        return work(self.scheduler, self.now)

    async def copy(self, fork: Callable[[WatchedScheduler, int], Answer]) -> Answer:
        return await self.call(fork)


def source() -> DashboardSource:
    return {"kind": "lab", "name": "test", "version": "0", "live": True, "leader": ""}


class Dashboard:
    """A server on a free port, and a client of it."""

    def __init__(
        self, core: TestCore, hub: Hub, server: DashboardServer, url: str, session: ClientSession
    ) -> None:
        self.core = core
        self.hub = hub
        self.server = server
        self.url = url
        self.session = session

    async def get(self, path: str, **more: Any) -> tuple[int, Mapping[str, Any]]:
        async with self.session.get(f"{self.url}{path}", **more) as response:
            return response.status, await response.json()

    async def snapshot(self) -> Mapping[str, Any]:
        status, document = await self.get("api/v1/snapshot")
        assert status == 200, document
        return document

    @asynccontextmanager
    async def stream(self, epoch: str, since: int) -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
        """The events with their data, comments left out."""
        path = f"api/v1/stream?epoch={epoch}&since={since}"
        async with self.session.get(f"{self.url}{path}") as response:
            assert response.status == 200, await response.text()
            assert response.content_type == "text/event-stream"
            yield events_of(response.content.iter_any())


async def events_of(parts: AsyncIterator[bytes]) -> AsyncIterator[tuple[str, Any]]:
    text = b""
    async for part in parts:
        text += part
        while b"\n\n" in text:
            event, _, text = text.partition(b"\n\n")
            fields = dict(line.split(": ", 1) for line in event.decode().split("\n") if line[:1] != ":")
            if fields:
                yield fields["event"], json.loads(fields["data"])


@asynccontextmanager
async def dashboard(
    core: TestCore | None = None,
    *,
    guard: Guard | None = None,
    read_interval: float = 0.01,
    idle_timeout: float = 60.0,
    connections: OpenConnections | None = None,
    accounts: ReadAccounts | None = None,
    files: Mapping[str, PageFile] = PAGE,
    **limits: float,
) -> AsyncIterator[Dashboard]:
    """`limits` are constants of the modules of the server, by their names in lower case."""
    limits = {"read_interval": read_interval, "idle_timeout": idle_timeout, **limits}
    with ExitStack() as patched:
        patched.enter_context(patch.object(application, "page_files", lambda: files))
        for name, value in limits.items():
            (module,) = (one for one in (application, frames, hubs) if name.upper() in vars(one))
            patched.enter_context(patch.object(module, name.upper(), value))
        async with _serving(core or TestCore(), guard, connections, accounts) as at:
            yield at


@asynccontextmanager
async def _serving(
    core: TestCore, guard: Guard | None, connections: OpenConnections | None, accounts: ReadAccounts | None
) -> AsyncIterator[Dashboard]:
    hub = Hub(core, source)
    answers = SchedulerAnswers(core, forked_queries=ForkedQueries(pause=0), accounts=accounts)
    made = DashboardServer(hub, answers, guard or Guard())
    async with (
        listening(made, "127.0.0.1:0", connections=connections) as url,
        ClientSession() as session,
        asyncio.timeout(TEST_TIMEOUT),
    ):
        yield Dashboard(core, hub, made, url, session)


def address_of(at: Dashboard) -> tuple[str, int]:
    url = urlsplit(at.url)
    assert url.hostname
    assert url.port
    return url.hostname, url.port


async def raw_answer(host: str, port: int, request: str) -> bytes:
    """All bytes that come for a request as it is written here, until the server closes."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(request.encode())
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()
