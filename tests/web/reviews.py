"""An API server that checks tokens and permissions."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from ringwise.kubeclient.client import Client
from ringwise.kubeclient.config import direct
from ringwise.web.tokens import ApiServerTokens
from tests.kube.harness import ManualClock

GOOD = "good-token"


class Reviews:
    """The part of an API server that checks tokens."""

    def __init__(self) -> None:
        self.users = {GOOD: {"username": "anna", "groups": ["team"], "extra": {"scopes": ["x"]}}}
        #: Plural names that nobody may list.
        self.forbidden: set[str] = set()
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.requests: list[tuple[str, str]] = []
        self.status = 201

    async def answer(self, request: web.Request) -> web.Response:
        self.requests.append((request.method, request.path))
        body = await request.json()
        self.asked.append((body["kind"], body["spec"]))
        if self.status != 201:
            return web.Response(status=self.status)
        spec = body["spec"]
        if body["kind"] == "TokenReview":
            user = self.users.get(spec["token"])
            status: dict[str, Any] = {"authenticated": user is not None, "user": user or {}}
        else:
            status = {"allowed": spec["resourceAttributes"]["resource"] not in self.forbidden}
        return web.Response(status=201, text=json.dumps({**body, "status": status}))

    def count(self, kind: str) -> int:
        return sum(1 for asked, _ in self.asked if asked == kind)


@asynccontextmanager
async def reviewing() -> AsyncIterator[tuple[Reviews, ApiServerTokens, ManualClock]]:
    clock = ManualClock()
    async with review_server() as (reviews, client):
        yield reviews, ApiServerTokens(client, clock=clock), clock


@asynccontextmanager
async def review_server() -> AsyncIterator[tuple[Reviews, Client]]:
    reviews = Reviews()
    app = web.Application()
    app.router.add_post("/apis/authentication.k8s.io/v1/tokenreviews", reviews.answer)
    app.router.add_post("/apis/authorization.k8s.io/v1/subjectaccessreviews", reviews.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        async with Client(direct(f"http://127.0.0.1:{runner.addresses[0][1]}")) as client:
            yield reviews, client
    finally:
        await runner.cleanup()
