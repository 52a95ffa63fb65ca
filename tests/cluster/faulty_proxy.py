"""A proxy between a component and the API server that injects faults.

Requests are delayed (some for ten seconds), dropped before or after the server has executed them, or
refused. Watches are closed, answered with 410 (at once, or as an event), and their events are duplicated.
The faults are drawn from a seed; every kind of fault is counted, so that a run without faults does not
count as passed.
"""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import threading
from collections import Counter
from pathlib import Path
from types import TracebackType

import aiohttp
from aiohttp import web

_HOP_HEADERS = {"host", "connection", "content-length", "transfer-encoding", "accept-encoding"}
_REFUSALS = ((409, "Conflict"), (429, "TooManyRequests"), (500, "InternalError"), (503, "ServiceUnavailable"))
#: Percent of requests.
DELAYED, SLOW, DROPPED, UNANSWERED, REFUSED = 10, 1, 4, 4, 6
#: Percent of bindings: gangs are bound slowly, so that replicas are killed in the middle of one.
BINDINGS_DELAYED = 40
#: Percent of watches, and of their events.
EXPIRED, CUT, TWICE = 10, 50, 10


class FaultyProxy:
    """Plain HTTP on loopback, in its own thread. It injects faults while `faults_on` is set."""

    def __init__(self, server: str, authority: Path, seed: int) -> None:
        self.faults_on = False
        self.counts: Counter[str] = Counter()
        #: Bindings that are forwarded before all others are held back; None forwards all.
        self.bindings_left: int | None = None
        #: Bindings that are held now, and that were forwarded.
        self.bindings_here = 0
        self.bindings_passed = 0
        self.url = ""
        self._server = server
        self._tls = ssl.create_default_context(cafile=str(authority))
        self._rng = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="faulty proxy", daemon=True)
        self._runner: web.AppRunner | None = None
        self._session: aiohttp.ClientSession | None = None

    def __enter__(self) -> FaultyProxy:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(30)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _start(self) -> None:
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self._tls, limit=0))
        application = web.Application(client_max_size=1 << 26)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            application, access_log=None, shutdown_timeout=1, handler_cancellation=True
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def _stop(self) -> None:
        assert self._runner is not None
        assert self._session is not None
        await self._runner.cleanup()
        await self._session.close()
        # TLS connections are closed after that; a loop that ends earlier would leave them open.
        await asyncio.sleep(0.5)

    def _happens(self, what: str, percent: int) -> bool:
        happens = self.faults_on and self._rng.random() * 100 < percent
        if happens:
            self.counts[what] += 1
        return happens

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if not request.path.endswith("/binding"):
            return await self._answer(request, DELAYED)
        self.bindings_here += 1
        try:
            while self.bindings_left == 0:
                await asyncio.sleep(0.05)
            if self.bindings_left is not None:
                self.bindings_left -= 1
            answer = await self._answer(request, BINDINGS_DELAYED)
            self.bindings_passed += 1
            return answer
        finally:
            self.bindings_here -= 1

    async def _answer(self, request: web.Request, delayed: int) -> web.StreamResponse:
        if self._happens("delayed", delayed):
            await asyncio.sleep(self._rng.uniform(0.05, 1.0))
        if self._happens("slow", SLOW):
            await asyncio.sleep(10)
        if self._happens("dropped", DROPPED):
            return _dropped(request)
        if self._happens("refused", REFUSED):
            return _refused(*self._rng.choice(_REFUSALS))
        if request.query.get("watch") in ("true", "1"):
            return await self._watch(request)
        return await self._pass_on(request)

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        assert self._session is not None
        body = await request.read()
        async with self._session.request(
            request.method, self._server + request.path_qs, data=body or None, headers=_headers(request)
        ) as answer:
            content = await answer.read()
        if self._happens("unanswered", UNANSWERED):
            return _dropped(request)
        return web.Response(status=answer.status, body=content, headers=_back(answer))

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        assert self._session is not None
        if self._happens("expired", EXPIRED):
            return _refused(410, "Expired")
        async with self._session.get(
            self._server + request.path_qs,
            headers=_headers(request),
            timeout=aiohttp.ClientTimeout(total=None),
        ) as answer:
            response = web.StreamResponse(status=answer.status, headers=_back(answer))
            await response.prepare(request)
            cut = self._rng.uniform(0.2, 4.0) if self._happens("cut", CUT) else None
            try:
                async with asyncio.timeout(cut):
                    await self._lines(answer, response)
            except TimeoutError:
                if self._happens("expired in a watch", EXPIRED):
                    await response.write(_event_of_410())
                elif request.transport is not None:
                    request.transport.abort()
            return response

    async def _lines(self, answer: aiohttp.ClientResponse, response: web.StreamResponse) -> None:
        rest = b""
        async for chunk in answer.content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                await response.write(line + b"\n")
                if self._happens("duplicated", TWICE):
                    await response.write(line + b"\n")


def _headers(request: web.Request) -> dict[str, str]:
    return {name: value for name, value in request.headers.items() if name.lower() not in _HOP_HEADERS}


def _back(answer: aiohttp.ClientResponse) -> dict[str, str]:
    kept = ("Content-Type", "Retry-After")
    return {name: answer.headers[name] for name in kept if name in answer.headers}


def _dropped(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def _status(code: int, reason: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": "the proxy makes trouble",
    }


def _refused(code: int, reason: str) -> web.Response:
    headers = {"Retry-After": "1"} if code == 429 else {}
    return web.json_response(_status(code, reason), status=code, headers=headers)


def _event_of_410() -> bytes:
    return json.dumps({"type": "ERROR", "object": _status(410, "Expired")}).encode() + b"\n"
