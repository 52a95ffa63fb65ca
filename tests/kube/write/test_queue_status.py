"""The status of queues: about once a second, on objects that exist, and without changing a user's state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.kube.run.core_thread import SchedulerAdapter
from ringwise.kube.run.leader_term import RunnerSettings
from ringwise.kube.run.runner import Runner
from ringwise.kube.watch.readers import Observed, ObservedQueue, QueueReader
from ringwise.kube.write.context import WriteContext
from ringwise.kube.write.fence import Fence
from ringwise.kube.write.status import MAX_WRITES_PER_SECOND, StatusWriter, queue_status
from ringwise.manifests.text.errors import Findings
from ringwise.messages.commands import SetQueueStatus
from tests.builders.values import CHIP
from tests.kube.fake_api_server import FakeApiServer, Object
from tests.kube.harness import (
    GROUPS,
    NODES,
    PODS,
    QUEUES,
    InstantClock,
    ManualClock,
    group,
    node,
    pod,
    server,
    until,
)

NONE = ObservedQueue(frozenset())


def queue(name: str, **status: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"weight": 1}, "status": status}


def queue_command(name: str = "default", chips: int = 0, **groups: int) -> SetQueueStatus:
    return SetQueueStatus(name, groups, {CHIP: chips} if chips else {})


def test_counts_and_amounts_have_volcano_s_names() -> None:
    allocated = {CHIP: 8, "cpu": 1500, "memory": 1024, "pods": 3}
    command = SetQueueStatus("q", {"Running": 2, "Pending": 1}, allocated)
    # The state is not part of it: users and the controller write that.
    assert queue_status(command, ObservedQueue(frozenset({"cpu", "huawei.com/Ascend310P"}))) == {
        "pending": 1,
        "inqueue": 0,
        "running": 2,
        "unknown": 0,
        "completed": 0,
        # Null removes a resource that is no longer used.
        "allocated": {
            CHIP: "8",
            "cpu": "1500m",
            "memory": "1024",
            "pods": "3",
            "huawei.com/Ascend310P": None,
        },
    }


@pytest.mark.parametrize("allocated", [None, {}, [], "all", 5, {"cpu": {"odd": 1}}])
def test_a_queue_is_read_with_any_value_of_allocated(allocated: object) -> None:
    observed: dict[str, ObservedQueue] = {}
    reader = QueueReader(observed)
    found = Findings("x")
    raw = msgspec.Raw(msgspec.json.encode(queue("q", state="Closing", allocated=allocated)))
    assert reader.read(raw, found)
    assert not found.errors
    assert observed["q"].allocated == (frozenset(allocated) if isinstance(allocated, dict) else frozenset())
    reader.forget("q")
    assert observed == {}


@asynccontextmanager
async def writing(clock: InstantClock, *names: str) -> AsyncIterator[tuple[FakeApiServer, StatusWriter]]:
    async with server() as (api, client):
        fence = Fence(clock)
        fence.open_forever()
        for name in names:
            api.put(QUEUES, queue(name))
        writer = StatusWriter(WriteContext(client, fence, clock), Observed(queues=dict.fromkeys(names, NONE)))
        yield api, writer
        await writer.stop()


async def test_many_commands_in_a_second_make_two_writes() -> None:
    """The first at once, the last after a second."""
    clock = ManualClock()
    async with writing(clock, "default") as (api, writer):
        for number in range(1, 1001):
            writer.queues.put(queue_command(chips=number, Running=number))
            await asyncio.sleep(0)
        await until(lambda: api.get(QUEUES, "default")["status"])
        await clock.pass_time(0.9)
        assert api.count("queues/default/status") == 1
        await clock.pass_time(0.1)
        await until(lambda: api.get(QUEUES, "default")["status"]["running"] == 1000)
        assert api.get(QUEUES, "default")["status"]["allocated"] == {CHIP: "1000"}
        assert api.count("queues/default/status") == 2


async def test_many_queues_have_a_longer_interval() -> None:
    clock = InstantClock()
    names = [f"queue-{number}" for number in range(100)]
    async with writing(clock, *names) as (api, writer):
        for name in names:
            writer.queues.put(queue_command(name))
        await writer.finish()
        assert clock.slept == [100 / MAX_WRITES_PER_SECOND]
        assert api.count("/status") == 100


async def test_a_queue_without_an_object_is_not_written() -> None:
    async with writing(InstantClock()) as (api, writer):
        writer.queues.put(queue_command())
        await writer.finish()
        assert api.requests == []


def _allocated(api: FakeApiServer) -> list[str]:
    return list(api.get(QUEUES, "default")["status"]["allocated"].values())


def _counts(api: FakeApiServer) -> list[int]:
    status = api.get(QUEUES, "default")["status"]
    return [status[field] for field in ("pending", "inqueue", "running", "unknown", "completed")]


async def test_a_running_scheduler_writes_the_queue_status_and_its_own_write_starts_no_cycle() -> None:
    async with server() as (api, client):
        api.put(NODES, node("node-1"))
        api.put(QUEUES, queue("default", allocated={"huawei.com/Ascend310P": "3"}))
        api.put(GROUPS, group("gang", 1))
        api.put(PODS, pod("train", 4, group="gang"))
        scheduler = new_scheduler()
        runner = Runner(client, lambda: [SchedulerAdapter(scheduler)], RunnerSettings(), clock=InstantClock())
        stop = asyncio.Event()
        task = asyncio.create_task(runner.run(stop))
        try:
            await until(lambda: api.get(QUEUES, "default")["status"].get("running") == 1)
            status = api.get(QUEUES, "default")["status"]
            # The controller writes the state, and none runs here.
            assert "state" not in status
            allocated = {name: value for name, value in status["allocated"].items() if value}
            assert allocated == {CHIP: "4", "pods": "1"}
            api.remove(PODS, "default/train")
            api.remove(GROUPS, "default/gang")
            # The events of pod and group may come one after the other.
            await until(lambda: not any(_counts(api)) and not any(_allocated(api)))
            writes, cycles = api.count("queues/default/status"), scheduler.view.history.cycles
            for _ in range(50):
                await asyncio.sleep(0.001)
            assert api.count("queues/default/status") == writes
            assert scheduler.view.history.cycles == cycles
        finally:
            stop.set()
            await task
