"""HTTP endpoints for kubelets and Prometheus: /healthz, /livez, /readyz, /metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from aiohttp import web

from ringwise.metrics.prometheus import CONTENT_TYPE


class Figures(Protocol):
    """What the metrics page shows."""

    def text(self) -> bytes: ...


class AddressError(Exception):
    """An address that cannot be listened on; the message is one line."""


def parse_address(text: str) -> tuple[str, int]:
    """`:8080`, `127.0.0.1:8080` or `[::1]:8080`."""
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise AddressError(f"an address looks like :8080 or 127.0.0.1:8080, got {text!r}")
    return host.strip("[]") or "0.0.0.0", int(port)


@asynccontextmanager
async def serving(
    metrics: Figures, ready: Callable[[], bool], *, metrics_address: str, health_address: str
) -> AsyncIterator[list[int]]:
    """Serve until the block ends; yields the ports. Equal addresses share one, an empty one has none."""
    pages: dict[str, web.Application] = {}
    runners: list[web.AppRunner] = []
    ports: list[int] = []
    for address, routes in (
        (metrics_address, _metrics_routes(metrics)),
        (health_address, _health_routes(ready)),
    ):
        if address:
            pages.setdefault(address, web.Application()).add_routes(routes)
    try:
        for address, application in pages.items():
            host, port = parse_address(address)
            runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
            runners.append(runner)
            await runner.setup()
            try:
                await web.TCPSite(runner, host, port).start()
            except OSError as problem:
                raise AddressError(f"cannot listen on {address}: {problem.strerror or problem}") from None
            ports.append(runner.addresses[0][1])
        yield ports
    finally:
        for runner in runners:
            await runner.cleanup()


def _metrics_routes(metrics: Figures) -> list[web.RouteDef]:
    async def page(_request: web.Request) -> web.Response:
        return web.Response(body=metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    return [web.get("/metrics", page)]


def _health_routes(ready: Callable[[], bool]) -> list[web.RouteDef]:
    async def alive(_request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def readiness(_request: web.Request) -> web.Response:
        if ready():
            return web.Response(text="ok")
        return web.Response(status=503, text="not all objects are read yet")

    return [web.get("/healthz", alive), web.get("/livez", alive), web.get("/readyz", readiness)]
