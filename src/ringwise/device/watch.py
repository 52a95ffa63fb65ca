"""Follows a few objects of the API server: a list, then a watch, again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import msgspec

from ringwise.kubeclient.client import PAGE_SIZE, ApiError, Client, ListMeta, UnreachableError
from ringwise.kubeclient.clock import Clock
from ringwise.kubeclient.credentials import KubeConfigError
from ringwise.kubeclient.nesting import decode_nested
from ringwise.kubeclient.retry import Backoff
from ringwise.log import Logger
from ringwise.manifests.wire import WireStruct
from ringwise.topology.numbers import UINT64, whole_number

_LOG = Logger()

#: Seconds of one watch. A node has little news, and thousands of nodes ask: the longer the better.
WATCH_SECONDS = 3400

#: Seconds after which a watch counts as one that worked.
LASTED = 5.0

Wire = TypeVar("Wire")


class _Meta(WireStruct):
    resource_version: str | None = None


class _WithMeta(WireStruct):
    metadata: _Meta | None = None


class _Change(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _RawPage(msgspec.Struct):
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[msgspec.Raw] | None = None


_CHANGE = msgspec.json.Decoder(_Change)
_RAW_PAGE = msgspec.json.Decoder(_RawPage)


class _Status(msgspec.Struct):
    code: int = 500
    reason: str = ""
    message: str = ""


def number_of(version: str | None) -> int:
    return whole_number(version or "", 0, UINT64) or 0


class ObjectWatch(Generic[Wire]):
    """`listed` gets all objects with the version of the list, `changed` each change after it.

    An object that cannot be read is skipped: the others must go on.
    """

    def __init__(
        self,
        client: Client,
        title: str,
        path: str,
        params: Mapping[str, str],
        wire: type[Wire],
        *,
        clock: Clock,
        listed: Callable[[list[Wire], int], None],
        changed: Callable[[str, Wire], None],
    ) -> None:
        self.synced = asyncio.Event()
        self._client = client
        self._title = title
        self._path = path
        self._params = dict(params)
        self._decoder = msgspec.json.Decoder(wire)
        self._clock = clock
        self._listed = listed
        self._changed = changed
        self._backoff = Backoff()
        self._version = ""

    async def run(self) -> None:
        while True:
            pause = 0.0
            try:
                if not self._version:
                    self._version = await self.read()
                if not await self._follow():
                    pause = self._backoff.pause()
            except ApiError as error:
                pause = max(self._backoff.pause(), error.retry_after or 0.0)
                if error.status in (400, 410):
                    self._version = ""
                self._report(error, pause)
            except (UnreachableError, KubeConfigError) as error:
                pause = self._backoff.pause()
                self._report(error, pause)
            if pause:
                await self._clock.sleep(pause)

    def _report(self, error: Exception, pause: float) -> None:
        _LOG.info("watch interrupted", of=self._title, why=str(error), again_in=round(pause, 1))

    async def read(self) -> str:
        """List now, past every cache; the version of the list."""
        found: list[Wire] = []
        version = ""
        async for page in self._client.pages(self._path, self._params, PAGE_SIZE, _page):
            version = version or page.metadata.resource_version
            for raw in page.items or ():
                one = self._decoded(raw)
                if one is not None:
                    found.append(one)
        self._listed(found, number_of(version))
        self.synced.set()
        return version

    async def _follow(self) -> bool:
        began = self._clock.monotonic()
        heard = False
        try:
            async with self._client.watch(
                self._path, self._params, self._version, seconds=WATCH_SECONDS
            ) as bundles:
                async for lines in bundles:
                    heard = True
                    for line in lines:
                        self._line(line)
        finally:
            if heard or self._clock.monotonic() - began >= LASTED:
                self._backoff.reset()
        return heard or self._clock.monotonic() - began >= LASTED

    def _line(self, line: bytes) -> None:
        try:
            change: _Change = decode_nested(_CHANGE, line)
            meta = msgspec.json.decode(change.object, type=_WithMeta).metadata
        except (msgspec.MsgspecError, ValueError, RecursionError):
            self._version = ""
            raise UnreachableError("the watch cannot be read", maybe_done=False) from None
        if change.type == "ERROR":
            status = _status(change.object)
            raise ApiError(status.code, status.reason, status.message or "the watch failed")
        if change.type in ("ADDED", "MODIFIED", "DELETED"):
            one = self._decoded(change.object)
            if one is not None:
                self._changed(change.type, one)
        if meta is not None and meta.resource_version:
            self._version = meta.resource_version

    def _decoded(self, raw: msgspec.Raw) -> Wire | None:
        try:
            return self._decoder.decode(raw)
        except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
            _LOG.warning("object not read", of=self._title, why=str(problem))
            return None


def _page(answer: bytes) -> _RawPage:
    try:
        page: _RawPage = decode_nested(_RAW_PAGE, answer)
        return page
    except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
        raise UnreachableError(f"the list cannot be read: {problem}", maybe_done=False) from None


def _status(raw: msgspec.Raw) -> _Status:
    try:
        return msgspec.json.decode(raw, type=_Status)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _Status()
