"""A thin client of the Kubernetes API: bytes in, bytes out.

Its errors state what may have happened on the server: `ApiError` is an answer, `UnreachableError` is none,
and after `FencedError` nothing was sent.

Every attempt of a request takes the same steps, also the one after a 401:

    rate limit ──> credentials ──> write gate ──> one attempt ──401──> credentials ...

Whatever has to be awaited comes before the gate, so that no time passes between its answer and the request.

Answers that are not a failure are handled by four verbs: `find` (404 is None), `create_if_missing` (an object
that exists is None), `apply` (server-side apply) and `update` (after a conflict it reads and changes again).
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from ringwise import __version__
from ringwise.kubeclient.clock import RateLimit
from ringwise.kubeclient.config import Access
from ringwise.kubeclient.connection_pool import ConnectionPool, Connections
from ringwise.kubeclient.credentials import KubeConfigError
from ringwise.kubeclient.http import aiohttp
from ringwise.kubeclient.resources import PODS, Resource
from ringwise.manifests.text.errors import one_line
from ringwise.manifests.text.readable import UNREADABLE, readable
from ringwise.wellknown import DISRUPTION_API

#: Objects per page of a list. Larger pages save requests; smaller ones save memory and time of the server.
PAGE_SIZE = 500
#: Longest pause in seconds that a server can ask for with Retry-After. A wrong value must not stop a
#: reflector or a binding for hours.
MAX_RETRY_AFTER = 30.0
#: Seconds by which the server's own limit of a gated write is shorter than the one here.
_SERVER_MARGIN = 0.5
#: Seconds for a request that is not a watch.
TIMEOUT = 30.0
#: Seconds for one page of a list, which takes longer on a busy server.
LIST_TIMEOUT = 120.0
#: Seconds after which the server is asked to end a watch, before a proxy in between cuts it.
WATCH_SECONDS = 290
#: Seconds without data after which a watch counts as broken. Bookmarks come about once a minute.
WATCH_SILENCE = 330.0

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

#: After this many conflicts in a row the conflict is taken as permanent: the name belongs to another object,
#: or other clients write all the time.
MAX_CONFLICTS = 5

Struct = TypeVar("Struct")
Answer = TypeVar("Answer")


class ApiError(Exception):
    """The server answered with an error status."""

    def __init__(self, status: int, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(status, reason, message)
        self.status = status
        self.reason = reason
        self.message = message
        #: Seconds the server asks to wait, `MAX_RETRY_AFTER` at most.
        self.retry_after = retry_after

    def __str__(self) -> str:
        return one_line(f"{self.status} {self.reason}: {self.message}")

    @property
    def kind(self) -> str:
        """The kind of error as a metric label."""
        if self.status in (404, 409, 410, 429):
            return {404: "not-found", 409: "conflict", 410: "gone", 429: "too-many-requests"}[self.status]
        return "server-error" if self.status >= 500 else "refused"


class IgnoredStatus:
    """A block that ends without an error if the server answers with one of these statuses."""

    def __init__(self, *statuses: int) -> None:
        self._statuses = statuses

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return isinstance(error, ApiError) and error.status in self._statuses


class UnreachableError(Exception):
    """There was no answer. With `maybe_done` the request may have reached the server and taken effect."""

    def __init__(self, why: str, *, maybe_done: bool) -> None:
        super().__init__(one_line(why))
        self.maybe_done = maybe_done

    @property
    def kind(self) -> str:
        return "unknown-outcome" if self.maybe_done else "unreachable"


class FencedError(Exception):
    """The write gate was closed: this process can no longer write. The request was not sent."""

    def __init__(self) -> None:
        super().__init__("this replica is no longer the leader")


#: What a request that reads can raise.
API_ERRORS = (ApiError, UnreachableError, KubeConfigError)


class WriteGate(Protocol):
    """Whether this process may write now, asked just before every attempt of a write."""

    def seconds_left(self) -> float:
        """Seconds within which a write that is sent now must have ended; 0 when none may be sent."""


class _Details(msgspec.Struct, rename="camel"):
    retry_after_seconds: int | None = None


class Status(msgspec.Struct):
    reason: str | None = None
    message: str | None = None
    code: int | None = None
    details: _Details | None = None


class LineSplitter:
    """Splits a byte stream into lines of any length: one object can have megabytes."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes, without line ends and without empty lines."""
        head, newline, rest = chunk.partition(b"\n")
        self._parts.append(head)
        if not newline:
            return []
        lines = [b"".join(self._parts), *rest.split(b"\n")]
        self._parts = [lines.pop()]
        return [line for line in lines if line.strip()]


class ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    token: str | None = msgspec.field(default=None, name="continue")


class _Versioned(msgspec.Struct):
    metadata: ListMeta


class Page(msgspec.Struct, Generic[Struct]):
    """One page of a list. The reader decides whether its items are decoded."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[Struct] | None = None


class HasListMeta(Protocol):
    @property
    def metadata(self) -> ListMeta: ...


Listing = TypeVar("Listing", bound=HasListMeta)


class _ServedKind(msgspec.Struct):
    name: str = ""
    verbs: list[str] = []


class _ServedKinds(msgspec.Struct):
    resources: list[_ServedKind] = []


class Client:
    """The client of one process. Connections are kept open and shared.

    With a `rate_limit` every request waits for its turn, except those sent with `rate_limited=False`.
    """

    def __init__(
        self,
        access: Access,
        *,
        connections: int = 128,
        component: str = "scheduler",
        rate_limit: RateLimit | None = None,
    ) -> None:
        self._access = access
        #: The name under which the API server records which fields this component owns.
        self._field_manager = f"ringwise-{component}"
        self._pool = ConnectionPool(access, f"{self._field_manager}/{__version__}", connections)
        self._rate_limit = rate_limit
        #: Of every request.
        self._connecting: dict[str, Any] = {
            "proxy": access.proxy or None,
            "server_hostname": access.server_name or None,
            "allow_redirects": False,
        }
        self._gate: WriteGate | None = None

    def gated(self, gate: WriteGate) -> Client:
        """This client with a write gate: writes raise FencedError while the gate is closed.

        A write that may be sent ends before the gate's time is over, here and on the server.
        """
        gated = copy.copy(self)
        gated._gate = gate
        return gated

    @property
    def access(self) -> Access:
        return self._access

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._pool.close()

    # -- requests ------------------------------------------------------------------------

    async def wait_for_rate_limit(self) -> None:
        """Wait until one more request may be sent; at once where there is no limit."""
        if self._rate_limit is not None:
            await self._rate_limit.wait()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float = TIMEOUT,
        rate_limited: bool = True,
    ) -> bytes:
        """The body of the response. Raises ApiError, UnreachableError, KubeConfigError or FencedError.

        `timeout` limits the wait for credentials, and then each attempt.
        """
        if rate_limited:
            await self.wait_for_rate_limit()
        headers = {"Content-Type": content_type} if body is not None else {}
        error: ApiError | None = None
        limit = timeout
        while True:
            connections, authorized = await self._authorized(headers, timeout)
            try:
                limit, parameters = self._limits(method, timeout, params)
                async with connections.session.request(
                    method,
                    self._access.server + path,
                    params=parameters,
                    data=body,
                    headers=authorized,
                    timeout=aiohttp.ClientTimeout(total=limit),
                    **self._connecting,
                ) as response:
                    answer = await response.read()
                    if response.status < 300:
                        return answer
                    refused = error is not None
                    error = _error(response, answer)
            except aiohttp.ClientConnectorError as problem:
                raise UnreachableError(str(problem), maybe_done=False) from None
            except TimeoutError:
                raise UnreachableError(f"no response within {limit:g}s", maybe_done=True) from None
            except (aiohttp.ClientError, OSError) as problem:
                raise UnreachableError(f"the connection was lost: {_why(problem)}", maybe_done=True) from None
            finally:
                await connections.release()
            if error.status != 401 or refused:
                raise error
            # The token may have been rotated: read it again and retry once before reporting 401.
            self._access.credentials.refused()

    async def _authorized(
        self, headers: Mapping[str, str], timeout: float
    ) -> tuple[Connections, dict[str, str]]:
        """Connections and headers with the credential. An exec plugin may take long, or never end."""
        try:
            async with asyncio.timeout(timeout):
                return await self._pool.acquire(headers)
        except TimeoutError:
            raise UnreachableError(f"no credentials within {timeout:g}s", maybe_done=False) from None

    def _limits(
        self, method: str, timeout: float, params: Mapping[str, str] | None
    ) -> tuple[float, Mapping[str, str] | None]:
        """Seconds for one attempt that is sent now, and its parameters. Raises FencedError."""
        if self._gate is None or method == "GET":
            return timeout, params
        left = self._gate.seconds_left()
        if left <= 0:
            raise FencedError
        limit = min(timeout, left)
        # A connection that breaks does not end the request on the server, so the server gets a limit, too.
        seconds = max(limit - _SERVER_MARGIN, 0.1)
        return limit, {**(params or {}), "timeout": f"{seconds * 1000:.0f}ms"}

    async def get(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        shape: type[Struct],
        timeout: float = TIMEOUT,
        *,
        rate_limited: bool = True,
    ) -> Struct:
        path = resource.path(namespace, name)
        answer = await self.request("GET", path, timeout=timeout, rate_limited=rate_limited)
        return _decoded(answer, shape)

    async def find(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        shape: type[Struct],
        timeout: float = TIMEOUT,
        *,
        rate_limited: bool = True,
    ) -> Struct | None:
        """The object; None if there is none, or if the server does not know its kind."""
        with IgnoredStatus(404):
            return await self.get(resource, namespace, name, shape, timeout, rate_limited=rate_limited)
        return None

    async def create(
        self, resource: Resource, namespace: str | None, body: Mapping[str, Any], timeout: float = TIMEOUT
    ) -> bytes:
        content = _encoded(resource, body)
        return await self.request("POST", resource.path(namespace), body=content, timeout=timeout)

    async def create_if_missing(
        self, resource: Resource, namespace: str | None, body: Mapping[str, Any]
    ) -> bytes | None:
        """The object that was created; None if one of its name exists, which is not changed.

        Other conflicts are raised: one on a quota, for example, says nothing about the object.
        """
        try:
            return await self.create(resource, namespace, body)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            return None

    async def apply(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Mapping[str, Any],
        *,
        force: bool = True,
    ) -> bytes:
        """Create the object, or set these fields of it (server-side apply).

        With `force` also fields that others own; without it they are a conflict if their values differ.
        Fields that this component applied before and that `body` does not have are removed, so two parts of a
        component must not apply different fields of one object. With a `metadata.resourceVersion` the object
        must have that version.
        """
        meta = {"name": name, **({"namespace": namespace} if namespace else {}), **body.get("metadata", {})}
        return await self.request(
            "PATCH",
            resource.path(namespace, name),
            params={"fieldManager": self._field_manager, "force": str(force).lower()},
            body=_encoded(resource, {**body, "metadata": meta}),
            content_type=APPLY_PATCH,
        )

    async def update(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        shape: type[Struct],
        change: Callable[[Struct | None], dict[str, Any] | None],
        timeout: float = TIMEOUT,
    ) -> bool:
        """Read an object and write what `change` returns for it; whether something was written.

        `change` returns a merge patch, or None to leave the object as it is. It gets None if there is no
        object, which is then created from the patch. If another client writes meanwhile, the object is
        read and changed again; after `MAX_CONFLICTS` times the conflict is raised.
        """
        conflicts = 0
        while True:
            raw = await self.find(resource, namespace, name, msgspec.Raw, timeout)
            patch = change(None if raw is None else _decoded(raw, shape))
            if patch is None:
                return False
            meta = patch.get("metadata", {})
            try:
                if raw is None:
                    body = {**patch, "metadata": {"name": name, **meta}}
                    await self.create(resource, namespace, body, timeout)
                else:
                    version = _decoded(raw, _Versioned).metadata.resource_version
                    body = {**patch, "metadata": {**meta, "resourceVersion": version}}
                    await self.patch(resource, namespace, name, body, timeout=timeout)
                return True
            except ApiError as error:
                conflicts += 1
                if error.status != 409 or conflicts == MAX_CONFLICTS:
                    raise

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Mapping[str, Any],
        *,
        subresource: str = "",
        content_type: str = MERGE_PATCH,
        timeout: float = TIMEOUT,
    ) -> bytes:
        path = resource.path(namespace, name, subresource)
        content = msgspec.json.encode(body)
        return await self.request("PATCH", path, body=content, content_type=content_type, timeout=timeout)

    async def replace(
        self, resource: Resource, namespace: str | None, name: str, body: Mapping[str, Any]
    ) -> bytes:
        return await self.request("PUT", resource.path(namespace, name), body=_encoded(resource, body))

    async def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str = "",
        propagation: str = "",
        grace: int | None = None,
    ) -> bool:
        """Delete an object; False if it is gone. `grace` 0 is by force.

        With a uid only that object is deleted: if a later one has its name, it is gone, too.
        """
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if propagation:
            options["propagationPolicy"] = propagation
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        with IgnoredStatus(404, 409 if uid else 404):
            await self.request("DELETE", resource.path(namespace, name), body=msgspec.json.encode(options))
            return True
        return False

    async def evict(self, namespace: str, pod: str, uid: str) -> None:
        """Ask for the eviction of a pod with its own grace; disruption budgets are kept (429).

        Another pod of the same name is not evicted (409).
        """
        body = {
            "apiVersion": DISRUPTION_API,
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        await self.request("POST", PODS.path(namespace, pod, "eviction"), body=msgspec.json.encode(body))

    # -- lists and watches ------------------------------------------------------------------

    async def can_create(self, resource: Resource) -> bool:
        """Whether objects of a custom resource can be created: not while its definition is being deleted."""
        try:
            answer = await self.request("GET", resource.root)
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        kinds = _decoded(answer, _ServedKinds).resources
        return any(one.name == resource.plural and "create" in one.verbs for one in kinds)

    async def pages(
        self, path: str, params: Mapping[str, str], limit: int, read: Callable[[bytes], Listing]
    ) -> AsyncIterator[Listing]:
        """A list, page by page, decoded by `read`. Raises ApiError 410 when it expires between two pages."""
        token = ""
        while True:
            parameters = {**params, "limit": str(limit), **({"continue": token} if token else {})}
            page = read(await self.request("GET", path, params=parameters, timeout=LIST_TIMEOUT))
            yield page
            token = page.metadata.token or ""
            if not token:
                return

    @asynccontextmanager
    async def watch(
        self, path: str, params: Mapping[str, str], version: str, *, seconds: int = WATCH_SECONDS
    ) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        """The lines of a watch in batches as they arrive; ends when the server ends it."""
        connections, headers = await self._authorized({}, TIMEOUT)
        parameters = {
            **params,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
        }
        try:
            async with connections.session.get(
                self._access.server + path,
                params=parameters,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=TIMEOUT, sock_read=WATCH_SILENCE),
                **self._connecting,
            ) as response:
                if response.status >= 300:
                    if response.status == 401:
                        self._access.credentials.refused()
                    raise _error(response, await response.read())
                try:
                    yield _lines(response)
                finally:
                    _abort(response)
        except TimeoutError:
            raise UnreachableError(
                f"the watch sent nothing for {WATCH_SILENCE:g}s", maybe_done=False
            ) from None
        except (aiohttp.ClientError, OSError) as problem:
            raise UnreachableError(f"the watch was interrupted: {_why(problem)}", maybe_done=False) from None
        finally:
            await connections.release()


def run(
    access: Access, work: Callable[[Client], Coroutine[Any, Any, Answer]], component: str = "cli"
) -> Answer:
    """The result of `work` with a client of its own, for callers without an event loop."""

    async def connected() -> Answer:
        async with Client(access, component=component) as client:
            return await work(client)

    return asyncio.run(connected())


def _abort(response: aiohttp.ClientResponse) -> None:
    """Close the connection at once: a TLS shutdown waits for the server, and the event loop may end first."""
    transport = response.connection.transport if response.connection is not None else None
    if isinstance(transport, asyncio.WriteTransport):
        transport.abort()


async def _lines(response: aiohttp.ClientResponse) -> AsyncIterator[list[bytes]]:
    splitter = LineSplitter()
    transport = response.connection.transport if response.connection is not None else None
    async for chunk in response.content.iter_any():
        lines = splitter.feed(chunk)
        if not lines:
            continue
        if not isinstance(transport, asyncio.ReadTransport):
            yield lines
            continue
        # Until the next call the socket buffers: decoding many lines at once costs less.
        transport.pause_reading()
        try:
            yield lines
        finally:
            # A connection that was aborted meanwhile has nothing to resume.
            with suppress(AttributeError, RuntimeError):
                transport.resume_reading()


def _why(problem: Exception) -> str:
    return str(problem) or type(problem).__name__


def _encoded(resource: Resource, body: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode({"apiVersion": resource.version, "kind": resource.kind, **body})


def _decoded(answer: bytes, shape: type[Struct]) -> Struct:
    try:
        return msgspec.json.decode(answer, type=shape)
    except UNREADABLE as problem:
        raise UnreachableError(
            f"the server's response cannot be decoded: {problem}", maybe_done=True
        ) from None


def _error(response: aiohttp.ClientResponse, answer: bytes) -> ApiError:
    status = readable(answer, Status, None) or Status(message=answer[:200].decode(errors="replace"))
    wait: float | None = None
    header = response.headers.get("Retry-After", "")
    if header.isascii() and header.isdigit():
        wait = min(float(header), MAX_RETRY_AFTER)
    elif status.details is not None and status.details.retry_after_seconds is not None:
        wait = min(max(status.details.retry_after_seconds, 0.0), MAX_RETRY_AFTER)
    reason = status.reason or response.reason or ""
    return ApiError(response.status, reason, status.message or "no message", wait)
