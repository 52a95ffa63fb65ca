"""Objects that cannot be read get an event for each problem, written by the leader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from ringwise.apps.extensions import new_scheduler
from ringwise.kube.run.core_thread import SchedulerAdapter
from ringwise.kube.run.leader_election import LeaseSettings
from ringwise.kube.run.leader_term import RunnerSettings
from ringwise.kube.run.runner import Runner
from ringwise.kube.watch.invalid_objects import UNNAMED, BadObject, InvalidObjects
from ringwise.kube.watch.readers import Observed
from ringwise.kube.write.context import WriteContext
from ringwise.kube.write.event_recorder import MAX_PROBLEM_EVENTS
from ringwise.kube.write.fence import Fence
from ringwise.kube.write.status import StatusWriter
from ringwise.kubeclient.client import Client
from tests.kube.fake_api_server import FakeApiServer, Object
from tests.kube.harness import EVENTS, LEASES, NODES, PODS, InstantClock, node, pod, server, until


def malformed_events(api: FakeApiServer) -> list[Object]:
    return [event for event in api.all(EVENTS) if event["reason"] == "InvalidObject"]


@asynccontextmanager
async def running(client: Client, **settings: Any) -> AsyncIterator[Runner]:
    parts = [SchedulerAdapter(new_scheduler())]
    runner = Runner(client, lambda: parts, RunnerSettings(**settings), clock=InstantClock())
    stop = asyncio.Event()
    task = asyncio.create_task(runner.run(stop))
    try:
        yield runner
    finally:
        stop.set()
        await task


def broken_node() -> Object:
    made = node("node-2")
    made["metadata"]["annotations"] = {"baseDeviceInfos": "{nonsense"}
    return made


async def a_while() -> None:
    for _ in range(50):
        await asyncio.sleep(0.001)


def test_a_late_listener_gets_everything_once_and_then_new_problems() -> None:
    heard: list[BadObject] = []
    register = InvalidObjects()
    register.put("Pod", "default/a", ("one",), "u1")
    register.listen(heard.append)
    assert heard == [BadObject("Pod", "default/a", ("one",), "u1")]
    register.put("Pod", "default/a", ("one",), "u1")
    assert len(heard) == 1
    register.put("Pod", "default/a", ("one", "two"), "u1")
    assert heard[1].problems == ("two",)
    # Another object of the same name.
    register.put("Pod", "default/a", ("one", "two"), "u2")
    assert heard[2] == BadObject("Pod", "default/a", ("one", "two"), "u2")


async def test_the_event_names_the_invalid_field() -> None:
    async with server() as (api, client):
        api.put(NODES, broken_node())
        api.put(PODS, pod("train", 1))
        async with running(client):
            await until(lambda: malformed_events(api))
            bad = api.put(PODS, pod("bad", 1, on="node-1", held="nonsense"))
            await until(lambda: len(malformed_events(api)) == 2)
        first, second = malformed_events(api)
        assert first["metadata"]["namespace"] == "default"
        assert first["involvedObject"]["kind"] == "Node"
        assert first["involvedObject"]["name"] == "node-2"
        assert "baseDeviceInfos" in first["message"]
        assert second["type"] == "Warning"
        assert second["involvedObject"]["uid"] == bad["metadata"]["uid"]
        assert second["involvedObject"]["apiVersion"] == "v1"
        assert "huawei.com/Ascend910" in second["message"]


async def test_the_next_leader_does_not_repeat_the_event() -> None:
    async with server() as (api, client):
        api.put(NODES, broken_node())
        posts = "POST /api/v1/namespaces/default/events"
        async with running(client):
            await until(lambda: malformed_events(api))
        before = api.count(posts)
        async with running(client):
            await until(lambda: api.count(posts) > before)
            await a_while()
        assert len(malformed_events(api)) == 1


async def test_a_replica_that_does_not_lead_writes_no_events() -> None:
    async with server() as (api, client):
        api.put(NODES, broken_node())
        api.put(
            LEASES,
            {
                "metadata": {"name": "ringwise-scheduler", "namespace": "volcano-system"},
                "spec": {
                    "holderIdentity": "other",
                    "leaseDurationSeconds": 10**6,
                    "renewTime": "2099-01-01T00:00:00.000000Z",
                },
            },
        )
        lease = LeaseSettings(name="ringwise-scheduler", namespace="volcano-system")
        async with running(client, lease=lease, identity="me") as runner:
            await until(lambda: runner.ready)
            await a_while()
            assert [bad.key for bad in runner.malformed] == ["node-2"]
        assert malformed_events(api) == []
        async with running(client, read_only=True) as runner:
            await until(runner.deciding.is_set)
            await a_while()
        assert malformed_events(api) == []


async def test_the_number_of_events_per_object_is_limited() -> None:
    async with server() as (api, client):
        clock = InstantClock()
        fence = Fence(clock)
        fence.open_forever()
        writer = StatusWriter(WriteContext(client, fence, clock), Observed())
        problems = tuple(f"data.{number}: must be a string" for number in range(1000))
        writer.events.malformed(BadObject("ConfigMap", "kube-system/many", problems, "u"))
        writer.events.malformed(BadObject("Pod", UNNAMED, ("metadata cannot be read",)))
        writer.events.malformed(BadObject("Pod", "default/" + "long-" * 60, ("odd \ud800 text",), "u"))
        await writer.finish()
        names = [event["metadata"]["name"] for event in malformed_events(api)]
        assert len(names) == MAX_PROBLEM_EVENTS + 1
        assert len(set(names)) == len(names)
        assert all(len(name) <= 253 and "-." not in name for name in names)
