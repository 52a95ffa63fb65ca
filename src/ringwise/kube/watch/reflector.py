"""A reflector keeps up with one kind of object.

The core receives differences only: an object that was deleted while the watch was interrupted gives a
deletion event after the next list; one that did not change gives no event.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from ringwise.grammar import counted
from ringwise.kube.watch.invalid_objects import UNNAMED, InvalidObjects
from ringwise.kube.watch.kinds import Reader, WatchTarget, read_object, stand_in_for
from ringwise.kube.watch.objects import KeyedObjects, change_events, deletion_events
from ringwise.kubeclient.client import PAGE_SIZE, ApiError, Client, Page
from ringwise.kubeclient.clock import Clock
from ringwise.kubeclient.list_watch import ListWatch, Named, WatchEvent, name_of
from ringwise.kubeclient.tasks import end
from ringwise.log import Logger
from ringwise.manifests.text.errors import Findings
from ringwise.messages.events import Event, KindServed
from ringwise.metrics.prometheus import Metrics
from ringwise.records import dataclass

_LOG = Logger()

#: Seconds until a kind that the server does not know, or that may not be read, is listed again.
UNKNOWN_KIND_PAUSE = 30.0
#: Problems of one object that are reported.
MAX_PROBLEMS = 20
#: Seconds between two reads of a watch. On a busy cluster events come one by one, a thousand a second; to
#: process a few at a time costs far less.
WATCH_BATCH_INTERVAL = 0.02

Sink = Callable[[list[Event]], None]


@dataclass(slots=True)
class _CachedObject:
    version: str
    objects: KeyedObjects
    uid: str = ""
    #: The objects stand for one that could never be read.
    is_stand_in: bool = False


class Reflector(ListWatch):
    def __init__(
        self,
        client: Client,
        target: WatchTarget,
        reader: Reader,
        sink: Sink,
        *,
        clock: Clock,
        rng: random.Random | None = None,
        malformed: InvalidObjects | None = None,
        observer: Metrics | None = None,
        page_size: int = PAGE_SIZE,
        on_crash: Callable[[BaseException], None] = lambda defect: None,
        without_forbidden: bool = False,
    ) -> None:
        """`without_forbidden`: continue without a kind that may not be read, instead of waiting for it."""
        super().__init__(
            client, target.title, target.path, target.params, clock=clock, rng=rng, page_size=page_size
        )
        self.target = target
        self._reader = reader
        self._sink = sink
        self._malformed = malformed if malformed is not None else InvalidObjects()
        self._observer = observer or Metrics()
        self._on_crash = on_crash
        self._cache: dict[str, _CachedObject] = {}
        #: Which API object holds a part that may move between API objects.
        self._holder: dict[str, str] = {}
        self._task: asyncio.Task[None] | None = None
        #: When the last list began, by the monotonic clock: what is known is at least as new.
        self.list_began = float("-inf")
        self._kind_unknown = False
        #: Keys of objects of a retained kind that are no longer there.
        self._deleted: dict[str, None] = {}
        self._without_forbidden = without_forbidden
        #: Missing verbs: each is reported once.
        self._forbidden: set[str] = set()

    def __len__(self) -> int:
        return len(self._cache)

    def start(self) -> None:
        self._task = asyncio.create_task(self.run(), name=f"reflector {self.target.title}")
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A reflector that fails ends the component: its state would no longer be updated."""
        if not task.cancelled() and (defect := task.exception()) is not None:
            _LOG.error("reflector failed", kind=self.target.title, error=defect)
            self._on_crash(defect)

    async def stop(self) -> None:
        task, self._task = self._task, None
        await end(task)

    async def refresh(self) -> None:
        """List again and wait for it: afterwards everything known is at least as new as this call."""
        await self.stop()
        self.synced.clear()
        self._version = ""
        self.start()
        await self.synced.wait()

    def _refused(self, error: ApiError) -> float:
        if error.status == 404 and self.target.optional:
            if not self._kind_unknown:
                _LOG.warning(
                    "the server does not know this kind; continuing without it",
                    kind=f"{self.target.resource.plural} ({self.target.resource.version})",
                )
            self._version = ""
            if self.target.is_retained:
                self._not_served()
            else:
                self._remove_missing({})
            self._kind_unknown = True
            self.synced.set()
            return UNKNOWN_KIND_PAUSE
        if error.status == 403 and (self._without_forbidden or self.target.dispensable):
            return self._go_on_without("watch" if self._version else "list")
        return super()._refused(error)

    def _list_again(self, why: str) -> None:
        super()._list_again(why)
        self._observer.relists.inc(self.target.title, why)

    def _go_on_without(self, verb: str) -> float:
        """What may be listed and not watched is listed again and again."""
        if verb not in self._forbidden:
            instead = "continuing without it" if verb == "list" else "it is listed twice a minute instead"
            _LOG.warning(
                f"not allowed to {verb}; {instead}", kind=self.target.title, why=self.target.permission(verb)
            )
        self._forbidden.add(verb)
        self._version = ""
        self.synced.set()
        return UNKNOWN_KIND_PAUSE

    # -- listing -----------------------------------------------------------------------------

    async def read(self) -> str:
        self.list_began = self._clock.monotonic()
        version = ""
        present: dict[str, None] = {}
        async for page in self._pages():
            version = version or page.metadata.resource_version
            events: list[Event] = []
            for received in page.items or ():
                key = self._update(received, name_of(received), events)
                if key is not None:
                    present[key] = None
            self._send(events)
        self._forbidden.discard("list")
        if self.target.is_retained:
            self._deleted = dict.fromkeys(key for key in self._cache if key not in present)
            served = not self._deleted or await self._remove_deleted()
            if served and self._kind_unknown:
                self._sink([KindServed(self.target.resource.kind, True)])
            self._kind_unknown = not served
        else:
            self._remove_missing(present)
            self._kind_unknown = False
        self.synced.set()
        return version

    def _page(self, answer: bytes) -> Page[Any]:
        return self._reader.page(answer)

    def _remove_missing(self, present: dict[str, None]) -> None:
        """Objects that are known and were not listed have been deleted meanwhile."""
        events: list[Event] = []
        for key in [key for key in self._cache if key not in present]:
            self._remove(key, events)
        self._send(events)

    # -- watching ----------------------------------------------------------------------------

    def _event(self, line: bytes) -> WatchEvent[Any]:
        return self._reader.watch_event(line)

    async def _take(self, lines: list[bytes]) -> None:
        events: list[Event] = []
        try:
            for line in lines:
                self._process(line, events)
        finally:
            self._send(events)
        if self._deleted:
            await self._remove_deleted()
        await self._clock.sleep(WATCH_BATCH_INTERVAL)

    async def _remove_deleted(self) -> bool:
        """Remove objects of a retained kind, unless its CRD is being deleted, which deletes all of them."""
        # Those of a CRD that is being deleted can no longer be created.
        if not await self._client.can_create(self.target.resource):
            self._deleted.clear()
            self._not_served()
            return False
        events: list[Event] = []
        for key in self._deleted:
            self._remove(key, events)
        self._deleted.clear()
        self._send(events)
        return True

    def _not_served(self) -> None:
        if not self._kind_unknown:
            self._sink([KindServed(self.target.resource.kind, False)])
        self._kind_unknown = True

    def _process(self, line: bytes, events: list[Event]) -> None:
        change = self._change(line)
        if change is None:
            return
        event, meta = change
        if event.type == "DELETED" and meta is not None:
            if self.target.is_retained:
                self._deleted[_key(meta)] = None
            else:
                self._remove(_key(meta), events)
        elif event.type in ("ADDED", "MODIFIED"):
            self._update(event.object, meta, events)

    # -- objects -----------------------------------------------------------------------------

    def _update(self, received: object, meta: Named | None, events: list[Event]) -> str | None:
        if meta is None or not meta.name:
            self._malformed.put(self.target.resource.kind, UNNAMED, ("metadata cannot be read",))
            self._observer.invalid_objects.set(len(self._malformed))
            return None
        key, version = _key(meta), meta.resource_version or ""
        self._deleted.pop(key, None)
        entry = self._cache.get(key)
        if entry is not None and entry.version == version != "":
            return key
        kind = self.target.resource.kind
        issues = Findings(f"{kind} {key}")
        uid = meta.uid or ""
        objects = read_object(self._reader, received, issues)
        if issues.errors:
            problems = tuple(
                f"{error.field}: {error.message}" if error.field else error.message
                for error in issues.errors[:MAX_PROBLEMS]
            )
            if len(issues.errors) > MAX_PROBLEMS:
                problems += (f"and {counted(len(issues.errors) - MAX_PROBLEMS, 'more problem')}",)
            self._malformed.put(kind, key, problems, uid)
        elif self._malformed:
            self._malformed.remove(kind, key)
        self._observer.invalid_objects.set(len(self._malformed))
        before = entry.objects if entry is not None else ()
        is_stand_in = False
        if objects is None:
            # What was known before stays: the chips of a pod are not free because it became unreadable.
            # What stands for an aggregate are the good reports in it.
            was_readable = (
                entry is not None and entry.uid == uid and (not entry.is_stand_in or self.target.parts_move)
            )
            is_stand_in = not was_readable
            last_good = before if was_readable else ()
            objects = stand_in_for(self._reader, received, last_good, issues.origin)
        self._cache[key] = _CachedObject(version, objects, uid, is_stand_in)
        if self.target.parts_move:
            before = tuple(pair for pair in before if self._holder.get(pair[0]) == key)
            self._holder.update((part, key) for part, _ in objects)
            for part, _ in before:
                if not any(part == other for other, _ in objects):
                    del self._holder[part]
        events.extend(change_events(before, objects))
        return key

    def _remove(self, key: str, events: list[Event]) -> None:
        entry = self._cache.pop(key, None)
        self._reader.forget(key)
        if self._malformed:
            self._malformed.remove(self.target.resource.kind, key)
            self._observer.invalid_objects.set(len(self._malformed))
        if entry is None:
            return
        for part, value in entry.objects:
            if self.target.parts_move:
                if self._holder.get(part) != key:
                    continue
                del self._holder[part]
            events.extend(deletion_events(value))

    def _send(self, events: list[Event]) -> None:
        if events:
            self._sink(events)


def _key(meta: Named) -> str:
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name or ""
