"""Runs one leader term after the other: read all objects, wait for the lease, decide until it is lost.

    try the lease ──> list all kinds ──> ready ──> leader? ──> list again ──> decide ... lost ──> next term

Nothing is decided before all objects are known. What was listed before the lease was won is listed again, of
every kind: what the previous leader wrote is known then, and no decision is based on a watch that is behind.
A replica that gets the lease at the first attempt lists once.
The state is not kept when the lease is lost: the next term builds it again from the API.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any

from ringwise.kube.run.core_thread import Answer, CoreStoppedError, CoreThread, MachineAdapter
from ringwise.kube.run.leader_election import LeaderElection
from ringwise.kube.run.leader_term import LeaderTerm, RunnerSettings
from ringwise.kube.run.watchdog import Watchdog, end_process
from ringwise.kube.watch.invalid_objects import InvalidObjects
from ringwise.kube.write.context import WriteContext
from ringwise.kube.write.fence import Fence
from ringwise.kubeclient.client import Client
from ringwise.kubeclient.clock import Clock, RealClock
from ringwise.kubeclient.tasks import end, first_of, running
from ringwise.log import Logger
from ringwise.messages.events import Event
from ringwise.metrics.prometheus import Metrics

_LOG = Logger()


class CoreFailedError(Exception):
    """Internal error in the core. The process must end; the next one reads everything again."""


class Runner:
    def __init__(
        self,
        client: Client,
        machines: Callable[[], Sequence[MachineAdapter]],
        settings: RunnerSettings | None = None,
        *,
        clock: Clock | None = None,
        observer: Metrics | None = None,
        rng: random.Random | None = None,
        on_synced: Callable[[], None] = lambda: None,
        watchdog_clock: Clock | None = None,
        on_hung: Callable[[], object] = end_process,
    ) -> None:
        self._client = client
        self._machines = machines
        self._settings = settings or RunnerSettings()
        self._clock: Clock = clock or RealClock()
        self._observer = observer or Metrics()
        self._rng = rng or random.Random()
        self._on_synced = on_synced
        self._fence = Fence(self._clock)
        self._term: LeaderTerm | None = None
        #: The core that the watchdog checks: until its thread has ended.
        self._core: CoreThread | None = None
        self._watchdog = Watchdog(
            lambda: None if self._core is None else self._core.progress,
            watchdog_clock or RealClock(),
            self._settings.core_stall_timeout,
            on_hung,
        )
        #: Objects that cannot be read, in this term.
        self.malformed = InvalidObjects()
        #: All objects are read: this replica could lead.
        self.ready = False
        self.deciding = asyncio.Event()
        #: Terms started so far.
        self.terms = 0
        self._election: LeaderElection | None = None

    @property
    def healthy(self) -> bool:
        """The core makes progress."""
        return self._watchdog.healthy

    @property
    def leader(self) -> str:
        """The identity of the replica that leads; empty where none is known, or none is elected."""
        return "" if self._election is None else self._election.leader

    async def ask(self, work: Callable[[int], Answer]) -> Answer:
        """Run work that only reads on the thread of the core. Raises CoreStoppedError."""
        if self._term is None:
            raise CoreStoppedError("the scheduler is not running")
        return await asyncio.wrap_future(self._term.core.ask(work))

    def put(self, events: Sequence[Event]) -> None:
        """Pass events to the core that do not come from API objects."""
        if self._term is not None:
            self._term.core.put(events)

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set. Raises CoreFailedError."""
        async with running(watchdog=self._watchdog.run()):
            await self._run(stop)

    async def _run(self, stop: asyncio.Event) -> None:
        settings = self._settings
        if settings.lease is None:
            if not settings.read_only:
                self._fence.open_forever()
                self._observer.leader.set(1)
            await self._run_terms(stop, None)
            return
        election = LeaderElection(
            self._client,
            self._fence,
            settings.identity,
            clock=self._clock,
            settings=settings.lease,
            on_change=self._observer.leader.set,
            healthy=lambda: self.healthy,
        )
        self._election = election
        try:
            async with running(leader_election=election.run()):
                # A replica that leads at once lists once: what is listed after that is as new as the lease.
                # A server that is slow to answer delays the lists by so many seconds at most.
                await first_of(election.attempted.wait(), self._clock.sleep(settings.lease.retry))
                await self._run_terms(stop, election)
        finally:
            await election.release()

    async def _run_terms(self, stop: asyncio.Event, election: LeaderElection | None) -> None:
        try:
            while not stop.is_set():
                await self._run_term(stop, election)
        finally:
            if election is None:
                self._fence.close()

    async def _run_term(self, stop: asyncio.Event, election: LeaderElection | None) -> None:
        crashed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

        def crash(defect: BaseException) -> None:
            if not crashed.done():
                crashed.set_result(defect)

        context = WriteContext(self._client, self._fence, self._clock, self._observer, self._rng)
        term = LeaderTerm(context, self._machines(), self._settings, crash)
        self._term, self._core, self.malformed = term, term.core, term.malformed
        self.terms += 1
        ends: set[asyncio.Future[Any]] = {crashed, asyncio.create_task(stop.wait())}
        try:
            await self._lead_until(term, election, ends)
        finally:
            self.ready = False
            self.deciding.clear()
            await end(*(ends - {crashed}))
            self._term = None
            await term.stop()
            self._core = None
        if crashed.done():
            defect = crashed.result()
            raise CoreFailedError(f"{type(defect).__name__}: {defect}") from defect

    async def _lead_until(
        self, term: LeaderTerm, election: LeaderElection | None, ends: set[asyncio.Future[Any]]
    ) -> None:
        if not await finished_before(term.read_all(), ends):
            return
        self.ready = True
        self._on_synced()
        _LOG.info("all objects are read", objects=len(term), malformed=len(self.malformed))
        if election is not None:
            if not await finished_before(election.leading.wait(), ends):
                return
            ends.add(asyncio.create_task(election.lost.wait()))
        elected_at = float("-inf") if election is None else election.elected_at
        if not await finished_before(term.prepare(elected_at), ends):
            return
        term.lead()
        self.deciding.set()
        _LOG.info("deciding")
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)


async def finished_before(wanted: Coroutine[Any, Any, object], ends: Collection[asyncio.Future[Any]]) -> bool:
    """Wait for the coroutine; False, and it is canceled, when one of the ends comes first."""
    task = asyncio.create_task(wanted)
    try:
        await asyncio.wait({task, *ends}, return_when=asyncio.FIRST_COMPLETED)
        if any(one.done() for one in ends):
            return False
        await task
        return True
    finally:
        await end(task)
