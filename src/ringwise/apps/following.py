"""The objects of a live cluster, listed once and then followed with watches: for what is shown until Ctrl-C.

Listing all of a large cluster again and again would cost its API server as much as a scheduler that restarts.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from dataclasses import field
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from ringwise.apps.live import LiveCluster, add_object, finish, kinds_to_read, missing_line
from ringwise.kube.watch.kinds import WatchTarget
from ringwise.kube.watch.readers import name_of, raw_page, raw_watch_event
from ringwise.kubeclient.client import PAGE_SIZE, ApiError, Client, UnreachableError
from ringwise.kubeclient.config import Access
from ringwise.kubeclient.credentials import KubeConfigError
from ringwise.kubeclient.retry import Backoff
from ringwise.records import dataclass

Answer = TypeVar("Answer")
Key = tuple[str, str]

#: Seconds until a kind that may be listed and not watched, or is not known, is listed again.
_LIST_AGAIN = 30.0


@dataclass(slots=True)
class _Followed:
    """One kind of object."""

    target: WatchTarget
    objects: dict[Key, msgspec.Raw] = field(default_factory=dict)
    #: From where the watch goes on; empty: it is listed first.
    version: str = ""
    #: Why it cannot be listed.
    missing: str | None = None


class FollowedCluster:
    """Follows in a thread of its own while it is open.

    To open it raises ApiError, UnreachableError, KubeConfigError and NothingReadableError, as a listing does.
    Later a watch that breaks is opened again, and the objects are those that were seen last.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="watches", daemon=True)
        self._kinds = [_Followed(target) for target, _ in kinds_to_read()]
        self._tasks: list[asyncio.Task[None]] = []
        self._client: Client | None = None
        self._is_new = True
        self._seen: LiveCluster | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._run(self._open())
            self.look()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def look(self) -> LiveCluster:
        """The objects as they are now."""
        found, is_new = self._run(self._snapshot())
        if self._seen is None or is_new:
            self._seen = _live_of(found)
        return self._seen

    def _run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _end(self) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # -- in the thread -------------------------------------------------------------------------

    async def _open(self) -> None:
        self._client = Client(self._access, component="kubectl")
        await self._client.__aenter__()
        for kind in self._kinds:
            try:
                await self._list(self._client, kind)
            except ApiError as error:
                kind.missing = missing_line(kind.target, error)
        self._tasks = [asyncio.create_task(self._follow(self._client, kind)) for kind in self._kinds]

    async def _close(self) -> None:
        # Also what is still opening.
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if self._client is not None:
            await self._client.close()

    async def _snapshot(self) -> tuple[list[tuple[list[msgspec.Raw], str | None]], bool]:
        for task in self._tasks:
            if task.done():
                # It ends by a defect alone.
                task.result()
        is_new, self._is_new = self._is_new, False
        return [(list(kind.objects.values()), kind.missing) for kind in self._kinds], is_new

    async def _list(self, client: Client, kind: _Followed) -> None:
        found: dict[Key, msgspec.Raw] = {}
        version = ""
        async for page in client.pages(kind.target.path, kind.target.params, PAGE_SIZE, raw_page):
            version = version or page.metadata.resource_version
            for raw in page.items or ():
                found[_key(raw) or ("", f"unnamed {len(found)}")] = raw
        kind.objects, kind.version, kind.missing = found, version, None
        self._is_new = True

    async def _follow(self, client: Client, kind: _Followed) -> None:
        backoff = Backoff()
        while True:
            try:
                if not kind.version:
                    if kind.missing is not None:
                        await asyncio.sleep(_LIST_AGAIN)
                    await self._list(client, kind)
                async with client.watch(kind.target.path, kind.target.params, kind.version) as batches:
                    async for lines in batches:
                        for line in lines:
                            self._process(kind, line)
                        backoff.reset()
                pause = backoff.pause()
            except ApiError as error:
                if error.status in (400, 403, 404, 410):
                    kind.version = ""
                pause = _LIST_AGAIN if error.status in (403, 404) else backoff.pause()
            except (UnreachableError, KubeConfigError):
                pause = backoff.pause()
            await asyncio.sleep(pause)

    def _process(self, kind: _Followed, line: bytes) -> None:
        """Raises ApiError where the watch has failed: then everything is listed again."""
        event = raw_watch_event(line)
        if event.type == "ERROR":
            raise ApiError(410, "Expired", "the watch failed")
        meta = name_of(event.object)
        key = _key(event.object)
        if meta is None or key is None:
            return
        kind.version = meta.resource_version or kind.version
        if event.type == "DELETED":
            kind.objects.pop(key, None)
        elif event.type in ("ADDED", "MODIFIED"):
            kind.objects[key] = event.object
        else:
            return
        self._is_new = True


def _key(raw: object) -> Key | None:
    meta = name_of(raw)
    return None if meta is None or not meta.name else (meta.namespace or "", meta.name)


def _live_of(found: list[tuple[list[msgspec.Raw], str | None]]) -> LiveCluster:
    live = LiveCluster()
    for (target, reader), (objects, missing) in zip(kinds_to_read(), found, strict=True):
        live.missing += [missing] if missing is not None else []
        for raw in objects:
            add_object(target, reader, raw, live)
    finish(live)
    return live
