"""The connections of every address that a component listens on: how many there are, and for how long.

Most of the time a connection waits for its peer: for the handshake of TLS, a header, a body, the next
request, or until an answer is read. If there are too many, a new connection closes the one that has waited
longest, so that idle connections do not lock out new clients. Each kind of waiting has a timeout. A
connection is never closed while a request on it is being answered.

Peers are identified by their address, and the connection that is closed belongs to the peer with the most
waiting connections. A peer is never refused only because it has many connections: one address may belong to
an API server, or to a proxy with many users.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Any, cast

from ringwise.log import Logger

if TYPE_CHECKING:
    from ssl import SSLContext

_LOG = Logger()

#: Connections at once. Each is a file descriptor, of which a process often has 1,024.
MAX_CONNECTIONS = 512
#: Seconds for the handshake of TLS, and again from the first byte of a request to the end of its header.
HEADER_TIMEOUT = 5.0
#: Seconds within which a client must read some of what it is sent, once its socket is full.
WRITE_TIMEOUT = 30.0
#: Connections that the kernel keeps until they are accepted.
_BACKLOG = 512
#: Seconds until the next try to accept where no file descriptor is left.
_ACCEPT_PAUSE = 0.05
#: Seconds between two lines of the log about connections that were closed to make room.
_LOG_INTERVAL = 60.0
#: Bits of an address of IPv6 that its owner does not choose freely.
_IPV6_NETWORK = 64

ProtocolFactory = Callable[[], asyncio.Protocol]


class Connection(asyncio.Protocol):
    """Between a transport and the protocol that serves it."""

    def __init__(self, connections: OpenConnections, peer: str, accepted: socket.socket) -> None:
        self.peer = peer
        self._connections = connections
        self._accepted = accepted
        self._inner: asyncio.Protocol | None = None
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        #: Requests whose header is complete and that are not answered.
        self._requests = 0

    def close(self) -> None:
        """At once, in whatever state it is."""
        if self._transport is not None:
            self._transport.abort()
        else:
            # The handshake of TLS is not over: it ends with this.
            with suppress(OSError):
                self._accepted.shutdown(socket.SHUT_RDWR)

    # -- called by the transport -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if not self._connections.established(self, transport):
            # It was closed to make room in the moment in which its handshake ended.
            self._transport.abort()
            return
        self._inner = self._connections.make()
        self._inner.connection_made(transport)
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        if not self._requests:
            self._start_timer()
        if self._inner is not None:
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return None if self._inner is None else self._inner.eof_received()

    def pause_writing(self) -> None:
        self._write_timer = self._later(self._connections.write_timeout)
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._stop_write_timer()
        if self._inner is not None:
            self._inner.resume_writing()

    def connection_lost(self, problem: Exception | None) -> None:
        self._stop_timer()
        self._stop_write_timer()
        self._connections.forget(self, self._transport)
        if self._inner is not None:
            self._inner.connection_lost(problem)

    # -- called by the server --------------------------------------------------------------------

    @contextmanager
    def answering(self) -> Iterator[None]:
        """A header is complete, and the block answers the request."""
        self._requests += 1
        self._stop_timer()
        self._connections.waits(self, False)
        try:
            yield
        finally:
            self._requests -= 1
            if not self._requests:
                self._connections.waits(self, True)

    @contextmanager
    def awaiting(self) -> Iterator[None]:
        """While it is answered: the block waits for its peer again, for a body."""
        self._connections.waits(self, True)
        try:
            yield
        finally:
            self._connections.waits(self, False)

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = self._later(self._connections.header_timeout)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _later(self, seconds: float) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(seconds, self.close)


class OpenConnections:
    """The connections of one listening address, and their limits."""

    def __init__(
        self,
        most: int = MAX_CONNECTIONS,
        *,
        header_timeout: float = HEADER_TIMEOUT,
        write_timeout: float = WRITE_TIMEOUT,
    ) -> None:
        self.most = most
        #: Of one peer, that wait for it. An API server has some 25 idle ones, and 200 requests in all.
        self.most_of_peer = max(1, most // 2)
        self.header_timeout = header_timeout
        self.write_timeout = write_timeout
        self.make: ProtocolFactory = asyncio.Protocol
        self.open: set[Connection] = set()
        self._by_transport: dict[asyncio.BaseTransport, Connection] = {}
        #: Those that wait, by peer; the one that waits longest first.
        self._waiting: dict[str, dict[Connection, None]] = {}
        self._last_logged = -_LOG_INTERVAL

    def of(self, transport: asyncio.BaseTransport | None) -> Connection | None:
        return None if transport is None else self._by_transport.get(transport)

    def admit(self, peer: str, accepted: socket.socket) -> Connection | None:
        """Another connection; None where all of them are being answered."""
        same = self._waiting.get(peer, {})
        if len(same) >= self.most_of_peer:
            self._close(next(iter(same)))
        elif len(self.open) >= self.most and not self.make_room():
            self._log("connection rejected: all others are busy", peer)
            return None
        connection = Connection(self, peer, accepted)
        self.open.add(connection)
        self.waits(connection, True)
        return connection

    def make_room(self) -> bool:
        """Close the one that waits longest, of the peer with most that wait; whether there is one."""
        if not self._waiting:
            return False
        most = max(self._waiting.values(), key=lambda waiting: len(waiting))
        self._close(next(iter(most)))
        return True

    def _close(self, connection: Connection) -> None:
        self._log("idle connections are closed to make room", connection.peer)
        self.forget(connection)
        connection.close()

    def _log(self, what: str, peer: str) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._last_logged >= _LOG_INTERVAL:
            self._last_logged = now
            _LOG.warning(what, open=len(self.open), peer=peer)

    def established(self, connection: Connection, transport: asyncio.BaseTransport) -> bool:
        """Whether it still has its place."""
        if connection not in self.open:
            return False
        self._by_transport[transport] = connection
        return True

    def waits(self, connection: Connection, waits: bool) -> None:
        if connection not in self.open:
            return
        same = self._waiting.setdefault(connection.peer, {})
        same.pop(connection, None)
        if waits:
            same[connection] = None
        elif not same:
            del self._waiting[connection.peer]

    def forget(self, connection: Connection, transport: asyncio.BaseTransport | None = None) -> None:
        if transport is not None:
            self._by_transport.pop(transport, None)
        self.waits(connection, False)
        self.open.discard(connection)


class Listener:
    """Accepts connections of listening sockets. Those in the handshake of TLS are counted, too."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        make: ProtocolFactory,
        connections: OpenConnections,
        tls: SSLContext | None = None,
    ) -> None:
        self.sockets = sockets
        self._connections = connections
        self._tls = tls
        connections.make = make
        self._tasks: set[asyncio.Task[None]] = set()
        for listening in sockets:
            self._start(self._accept(listening))

    @property
    def port(self) -> int:
        return int(self.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Accept nothing more, and end what has not begun. What was begun belongs to its server."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for listening in self.sockets:
            listening.close()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="connections")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError:
                # The client has gone already, or no file descriptor is left.
                self._connections.make_room()
                await asyncio.sleep(_ACCEPT_PAUSE)
                continue
            connection = self._connections.admit(peer_of(address), accepted)
            if connection is None:
                accepted.close()
            else:
                self._start(self._establish(connection, accepted))
            # While more of them wait, accepting does not: everything else has its turn.
            await asyncio.sleep(0)

    async def _establish(self, connection: Connection, accepted: socket.socket) -> None:
        timeout = None if self._tls is None else self._connections.header_timeout
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=timeout,
                ssl_shutdown_timeout=timeout,
            )
        except OSError:
            # It speaks no TLS, is too slow, or has gone.
            self._connections.forget(connection)
        except asyncio.CancelledError:
            self._connections.forget(connection)
            connection.close()
            raise


def peer_of(address: object) -> str:
    """Who is at the other end, for a limit. Addresses of IPv6 count by their network."""
    if not isinstance(address, tuple):
        return ""
    host = str(address[0]).partition("%")[0]
    with suppress(ValueError):
        ip = ip_address(host)
        if isinstance(ip, IPv6Address):
            if ip.ipv4_mapped is not None:
                return str(ip.ipv4_mapped)
            network = int(ip) >> (128 - _IPV6_NETWORK) << (128 - _IPV6_NETWORK)
            return f"{IPv6Address(network)}/{_IPV6_NETWORK}"
    return host


async def listening_sockets(host: str, port: int) -> list[socket.socket]:
    """One for each address of that name. Raises OSError."""
    infos = await asyncio.get_running_loop().getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    missing: OSError | None = None
    try:
        for family, address in dict.fromkeys((one[0], one[4]) for one in infos):
            try:
                made = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
            except OSError as problem:
                if problem.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    raise
                # A name may have an address of a family that this machine does not use.
                missing = problem
                continue
            made.setblocking(False)
            sockets.append(made)
    except OSError:
        for one in sockets:
            one.close()
        raise
    if not sockets:
        raise missing or OSError(errno.EADDRNOTAVAIL, f"{host} has no address")
    return sockets
