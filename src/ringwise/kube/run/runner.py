"""One life of a component after the other: read everything, wait to lead, decide, until the lead is lost.

    list all kinds ──> ready ──> lead? ──> list pods again ──> decide ... lost ──> begin anew

Nothing is decided before everything is known, and nothing that was known before the lead was lost is
believed afterwards: the state is built anew from the API.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any

import structlog

from ringwise.kube.observer import Nobody, Observer
from ringwise.kube.run.core_thread import Part
from ringwise.kube.run.leader_election import Fence, LeaderElection
from ringwise.kube.run.leader_term import Life, RunnerSettings
from ringwise.kube.watch.malformed import Malformed
from ringwise.kubeclient.client import Client
from ringwise.kubeclient.clock import Clock, RealClock
from ringwise.messages.events import Event

_LOG = structlog.get_logger("ringwise.kube")


class CoreFailedError(Exception):
    """The core met a defect. The process ends; the next one reads everything anew."""


class Runner:
    def __init__(
        self,
        client: Client,
        parts: Callable[[], Sequence[Part]],
        settings: RunnerSettings | None = None,
        *,
        clock: Clock | None = None,
        observer: Observer | None = None,
        chance: random.Random | None = None,
        synced: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._parts = parts
        self._settings = settings or RunnerSettings()
        self._clock: Clock = clock or RealClock()
        self._observer: Observer = observer or Nobody()
        self._chance = chance or random.Random()
        self._synced = synced
        self._fence = Fence(self._clock)
        self._life: Life | None = None
        #: Objects that could not be read, in this life.
        self.malformed = Malformed()
        #: Everything is read: this replica could lead.
        self.ready = False
        self.deciding = asyncio.Event()
        #: How often the state was built.
        self.lives = 0

    def tell(self, events: Sequence[Event]) -> None:
        """Hand events to the core that are no objects of the API."""
        if self._life is not None:
            self._life.core.put(events)

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set. Raises CoreFailedError."""
        settings = self._settings
        if settings.lease is None:
            if not settings.read_only:
                self._fence.open_for_good()
                self._observer.leading(True)
            await self._lives(stop, None)
            return
        election = LeaderElection(
            self._client,
            self._fence,
            settings.identity,
            clock=self._clock,
            settings=settings.lease,
            changed=self._observer.leading,
        )
        elected = asyncio.create_task(election.run(), name="leader election")
        try:
            await self._lives(stop, election)
        finally:
            elected.cancel()
            await asyncio.gather(elected, return_exceptions=True)
            await election.release()

    async def _lives(self, stop: asyncio.Event, election: LeaderElection | None) -> None:
        try:
            while not stop.is_set():
                await self._live(stop, election)
        finally:
            if election is None:
                self._fence.close()

    async def _live(self, stop: asyncio.Event, election: LeaderElection | None) -> None:
        crashed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

        def crash(defect: BaseException) -> None:
            if not crashed.done():
                crashed.set_result(defect)

        life = Life(
            self._client,
            self._parts(),
            self._settings,
            self._fence,
            clock=self._clock,
            observer=self._observer,
            chance=self._chance,
            crashed=crash,
        )
        self._life, self.malformed = life, life.malformed
        self.lives += 1
        ends: set[asyncio.Future[Any]] = {crashed, asyncio.create_task(stop.wait())}
        try:
            await self._until_the_end(life, election, ends)
        finally:
            self.ready = False
            self.deciding.clear()
            for end in ends - {crashed}:
                end.cancel()
            await asyncio.gather(*(ends - {crashed}), return_exceptions=True)
            self._life = None
            await life.stop()
        if crashed.done():
            defect = crashed.result()
            raise CoreFailedError(f"{type(defect).__name__}: {defect}") from defect

    async def _until_the_end(
        self, life: Life, election: LeaderElection | None, ends: set[asyncio.Future[Any]]
    ) -> None:
        if not await came_before(life.read_everything(), ends):
            return
        self.ready = True
        self._synced()
        _LOG.info("everything is read", objects=len(life), malformed=len(self.malformed))
        if election is not None:
            led_before = election.leading.is_set()
            if not await came_before(_wait(election.leading), ends):
                return
            ends.add(asyncio.create_task(_wait(election.lost)))
            # What the last leader bound in its last moments must be known before the first decision.
            if not led_before and not await came_before(life.read_pods_again(), ends):
                return
        life.lead()
        self.deciding.set()
        _LOG.info("deciding")
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


async def came_before(wanted: Coroutine[Any, Any, None], ends: Collection[asyncio.Future[Any]]) -> bool:
    """Wait for what is wanted; False, and it is dropped, when one of the ends comes first."""
    task = asyncio.create_task(wanted)
    try:
        await asyncio.wait({task, *ends}, return_when=asyncio.FIRST_COMPLETED)
        if any(end.done() for end in ends):
            return False
        await task
        return True
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
