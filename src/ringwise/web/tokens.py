"""Bearer tokens of an exposed dashboard, checked with the API server.

TokenReview says who the caller is, SubjectAccessReview whether he may list what the page shows, in the whole
cluster. Answers are kept for a short time, under a digest of the token.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from ringwise.kubeclient.client import API_ERRORS, Client
from ringwise.kubeclient.clock import Clock, RealClock
from ringwise.kubeclient.resources import (
    NODES,
    POD_GROUPS,
    PODS,
    QUEUES,
    SUBJECT_ACCESS_REVIEWS,
    TOKEN_REVIEWS,
    VCJOBS,
    Resource,
)
from ringwise.log import Logger
from ringwise.web.guard import RequestRefusedError

_LOG = Logger()

#: Seconds for which an answer counts: of a caller who may read, and of one who may not.
ALLOWED_FOR = 60.0
REFUSED_FOR = 10.0
#: Tokens whose answers are kept, checks at once, and the longest token in bytes.
MAX_TOKENS = 1024
MAX_CHECKS = 8
MAX_TOKEN = 16 << 10
#: What the page shows: the caller must be allowed to list all of it.
SHOWN: tuple[Resource, ...] = (NODES, PODS, POD_GROUPS, VCJOBS, QUEUES)
_SECONDS = 10.0


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)
    error: str = ""


class _TokenReview(msgspec.Struct):
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


class _AccessStatus(msgspec.Struct):
    allowed: bool = False
    denied: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


class ApiServerTokens:
    """Asks the API server about tokens, each of them once in a while."""

    def __init__(self, client: Client, *, clock: Clock | None = None) -> None:
        self._client = client
        self._clock = clock or RealClock()
        #: Until when an answer counts, and the refusal.
        self._reviews: dict[bytes, tuple[float, RequestRefusedError | None]] = {}
        self._asking: dict[bytes, asyncio.Future[RequestRefusedError | None]] = {}
        self._turn = asyncio.Semaphore(MAX_CHECKS)

    async def check(self, token: str) -> None:
        """Raises RequestRefusedError."""
        if len(token) > MAX_TOKEN or not token.isascii() or not token.isprintable():
            raise RequestRefusedError(401, "token-invalid", "this is not a bearer token")
        digest = hashlib.sha256(token.encode()).digest()
        review = self._reviews.get(digest)
        if review is not None and self._clock.monotonic() < review[0]:
            refusal = review[1]
        else:
            refusal = await self._shared(digest, token)
        if refusal is not None:
            raise RequestRefusedError(refusal.status, refusal.code, str(refusal))

    async def _shared(self, digest: bytes, token: str) -> RequestRefusedError | None:
        """One question to the API server for all requests with this token that come meanwhile."""
        asking = self._asking.get(digest)
        if asking is None:
            asking = asyncio.ensure_future(self._ask(digest, token))
            self._asking[digest] = asking
            asking.add_done_callback(lambda _: self._asking.pop(digest, None))
        # A request that is canceled does not cancel those that wait for the same answer.
        return await asyncio.shield(asking)

    async def _ask(self, digest: bytes, token: str) -> RequestRefusedError | None:
        async with self._turn:
            try:
                refusal = await self._refusal(token)
            except (*API_ERRORS, msgspec.MsgspecError) as error:
                _LOG.warning("a token could not be checked", why=str(error))
                return RequestRefusedError(503, "not-checked", "the API server could not check the token")
        lifetime = ALLOWED_FOR if refusal is None else REFUSED_FOR
        self._reviews.pop(digest, None)
        while len(self._reviews) >= MAX_TOKENS:
            del self._reviews[next(iter(self._reviews))]
        self._reviews[digest] = self._clock.monotonic() + lifetime, refusal
        return refusal

    async def _refusal(self, token: str) -> RequestRefusedError | None:
        review = await self._create(TOKEN_REVIEWS, {"token": token})
        status = msgspec.json.decode(review, type=_TokenReview).status
        if not status.authenticated:
            return RequestRefusedError(401, "token-invalid", "the API server does not accept this token")
        user = status.user
        for resource in SHOWN:
            group = resource.version.rpartition("/")[0]
            spec = {
                "user": user.username,
                "uid": user.uid,
                "groups": user.groups,
                "extra": user.extra,
                "resourceAttributes": {"verb": "list", "group": group, "resource": resource.plural},
            }
            answer = await self._create(SUBJECT_ACCESS_REVIEWS, spec)
            access = msgspec.json.decode(answer, type=_AccessReview).status
            if not access.allowed or access.denied:
                name = f"{resource.plural}.{group}" if group else resource.plural
                return RequestRefusedError(
                    403, "forbidden", f"{user.username[:200]} cannot list {name} in the whole cluster"
                )
        return None

    async def _create(self, resource: Resource, spec: Mapping[str, Any]) -> bytes:
        return await self._client.create(resource, None, {"spec": spec}, timeout=_SECONDS)
