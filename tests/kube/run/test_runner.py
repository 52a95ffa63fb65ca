"""The whole edge against the stand-in: from lists to bindings, through faults, losses and restarts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.kube.run.core_thread import ControllerPart, Part, SchedulerPart
from ringwise.kube.run.leader_election import LeaseSettings
from ringwise.kube.run.leader_term import RunnerSettings
from ringwise.kube.run.runner import CoreFailedError, Runner
from ringwise.kubeclient.client import Client
from tests.kube.harness import (
    CHIP,
    CONFIG_MAPS,
    EVENTS,
    GROUPS,
    JOBS,
    LEASES,
    NODES,
    PODS,
    JumpingClock,
    group,
    node,
    pod,
    run,
    server,
    until,
)
from tests.kube.standin import Object, StandIn


def scheduler_parts() -> list[Part]:
    return [SchedulerPart(new_scheduler())]


def both_parts() -> list[Part]:
    return [ControllerPart(), SchedulerPart(new_scheduler())]


@asynccontextmanager
async def running(client: Client, **settings: Any) -> AsyncIterator[Runner]:
    parts = settings.pop("parts", scheduler_parts)
    runner = Runner(client, parts, RunnerSettings(**settings), clock=settings.pop("clock", JumpingClock()))
    stop = asyncio.Event()
    task = asyncio.create_task(runner.run(stop))
    try:
        yield runner
    finally:
        stop.set()
        await task


def bound(standin: StandIn) -> list[Object]:
    return [one for one in standin.all(PODS) if one["spec"].get("nodeName")]


def assert_no_chip_twice(standin: StandIn) -> None:
    seen: set[tuple[str, str]] = set()
    for one in bound(standin):
        if one["status"]["phase"] in ("Succeeded", "Failed"):
            continue
        for chip in filter(None, one["metadata"].get("annotations", {}).get(CHIP, "").split(",")):
            assert (one["spec"]["nodeName"], chip) not in seen, f"{chip} given twice"
            seen.add((one["spec"]["nodeName"], chip))


def test_waiting_pods_get_a_node_and_chips_in_one_write() -> None:
    async def test() -> None:
        async with server() as (standin, client):
            standin.put(NODES, node("node-1"))
            standin.put(
                PODS, pod("old", 4, on="node-1", held="Ascend910-0,Ascend910-1,Ascend910-2,Ascend910-3")
            )
            standin.put(PODS, pod("train", 2))
            async with running(client):
                await until(lambda: len(bound(standin)) == 2)
            placed = standin.get(PODS, "default/train")
            assert placed["spec"]["nodeName"] == "node-1"
            assert placed["metadata"]["annotations"][CHIP] in (
                "Ascend910-4,Ascend910-5",
                "Ascend910-6,Ascend910-7",
            )
            assert placed["metadata"]["annotations"]["predicate-time"].isdigit()
            assert standin.count("PATCH /api/v1/namespaces/default/pods/train") == 0

    run(test())


def test_nothing_is_decided_before_everything_is_read() -> None:
    async def test() -> None:
        async with server() as (standin, client):
            standin.put(NODES, node("node-1", 8))
            standin.put(PODS, pod("train", 1))
            hold = asyncio.Event()
            standin.fault("GET /api/v1/namespaces/kube-system/configmaps", until=hold)
            async with running(client) as runner:
                await until(lambda: standin.count("GET /api/v1/nodes"))
                for _ in range(20):
                    await asyncio.sleep(0)
                assert not runner.ready
                assert standin.count("binding") == 0
                hold.set()
                await until(lambda: len(bound(standin)) == 1)
                assert runner.ready

    run(test())


def test_a_gang_waits_as_a_whole_and_says_why() -> None:
    async def test() -> None:
        async with server() as (standin, client):
            standin.put(NODES, node("node-1"))
            standin.put(GROUPS, group("gang", 2))
            for index in range(2):
                standin.put(PODS, pod(f"gang-{index}", 8, group="gang"))
            async with running(client):
                await until(lambda: standin.get(GROUPS, "default/gang")["status"].get("conditions"))
                condition = standin.get(GROUPS, "default/gang")["status"]["conditions"][0]
                assert (condition["type"], condition["status"]) == ("Unschedulable", "True")
                assert condition["message"]
                await until(lambda: standin.get(PODS, "default/gang-0")["status"].get("conditions"))
                await until(lambda: any(one["reason"] == "FailedScheduling" for one in standin.all(EVENTS)))
                assert not bound(standin)
                standin.put(NODES, node("node-2"))
                await until(lambda: len(bound(standin)) == 2)
                await until(
                    lambda: (
                        standin.get(GROUPS, "default/gang")["status"]["conditions"][0]["type"] == "Scheduled"
                    )
                )
            assert {one["spec"]["nodeName"] for one in bound(standin)} == {"node-1", "node-2"}

    run(test())


def test_a_status_that_stands_already_is_not_written_again() -> None:
    async def test() -> None:
        async with server() as (standin, client):
            standin.put(NODES, node("node-1"))
            standin.put(GROUPS, group("gang", 2))
            for index in range(2):
                standin.put(PODS, pod(f"gang-{index}", 8, group="gang"))
            for _ in range(2):
                async with running(client):
                    await until(lambda: standin.get(GROUPS, "default/gang")["status"].get("conditions"))
                    await until(lambda: standin.get(PODS, "default/gang-0")["status"].get("conditions"))
            assert (
                standin.count("PATCH /apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups") == 1
            )

    run(test())


def test_without_volcano_s_kinds_plain_pods_are_scheduled() -> None:
    async def test() -> None:
        async with server() as (standin, client):
            standin.unknown |= {"podgroups", "queues", "jobs"}
            standin.put(NODES, node("node-1"))
            standin.put(PODS, pod("train", 1))
            async with running(client):
                await until(lambda: len(bound(standin)) == 1)

    run(test())


def test_malformed_objects_are_listed_and_stop_nobody() -> None:
    async def test() -> None:
        async with server() as (standin, client):
            standin.put(NODES, node("node-1"))
            broken = node("node-2")
            broken["metadata"]["annotations"] = {"baseDeviceInfos": "{nonsense"}
            standin.put(NODES, broken)
            standin.put(PODS, pod("bad", 1, on="node-1", held="nonsense"))
            standin.put(PODS, pod("train", 1))
            standin.put(NODES, node("node-3"))
            async with running(client) as runner:
                await until(lambda: len(bound(standin)) == 2)
                assert [bad.key for bad in runner.malformed] == ["node-2", "default/bad"]
            # A pod that names no readable chips closes its node.
            assert standin.get(PODS, "default/train")["spec"]["nodeName"] == "node-3"

    run(test())


def test_a_pod_that_vanished_while_the_watch_was_down_frees_its_chips() -> None:
    async def test() -> None:
        async with server() as (standin, client):
            standin.put(NODES, node("node-1"))
            every = ",".join(f"Ascend910-{chip}" for chip in range(8))
            standin.put(PODS, pod("old", 8, on="node-1", held=every))
            standin.put(PODS, pod("train", 8))
            async with running(client):
                await until(lambda: standin.get(PODS, "default/train")["status"].get("conditions"))
                refused = standin.fault("GET /api/v1/pods", status=500, times=3)
                standin.cut_watches()
                await until(lambda: refused not in standin.faults)
                standin.remove(PODS, "default/old")
                standin.forget_history()
                standin.cut_watches()
                await until(lambda: standin.get(PODS, "default/train")["spec"].get("nodeName"))

    run(test())


def test_two_replicas_bind_one_after_the_other_and_never_both() -> None:
    async def test() -> None:
        async with server() as (standin, client):
            standin.put(NODES, node("node-1"))
            lease = LeaseSettings()
            async with running(client, lease=lease, identity="a") as first:
                await first.deciding.wait()
                async with running(client, lease=lease, identity="b") as second:
                    await until(lambda: second.ready)
                    standin.put(PODS, pod("one", 1))
                    await until(lambda: len(bound(standin)) == 1)
                    assert not second.deciding.is_set()
                    assert standin.all(LEASES)[0]["spec"]["holderIdentity"] == "a"
            assert standin.all(LEASES)[0]["spec"]["holderIdentity"] == ""

    run(test())


def test_after_losing_the_lead_everything_is_read_anew() -> None:
    async def test() -> None:
        async with server() as (standin, client):
            standin.put(NODES, node("node-1"))
            async with running(client, lease=LeaseSettings(), identity="a") as runner:
                await runner.deciding.wait()
                standin.fault("/leases", status=503, times=20)
                await until(lambda: runner.lives == 2)
                standin.put(PODS, pod("one", 1))
                await until(lambda: len(bound(standin)) == 1)

    run(test())


def test_a_defect_in_the_core_ends_the_process_with_its_name() -> None:
    class Broken(SchedulerPart):
        def decide(self, events: Any, now: int) -> Any:
            raise ZeroDivisionError("a defect")

    async def test() -> None:
        async with server() as (standin, client):
            standin.put(NODES, node("node-1"))
            runner = Runner(client, lambda: [Broken(new_scheduler())], clock=JumpingClock())
            with pytest.raises(CoreFailedError, match="ZeroDivisionError: a defect"):
                await runner.run(asyncio.Event())

    run(test())


def vcjob(name: str, replicas: int, chips: int) -> Object:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "minAvailable": replicas,
            "schedulerName": "volcano",
            "plugins": {"env": [], "svc": []},
            "tasks": [
                {
                    "name": "worker",
                    "replicas": replicas,
                    "template": {
                        "metadata": {"annotations": {"example.com/mine": "kept"}},
                        "spec": {
                            "containers": [
                                {
                                    "name": "main",
                                    "image": "train:1",
                                    "command": ["train"],
                                    "resources": {"limits": {CHIP: str(chips)}},
                                }
                            ],
                            "restartPolicy": "Never",
                        },
                    },
                }
            ],
        },
    }


def test_a_vcjob_goes_from_submission_to_its_end() -> None:
    async def test() -> None:
        async with server() as (standin, client):
            for index in range(2):
                standin.put(NODES, node(f"node-{index}"))
            standin.put(JOBS, vcjob("train", 2, 8))
            async with running(client, parts=both_parts, wishes=True):
                await until(lambda: len(bound(standin)) == 2)
                made = standin.get(PODS, "default/train-worker-1")
                container = made["spec"]["containers"][0]
                assert container["image"] == "train:1"
                assert {"name": "VC_TASK_INDEX", "value": "1"} in container["env"]
                assert made["metadata"]["annotations"]["example.com/mine"] == "kept"
                owner = made["metadata"]["ownerReferences"][0]
                assert (owner["kind"], owner["name"], owner["controller"]) == ("Job", "train", True)
                assert made["spec"]["subdomain"] == "train"
                assert standin.get("/api/v1/services", "default/train")["spec"]["clusterIP"] == "None"
                assert standin.get(CONFIG_MAPS, "default/train-svc")["data"]["worker.host"]
                for one in bound(standin):
                    standin.put(PODS, {**one, "status": {"phase": "Running"}})
                await until(
                    lambda: standin.get(JOBS, "default/train")["status"]["state"]["phase"] == "Running"
                )
                for one in bound(standin):
                    standin.put(PODS, {**one, "status": {"phase": "Succeeded"}})
                await until(
                    lambda: standin.get(JOBS, "default/train")["status"]["state"]["phase"] == "Completed"
                )
                assert standin.get(JOBS, "default/train")["status"]["succeeded"] == 2

    run(test())
