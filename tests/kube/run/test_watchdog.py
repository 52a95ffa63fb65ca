"""A hung core: not healthy after the timeout, and the process exits after twice that."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.controller.machine import Controller
from ringwise.kube.run.core_thread import SchedulerAdapter
from ringwise.kube.run.leader_election import LeaseSettings
from ringwise.kube.run.leader_term import RunnerSettings
from ringwise.kube.run.runner import Runner
from ringwise.kube.run.watchdog import Watchdog
from ringwise.messages import events as ev
from ringwise.messages.commands import Command
from ringwise.messages.events import Decide
from ringwise.state.model import Node, Pod
from ringwise.state.vcjob import VcJob
from tests.builders.values import CHIP, pod_class
from tests.event_loop import run
from tests.kube.harness import LEASES, NODES, PODS, FrozenClock, ManualClock, node, pod, server, until


async def pass_seconds(clock: ManualClock, seconds: int, step: float = 1.0) -> None:
    for _ in range(seconds):
        await until(lambda: clock.sleeping)
        await clock.pass_time(step)
    await until(lambda: clock.sleeping)


def watched(progress: Callable[[int], int | None], seconds: int, step: float = 1.0) -> tuple[bool, list[str]]:
    """Whether it is healthy after so many checks, and the calls of `on_hung`."""
    hung: list[str] = []
    healthy = True

    async def test() -> None:
        nonlocal healthy
        clock = ManualClock()
        checks = 0

        def current() -> int | None:
            nonlocal checks
            checks += 1
            return progress(checks)

        watchdog = Watchdog(current, clock, 15.0, lambda: hung.append("hung"))
        task = asyncio.create_task(watchdog.run())
        await pass_seconds(clock, seconds, step)
        healthy = watchdog.healthy
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(test())
    return healthy, hung


@pytest.mark.parametrize(
    ("progress", "seconds", "healthy", "hung"),
    [
        pytest.param(lambda check: None, 100, True, 0, id="idle"),
        pytest.param(lambda check: check, 100, True, 0, id="working"),
        pytest.param(lambda check: check // 15, 100, True, 0, id="slow jobs"),
        pytest.param(lambda check: 7, 15, True, 0, id="stuck, not for long"),
        pytest.param(lambda check: 7, 16, False, 0, id="stuck"),
        pytest.param(lambda check: 7, 30, False, 0, id="stuck, and the process still runs"),
        pytest.param(lambda check: 7, 31, False, 1, id="hung"),
        pytest.param(lambda check: 7, 60, False, 1, id="reported once"),
        pytest.param(lambda check: 7 if check < 20 else None, 20, True, 0, id="recovered"),
    ],
)
def test_progress_decides(
    progress: Callable[[int], int | None], seconds: int, healthy: bool, hung: int
) -> None:
    assert watched(progress, seconds) == (healthy, ["hung"] * hung)


def test_a_paused_process_does_not_count_as_hung() -> None:
    """Stopped for a minute, the core could make no progress; it gets its time again."""
    assert watched(lambda check: 7, 5, step=60.0) == (True, [])


def test_a_long_cycle_reports_progress_job_by_job() -> None:
    """Also for jobs that cannot be placed."""
    scheduler = new_scheduler()
    steps: list[int] = []
    events: list[ev.Event] = [ev.NodeSeen(Node("node-1", chips_allocatable={CHIP: 8}))]
    events += [ev.PodSeen(Pod(f"p{n}", "x", f"p{n}", pod_class(8), chip_containers=1)) for n in range(50)]
    SchedulerAdapter(scheduler).report_progress(lambda: steps.append(1))
    scheduler.handle(events, 1, Decide.NOTHING)
    assert len(steps) == len(events)
    scheduler.prepare(1)
    prepared = len(steps)
    assert prepared == len(events) + 50
    scheduler.handle([], 2)
    assert len(steps) >= prepared + 50


def test_the_controller_reports_progress_job_by_job() -> None:
    controller = Controller()
    steps: list[int] = []
    controller.on_progress = lambda: steps.append(1)
    controller.handle([ev.VcJobSeen(VcJob("x", f"job-{n}", f"u{n}")) for n in range(5)], 1)
    assert len(steps) == 10


class Hanging(SchedulerAdapter):
    """Hangs in the first decision that has an event of a pod."""

    def __init__(self) -> None:
        super().__init__(new_scheduler())
        self.hangs = threading.Event()
        self.go_on = threading.Event()

    def decide(self, events: Sequence[ev.Event], now: int) -> list[Command]:
        if any(isinstance(event, ev.PodSeen) for event in events):
            self.hangs.set()
            self.go_on.wait()
        return super().decide(events, now)


async def test_a_hung_leader_gives_up_the_lease_and_its_process_ends() -> None:
    async with server() as (api, client):
        api.put(NODES, node("node-1"))
        hanging = Hanging()
        clock, hung = ManualClock(), list[str]()
        first = Runner(
            client,
            lambda: [hanging],
            RunnerSettings(lease=LeaseSettings(), identity="first"),
            clock=FrozenClock(),
            watchdog_clock=clock,
            on_hung=lambda: hung.append("first"),
        )
        second = Runner(
            client,
            lambda: [SchedulerAdapter(new_scheduler())],
            RunnerSettings(lease=LeaseSettings(), identity="second"),
            clock=FrozenClock(),
        )
        stop = asyncio.Event()
        running = [asyncio.create_task(first.run(stop))]
        await first.deciding.wait()
        running.append(asyncio.create_task(second.run(stop)))
        await until(lambda: second.ready)
        api.put(PODS, pod("train"))
        await until(hanging.hangs.is_set)
        await pass_seconds(clock, 14)
        assert [first.healthy] == [True]
        assert api.all(LEASES)[0]["spec"]["holderIdentity"] == "first"
        await pass_seconds(clock, 2)
        assert [first.healthy] == [False]
        await until(lambda: api.get(PODS, "default/train")["spec"].get("nodeName"))
        assert api.all(LEASES)[0]["spec"]["holderIdentity"] == "second"
        assert hung == []
        await pass_seconds(clock, 15)
        assert hung == ["first"]
        hanging.go_on.set()
        stop.set()
        await asyncio.gather(*running)
        assert api.count("/binding") == 1
