"""Between one scheduler and many clients: reads the changes a few times a second while clients are connected.

Without clients the scheduler does not record changes. All clients share the encoded events and the rows, so a
client that reads slowly costs only its place in the shared history.
"""

from __future__ import annotations

import asyncio
import gzip
import secrets
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from ringwise.durations import SECOND
from ringwise.kubeclient.tasks import end
from ringwise.log import Logger
from ringwise.manifests.text.quantities import rfc3339
from ringwise.scheduler.view import SchedulerView
from ringwise.state.changes import Changes
from ringwise.views.dashboard import DashboardRows
from ringwise.views.dashboard_nodes import BoardsChangedError, cluster_totals
from ringwise.views.documents.dashboard import (
    DashboardChips,
    DashboardDocument,
    DashboardSource,
    DashboardTotals,
    SeriesChips,
    SeriesDocument,
)
from ringwise.views.written_reasons import WrittenReasons
from ringwise.web.frames import Frame, FrameHistory

#: Seconds between two reads of what changed; and after which an event is sent although nothing did.
READ_INTERVAL = 0.25
QUIET_INTERVAL = 10.0
#: Seconds after which a stream without events shows that it is alive.
ALIVE_INTERVAL = 15.0
#: Seconds without a client after which the rows are dropped. One that is away for less catches up.
IDLE_TIMEOUT = 180.0
#: Nodes or jobs that are read in one visit to the scheduler's thread: some milliseconds.
FILL_STEPS = 250
#: Times that reading everything may be overtaken by a new scheduler or new boards.
MAX_BEGINNINGS = 5


_LOG = Logger()
Answer = TypeVar("Answer")


class WatchedScheduler(Protocol):
    """A scheduler as the dashboard needs it."""

    @property
    def view(self) -> SchedulerView: ...

    def record_changes(self, changes: Changes | None) -> None: ...


class NotLeadingError(Exception):
    """This replica decides nothing: another one has the answer."""

    def __init__(self, leader: str = "", address: str = "") -> None:
        who = f"{leader} leads" if leader else "no replica leads yet"
        super().__init__(f"{who}; ask it for the state of the cluster")
        #: Its identity, and the address of its dashboard; empty where they are not known.
        self.leader = leader
        self.address = address


class Core(Protocol):
    """Runs work on the thread that the scheduler belongs to, between two of its turns."""

    async def call(self, work: Callable[[WatchedScheduler, int], Answer]) -> Answer:
        """`work` gets the scheduler and the time in nanoseconds. Raises NotLeadingError."""

    async def copy(self, fork: Callable[[WatchedScheduler, int], Answer]) -> Answer:
        """The same for work that copies the process. Also a replica that waits for the lease does it: it
        knows the objects. Raises NotLeadingError where they are not known yet."""


#: Seconds between two samples, and of all samples together.
SAMPLE_INTERVAL = 5.0
REMEMBERED = 3600.0


class _Sample(NamedTuple):
    time: float
    totals: DashboardTotals
    decisions: float


class Series:
    """The history in numbers: a ring of samples at equal distances."""

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque(maxlen=round(REMEMBERED / SAMPLE_INTERVAL))
        #: Time and bindings of the last sample, and the scheduler that counted them.
        self._last: tuple[int, int, object] | None = None

    def add(self, now: int, totals: DashboardTotals, bindings: int, counter: object) -> None:
        """`counter` is what counted the bindings: another one starts again at 0."""
        since, before, who = self._last or (now, bindings, counter)
        if self._samples and now == since:
            # Virtual time stands still: there is one point for this moment, with the last values.
            self._samples[-1] = self._samples[-1]._replace(totals=totals)
            return
        if who is not counter:
            before = 0
        seconds = (now - since) / SECOND
        self._last = now, bindings, counter
        self._samples.append(
            _Sample(
                now / SECOND,
                totals,
                round(max(0, bindings - before) / seconds, 3) if seconds > 0 else 0.0,
            )
        )

    def document(self) -> SeriesDocument:
        samples = list(self._samples)
        totals = [sample.totals["resources"] for sample in samples]
        return {
            "schema": "ringwise.io/series/v1",
            "interval_seconds": SAMPLE_INTERVAL,
            "times": [sample.time for sample in samples],
            "resources": {
                resource: _chips([one.get(resource) for one in totals])
                for resource in sorted({resource for one in totals for resource in one})
            },
            "pending": [sample.totals["pending"] for sample in samples],
            "rejected": [sample.totals["rejected"] for sample in samples],
            "decisions": [sample.decisions for sample in samples],
        }


def _chips(chips: list[DashboardChips | None]) -> SeriesChips:
    """None: the cluster had no chip of this resource then."""
    return {
        "used": [0 if one is None else one["used"] for one in chips],
        "free": [0 if one is None else one["free"] for one in chips],
        "fragmentation": [0.0 if one is None else one["fragmentation"] for one in chips],
    }


class Snapshot(NamedTuple):
    raw: bytes
    packed: bytes


class _RestartedError(Exception):
    """Another scheduler runs now: its rows are read, and a new epoch begins."""


class Hub:
    """Everything in it but the rows belongs to the event loop."""

    def __init__(
        self,
        core: Core,
        source: Callable[[], DashboardSource],
        written: WrittenReasons | None = None,
    ) -> None:
        self._core = core
        self._source = source
        self.series = Series()
        self._written = written
        self._lock = asyncio.Lock()
        self._rows: DashboardRows | None = None
        self._scheduler: WatchedScheduler | None = None
        self.epoch = ""
        self.history = FrameHistory()
        #: Epoch and sequence of the document that was encoded last, and its bytes.
        self._snapshot: tuple[str, int, Snapshot] | None = None
        #: Set, and replaced, with every new frame.
        self._news = asyncio.Event()
        self._streams = 0
        self._watched = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._published = 0.0
        self._stopped = False
        #: Whether this replica had the answer to the last question.
        self.leads = True

    @property
    def streams(self) -> int:
        """Clients that follow now."""
        return self._streams

    # -- life ----------------------------------------------------------------------------------

    def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self._publish(), name="dashboard changes"),
            asyncio.create_task(self._sample(), name="dashboard samples"),
        ]

    async def stop(self) -> None:
        await end(*self._tasks)
        self._tasks = []
        await self.forget()

    def end_streams(self) -> None:
        self._stopped = True
        self._wake_waiters()

    async def _publish(self) -> None:
        """Read what changed while there are clients; drop everything when there have been none for long."""
        while True:
            await self._watched.wait()
            await self._contained(self.refresh)
            if self._streams:
                await asyncio.sleep(READ_INTERVAL)
                continue
            self._watched.clear()
            try:
                await asyncio.wait_for(self._watched.wait(), IDLE_TIMEOUT)
            except TimeoutError:
                await self.forget()

    async def _sample(self) -> None:
        while True:
            await self._contained(lambda: self._call(self._take_sample))
            await asyncio.sleep(SAMPLE_INTERVAL)

    async def _contained(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work`. A defect in it must not end the streams: the clients fetch a new snapshot."""
        try:
            await work()
        except NotLeadingError:
            self._drop()
        except Exception:
            _LOG.exception("the dashboard could not read the scheduler")
            self._drop()

    def _take_sample(self, scheduler: WatchedScheduler, now: int) -> None:
        view = scheduler.view
        if view.cluster.node_count:
            # Before anything is read, there is nothing to remember.
            # While there are clients, the rows have the sums.
            rows = self._rows if self._streams and self._scheduler is scheduler else None
            totals = cluster_totals(view, now) if rows is None else rows.totals()
            self.series.add(now, totals, view.history.bindings, scheduler)

    def _drop(self) -> None:
        self._rows = self._scheduler = self._snapshot = None
        self.epoch = ""
        self.history = FrameHistory()
        self._wake_waiters()

    async def forget(self) -> None:
        """Drop the rows and stop the recording of changes: no client needs them."""
        async with self._lock:
            watched = self._scheduler
            self._drop()
            if watched is not None:
                with suppress(NotLeadingError):
                    await self._core.call(lambda scheduler, now: watched.record_changes(None))

    def _wake_waiters(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    # -- reading -------------------------------------------------------------------------------

    async def _call(self, work: Callable[[WatchedScheduler, int], Answer]) -> Answer:
        """Raises NotLeadingError."""
        try:
            answer = await self._core.call(work)
        except NotLeadingError:
            self.leads = False
            raise
        self.leads = True
        return answer

    async def remembered(self) -> SeriesDocument:
        """The samples of the replica that leads; others have none, or old ones. Raises NotLeadingError."""
        await self._call(lambda scheduler, now: None)
        return self.series.document()

    async def refresh(self) -> None:
        """Bring the rows up to date, and publish the difference. Raises NotLeadingError."""
        async with self._lock:
            await self._refresh()

    async def _refresh(self) -> None:
        for _ in range(MAX_BEGINNINGS):
            try:
                if self._rows is None:
                    await self._begin()
                return await self._follow()
            except (_RestartedError, BoardsChangedError):
                self._drop()
        raise RuntimeError("schedulers or boards change faster than they can be read")

    async def _follow(self) -> None:
        moment, sequence = asyncio.get_running_loop().time(), self.history.last + 1
        quiet = moment - self._published >= QUIET_INTERVAL
        change = await self._visit(lambda rows, view, now: rows.follow(sequence, now, always=quiet))
        if change is not None:
            self.history.append(Frame("change", change, sequence))
            self._published = moment
            self._wake_waiters()

    async def _begin(self) -> None:
        changes = Changes()

        def begin(scheduler: WatchedScheduler, _now: int) -> tuple[WatchedScheduler, DashboardRows]:
            scheduler.record_changes(changes)
            return scheduler, DashboardRows(scheduler.view, changes, self._written)

        def fill(present: WatchedScheduler, _now: int) -> bool:
            if present is not scheduler:
                raise _RestartedError
            return rows.fill(FILL_STEPS)

        scheduler, rows = await self._call(begin)
        while not await self._call(fill):
            # The scheduler decides in between, and the event loop serves others.
            await asyncio.sleep(0)
        self._scheduler, self._rows = scheduler, rows
        self.epoch = secrets.token_hex(8)
        self.history = FrameHistory()
        self._published = asyncio.get_running_loop().time()

    async def _visit(self, work: Callable[[DashboardRows, SchedulerView, int], Answer]) -> Answer:
        rows, current = self._rows, self._scheduler

        def visit(scheduler: WatchedScheduler, now: int) -> Answer:
            if rows is None or scheduler is not current:
                raise _RestartedError
            return work(rows, scheduler.view, now)

        return await self._call(visit)

    async def read(self, work: Callable[[DashboardRows, SchedulerView, int], Answer]) -> Answer:
        """Read rows that are up to date, on the scheduler's thread. Raises NotLeadingError."""
        async with self._lock:
            return await self._read(work)

    async def _read(self, work: Callable[[DashboardRows, SchedulerView, int], Answer]) -> Answer:
        self._watched.set()
        while True:
            await self._refresh()
            try:
                return await self._visit(work)
            except _RestartedError:
                self._drop()

    async def snapshot(self) -> Snapshot:
        """The whole cluster as JSON, encoded once for all who ask at the same time."""
        async with self._lock:
            document = await self._read(self._document)
            cached = self._snapshot
            if cached is None or cached[:2] != (document["epoch"], document["sequence"]):
                # Rows are replaced, never changed: another thread may read them.
                made = await asyncio.to_thread(_encoded, document)
                cached = self._snapshot = document["epoch"], document["sequence"], made
            return cached[2]

    def _document(self, rows: DashboardRows, _view: SchedulerView, now: int) -> DashboardDocument:
        return {
            "schema": "ringwise.io/dashboard/v1",
            "epoch": self.epoch,
            "sequence": self.history.last,
            "time": rfc3339(now),
            "source": self._source(),
            "boards": rows.boards,
            "nodes": rows.nodes(),
            "jobs": rows.jobs(),
            "queues": rows.queues(),
            "totals": rows.totals(),
        }

    async def stream(self, epoch: str, since: int) -> AsyncIterator[Frame | None]:
        """What followed this sequence, without end; None where nothing happened for a while."""
        self._streams += 1
        self._watched.set()
        try:
            while not self._stopped:
                news = self._news
                try:
                    if not self.epoch:
                        await self.refresh()
                except NotLeadingError as error:
                    yield Frame("leader", {"leader": error.leader, "address": error.address})
                    return
                if epoch != self.epoch or not self.history.has(since):
                    yield Frame("reset", {"epoch": self.epoch, "sequence": self.history.last})
                    return
                for frame in self.history.after(since):
                    yield frame
                    since += 1
                if news is self._news:
                    try:
                        await asyncio.wait_for(news.wait(), ALIVE_INTERVAL)
                    except TimeoutError:
                        yield None
        finally:
            self._streams -= 1


def _encoded(document: DashboardDocument) -> Snapshot:
    raw = msgspec.json.encode(document)
    return Snapshot(raw, gzip.compress(raw, 6, mtime=0))
