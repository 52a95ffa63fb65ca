"""Keeps up with one kind of object: a paged list, then a watch, again and again, for ever.

    list ──> watch ──ended──> watch from the last version
      ^         └──410, broken──> pause ──┐
      └───────────────────────────────────┘

Whatever happens in between, the core is told differences only: an object that vanished while nobody
watched is told as gone after the next list, one that did not change is not told again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import structlog

from ringwise.kube.observer import Nobody, Observer
from ringwise.kube.watch.decoding import SeenMeta, bare_change, meta_of
from ringwise.kube.watch.facts import Facts, changes, gone
from ringwise.kube.watch.kinds import Place, Reader
from ringwise.kube.watch.malformed import WITHOUT_A_NAME, Malformed
from ringwise.kubeclient.client import PAGE, ApiError, Client, UnreachableError
from ringwise.kubeclient.clock import Backoff, Clock
from ringwise.kubeclient.credentials import KubeConfigError
from ringwise.manifests.errors import Findings
from ringwise.messages.events import Event

_LOG = structlog.get_logger("ringwise.kube")

#: Seconds until a kind that the server does not know is asked for again.
ABSENT_PAUSE = 30.0
#: Seconds between two looks at a watch that has news. On a busy cluster they come one by one, a thousand a
#: second; a few at a time cost far less.
SIP = 0.02
#: Seconds after which a watch counts as one that worked.
LASTED = 5.0

Sink = Callable[[list[Event]], None]


class _Status(msgspec.Struct):
    code: int = 0
    reason: str = ""
    message: str = ""


@dataclass(slots=True)
class _Known:
    version: str
    facts: Facts


class Reflector:
    def __init__(
        self,
        client: Client,
        place: Place,
        reader: Reader,
        sink: Sink,
        *,
        clock: Clock,
        chance: random.Random | None = None,
        malformed: Malformed | None = None,
        observer: Observer | None = None,
        page: int = PAGE,
        crashed: Callable[[BaseException], None] = lambda defect: None,
    ) -> None:
        self.place = place
        #: Set when everything that exists has been told.
        self.synced = asyncio.Event()
        self._client = client
        self._reader = reader
        self._sink = sink
        self._clock = clock
        self._backoff = Backoff(chance=chance)
        self._malformed = malformed if malformed is not None else Malformed()
        self._observer: Observer = observer or Nobody()
        self._page = page
        self._crashed = crashed
        self._known: dict[str, _Known] = {}
        #: Which object tells a fact that may move between objects.
        self._teller: dict[str, str] = {}
        self._task: asyncio.Task[None] | None = None
        self._version = ""
        self._absent = False

    def __len__(self) -> int:
        return len(self._known)

    def start(self) -> None:
        self._task = asyncio.create_task(self.run(), name=f"reflector {self.place.title}")
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """It never ends by itself; if it does, somebody must know that nothing is seen any more."""
        if not task.cancelled() and (defect := task.exception()) is not None:
            _LOG.error("reflector failed", kind=self.place.title, exc_info=defect)
            self._crashed(defect)

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def refresh(self) -> None:
        """List again and wait for it: from here on nothing older than now is believed."""
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
                    # A watch that ends at once without a word would be opened as fast as we can.
                    pause = self._backoff.pause()
            except ApiError as error:
                pause = self._refused(error)
            except UnreachableError as error:
                pause = self._backoff.pause()
                _LOG.info(
                    "watch interrupted", kind=self.place.title, why=str(error), again_in=round(pause, 1)
                )
            except KubeConfigError as error:
                pause = self._backoff.pause()
                _LOG.error("no credentials", kind=self.place.title, why=str(error))
            if pause:
                await self._clock.sleep(pause)

    def _refused(self, error: ApiError) -> float:
        if error.status in (410, 400) or error.reason == "Expired":
            self._version = ""
            self._observer.relisted(self.place.title, "expired")
            return self._backoff.pause()
        if error.status == 404 and self.place.optional:
            if not self._absent:
                _LOG.warning(
                    "the server does not know this kind; going on without it",
                    kind=f"{self.place.resource.plural} ({self.place.resource.version})",
                )
            self._absent = True
            self._version = ""
            self._replace({})
            self.synced.set()
            return ABSENT_PAUSE
        pause = max(self._backoff.pause(), error.retry_after or 0.0)
        if error.status in (401, 403):
            _LOG.error("not allowed to read", kind=self.place.title, why=str(error), again_in=round(pause, 1))
        else:
            self._note("watch refused", error, pause)
        return pause

    def _note(self, what: str, error: Exception, pause: float) -> None:
        _LOG.info(what, kind=self.place.title, why=str(error), again_in=round(pause, 1))

    # -- listing -----------------------------------------------------------------------------

    async def _list(self) -> None:
        version = ""
        present: dict[str, None] = {}
        try:
            place = self.place
            async for page in self._client.pages(place.path, place.params, self._page, self._reader.page):
                version = version or page.metadata.resource_version
                events: list[Event] = []
                for sight in page.items or ():
                    key = self._take(sight, meta_of(sight), events)
                    if key is not None:
                        present[key] = None
                self._tell(events)
        except ApiError as error:
            if error.status == 410 and self._page:
                # The list grew too old between pages; in one piece it cannot.
                self._page = 0
            raise
        self._absent = False
        self._replace(present)
        self._version = version
        self.synced.set()

    def _replace(self, present: dict[str, None]) -> None:
        """What is known and was not listed has vanished while nobody watched."""
        events: list[Event] = []
        for key in [key for key in self._known if key not in present]:
            self._drop(key, events)
        self._tell(events)

    # -- watching ----------------------------------------------------------------------------

    async def _watch(self) -> bool:
        """Follow changes until the stream ends; whether it brought anything."""
        heard = False
        began = self._clock.monotonic()
        try:
            async with self._client.watch(self.place.path, self.place.params, self._version) as bundles:
                async for lines in bundles:
                    heard = True
                    self._backoff.reset()
                    events: list[Event] = []
                    try:
                        for line in lines:
                            self._line(line, events)
                    finally:
                        self._tell(events)
                    await self._clock.sleep(SIP)
        finally:
            if self._clock.monotonic() - began >= LASTED:
                # Of some kinds there is seldom news: a silent watch that ends is no sign of trouble.
                self._backoff.reset()
        return heard

    def _line(self, line: bytes, events: list[Event]) -> None:
        try:
            change = self._reader.change(line)
        except UnreachableError:
            # Which object it was nobody knows, so everything is looked at again.
            self._version = ""
            self._observer.relisted(self.place.title, "unreadable")
            raise
        if change.type == "ERROR":
            status = _error_status(bare_change(line).object)
            raise ApiError(status.code or 500, status.reason, status.message or "the watch failed")
        sight = change.object
        meta = meta_of(sight)
        version = (meta.resource_version if meta is not None else None) or ""
        if self._is_old(version):
            return
        if change.type == "DELETED" and meta is not None:
            self._drop(_key(meta), events)
        elif change.type in ("ADDED", "MODIFIED"):
            self._take(sight, meta, events)
        self._version = version or self._version

    def _is_old(self, version: str) -> bool:
        """Told already: versions of one kind only grow within a watch."""
        return (
            version.isascii()
            and version.isdigit()
            and self._version.isascii()
            and self._version.isdigit()
            and int(version) <= int(self._version)
        )

    # -- objects -----------------------------------------------------------------------------

    def _take(self, sight: object, meta: SeenMeta | None, events: list[Event]) -> str | None:
        if meta is None or not meta.name:
            self._malformed.put(self.place.resource.kind, WITHOUT_A_NAME, ("metadata cannot be read",))
            self._observer.malformed(len(self._malformed))
            return None
        key, version = _key(meta), meta.resource_version or ""
        known = self._known.get(key)
        if known is not None and known.version == version != "":
            return key
        kind = self.place.resource.kind
        found = Findings(f"{kind} {key}")
        facts = self._reader.read(sight, found)
        if found.errors:
            problems = tuple(
                f"{error.field}: {error.message}" if error.field else error.message for error in found.errors
            )
            self._malformed.put(kind, key, problems, meta.uid or "")
        elif self._malformed:
            self._malformed.mended(kind, key)
        self._observer.malformed(len(self._malformed))
        if facts is None:
            # What was known before stays: chips that a pod held are not free because it became unreadable.
            facts = known.facts if known is not None else ()
        before = known.facts if known is not None else ()
        self._known[key] = _Known(version, facts)
        if self.place.moving_facts:
            before = tuple(pair for pair in before if self._teller.get(pair[0]) == key)
            self._teller.update((fact_key, key) for fact_key, _ in facts)
            for fact_key, _ in before:
                if not any(fact_key == other for other, _ in facts):
                    del self._teller[fact_key]
        events.extend(changes(before, facts))
        return key

    def _drop(self, key: str, events: list[Event]) -> None:
        known = self._known.pop(key, None)
        self._reader.forget(key)
        self._malformed.mended(self.place.resource.kind, key)
        if known is None:
            return
        for fact_key, fact in known.facts:
            if self.place.moving_facts:
                if self._teller.get(fact_key) != key:
                    continue
                del self._teller[fact_key]
            events.extend(gone(fact))

    def _tell(self, events: list[Event]) -> None:
        if events:
            self._sink(events)


def _key(meta: SeenMeta) -> str:
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name or ""


def _error_status(raw: msgspec.Raw) -> _Status:
    try:
        return msgspec.json.decode(raw, type=_Status)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _Status(500, "", "the watch failed and does not say why")
