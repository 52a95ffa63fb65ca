"""A reflector keeps up with one kind of object: a paged list, then a watch, for as long as it runs.

    list ──> watch ──ended──> watch from the last version
      ^         └──410, broken──> pause ──┐
      └───────────────────────────────────┘

The core receives differences only: an object that was deleted while the watch was interrupted gives a
deletion event after the next list; one that did not change gives no event.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import msgspec

from ringwise.grammar import counted
from ringwise.kube.observer import ComponentObserver, NullObserver
from ringwise.kube.watch.kinds import Reader, WatchTarget, read_object, stand_in_for
from ringwise.kube.watch.malformed import UNNAMED, MalformedObjects
from ringwise.kube.watch.objects import KeyedObjects, change_events, deletion_events
from ringwise.kube.watch.readers import ObjectName, VersionedMeta, name_of, raw_watch_event
from ringwise.kubeclient.client import PAGE_SIZE, ApiError, Client, UnreachableError
from ringwise.kubeclient.clock import Clock
from ringwise.kubeclient.credentials import KubeConfigError
from ringwise.kubeclient.retry import Backoff
from ringwise.log import Logger
from ringwise.manifests.errors import Findings
from ringwise.messages.events import Event
from ringwise.records import dataclass
from ringwise.topology.numbers import UINT64, whole_number

_LOG = Logger()

#: Seconds until a kind that the server does not know, or that may not be read, is listed again.
UNKNOWN_KIND_PAUSE = 30.0
#: Problems of one object that are told.
MAX_PROBLEMS = 20
#: Seconds between two reads of a watch. On a busy cluster events come one by one, a thousand a second; to
#: process a few at a time costs far less.
WATCH_BATCH_INTERVAL = 0.02
#: Seconds after which a watch that ends counts as healthy, also without events.
HEALTHY_WATCH_SECONDS = 5.0

Sink = Callable[[list[Event]], None]


class _ErrorStatus(msgspec.Struct):
    code: int = 0
    reason: str = ""
    message: str = ""


@dataclass(slots=True)
class _Known:
    version: str
    objects: KeyedObjects
    uid: str = ""
    #: The objects stand for one that could never be read.
    is_stand_in: bool = False


class Reflector:
    def __init__(
        self,
        client: Client,
        target: WatchTarget,
        reader: Reader,
        sink: Sink,
        *,
        clock: Clock,
        rng: random.Random | None = None,
        malformed: MalformedObjects | None = None,
        observer: ComponentObserver | None = None,
        page_size: int = PAGE_SIZE,
        on_crash: Callable[[BaseException], None] = lambda defect: None,
        without_forbidden: bool = False,
    ) -> None:
        """`without_forbidden`: go on without a kind that may not be read; else it is waited for."""
        self.target = target
        #: Set when events of everything that exists have been sent.
        self.synced = asyncio.Event()
        self._client = client
        self._reader = reader
        self._sink = sink
        self._clock = clock
        self._backoff = Backoff(rng=rng)
        self._malformed = malformed if malformed is not None else MalformedObjects()
        self._observer: ComponentObserver = observer or NullObserver()
        self._page_size = page_size
        self._on_crash = on_crash
        self._known: dict[str, _Known] = {}
        #: Which API object holds a part that may move between API objects.
        self._holder: dict[str, str] = {}
        self._task: asyncio.Task[None] | None = None
        self._version = ""
        #: When the last list began, by the monotonic clock: what is known is at least as new.
        self.list_began = float("-inf")
        self._kind_unknown = False
        self._without_forbidden = without_forbidden
        #: Verbs that were missing: each is told once.
        self._forbidden: set[str] = set()

    def __len__(self) -> int:
        return len(self._known)

    def start(self) -> None:
        self._task = asyncio.create_task(self.run(), name=f"reflector {self.target.title}")
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A reflector that fails ends the component: its state would not be updated any more."""
        if not task.cancelled() and (defect := task.exception()) is not None:
            _LOG.error("reflector failed", kind=self.target.title, error=defect)
            self._on_crash(defect)

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def refresh(self) -> None:
        """List again and wait for it: afterwards everything known is at least as new as this call."""
        await self.stop()
        self.synced.clear()
        self._version = ""
        self.start()
        await self.synced.wait()

    async def run(self) -> None:
        while True:
            pause = 0.0
            try:
                if not self._version:
                    await self._list()
                if await self._watch():
                    self._backoff.reset()
                else:
                    # A watch that ends at once without an event must not be opened again in a busy loop.
                    pause = self._backoff.pause()
            except ApiError as error:
                pause = self._refused(error)
            except UnreachableError as error:
                pause = self._backoff.pause()
                _LOG.info(
                    "watch interrupted", kind=self.target.title, why=str(error), retry_in=round(pause, 1)
                )
            except KubeConfigError as error:
                pause = self._backoff.pause()
                _LOG.error("no credentials", kind=self.target.title, why=str(error))
            if pause:
                await self._clock.sleep(pause)

    def _refused(self, error: ApiError) -> float:
        if error.status in (410, 400) or error.reason == "Expired":
            self._version = ""
            self._observer.relisted(self.target.title, "expired")
            return self._backoff.pause()
        if error.status == 404 and self.target.optional:
            if not self._kind_unknown:
                _LOG.warning(
                    "the server does not know this kind; continuing without it",
                    kind=f"{self.target.resource.plural} ({self.target.resource.version})",
                )
            self._kind_unknown = True
            self._version = ""
            self._remove_missing({})
            self.synced.set()
            return UNKNOWN_KIND_PAUSE
        if error.status == 403 and self._without_forbidden:
            return self._go_on_without("watch" if self._version else "list")
        pause = max(self._backoff.pause(), error.retry_after or 0.0)
        if error.status in (401, 403):
            _LOG.error(
                "not allowed to read", kind=self.target.title, why=str(error), retry_in=round(pause, 1)
            )
        else:
            _LOG.info("watch refused", kind=self.target.title, why=str(error), retry_in=round(pause, 1))
        return pause

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

    async def _list(self) -> None:
        self.list_began = self._clock.monotonic()
        version = ""
        present: dict[str, None] = {}
        try:
            target = self.target
            async for page in self._client.pages(
                target.path, target.params, self._page_size, self._reader.page
            ):
                version = version or page.metadata.resource_version
                events: list[Event] = []
                for received in page.items or ():
                    key = self._update(received, name_of(received), events)
                    if key is not None:
                        present[key] = None
                self._send(events)
        except ApiError as error:
            if error.status == 410 and self._page_size:
                # The list expired between two pages; without pages it cannot.
                self._page_size = 0
            raise
        self._kind_unknown = False
        self._forbidden.discard("list")
        self._remove_missing(present)
        self._version = version
        self.synced.set()

    def _remove_missing(self, present: dict[str, None]) -> None:
        """Objects that are known and were not listed have been deleted meanwhile."""
        events: list[Event] = []
        for key in [key for key in self._known if key not in present]:
            self._remove(key, events)
        self._send(events)

    # -- watching ----------------------------------------------------------------------------

    async def _watch(self) -> bool:
        """Process events until the stream ends; whether there was any."""
        received = False
        began = self._clock.monotonic()
        try:
            async with self._client.watch(self.target.path, self.target.params, self._version) as batches:
                async for lines in batches:
                    received = True
                    self._backoff.reset()
                    events: list[Event] = []
                    try:
                        for line in lines:
                            self._process(line, events)
                    finally:
                        self._send(events)
                    await self._clock.sleep(WATCH_BATCH_INTERVAL)
        finally:
            if self._clock.monotonic() - began >= HEALTHY_WATCH_SECONDS:
                # Some kinds seldom change: a watch without events that ends is no error.
                self._backoff.reset()
        return received

    def _process(self, line: bytes, events: list[Event]) -> None:
        try:
            event = self._reader.watch_event(line)
        except UnreachableError:
            # The object is not known, so everything is listed again.
            self._version = ""
            self._observer.relisted(self.target.title, "unreadable")
            raise
        if event.type == "ERROR":
            status = _error_status(raw_watch_event(line).object)
            raise ApiError(status.code or 500, status.reason, status.message or "the watch failed")
        meta = name_of(event.object)
        version = (meta.resource_version if meta is not None else None) or ""
        if self._is_old(version):
            return
        if event.type == "DELETED" and meta is not None:
            self._remove(_key(meta), events)
        elif event.type in ("ADDED", "MODIFIED"):
            self._update(event.object, meta, events)
        self._version = version or self._version

    def _is_old(self, version: str) -> bool:
        """Processed already: within a watch the versions of one kind only increase."""
        number, reached = whole_number(version, 0, UINT64), whole_number(self._version, 0, UINT64)
        return number is not None and reached is not None and number <= reached

    # -- objects -----------------------------------------------------------------------------

    def _update(
        self, received: object, meta: ObjectName | VersionedMeta | None, events: list[Event]
    ) -> str | None:
        if meta is None or not meta.name:
            self._malformed.put(self.target.resource.kind, UNNAMED, ("metadata cannot be read",))
            self._observer.malformed(len(self._malformed))
            return None
        key, version = _key(meta), meta.resource_version or ""
        known = self._known.get(key)
        if known is not None and known.version == version != "":
            return key
        kind = self.target.resource.kind
        found = Findings(f"{kind} {key}")
        uid = meta.uid or ""
        objects = read_object(self._reader, received, found)
        if found.errors:
            problems = tuple(
                f"{error.field}: {error.message}" if error.field else error.message
                for error in found.errors[:MAX_PROBLEMS]
            )
            if len(found.errors) > MAX_PROBLEMS:
                problems += (f"and {counted(len(found.errors) - MAX_PROBLEMS, 'more problem')}",)
            self._malformed.put(kind, key, problems, uid)
        elif self._malformed:
            self._malformed.remove(kind, key)
        self._observer.malformed(len(self._malformed))
        before = known.objects if known is not None else ()
        is_stand_in = False
        if objects is None:
            # What was known before stays: the chips of a pod are not free because it became unreadable.
            # What stands for an aggregate are the good reports in it.
            was_readable = (
                known is not None and known.uid == uid and (not known.is_stand_in or self.target.parts_move)
            )
            is_stand_in = not was_readable
            last_good = before if was_readable else ()
            objects = stand_in_for(self._reader, received, last_good, found.origin)
        self._known[key] = _Known(version, objects, uid, is_stand_in)
        if self.target.parts_move:
            before = tuple(pair for pair in before if self._holder.get(pair[0]) == key)
            self._holder.update((part, key) for part, _ in objects)
            for part, _ in before:
                if not any(part == other for other, _ in objects):
                    del self._holder[part]
        events.extend(change_events(before, objects))
        return key

    def _remove(self, key: str, events: list[Event]) -> None:
        known = self._known.pop(key, None)
        self._reader.forget(key)
        self._malformed.remove(self.target.resource.kind, key)
        if known is None:
            return
        for part, value in known.objects:
            if self.target.parts_move:
                if self._holder.get(part) != key:
                    continue
                del self._holder[part]
            events.extend(deletion_events(value))

    def _send(self, events: list[Event]) -> None:
        if events:
            self._sink(events)


def _key(meta: ObjectName | VersionedMeta) -> str:
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name or ""


def _error_status(raw: msgspec.Raw) -> _ErrorStatus:
    try:
        return msgspec.json.decode(raw, type=_ErrorStatus)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _ErrorStatus(500, "", "the watch failed without a reason")
