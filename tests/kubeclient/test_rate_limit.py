"""The rate limit of requests."""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ringwise.apps.kube_scheduler import ComponentOptions, _client
from ringwise.kube.run.leader_election import LeaderElection
from ringwise.kube.write.binder import Binder
from ringwise.kube.write.context import WriteContext
from ringwise.kube.write.fence import Fence
from ringwise.kubeclient.client import Client
from ringwise.kubeclient.clock import RateLimit
from ringwise.kubeclient.config import direct
from ringwise.messages.commands import Bind
from ringwise.messages.events import BindFailed
from tests.kube.fake_api_server import FakeApiServer
from tests.kube.harness import NODES, PODS, InstantClock, ManualClock, pod, until


def len_is(things: list[int], count: int) -> bool:
    return len(things) == count


def times(clock: InstantClock, limit: RateLimit, count: int) -> list[float]:
    async def take() -> list[float]:
        taken = []
        for _ in range(count):
            await limit.wait()
            taken.append(round(clock.moment - 1000, 6))
        return taken

    return asyncio.run(take())


def test_a_burst_and_then_the_average_rate() -> None:
    clock = InstantClock()
    limit = RateLimit(10, 3, clock)
    assert times(clock, limit, 6) == [0, 0, 0, 0.1, 0.2, 0.3]
    # After a pause of any length the whole burst is available again.
    clock.moment += 3600
    assert times(clock, limit, 4) == [3600.3, 3600.3, 3600.3, 3600.4]


def test_a_turn_is_taken_only_if_there_is_one() -> None:
    clock = InstantClock()
    limit = RateLimit(10, 3, clock)
    assert [limit.take() for _ in range(5)] == [True, True, True, False, False]
    # What was refused does not count.
    clock.moment += 0.1
    assert [limit.take() for _ in range(2)] == [True, False]


@given(st.floats(0.5, 1000), st.integers(1, 50), st.floats(0, 1e7))
@example(rate=50, burst=5, start=1000)
def test_a_whole_burst_is_available_at_any_time(rate: float, burst: int, start: float) -> None:
    """Sums of rounded intervals neither refuse its last request nor let it wait."""
    clock = InstantClock()
    clock.moment = start
    limit = RateLimit(rate, burst, clock)
    assert [limit.take() for _ in range(burst)] == [True] * burst
    assert not limit.take()
    waiting = RateLimit(rate, burst, clock, pause=0.5)
    times(clock, waiting, burst)
    assert clock.moment == start


@given(
    st.floats(0.5, 1000),
    st.integers(1, 50),
    st.lists(st.floats(0, 2), min_size=1, max_size=60),
)
def test_never_more_than_burst_and_rate_allow(rate: float, burst: int, pauses: list[float]) -> None:
    clock = InstantClock()
    limit = RateLimit(rate, burst, clock)
    moments = []
    for pause in pauses:
        clock.moment += pause
        moments += times(clock, limit, 2)
    for first, start in enumerate(moments):
        for last in range(first, len(moments)):
            assert last - first + 1 <= burst + (moments[last] - start) * rate + 0.01
    assert all(earlier <= later for earlier, later in pairwise(moments))


async def test_waiting_callers_continue_in_order() -> None:
    clock = ManualClock()
    limit = RateLimit(2, 1, clock)
    gone: list[int] = []

    async def go(number: int) -> None:
        await limit.wait()
        gone.append(number)

    tasks = [asyncio.create_task(go(number)) for number in range(4)]
    await until(lambda: len(clock.slept) == 3)
    assert gone == [0]
    for expected in ([0, 1], [0, 1, 2], [0, 1, 2, 3]):
        await clock.pass_time(0.5)
        await until(partial(len_is, gone, len(expected)))
        assert gone == expected
    await asyncio.gather(*tasks)


async def test_early_callers_wait_and_none_is_rejected() -> None:
    clock = InstantClock()
    limit = RateLimit(10, 3, clock)
    for _ in range(3):
        await limit.wait()
    assert sum(clock.slept) == pytest.approx(0)
    before = clock.moment
    for _ in range(20):
        await limit.wait()
    assert clock.moment - before == pytest.approx(2.0)
    clock.moment += 3600
    clock.slept.clear()
    for _ in range(3):
        await limit.wait()
    assert sum(clock.slept) == pytest.approx(0)


async def test_requests_wait_and_leader_election_does_not() -> None:
    clock = InstantClock()
    async with (
        FakeApiServer() as api,
        Client(direct(api.url), rate_limit=RateLimit(4, 1, clock)) as client,
    ):
        for _ in range(5):
            await client.request("GET", NODES)
        assert sum(clock.slept) == 1.0
        lease_clock = InstantClock()
        election = LeaderElection(client, Fence(lease_clock), "a", clock=lease_clock)
        task = asyncio.create_task(election.run())
        await until(lambda: api.count("PUT") >= 5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await election.release()
        assert api.count("POST") == 1
        assert sum(clock.slept) == 1.0


@pytest.mark.parametrize("loses_the_lease", [False, True])
async def test_a_binding_waits_before_the_fence_is_checked(loses_the_lease: bool) -> None:
    """It waits once, and binds nothing if the lease was lost meanwhile."""
    clock = ManualClock()
    async with (
        FakeApiServer() as api,
        Client(direct(api.url), rate_limit=RateLimit(1, 1, clock)) as client,
    ):
        uids = [api.put(PODS, pod(name))["metadata"]["uid"] for name in ("a", "b")]
        fence = Fence(clock)
        fence.open_forever()
        failed: list[BindFailed] = []
        binder = Binder(WriteContext(client, fence, clock), on_failed=failed.append)
        binds = [Bind(uid, "default", name, "n", (0,), {}) for uid, name in zip(uids, "ab", strict=True)]
        binder.submit(binds)
        await until(lambda: "nodeName" in api.get(PODS, "default/a")["spec"])
        assert clock.slept == [1.0]
        if loses_the_lease:
            fence.close()
        await clock.pass_time(1.0)
        await binder.idle.wait()
        assert ("nodeName" in api.get(PODS, "default/b")["spec"]) is not loses_the_lease
        assert [failure.uid for failure in failed] == (uids[1:] if loses_the_lease else [])
        assert clock.slept == [1.0]


def test_the_options_set_the_limit() -> None:
    access = direct("http://127.0.0.1:1")
    assert _client(ComponentOptions(), access, "scheduler")._rate_limit is None
    assert _client(ComponentOptions(requests_per_second=0.5), access, "scheduler")._rate_limit is not None
