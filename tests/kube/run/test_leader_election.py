"""Leader election: one leader, the fence closes in time, and another replica takes over only afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ringwise.kube.run.leader_election import LeaderElection, LeaseSettings, LeaseSettingsError
from ringwise.kube.write.fence import MIN_FENCE_GAP, Fence
from ringwise.kubeclient.client import Client
from ringwise.kubeclient.config import direct
from ringwise.manifests.text.quantities import micro_time
from tests.kube.fake_api_server import FakeApiServer
from tests.kube.harness import LEASES, ManualClock, server, until

SETTINGS = LeaseSettings(namespace="kube-system", name="test")


class ElectionClock(ManualClock):
    """Knows the replicas whose clock it is."""

    def __init__(self, start: float = 1000.0) -> None:
        super().__init__(start)
        self.elections: list[asyncio.Task[None]] = []

    @property
    def quiet(self) -> bool:
        """No request is under way: whoever still takes part sleeps until its next attempt."""
        return self.sleeping == sum(not one.done() for one in self.elections)


class ElectionReplica:
    def __init__(self, client: Client, clock: ElectionClock, name: str) -> None:
        self.clock = clock
        self.fence = Fence(clock)
        self.healthy = True
        self.election = LeaderElection(
            client, self.fence, name, clock=clock, settings=SETTINGS, healthy=lambda: self.healthy
        )
        self.task = asyncio.create_task(self.election.run())
        clock.elections.append(self.task)

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@asynccontextmanager
async def replicas(*names: str) -> AsyncIterator[tuple[FakeApiServer, ElectionClock, list[ElectionReplica]]]:
    clock = ElectionClock()
    async with server() as (api, client):
        made = []
        for name in names:
            made.append(ElectionReplica(client, clock, name))
            # Each replica has read the lease before the next one starts.
            await until(lambda: clock.quiet)
        try:
            yield api, clock, made
        finally:
            for replica in made:
                await replica.stop()


async def tick(clock: ElectionClock, seconds: float = 2.0) -> None:
    """Advance the time and wait until every replica has made its attempt, however long the answers take."""
    await clock.pass_time(seconds)
    await until(lambda: clock.quiet)


def holder(api: FakeApiServer) -> Any:
    return api.get(LEASES, "kube-system/test")["spec"]["holderIdentity"]


async def test_the_first_replica_leads_and_stays_leader() -> None:
    async with replicas("a", "b") as (api, clock, (a, b)):
        await until(a.election.leading.is_set)
        for _ in range(20):
            await tick(clock)
            assert a.fence.is_open
            assert not b.fence.is_open
        assert holder(api) == "a"
        assert api.get(LEASES, "kube-system/test")["spec"]["leaseTransitions"] == 0


async def test_a_leader_that_cannot_renew_stops_before_another_starts() -> None:
    clock = ElectionClock()
    async with server() as (api, other), Client(direct(api.url), component="first") as client:
        a = ElectionReplica(client, clock, "a")
        await until(a.election.leading.is_set)
        b = ElectionReplica(other, clock, "b")
        await until(lambda: clock.quiet)
        began = clock.moment
        api.fault("/leases", agent="ringwise-first", status=500, times=1000)
        closed_at = 0.0
        while not b.fence.is_open:
            assert clock.moment < began + 60
            await tick(clock, 1.0)
            assert not (a.fence.is_open and b.fence.is_open)
            if not closed_at and not a.fence.is_open:
                closed_at = clock.moment
        assert closed_at - began == SETTINGS.renew_deadline
        assert clock.moment - began >= SETTINGS.duration
        await a.stop()
        await b.stop()


async def test_a_leader_cut_off_from_the_server_is_replaced_after_the_lease_ended() -> None:
    clock = ElectionClock()
    async with server() as (api, client):
        a = ElectionReplica(client, clock, "a")
        await until(a.election.leading.is_set)
        await a.stop()  # it ends without releasing the lease
        b = ElectionReplica(client, clock, "b")
        await until(lambda: clock.quiet)
        waited = 0.0
        while not b.election.leading.is_set():
            assert waited <= SETTINGS.duration + 2 * SETTINGS.retry
            await tick(clock)
            waited += 2.0
        assert waited >= SETTINGS.duration - SETTINGS.retry
        assert holder(api) == "b"
        assert api.get(LEASES, "kube-system/test")["spec"]["leaseTransitions"] == 1
        await b.stop()


@pytest.mark.parametrize(
    ("duration", "renew_deadline", "retry", "message"),
    [
        (15, 11, 2, "the deadline must be at least 5s earlier"),
        (10, 10, 2, "the deadline must be at least 5s earlier"),
        (15, 10, 6, "two attempts must fit"),
        (15, 10, 0, "two attempts must fit"),
    ],
)
def test_unsafe_lease_times_are_rejected(
    duration: float, renew_deadline: float, retry: float, message: str
) -> None:
    with pytest.raises(LeaseSettingsError, match=message):
        LeaseSettings(duration=duration, renew_deadline=renew_deadline, retry=retry)


def test_the_shortest_times() -> None:
    assert LeaseSettings(duration=7, renew_deadline=2, retry=1).timeout == 1


def test_the_fence_closes_by_its_own_clock() -> None:
    clock = ElectionClock()
    fence = Fence(clock)
    fence.open_until(clock.moment + 10)
    seen = []
    for _ in range(3):
        seen.append(fence.is_open)
        clock.moment += 5
    assert seen == [True, True, False]


async def test_the_fence_counts_from_the_start_of_the_request() -> None:
    clock = ElectionClock()
    async with server() as (api, client):
        hold = asyncio.Event()
        api.fault("POST /apis/coordination.k8s.io", until=hold)
        a = ElectionReplica(client, clock, "a")
        await until(lambda: api.count("POST"))
        clock.moment += 8  # the answer is slow
        hold.set()
        await until(a.election.leading.is_set)
        clock.moment += 1.9
        before = a.fence.is_open
        clock.moment += 0.2
        assert (before, a.fence.is_open) == (True, False)
        await a.stop()


async def test_a_renewal_after_the_deadline_ends_the_term() -> None:
    """The fence was closed for a moment, and writes of that time were given up: a new term must start."""
    async with replicas("a") as (api, clock, (a,)):
        await until(a.election.leading.is_set)
        hold = asyncio.Event()
        api.fault("PUT /apis/coordination.k8s.io", until=hold)
        asked = api.count("PUT")
        await clock.pass_time(SETTINGS.retry)
        await until(lambda: api.count("PUT") > asked)
        # After the old deadline, and before the one of this renewal.
        clock.moment += SETTINGS.renew_deadline - SETTINGS.retry / 2
        assert not a.fence.is_open
        lost = asyncio.create_task(a.election.lost.wait())
        await asyncio.sleep(0)
        hold.set()
        await until(lost.done)
        # No other replica took it, so the next attempt gets it again.
        await until(a.election.leading.is_set)
        assert a.fence.is_open


async def test_a_released_lease_is_taken_at_once() -> None:
    async with replicas("a", "b") as (api, clock, (a, b)):
        await until(a.election.leading.is_set)
        await a.stop()
        await a.election.release()
        assert not a.fence.is_open
        await tick(clock)
        await tick(clock)
        assert b.election.leading.is_set()
        assert holder(api) == "b"


async def test_a_lease_taken_by_another_ends_the_term() -> None:
    async with replicas("a") as (api, clock, (a,)):
        await until(a.election.leading.is_set)
        lease = dict(api.get(LEASES, "kube-system/test"))
        lease["spec"] = {**lease["spec"], "holderIdentity": "thief", "renewTime": micro_time(clock.now())}
        api.put(LEASES, lease)
        await tick(clock)
        await tick(clock)
        assert not a.election.leading.is_set()
        assert not a.fence.is_open
        assert holder(api) == "thief"


def edited(api: FakeApiServer, **fields: Any) -> None:
    lease = dict(api.get(LEASES, "kube-system/test"))
    api.put(LEASES, {**lease, "spec": {**lease["spec"], **fields}})


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(lambda api: api.remove(LEASES, "kube-system/test"), id="deleted"),
        pytest.param(lambda api: edited(api, holderIdentity=""), id="no holder"),
        pytest.param(lambda api: edited(api, holderIdentity="b"), id="the other holder"),
        pytest.param(lambda api: edited(api, leaseDurationSeconds=1), id="a short duration"),
        pytest.param(lambda api: edited(api, leaseDurationSeconds=-1), id="a negative duration"),
    ],
)
async def test_an_edited_lease_gives_no_second_leader(edit: Callable[[FakeApiServer], None]) -> None:
    """The leader cannot reach the server meanwhile, so it does not know of it."""
    clock = ElectionClock()
    async with server() as (api, other), Client(direct(api.url), component="first") as client:
        a = ElectionReplica(client, clock, "a")
        await until(a.election.leading.is_set)
        b = ElectionReplica(other, clock, "b")
        await until(lambda: clock.quiet)
        await tick(clock)
        api.fault("/leases", agent="ringwise-first", status=500, times=1000)
        edit(api)
        for _ in range(40):
            await tick(clock, 0.5)
            assert not (a.fence.is_open and b.fence.is_open)
        # It is taken all the same, when the leader's time is over.
        assert b.fence.is_open
        await a.stop()
        await b.stop()


async def test_the_number_of_transitions_stays_in_its_range() -> None:
    async with replicas("a") as (api, clock, (a,)):
        await until(a.election.leading.is_set)
        edited(api, holderIdentity="", leaseDurationSeconds=1, leaseTransitions=2**31 - 1)
        for _ in range(3):
            await tick(clock)
        assert holder(api) == "a"
        assert 0 <= api.get(LEASES, "kube-system/test")["spec"]["leaseTransitions"] < 2**31


class WrongClock(ElectionClock):
    """A clock of another machine: it shows another time, and is fast or slow."""

    def __init__(self, rate: float, hours: int) -> None:
        super().__init__(1000.0 * rate)
        self.rate = rate
        self.hours = hours

    def now(self) -> int:
        return super().now() + self.hours * 3600 * 10**9

    async def pass_time(self, seconds: float) -> None:
        await super().pass_time(seconds * self.rate)


@pytest.mark.parametrize(
    ("leader", "other"), [((0.8, 0), (1.1, 0)), ((1.0, 5), (1.0, -5)), ((1.0, -5), (1.0, 5))]
)
async def test_clock_differences_give_no_second_leader(
    leader: tuple[float, int], other: tuple[float, int]
) -> None:
    """A slow clock keeps the fence open longer, a fast one ends the wait earlier; a wrong hour does nothing.

    Both clocks are set in between.
    """
    clocks = [WrongClock(*leader), WrongClock(*other)]
    async with server() as (api, client), Client(direct(api.url), component="first") as first:
        a = ElectionReplica(first, clocks[0], "a")
        await until(a.election.leading.is_set)
        b = ElectionReplica(client, clocks[1], "b")
        await until(lambda: clocks[1].quiet)
        for half_second in range(80):
            if half_second == 20:
                api.fault("/leases", agent="ringwise-first", status=500, times=1000)
            if half_second % 10 == 5:
                for clock in clocks:
                    clock.hours *= -3
            for clock in clocks:
                await tick(clock, 0.5)
            assert not (a.fence.is_open and b.fence.is_open)
            assert a.fence.is_open or half_second > 20
        assert b.fence.is_open
        await a.stop()
        await b.stop()


async def test_a_replica_that_is_not_healthy_gives_up_the_lease_and_does_not_take_it_again() -> None:
    async with replicas("a", "b") as (api, clock, (a, b)):
        await until(a.election.leading.is_set)
        await tick(clock)
        a.healthy = False
        await tick(clock)
        assert (a.fence.is_open, a.election.leading.is_set()) == (False, False)
        # A write that was sent before may still be under way: the lease is kept for the gap.
        assert holder(api) == "a"
        for _ in range(int(MIN_FENCE_GAP)):
            assert not b.fence.is_open
            await tick(clock, 1.0)
        await until(lambda: holder(api) != "a")
        await tick(clock)
        await until(b.election.leading.is_set)
        await b.stop()
        await b.election.release()
        await tick(clock)
        await tick(clock)
        assert holder(api) == ""
        a.healthy = True
        await tick(clock)
        await until(a.election.leading.is_set)
