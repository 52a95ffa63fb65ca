from __future__ import annotations

import asyncio
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.apps.kube_scheduler import Options, _client
from ringwise.kube.run.leader_election import Fence
from ringwise.kube.write.binder import Binder
from ringwise.kubeclient.config import direct
from ringwise.kubeclient.rate_limit import Pace, PacedClient
from ringwise.messages.commands import Bind
from ringwise.messages.events import BindFailed
from tests.kube.harness import LEASES, NODES, PODS, JumpingClock, StandingClock, pod, run, until
from tests.kube.standin import StandIn


def len_is(things: list[int], count: int) -> bool:
    return len(things) == count


def times(clock: JumpingClock, pace: Pace, count: int) -> list[float]:
    async def take() -> list[float]:
        taken = []
        for _ in range(count):
            await pace.turn()
            taken.append(round(clock.moment - 1000, 6))
        return taken

    return asyncio.run(take())


def test_a_burst_and_then_one_by_one() -> None:
    clock = JumpingClock()
    pace = Pace(10, 3, clock)
    assert times(clock, pace, 6) == [0, 0, 0, 0.1, 0.2, 0.3]
    # A rest brings the burst back, however long it was.
    clock.moment += 3600
    assert times(clock, pace, 4) == [3600.3, 3600.3, 3600.3, 3600.4]


@given(
    st.floats(0.5, 1000),
    st.integers(1, 50),
    st.lists(st.floats(0, 2), min_size=1, max_size=60),
)
def test_never_more_than_the_burst_and_the_rate(rate: float, burst: int, rests: list[float]) -> None:
    clock = JumpingClock()
    pace = Pace(rate, burst, clock)
    moments = []
    for rest in rests:
        clock.moment += rest
        moments += times(clock, pace, 2)
    for first, start in enumerate(moments):
        for last in range(first, len(moments)):
            assert last - first + 1 <= burst + (moments[last] - start) * rate + 0.01
    assert all(earlier <= later for earlier, later in pairwise(moments))


def test_those_who_wait_together_go_one_after_the_other() -> None:
    async def test() -> None:
        clock = StandingClock()
        pace = Pace(2, 1, clock)
        gone: list[int] = []

        async def go(number: int) -> None:
            await pace.turn()
            gone.append(number)

        tasks = [asyncio.create_task(go(number)) for number in range(4)]
        await until(lambda: len(clock.slept) == 3)
        assert gone == [0]
        for expected in ([0, 1], [0, 1, 2], [0, 1, 2, 3]):
            await clock.pass_time(0.5)
            await until(partial(len_is, gone, len(expected)))
            assert gone == expected
        await asyncio.gather(*tasks)

    run(test())


def test_requests_wait_and_leases_do_not() -> None:
    async def test() -> None:
        clock = JumpingClock()
        async with (
            StandIn() as standin,
            PacedClient(direct(standin.url), 4, 1, component="test", clock=clock) as client,
        ):
            standin.put(LEASES, {"metadata": {"name": "ours", "namespace": "default"}})
            for _ in range(5):
                await client.request("GET", NODES)
            assert sum(clock.slept) == 1.0
            for _ in range(5):
                await client.request("GET", "/apis/coordination.k8s.io/v1/namespaces/default/leases/ours")
            assert sum(clock.slept) == 1.0

    run(test())


@pytest.mark.parametrize("loses_the_lead", [False, True])
def test_a_binding_waits_before_the_fence_is_looked_at(loses_the_lead: bool) -> None:
    """It waits once; and whoever lost the lead while it waited binds nothing."""

    async def test() -> None:
        clock = StandingClock()
        async with (
            StandIn() as standin,
            PacedClient(direct(standin.url), 1, 1, component="test", clock=clock) as client,
        ):
            uids = [standin.put(PODS, pod(name))["metadata"]["uid"] for name in ("a", "b")]
            fence = Fence(clock)
            fence.open_for_good()
            failed: list[BindFailed] = []
            binder = Binder(client, fence, clock=clock, failed=failed.append)
            binds = [Bind(uid, "default", name, "n", (0,), {}) for uid, name in zip(uids, "ab", strict=True)]
            binder.submit(binds)
            await until(lambda: "nodeName" in standin.get(PODS, "default/a")["spec"])
            assert clock.slept == [1.0]
            if loses_the_lead:
                fence.close()
            await clock.pass_time(1.0)
            await binder.idle.wait()
            assert ("nodeName" in standin.get(PODS, "default/b")["spec"]) is not loses_the_lead
            assert [failure.uid for failure in failed] == (uids[1:] if loses_the_lead else [])
            assert clock.slept == [1.0]

    run(test())


def test_without_a_limit_nothing_waits() -> None:
    access = direct("http://127.0.0.1:1")
    assert not isinstance(_client(Options(), access, "scheduler"), PacedClient)
    assert isinstance(_client(Options(requests_per_second=0.5), access, "scheduler"), PacedClient)
