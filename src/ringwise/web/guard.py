"""Who may ask: a browser that was led here by another site may not, and an exposed server wants a token.

A page of another site cannot read answers of this server, but it can make a name of its own point to this
machine (DNS rebinding). So the name in the request must be one that this server is known by.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Protocol

from aiohttp import web
from yarl import URL

from ringwise.grammar import quoted
from ringwise.web.addresses import LOCAL_NAMES, is_address

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
#: In every response.
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class RequestRefusedError(Exception):
    """A request that is not answered: status, code and one sentence."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class TokenCheck(Protocol):
    async def check(self, token: str) -> None:
        """Raises RequestRefusedError for a token that is not valid, or may not read what the page shows."""


class Guard:
    def __init__(self, hosts: Collection[str] = (), tokens: TokenCheck | None = None) -> None:
        """`hosts` are the names of this server besides addresses and localhost; None: no token is needed."""
        self._hosts = frozenset(host.lower().rstrip(".") for host in hosts) | LOCAL_NAMES
        self._tokens = tokens

    def check_origin(self, request: web.Request) -> None:
        """Raises RequestRefusedError for names of other servers and for requests of other sites."""
        host = request.headers.get("Host", "")
        name = _host_name(host)
        if name is None or not (name in self._hosts or is_address(name)):
            raise RequestRefusedError(421, "unknown-host", f"unknown host {quoted(host, 100)}")
        if request.headers.get("Sec-Fetch-Site") in ("cross-site", "same-site"):
            # A person may follow a link to the page; nothing else may come from elsewhere.
            followed = request.headers.get("Sec-Fetch-Mode") == "navigate" and request.method == "GET"
            if not followed:
                raise RequestRefusedError(403, "other-origin", "requests from other sites are rejected")
        origin = request.headers.get("Origin")
        if origin is not None and _authority(origin) != host.lower():
            raise RequestRefusedError(
                403, "other-origin", f"requests from {quoted(origin, 100)} are rejected"
            )

    async def check_token(self, request: web.Request) -> None:
        if self._tokens is None:
            return
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() != "bearer" or not token.strip():
            raise RequestRefusedError(401, "token-missing", "send a bearer token of the cluster")
        await self._tokens.check(token.strip())


def _host_name(host: str) -> str | None:
    """The name or address in a Host header; None where it is malformed."""
    try:
        url = URL(f"http://{host}")
        name = url.host
    except ValueError:
        return None
    if not name or url.path != "/" or url.query_string or url.fragment or url.user or "@" in host:
        return None
    return name.lower().rstrip(".")


def _authority(origin: str) -> str | None:
    scheme, _, rest = origin.partition("://")
    return rest.lower() if scheme in ("http", "https") else None
