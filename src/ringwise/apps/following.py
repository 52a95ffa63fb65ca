"""The objects of a live cluster, listed once and then followed with watches: for what is shown until Ctrl-C.

Listing all of a large cluster again and again would cost its API server as much as a scheduler that restarts.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from ringwise.apps.live import LiveCluster, add_object, finish, kinds_to_read, missing_line
from ringwise.kube.watch.kinds import WatchTarget
from ringwise.kubeclient.client import ApiError, Client
from ringwise.kubeclient.clock import RealClock
from ringwise.kubeclient.config import Access
from ringwise.kubeclient.list_watch import ListWatch, name_of
from ringwise.kubeclient.tasks import end

Answer = TypeVar("Answer")
Key = tuple[str, str]

#: Seconds until a kind that may be listed and not watched, or is not known, is listed again.
_LIST_AGAIN = 30.0


class FollowedKind(ListWatch):
    """One kind of object; `changed` is called whenever another look would show something else."""

    def __init__(self, client: Client, target: WatchTarget, changed: Callable[[], None]) -> None:
        super().__init__(client, target.title, target.path, target.params, clock=RealClock())
        self._target = target
        self._changed = changed
        self.objects: dict[Key, msgspec.Raw] = {}
        #: Why it cannot be listed.
        self.missing: str | None = None

    async def open(self) -> None:
        """List it for the first time. Raises UnreachableError and KubeConfigError."""
        try:
            self._version = await self.read()
        except ApiError as error:
            self.missing = missing_line(self._target, error)

    async def read(self) -> str:
        objects: dict[Key, msgspec.Raw] = {}
        version = ""
        async for page in self._pages():
            version = version or page.metadata.resource_version
            for raw in page.items or ():
                objects[_key(raw) or ("", f"unnamed {len(objects)}")] = raw
        self.objects, self.missing = objects, None
        self.synced.set()
        self._changed()
        return version

    def _refused(self, error: ApiError) -> float:
        if error.status in (401, 403, 404):
            self._list_again("forbidden")
            return _LIST_AGAIN
        return super()._refused(error)

    async def _take(self, lines: list[bytes]) -> None:
        for line in lines:
            change = self._change(line)
            if change is None:
                continue
            event, _ = change
            key = _key(event.object)
            if key is None or event.type not in ("ADDED", "MODIFIED", "DELETED"):
                continue
            if event.type == "DELETED":
                self.objects.pop(key, None)
            else:
                self.objects[key] = event.object
            self._changed()


class FollowedCluster:
    """Follows in a thread of its own while it is open.

    To open it raises ApiError, UnreachableError, KubeConfigError and NothingReadableError, as a listing does.
    Later a watch that breaks is opened again, and the objects are those that were seen last.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="watches", daemon=True)
        self._kinds: list[FollowedKind] = []
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
        snapshot, is_new = self._run(self._snapshot())
        if self._seen is None or is_new:
            self._seen = _live_of(snapshot)
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
        self._client = client = Client(self._access, component="cli")
        await client.__aenter__()
        self._kinds = [FollowedKind(client, target, self._changed) for target, _ in kinds_to_read()]
        for kind in self._kinds:
            await kind.open()
        self._tasks = [asyncio.create_task(kind.run()) for kind in self._kinds]

    def _changed(self) -> None:
        self._is_new = True

    async def _close(self) -> None:
        # Also what is still opening.
        await end(*(asyncio.all_tasks() - {asyncio.current_task()}))
        if self._client is not None:
            await self._client.close()

    async def _snapshot(self) -> tuple[list[tuple[list[msgspec.Raw], str | None]], bool]:
        for task in self._tasks:
            if task.done():
                # It ends by a defect alone.
                task.result()
        is_new, self._is_new = self._is_new, False
        return [(list(kind.objects.values()), kind.missing) for kind in self._kinds], is_new


def _key(raw: object) -> Key | None:
    meta = name_of(raw)
    return None if meta is None or not meta.name else (meta.namespace or "", meta.name)


def _live_of(kinds: list[tuple[list[msgspec.Raw], str | None]]) -> LiveCluster:
    live = LiveCluster()
    for (target, reader), (objects, missing) in zip(kinds_to_read(), kinds, strict=True):
        live.missing += [missing] if missing is not None else []
        for raw in objects:
            add_object(target, reader, raw, live)
    finish(live)
    return live
