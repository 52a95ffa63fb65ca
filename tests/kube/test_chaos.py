"""Two replicas, a faulty server, killed replicas: no chip twice, nothing lost, no gang partly bound."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.kube.run.core_thread import SchedulerAdapter
from ringwise.kube.run.leader_election import LeaseSettings
from ringwise.kube.run.leader_term import RunnerSettings
from ringwise.kube.run.runner import Runner
from ringwise.kubeclient.client import Client
from ringwise.kubeclient.config import direct
from tests.builders.values import CHIP
from tests.examples import sample
from tests.kube.fake_api_server import FakeApiServer
from tests.kube.harness import GROUPS, NODES, PODS, InstantClock, group, node, pod, until

NODE_COUNT, CHIPS = 4, 8


class SharedClock(InstantClock):
    """One clock for both replicas; every sleep of either advances it a little."""

    async def sleep(self, seconds: float) -> None:
        due = self.moment + seconds
        while self.moment < due:
            self.moment += 0.05
            await asyncio.sleep(0.0005)


class WrongClock(SharedClock):
    """The clock of one replica: fast or slow, and of another hour."""

    def __init__(self, shared: SharedClock, rate: float, hours: int) -> None:
        super().__init__()
        self.shared = shared
        self.rate = rate
        self.hours = hours

    def now(self) -> int:
        return self.shared.now() + self.hours * 3600 * 10**9

    def monotonic(self) -> float:
        return self.shared.moment * self.rate

    async def sleep(self, seconds: float) -> None:
        await self.shared.sleep(seconds / self.rate)


class SchedulerReplica:
    def __init__(self, api: FakeApiServer, name: str, clock: InstantClock, seed: int) -> None:
        self.name = name
        self.api = api
        self.client = Client(direct(api.url), component=name)
        self.stop = asyncio.Event()
        self.runner = Runner(
            self.client,
            lambda: [SchedulerAdapter(new_scheduler())],
            RunnerSettings(lease=LeaseSettings(), identity=name, page_size=3, in_flight=4),
            clock=clock,
            rng=random.Random(seed),
        )
        self.task = asyncio.create_task(self.runner.run(self.stop))

    async def die(self) -> None:
        """Kill it: it sends nothing more to the server."""
        self.api.fault("/", agent=f"ringwise-{self.name}", drop=True, times=10**9)
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.client.close()

    async def end(self) -> None:
        self.stop.set()
        await self.task
        await self.client.close()


def holders(api: FakeApiServer) -> Counter[tuple[str, str]]:
    """The number of live pods that hold each chip."""
    found: Counter[tuple[str, str]] = Counter()
    for one in api.all(PODS):
        place = one["spec"].get("nodeName")
        if place and one["status"]["phase"] not in ("Succeeded", "Failed"):
            chips = one["metadata"]["annotations"][CHIP].split(",")
            found.update((place, chip) for chip in chips)
    return found


def is_write(method: str, path: str) -> bool:
    return method != "GET"


def inject_fault(api: FakeApiServer, rng: random.Random, clock: SharedClock) -> asyncio.Task[None] | None:
    """Inject one more fault; the task ends one that lasts for some time."""
    match rng.randrange(11):
        case 0:
            api.fault("/binding", status=rng.choice([409, 429, 500, 503]), retry_after=1)
        case 1:
            api.fault("/binding", status=500, done=True)
        case 2:
            api.fault("/binding", drop=True, done=rng.random() < 0.5)
        case 3:
            api.cut_watches()
        case 4:
            api.forget_history()
        case 5:
            api.duplicate = not api.duplicate
        case 6:
            api.fault("/leases", status=500, times=rng.randrange(1, 12))
        case 7:
            api.fault("GET /api/v1/pods", status=rng.choice([410, 500]), times=2)
        case 8:
            api.fault("GET /api/v1/namespaces/default/pods", drop=True, times=2)
        case 9:
            # etcd is full: reads are answered, every write fails.
            full = api.fault(is_write, status=500, times=10**9)
            return asyncio.create_task(after(clock, rng.uniform(1, 30), lambda: api.faults.remove(full)))
        case 10:
            # The next requests are answered after ten seconds.
            answered = asyncio.Event()
            api.fault("/", until=answered, times=rng.randrange(1, 8))
            return asyncio.create_task(after(clock, 10, answered.set))
    return None


async def after(clock: SharedClock, seconds: float, act: Callable[[], None]) -> None:
    await clock.sleep(seconds)
    act()


@pytest.mark.parametrize("seed", sample(range(4)))
async def test_faults_between_scheduler_and_server(seed: int) -> None:
    rng = random.Random(seed)
    clock = SharedClock()
    async with FakeApiServer() as api:
        for index in range(NODE_COUNT):
            api.put(NODES, node(f"node-{index}", CHIPS))
        # Replicas are on machines whose clocks differ. A restarted one has the right time.
        clocks = [WrongClock(clock, 0.8, 5), WrongClock(clock, 1.1, -5)]
        replicas = [
            SchedulerReplica(api, name, wrong, seed)
            for name, wrong in zip(("left", "right"), clocks, strict=True)
        ]
        born = 2
        lasting: list[asyncio.Task[None]] = []
        for wave in range(12):
            size = rng.choice([1, 2, 4])
            api.put(PODS, pod(f"single-{wave}", size))
            if wave % 4 == 0:
                api.put(GROUPS, group(f"gang-{wave}", 2))
                make_gang(api, f"gang-{wave}")
            if (ends := inject_fault(api, rng, clock)) is not None:
                lasting.append(ends)
            for wrong in clocks:
                # The clock is set forward or back by ten hours, or stays.
                wrong.hours *= rng.choice([1, -1])
            for _ in range(rng.randrange(1, 30)):
                await asyncio.sleep(0.0005)
                assert max(holders(api).values(), default=0) <= 1
            if wave in (4, 8):
                victim = rng.choice(replicas)
                replicas.remove(victim)
                await victim.die()
                born += 1
                replicas.append(SchedulerReplica(api, f"born-{born}", clock, seed + born))
            finish_some(api, rng)
        await asyncio.gather(*lasting)
        api.faults = [fault for fault in api.faults if fault.agent]
        api.duplicate = False
        while waiting(api):
            assert max(holders(api).values(), default=0) <= 1
            finish_some(api, rng)
            for one in api.all(GROUPS):
                make_gang(api, one["metadata"]["name"])
            for _ in range(20):
                await asyncio.sleep(0.0005)
        for replica in replicas:
            await replica.end()


def make_gang(api: FakeApiServer, name: str) -> None:
    """A gang of two pods. A pod that was deleted when the gang was undone is created again."""
    there = {one["metadata"]["name"] for one in api.all(PODS)}
    for member in range(2):
        if f"{name}-{member}" not in there:
            api.put(PODS, pod(f"{name}-{member}", 8, group=name))


def waiting(api: FakeApiServer) -> list[str]:
    return [
        one["metadata"]["name"]
        for one in api.all(PODS)
        if not one["spec"].get("nodeName") and one["status"]["phase"] == "Pending"
    ]


def finish_some(api: FakeApiServer, rng: random.Random) -> None:
    """Bound pods run and end, gangs as a whole, and free their chips."""
    gangs: Counter[str] = Counter(
        one["metadata"]["annotations"].get("scheduling.k8s.io/group-name", "")
        for one in api.all(PODS)
        if one["spec"].get("nodeName")
    )
    for one in api.all(PODS):
        if not one["spec"].get("nodeName") or one["status"]["phase"] != "Pending":
            continue
        gang = one["metadata"]["annotations"].get("scheduling.k8s.io/group-name", "")
        if (not gang or gangs[gang] == 2) and rng.random() < 0.5:
            api.put(PODS, {**one, "status": {"phase": "Succeeded"}})


async def test_the_next_leader_completes_a_gang_that_a_killed_replica_started() -> None:
    clock = SharedClock()
    async with FakeApiServer() as api:
        for index in range(4):
            api.put(NODES, node(f"node-{index}"))
        first = SchedulerReplica(api, "first", clock, 1)
        await until(first.runner.deciding.is_set)
        api.fault(lambda method, path: "/binding" in path and api.count("/binding") > 2, drop=True, times=99)
        api.put(GROUPS, group("gang", 4))
        for member in range(4):
            api.put(PODS, pod(f"gang-{member}", 8, group="gang"))
        await until(lambda: api.count("/binding") > 2)
        await first.die()
        assert len(waiting(api)) == 2
        api.faults = [fault for fault in api.faults if fault.agent]
        second = SchedulerReplica(api, "second", clock, 2)
        await until(lambda: not waiting(api))
        assert max(holders(api).values()) == 1
        await second.end()
