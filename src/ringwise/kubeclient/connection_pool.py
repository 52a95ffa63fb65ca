"""HTTP sessions to the API server, one per client certificate. The certificate can change at run time."""

from __future__ import annotations

from collections.abc import Mapping

from ringwise.kubeclient.config import Access
from ringwise.kubeclient.credentials import Credential, KubeConfigError
from ringwise.kubeclient.http import aiohttp


class Connections:
    """The session of one client certificate, and how many requests and watches use it."""

    __slots__ = ("certificate", "in_use", "retired", "session")

    def __init__(self, session: aiohttp.ClientSession, certificate: tuple[str, str]) -> None:
        self.session = session
        self.certificate = certificate
        self.in_use = 0
        self.retired = False

    async def release(self) -> None:
        """The last user of a retired session closes it; closed earlier, a watch on it would hang for ever."""
        self.in_use -= 1
        if self.retired and not self.in_use:
            await self.session.close()


class ConnectionPool:
    """Keeps connections open and shares them. A new certificate opens a new session."""

    def __init__(self, access: Access, user_agent: str, size: int) -> None:
        self._access = access
        self._user_agent = user_agent
        self._size = size
        self._current: Connections | None = None

    async def acquire(self, headers: Mapping[str, str]) -> tuple[Connections, dict[str, str]]:
        """Connections that stay open until the caller releases them, and the headers with the credential."""
        credential = await self._access.credentials.current()
        if not (credential.token.isascii() and credential.token.isprintable()):
            raise KubeConfigError("the token contains characters that are not allowed in an HTTP header")
        connections = self._current
        if connections is None or connections.certificate != (credential.certificate, credential.key):
            connections = await self._replaced(credential)
        # No await since the session was looked up, so it was not closed in between.
        connections.in_use += 1
        if credential.token:
            return connections, {**headers, "Authorization": f"Bearer {credential.token}"}
        return connections, dict(headers)

    async def close(self) -> None:
        connections = self._swap(None)
        if connections is not None:
            await connections.session.close()

    async def _replaced(self, credential: Credential) -> Connections:
        """The current session. The one before it is closed when its last user is done."""
        fresh = self._opened(credential)
        old = self._swap(fresh)
        if old is not None:
            old.retired = True
            if not old.in_use:
                await old.session.close()
        # Another request may have brought a newer certificate meanwhile.
        return fresh if self._current is None else self._current

    def _swap(self, connections: Connections | None) -> Connections | None:
        old, self._current = self._current, connections
        return old

    def _opened(self, credential: Credential) -> Connections:
        tls = self._access.tls(credential)
        connector = aiohttp.TCPConnector(
            limit=self._size, ssl=True if tls is None else tls, keepalive_timeout=60
        )
        session = aiohttp.ClientSession(
            connector=connector,
            headers={"User-Agent": self._user_agent, "Accept": "application/json"},
            trust_env=False,
            auto_decompress=True,
            read_bufsize=1 << 18,
        )
        return Connections(session, (credential.certificate, credential.key))
