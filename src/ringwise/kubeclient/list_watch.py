"""Keeps up with the objects of one list: it is read page by page, then watched, for as long as it runs.

list ──> watch ──ended──> watch from the last version
  ^         └──410, broken──> pause ──┐
  └───────────────────────────────────┘
"""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from ringwise.kubeclient.client import (
    PAGE_SIZE,
    WATCH_SECONDS,
    ApiError,
    Client,
    Page,
    Status,
    UnreachableError,
)
from ringwise.kubeclient.clock import Clock
from ringwise.kubeclient.credentials import KubeConfigError
from ringwise.kubeclient.nesting import decode_nested
from ringwise.kubeclient.retry import Backoff
from ringwise.log import Logger
from ringwise.manifests.text.readable import UNREADABLE, readable
from ringwise.manifests.text.wire import MetaWire, WireStruct

_LOG = Logger()

#: Seconds after which a watch that ends counts as healthy, also without events.
HEALTHY_WATCH_SECONDS = 5.0

Object = TypeVar("Object")


class WatchEvent(msgspec.Struct, Generic[Object]):
    """One line of a watch."""

    type: str
    object: Object


class ObjectName(WireStruct):
    """The part of the metadata that identifies an object and its version."""

    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None


class NamedObject(WireStruct):
    """Where nothing else is read, and for an object that does not fit its struct."""

    metadata: ObjectName | None = None


Named = ObjectName | MetaWire


_RAW_EVENT = msgspec.json.Decoder(WatchEvent[msgspec.Raw])
_METADATA = msgspec.json.Decoder(NamedObject)


def page_reader(shape: type[Object]) -> Callable[[bytes], Page[Object]]:
    """Reads the pages of a list of such objects."""
    # A type checker cannot follow a type that is known at run time only.
    of_shape: Any = shape
    decoder: msgspec.json.Decoder[Page[Any]] = msgspec.json.Decoder(Page[of_shape])

    def read(answer: bytes) -> Page[Object]:
        try:
            page: Page[Object] = decode_nested(decoder, answer)
        except UNREADABLE as problem:
            raise UnreachableError(f"a list cannot be decoded: {problem}", maybe_done=False) from None
        return page

    return read


#: A page whose items are not decoded yet, so that one bad item does not affect the others.
raw_page: Callable[[bytes], Page[Any]] = page_reader(msgspec.Raw)


def raw_watch_event(line: bytes) -> WatchEvent[Any]:
    """A line of a watch whose object is not decoded yet."""
    try:
        event: WatchEvent[Any] = decode_nested(_RAW_EVENT, line)
        return event
    except UNREADABLE as problem:
        message = f"a line of the watch cannot be decoded: {problem}"
        raise UnreachableError(message, maybe_done=False) from None


def name_of(received: object) -> Named | None:
    """Name and version of an object, decoded or raw; None when they cannot be read."""
    if not isinstance(received, msgspec.Raw):
        result: Named | None = getattr(received, "metadata", None)
        return result
    try:
        named: NamedObject = decode_nested(_METADATA, received)
    except UNREADABLE:
        return None
    return named.metadata


def version_number(version: str | None) -> int:
    """A resourceVersion as a number; 0 where it is none."""
    text = version or ""
    return int(text) if len(text) <= 20 and text.isascii() and text.isdigit() else 0


class ListWatch(ABC):
    """`title` is the name in logs. Who extends it says what happens with a list and with a line."""

    def __init__(
        self,
        client: Client,
        title: str,
        path: str,
        params: Mapping[str, str],
        *,
        clock: Clock,
        rng: random.Random | None = None,
        page_size: int = PAGE_SIZE,
        watch_seconds: int = WATCH_SECONDS,
    ) -> None:
        #: Set when everything that exists has been read.
        self.synced = asyncio.Event()
        self._client = client
        self._title = title
        self._path = path
        self._params = params
        self._clock = clock
        self._backoff = Backoff(rng=rng)
        self._page_size = page_size
        self._watch_seconds = watch_seconds
        #: Empty: it has to be listed.
        self._version = ""

    async def run(self) -> None:
        while True:
            pause = 0.0
            try:
                if not self._version:
                    self._version = await self.read()
                if not await self._watch():
                    # A watch that ends at once without an event must not be opened again in a busy loop.
                    pause = self._backoff.pause()
            except ApiError as error:
                pause = self._refused(error)
            except UnreachableError as error:
                pause = self._backoff.pause()
                _LOG.info("watch interrupted", kind=self._title, why=str(error), retry_in=round(pause, 1))
            except KubeConfigError as error:
                pause = self._backoff.pause()
                _LOG.error("no credentials", kind=self._title, why=str(error))
            if pause:
                await self._clock.sleep(pause)

    def _refused(self, error: ApiError) -> float:
        """Seconds to wait after a refusal."""
        if error.status in (410, 400) or error.reason == "Expired":
            self._list_again("expired")
            return self._backoff.pause()
        pause = max(self._backoff.pause(), error.retry_after or 0.0)
        if error.status in (401, 403):
            _LOG.error("not allowed to read", kind=self._title, why=str(error), retry_in=round(pause, 1))
        else:
            _LOG.info("watch refused", kind=self._title, why=str(error), retry_in=round(pause, 1))
        return pause

    def _list_again(self, why: str) -> None:
        self._version = ""

    @abstractmethod
    async def read(self) -> str:
        """List now, past every cache, and set `synced`; the version of the list."""

    async def _pages(self) -> AsyncIterator[Page[Any]]:
        try:
            async for page in self._client.pages(self._path, self._params, self._page_size, self._page):
                yield page
        except ApiError as error:
            if error.status == 410:
                # The list expired between two pages; without pages it cannot.
                self._page_size = 0
            raise

    def _page(self, answer: bytes) -> Page[Any]:
        return raw_page(answer)

    async def _watch(self) -> bool:
        """Process events until the stream ends; whether there was any."""
        received = False
        began = self._clock.monotonic()
        try:
            async with self._client.watch(
                self._path, self._params, self._version, seconds=self._watch_seconds
            ) as batches:
                async for lines in batches:
                    received = True
                    self._backoff.reset()
                    await self._take(lines)
        finally:
            if self._clock.monotonic() - began >= HEALTHY_WATCH_SECONDS:
                # Some kinds seldom change: a watch without events that ends is not an error.
                self._backoff.reset()
        return received

    @abstractmethod
    async def _take(self, lines: list[bytes]) -> None:
        """Process lines of the watch that arrived together."""

    def _event(self, line: bytes) -> WatchEvent[Any]:
        return raw_watch_event(line)

    def _change(self, line: bytes) -> tuple[WatchEvent[Any], Named | None] | None:
        """What a line tells, with the name of its object; None where that was processed already."""
        try:
            event = self._event(line)
        except UnreachableError:
            # The object is not known, so everything is listed again.
            self._list_again("unreadable")
            raise
        if event.type == "ERROR":
            unknown = Status(message="the watch failed without a reason")
            status = readable(raw_watch_event(line).object, Status, unknown)
            raise ApiError(status.code or 500, status.reason or "", status.message or "the watch failed")
        meta = name_of(event.object)
        version = (meta.resource_version if meta is not None else None) or ""
        if 0 < version_number(version) <= version_number(self._version):
            # Within a watch the versions of one kind only increase.
            return None
        self._version = version or self._version
        return event, meta
