"""The routes of the dashboard: its page, its documents, and the stream of changes."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, NamedTuple, Protocol, get_args

import msgspec
from aiohttp import web

from ringwise.log import Logger
from ringwise.records import dataclass
from ringwise.topology.numbers import whole_number
from ringwise.views.dashboard_details import job_document, node_document
from ringwise.views.documents.accounting import GroupBy
from ringwise.views.documents.dashboard import ErrorDocument, LeadingFields
from ringwise.web.connections import read_body
from ringwise.web.frames import Frame, GzipStream
from ringwise.web.guard import SECURITY_HEADERS, Guard, Handler, RequestRefusedError
from ringwise.web.hub import Hub, NotLeadingError
from ringwise.web.openapi import DOCUMENTS, api_page, openapi_document

_LOG = Logger()

API = "/api/v1"
#: Bytes of a manifest in a what-if, and manifests at once, from their first byte until they are answered.
MAX_BODY = 1 << 20
MAX_MANIFESTS = 8
#: What accounting is added up by, and the most days of one report.
GROUPS: tuple[GroupBy, ...] = get_args(GroupBy)
MAX_DAYS = 366
#: Streams at once.
MAX_STREAMS = 256
#: Seconds after which the token of an open stream is checked again.
TOKEN_INTERVAL = 60.0
#: Bodies of fewer bytes are not packed.
_SMALL = 1024
#: Header of a question that the replica that leads has passed on.
FORWARDED = "Ringwise-Forwarded"
_MAX_SEQUENCE = 2**53


class Asker(NamedTuple):
    """Who asks a question."""

    #: The header of that name.
    authorization: str = ""
    #: The replica that leads has passed the question on.
    forwarded: bool = False


class DashboardAnswers(Protocol):
    """The questions about one job or a manifest. They raise RequestRefusedError and NotLeadingError."""

    async def why(self, asker: Asker, namespace: str, name: str) -> Mapping[str, Any]: ...

    async def history(self, asker: Asker, namespace: str, name: str) -> Mapping[str, Any]: ...

    async def what_if(self, asker: Asker, text: bytes) -> Mapping[str, Any]: ...

    async def report(self, asker: Asker, by: GroupBy, days: int) -> Mapping[str, Any]:
        """Accounting of the last days, today included."""

    async def document(self, asker: Asker, name: str) -> Mapping[str, Any]:
        """One of `DOCUMENTS`, about the whole cluster."""


#: What describes the API, by path: its type, and what makes it when it is asked for first.
_CONSTANTS: Mapping[str, tuple[str, Callable[[], bytes]]] = {
    "/api/": ("text/html; charset=utf-8", lambda: api_page().encode()),
    f"{API}/openapi.json": ("application/json", lambda: msgspec.json.encode(openapi_document())),
}


class DashboardServer:
    """Makes the application for one hub."""

    def __init__(self, hub: Hub, answers: DashboardAnswers, guard: Guard) -> None:
        self._hub = hub
        self._answers = answers
        self._guard = guard
        self._files = page_files()
        self._streams = 0
        self._manifests = 0
        self._documents: dict[str, tuple[bytes, bytes]] = {}

    def application(self) -> web.Application:
        app = web.Application(client_max_size=MAX_BODY, middlewares=[self._answer_safely])
        app.router.add_get("/", self._page)
        app.router.add_get("/page/{path:.+}", self._page)
        for path in _CONSTANTS:
            app.router.add_get(path, self._constant)
        app.router.add_get(f"{API}/snapshot", self._snapshot)
        app.router.add_get(f"{API}/stream", self._stream)
        app.router.add_get(f"{API}/series", self._series)
        app.router.add_get(f"{API}/jobs/{{namespace}}/{{name}}", self._job)
        app.router.add_get(f"{API}/jobs/{{namespace}}/{{name}}/why", self._why)
        app.router.add_get(f"{API}/jobs/{{namespace}}/{{name}}/history", self._history)
        app.router.add_get(f"{API}/nodes/{{name}}", self._node)
        app.router.add_post(f"{API}/what-if", self._what_if)
        app.router.add_get(f"{API}/report", self._report)
        for name in DOCUMENTS:
            app.router.add_get(f"{API}/{name}", self._cluster_document)
        app.on_response_prepare.append(_add_headers)
        app.cleanup_ctx.append(self._running_hub)
        app.on_shutdown.append(self._end_streams)
        return app

    async def _running_hub(self, _app: web.Application) -> AsyncIterator[None]:
        self._hub.start()
        yield
        await self._hub.stop()

    async def _end_streams(self, _app: web.Application) -> None:
        self._hub.end_streams()

    # -- around every request --------------------------------------------------------------------

    @web.middleware
    async def _answer_safely(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Checks who asks; what goes wrong becomes an error document."""
        answer = await self._answer(request, handler)
        if not (answer.prepared or self._hub.leads):
            # A Service chooses a replica for each connection, and a browser would keep this one: with another
            # connection the next try can reach the leader.
            answer.force_close()
        return answer

    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            self._guard.check_origin(request)
            if request.path.startswith(f"{API}/"):
                await self._guard.check_token(request)
            return await handler(request)
        except RequestRefusedError as error:
            return _error(error.status, error.code, str(error))
        except NotLeadingError as error:
            fields = LeadingFields(
                code="not-leading", message=str(error), leader=error.leader, address=error.address
            )
            made = _error_document(503, fields)
            made.force_close()
            return made
        except web.HTTPRequestEntityTooLarge:
            return _error(413, "too-large", f"a body has at most {MAX_BODY} bytes")
        except web.HTTPException as error:
            code = "not-found" if error.status == 404 else (error.reason or "error").lower().replace(" ", "-")
            made = _error(error.status, code, error.text or error.reason or "error")
            if "Allow" in error.headers:
                made.headers["Allow"] = error.headers["Allow"]
            return made
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception:
            _LOG.exception("a request of the dashboard failed", path=request.path[:200])
            return _error(500, "internal-error", "internal error; the log of the server has more")

    # -- page ------------------------------------------------------------------------------------

    async def _page(self, request: web.Request) -> web.Response:
        file = self._files.get(request.match_info.get("path", INDEX))
        if file is None:
            raise RequestRefusedError(404, "not-found", "file not found")
        headers = {"ETag": file.etag, "Cache-Control": "no-cache"}
        if file.etag in request.headers.get("If-None-Match", ""):
            return web.Response(status=304, headers=headers)
        return _packed_response(request, file.body, file.packed, file.content_type, headers)

    async def _constant(self, request: web.Request) -> web.Response:
        content_type, make = _CONSTANTS[request.path]
        if request.path not in self._documents:
            body = make()
            self._documents[request.path] = body, gzip.compress(body, mtime=0)
        body, smaller = self._documents[request.path]
        return _packed_response(request, body, smaller, content_type, {"Cache-Control": "no-cache"})

    # -- documents -------------------------------------------------------------------------------

    async def _snapshot(self, request: web.Request) -> web.Response:
        snapshot = await self._hub.snapshot()
        headers = {"Cache-Control": "no-store"}
        return _packed_response(request, snapshot.raw, snapshot.packed, "application/json", headers)

    async def _series(self, request: web.Request) -> web.Response:
        return _document(request, await self._hub.remembered())

    async def _job(self, request: web.Request) -> web.Response:
        namespace, name = _job_of(request)
        details = await self._hub.read(lambda rows, view, now: job_document(rows, view, now, namespace, name))
        if details is None:
            raise RequestRefusedError(404, "not-found", f'job "{namespace}/{name}" not found')
        return _document(request, details)

    async def _node(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        document = await self._hub.read(lambda rows, view, now: node_document(rows, view, now, name))
        if document is None:
            raise RequestRefusedError(404, "not-found", f'node "{name}" not found')
        return _document(request, document)

    async def _why(self, request: web.Request) -> web.Response:
        return _document(request, await self._answers.why(_asker(request), *_job_of(request)))

    async def _history(self, request: web.Request) -> web.Response:
        return _document(request, await self._answers.history(_asker(request), *_job_of(request)))

    async def _what_if(self, request: web.Request) -> web.Response:
        if self._manifests >= MAX_MANIFESTS:
            raise RequestRefusedError(
                503, "busy", "too many concurrent requests with manifests; try again in a few seconds"
            )
        self._manifests += 1
        try:
            body = await read_body(request)
            return _document(request, await self._answers.what_if(_asker(request), body))
        finally:
            self._manifests -= 1

    async def _report(self, request: web.Request) -> web.Response:
        by = next((one for one in GROUPS if one == request.query.get("by", "queue")), None)
        if by is None:
            raise RequestRefusedError(400, "bad-request", f"by must be one of {', '.join(GROUPS)}")
        days = whole_number(request.query.get("days", "7"), 1, MAX_DAYS)
        if days is None:
            raise RequestRefusedError(400, "bad-request", f"days must be a whole number, 1 to {MAX_DAYS}")
        return _document(request, await self._answers.report(_asker(request), by, days))

    async def _cluster_document(self, request: web.Request) -> web.Response:
        name = request.path.rpartition("/")[2]
        return _document(request, await self._answers.document(_asker(request), name))

    # -- stream ----------------------------------------------------------------------------------

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        since = whole_number(request.query.get("since", ""), 0, _MAX_SEQUENCE)
        if since is None:
            raise RequestRefusedError(400, "bad-request", "since must be a sequence number")
        if self._streams >= MAX_STREAMS:
            raise RequestRefusedError(
                503, "too-many-streams", f"too many clients: {MAX_STREAMS} are being served"
            )
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        )
        # It ends where another replica leads, and the next one must be able to reach that one.
        response.force_close()
        # A proxy must not collect events.
        response.headers["X-Accel-Buffering"] = "no"
        stream = GzipStream() if _accepts_gzip(request) else None
        if stream is not None:
            response.headers["Content-Encoding"] = "gzip"
            response.headers["Vary"] = "Accept-Encoding"
        self._streams += 1
        try:
            await response.prepare(request)
            await self._send(request, response, stream)
        except ConnectionError:
            # The client has gone, or reads too slowly: it comes back with its sequence.
            if request.transport is not None:
                request.transport.abort()
        finally:
            self._streams -= 1
        return response

    async def _send(
        self, request: web.Request, response: web.StreamResponse, stream: GzipStream | None
    ) -> None:
        epoch = request.query.get("epoch", "")
        since = whole_number(request.query.get("since", ""), 0, _MAX_SEQUENCE) or 0
        if stream is not None:
            await response.write(GzipStream.HEADER)
        await response.write(_part(_ALIVE, stream))
        clock = asyncio.get_running_loop().time
        checked = clock()
        async for frame in self._hub.stream(epoch, since):
            if clock() - checked >= TOKEN_INTERVAL:
                if not await self._may_still_read(request):
                    break
                checked = clock()
            await response.write(_part(frame or _ALIVE, stream))
        if stream is not None:
            await response.write(stream.end())
        with suppress(ConnectionError):
            await response.write_eof()

    async def _may_still_read(self, request: web.Request) -> bool:
        """Tokens end, and permissions are taken away, while a page is open for days."""
        try:
            await self._guard.check_token(request)
        except RequestRefusedError as error:
            # An API server that does not answer says nothing about the caller.
            return error.status not in (401, 403)
        return True


class _Comment(Frame):
    """Shows that the stream is alive."""

    def __init__(self) -> None:
        self.sequence = None
        self.raw = b": alive\n\n"


_ALIVE = _Comment()


def _part(frame: Frame, stream: GzipStream | None) -> bytes:
    return frame.raw if stream is None else stream.part(frame.raw, frame.packed)


# -- responses -------------------------------------------------------------------------------------


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(SECURITY_HEADERS)
    response.headers.popall("Server", None)


def _asker(request: web.Request) -> Asker:
    return Asker(request.headers.get("Authorization", ""), FORWARDED in request.headers)


def _job_of(request: web.Request) -> tuple[str, str]:
    """Namespace and name."""
    return request.match_info["namespace"], request.match_info["name"]


def _accepts_gzip(request: web.Request) -> bool:
    for part in request.headers.get("Accept-Encoding", "").lower().split(","):
        name, _, quality = part.partition(";")
        if name.strip() in ("gzip", "*"):
            return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def _packed_response(
    request: web.Request, body: bytes, smaller: bytes, content_type: str, headers: Mapping[str, str]
) -> web.Response:
    all_headers = {"Content-Type": content_type, "Vary": "Accept-Encoding", **headers}
    if _accepts_gzip(request) and len(smaller) < len(body):
        all_headers["Content-Encoding"] = "gzip"
        body = smaller
    return web.Response(body=body, headers=all_headers)


def _document(request: web.Request, document: object) -> web.Response:
    body = msgspec.json.encode(document)
    smaller = gzip.compress(body, 1, mtime=0) if len(body) > _SMALL else body
    return _packed_response(request, body, smaller, "application/json", {"Cache-Control": "no-store"})


def _error(status: int, code: str, message: str) -> web.Response:
    return _error_document(status, LeadingFields(code=code, message=message))


def _error_document(status: int, fields: LeadingFields) -> web.Response:
    headers = {"Cache-Control": "no-store"}
    if status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="ringwise"'
    return web.Response(
        status=status,
        body=msgspec.json.encode(ErrorDocument(schema="ringwise.io/error/v1", error=fields)),
        content_type="application/json",
        headers=headers,
    )


_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}
_OTHER = "application/octet-stream"
INDEX = "index.html"


@dataclass(frozen=True, slots=True)
class PageFile:
    body: bytes
    packed: bytes
    content_type: str
    etag: str


def page_files() -> Mapping[str, PageFile]:
    """All files of the page, by their path below its folder: read once, served from memory."""
    return {path: _page_file(path, file.read_bytes()) for path, file in _walk(files(__package__) / "page")}


def _walk(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    if not folder.is_dir():
        return
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name, entry


def _page_file(path: str, body: bytes) -> PageFile:
    suffix = path[path.rfind(".") :] if "." in path else ""
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    return PageFile(body, gzip.compress(body, 9, mtime=0), _TYPES.get(suffix, _OTHER), etag)
