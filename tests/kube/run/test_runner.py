"""A whole component against the fake API server: lists, bindings, faults, lost leases and restarts."""

from __future__ import annotations

import asyncio
import io
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.kube.run.core_thread import ControllerAdapter, MachineAdapter, SchedulerAdapter
from ringwise.kube.run.leader_election import LeaseSettings
from ringwise.kube.run.leader_term import RunnerSettings
from ringwise.kube.run.runner import CoreFailedError, Runner
from ringwise.kubeclient.client import MAX_RETRY_AFTER, Client
from ringwise.kubeclient.clock import RealClock
from ringwise.kubeclient.config import Access
from ringwise.log import Logger
from ringwise.messages.commands import Command, Evict
from ringwise.messages.events import Event, LeaderRecordRead
from ringwise.metrics.prometheus import Metrics
from ringwise.scheduler.core.status_reporter import StatusReporter
from tests.builders.values import CHIP
from tests.kube.fake_api_server import FakeApiServer, Object
from tests.kube.harness import (
    CONFIG_MAPS,
    EVENTS,
    GROUPS,
    JOBS,
    LEASES,
    NODES,
    PODS,
    FrozenClock,
    HeldCredentials,
    InstantClock,
    group,
    node,
    pod,
    server,
    until,
)

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"


def scheduler_only() -> list[MachineAdapter]:
    return [SchedulerAdapter(new_scheduler())]


def scheduler_and_controller() -> list[MachineAdapter]:
    return [ControllerAdapter(), SchedulerAdapter(new_scheduler())]


@asynccontextmanager
async def running(client: Client, **settings: Any) -> AsyncIterator[Runner]:
    parts = settings.pop("parts", scheduler_only)
    clock = settings.pop("clock", None) or InstantClock()
    observer = settings.pop("observer", None)
    runner = Runner(client, parts, RunnerSettings(**settings), clock=clock, observer=observer)
    stop = asyncio.Event()
    task = asyncio.create_task(runner.run(stop))
    try:
        yield runner
    finally:
        stop.set()
        await task


def bound(api: FakeApiServer) -> list[Object]:
    return [one for one in api.all(PODS) if one["spec"].get("nodeName")]


def with_status(api: FakeApiServer, collection: str) -> list[Object]:
    return [one for one in api.all(collection) if "status" in one]


def assert_no_chip_twice(api: FakeApiServer) -> None:
    seen: set[tuple[str, str]] = set()
    for one in bound(api):
        if one["status"]["phase"] in ("Succeeded", "Failed"):
            continue
        for chip in filter(None, one["metadata"].get("annotations", {}).get(CHIP, "").split(",")):
            assert (one["spec"]["nodeName"], chip) not in seen, f"{chip} given twice"
            seen.add((one["spec"]["nodeName"], chip))


async def test_pending_pods_get_node_and_chips_in_one_request() -> None:
    async with server() as (api, client):
        api.put(NODES, node("node-1"))
        api.put(PODS, pod("old", 4, on="node-1", held="Ascend910-0,Ascend910-1,Ascend910-2,Ascend910-3"))
        api.put(PODS, pod("train", 2))
        async with running(client):
            await until(lambda: len(bound(api)) == 2)
        placed = api.get(PODS, "default/train")
        assert placed["spec"]["nodeName"] == "node-1"
        assert placed["metadata"]["annotations"][CHIP] in (
            "Ascend910-4,Ascend910-5",
            "Ascend910-6,Ascend910-7",
        )
        assert placed["metadata"]["annotations"]["predicate-time"].isdigit()
        assert api.count("PATCH /api/v1/namespaces/default/pods/train") == 0


async def test_nothing_is_decided_before_all_objects_are_read() -> None:
    async with server() as (api, client):
        api.put(NODES, node("node-1", 8))
        api.put(PODS, pod("train", 1))
        hold = asyncio.Event()
        api.fault("GET /api/v1/namespaces/kube-system/configmaps", until=hold)
        async with running(client) as runner:
            await until(lambda: api.count("GET /api/v1/nodes"))
            for _ in range(20):
                await asyncio.sleep(0)
            assert not runner.ready
            assert api.count("binding") == 0
            hold.set()
            await until(lambda: len(bound(api)) == 1)
            assert runner.ready


async def test_F1_what_the_previous_leader_wrote_is_read_before_the_first_decision() -> None:
    class Recorder(SchedulerAdapter):
        def absorb(self, events: Sequence[Event], now: int) -> None:
            seen.extend(events)
            super().absorb(events, now)

        def decide(self, events: Sequence[Event], now: int) -> list[Command]:
            seen.extend(events)
            found = [event for event in seen if isinstance(event, LeaderRecordRead)]
            known_at_decisions.append(found == [LeaderRecordRead({"clocks.json": "{}"}, "[]")])
            return super().decide(events, now)

    seen: list[Event] = []
    known_at_decisions: list[bool] = []
    async with server() as (api, client):
        for namespace, name, key, text in (
            ("volcano-system", "ringwise-rescheduling", "clocks.json", "{}"),
            ("mindx-dl", "job-reschedule-reason", "recent-reschedule-records", "[]"),
        ):
            api.put(CONFIG_MAPS, {"metadata": {"name": name, "namespace": namespace}, "data": {key: text}})
        api.put(NODES, node("node-1", 8))
        api.put(PODS, pod("train", 1))
        # An API server that cannot answer delays the first decision.
        api.fault("GET /api/v1/namespaces/volcano-system/configmaps/ringwise", status=500, times=3)
        async with running(client, parts=lambda: [Recorder(new_scheduler())]):
            await until(lambda: len(bound(api)) == 1)
    assert known_at_decisions
    assert all(known_at_decisions)


async def test_F1_a_record_of_another_version_is_reported_and_ignored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Threads write to it while it is read, which the capture of pytest does not allow.
    log = io.StringIO()
    monkeypatch.setattr(Logger, "_stream", log)
    async with server() as (api, client):
        meta = {"name": "ringwise-rescheduling", "namespace": "volcano-system"}
        api.put(CONFIG_MAPS, {"metadata": meta, "data": {"moves.json": '{"version":1,"plans":[]}'}})
        api.put(NODES, node("node-1", 8))
        api.put(PODS, pod("train", 1))
        async with running(client):
            await until(lambda: len(bound(api)) == 1)
    (line,) = [one for one in map(json.loads, log.getvalue().splitlines()) if one.get("record")]
    assert (line["level"], line["record"]) == ("error", "moves.json")
    assert line["why"] == "unsupported version 1: this Ringwise reads version 2"
    unread = api.get(CONFIG_MAPS, "volcano-system/ringwise-rescheduling-unread")
    assert unread["data"] == {"moves.json": '{"version":1,"plans":[]}'}
    assert not api.get(CONFIG_MAPS, "volcano-system/ringwise-rescheduling")["data"]["moves.json"]
    (event,) = [one for one in api.all(EVENTS) if one["involvedObject"]["kind"] == "ConfigMap"]
    assert (event["involvedObject"]["name"], event["reason"]) == ("ringwise-rescheduling", "InvalidObject")
    assert "moves.json: unsupported version 1" in event["message"]


async def test_a_gang_waits_as_a_whole_with_a_reason() -> None:
    async with server() as (api, client):
        api.put(NODES, node("node-1"))
        api.put(GROUPS, group("gang", 2))
        for index in range(2):
            api.put(PODS, pod(f"gang-{index}", 8, group="gang"))
        async with running(client):
            await until(lambda: api.get(GROUPS, "default/gang")["status"].get("conditions"))
            condition = api.get(GROUPS, "default/gang")["status"]["conditions"][0]
            assert (condition["type"], condition["status"]) == ("Unschedulable", "True")
            assert condition["message"]
            await until(lambda: api.get(PODS, "default/gang-0")["status"].get("conditions"))
            await until(lambda: any(one["reason"] == "FailedScheduling" for one in api.all(EVENTS)))
            assert not bound(api)
            api.put(NODES, node("node-2"))
            await until(lambda: len(bound(api)) == 2)
            await until(
                lambda: api.get(GROUPS, "default/gang")["status"]["conditions"][0]["type"] == "Scheduled"
            )
        assert {one["spec"]["nodeName"] for one in bound(api)} == {"node-1", "node-2"}


async def test_an_equal_status_is_not_written_again() -> None:
    async with server() as (api, client):
        api.put(NODES, node("node-1"))
        api.put(GROUPS, group("gang", 2))
        for index in range(2):
            api.put(PODS, pod(f"gang-{index}", 8, group="gang"))
        for _ in range(2):
            async with running(client):
                await until(lambda: api.get(GROUPS, "default/gang")["status"].get("conditions"))
                await until(lambda: api.get(PODS, "default/gang-0")["status"].get("conditions"))
        assert api.count("PATCH /apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups") == 1


async def test_without_volcano_s_kinds_plain_pods_are_scheduled() -> None:
    async with server() as (api, client):
        api.unknown |= {"podgroups", "queues", "jobs"}
        api.put(NODES, node("node-1"))
        api.put(PODS, pod("train", 1))
        async with running(client):
            await until(lambda: len(bound(api)) == 1)


async def test_malformed_objects_are_listed_and_affect_no_others() -> None:
    async with server() as (api, client):
        api.put(NODES, node("node-1"))
        broken = node("node-2")
        broken["metadata"]["annotations"] = {"baseDeviceInfos": "{nonsense"}
        api.put(NODES, broken)
        api.put(PODS, pod("bad", 1, on="node-1", held="nonsense"))
        api.put(PODS, pod("train", 1))
        api.put(NODES, node("node-3"))
        async with running(client) as runner:
            await until(lambda: len(bound(api)) == 2)
            assert [bad.key for bad in runner.malformed] == ["node-2", "default/bad"]
        # A pod with an unreadable chip list closes its node (N7).
        assert api.get(PODS, "default/train")["spec"]["nodeName"] == "node-3"


async def test_a_malformed_object_that_is_deleted_is_counted_no_longer() -> None:
    async with server() as (api, client):
        broken = node("node-2")
        broken["metadata"]["annotations"] = {"baseDeviceInfos": "{nonsense"}
        api.put(NODES, broken)
        metrics = Metrics()
        async with running(client, observer=metrics) as runner:
            await until(lambda: b"ringwise_invalid_objects 1.0" in metrics.text())
            api.remove(NODES, "node-2")
            await until(lambda: not runner.malformed)
            assert b"ringwise_invalid_objects 0.0" in metrics.text()


async def test_an_error_of_ours_is_no_malformed_object(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any) -> None:
        raise KeyError("a defect")

    async with server() as (api, client):
        api.put(NODES, node("node-1"))
        api.put(PODS, pod("train", 1))
        metrics = Metrics()
        monkeypatch.setattr(StatusReporter, "_report", failing)
        async with running(client, observer=metrics) as runner:
            await until(lambda: b"ringwise_internal_errors_total 1.0" in metrics.text())
            assert not runner.malformed
            assert b"ringwise_invalid_objects 0.0" in metrics.text()
            await until(lambda: len(bound(api)) == 1)
        assert "InvalidObject" not in [event["reason"] for event in api.all(EVENTS)]


async def test_a_pod_that_names_fewer_chips_than_it_uses_closes_its_node_and_is_not_malformed_N7() -> None:
    async with server() as (api, client):
        api.put(NODES, node("node-1"))
        api.put(PODS, pod("partly", 2, on="node-1", held="Ascend910-0"))
        api.put(PODS, pod("train", 1))
        async with running(client) as runner:
            await until(lambda: api.get(PODS, "default/train")["status"].get("conditions"))
            (condition,) = api.get(PODS, "default/train")["status"]["conditions"]
            assert "unknown-holder 1" in condition["message"]
            assert not runner.malformed
            api.put(PODS, pod("partly", 2, on="node-1", held="Ascend910-0,Ascend910-1"))
            await until(lambda: len(bound(api)) == 2)


async def test_a_pod_deleted_while_the_watch_was_down_frees_its_chips() -> None:
    async with server() as (api, client):
        api.put(NODES, node("node-1"))
        every = ",".join(f"Ascend910-{chip}" for chip in range(8))
        api.put(PODS, pod("old", 8, on="node-1", held=every))
        api.put(PODS, pod("train", 8))
        async with running(client):
            await until(lambda: api.get(PODS, "default/train")["status"].get("conditions"))
            refused = api.fault("GET /api/v1/pods", status=500, times=3)
            api.cut_watches()
            await until(lambda: refused not in api.faults)
            api.remove(PODS, "default/old")
            api.forget_history()
            api.cut_watches()
            await until(lambda: api.get(PODS, "default/train")["spec"].get("nodeName"))


async def test_only_one_of_two_replicas_binds_at_a_time() -> None:
    async with server() as (api, client):
        api.put(NODES, node("node-1"))
        lease = LeaseSettings()
        # Time stands still: no lease ends because an answer is slow.
        async with running(client, lease=lease, identity="a", clock=FrozenClock()) as first:
            await first.deciding.wait()
            async with running(client, lease=lease, identity="b", clock=FrozenClock()) as second:
                await until(lambda: second.ready)
                api.put(PODS, pod("one", 1))
                await until(lambda: len(bound(api)) == 1)
                assert not second.deciding.is_set()
                assert api.all(LEASES)[0]["spec"]["holderIdentity"] == "a"
        assert api.all(LEASES)[0]["spec"]["holderIdentity"] == ""


async def test_after_a_lost_lease_everything_is_read_again() -> None:
    async with server() as (api, client):
        api.put(NODES, node("node-1"))
        async with running(client, lease=LeaseSettings(), identity="a") as runner:
            await runner.deciding.wait()
            api.fault("/leases", status=503, times=20)
            await until(lambda: runner.terms == 2)
            api.put(PODS, pod("one", 1))
            await until(lambda: len(bound(api)) == 1)


def forget_silently(api: FakeApiServer, name: str) -> None:
    """Delete a node without an event: a watch that is behind does not show it, a list does."""
    del api.collections[NODES][name]


async def test_a_new_leader_decides_from_lists_as_new_as_its_lease() -> None:
    """The watches of a warm standby may be behind, of every kind."""
    async with server() as (api, client):
        for name in ("node-1", "node-2"):
            api.put(NODES, node(name))
        settings = {"lease": LeaseSettings(), "clock": FrozenClock()}
        async with AsyncExitStack() as leader:
            first = await leader.enter_async_context(running(client, identity="a", **settings))
            await first.deciding.wait()
            async with running(client, identity="b", **settings) as second:
                await until(lambda: second.ready)
                forget_silently(api, "node-1")
                await leader.aclose()
                await second.deciding.wait()
                api.put(PODS, pod("train", 8))
                await until(lambda: len(bound(api)) == 1)
                assert bound(api)[0]["spec"]["nodeName"] == "node-2"


async def test_objects_listed_before_the_lease_was_won_are_listed_again() -> None:
    """The lease is won while the first lists are under way: some of them are older."""
    async with server() as (api, client):
        for name in ("node-1", "node-2"):
            api.put(NODES, node(name))
        api.put(PODS, pod("train", 8))
        won, hold = asyncio.Event(), asyncio.Event()
        api.fault("/leases", until=won)
        api.fault("GET /api/v1/namespaces/kube-system/configmaps", until=hold)
        async with running(client, lease=LeaseSettings(), identity="a", clock=FrozenClock()) as runner:
            # A list, and the watch after it.
            await until(lambda: api.count("GET /api/v1/nodes") == 2)
            forget_silently(api, "node-1")
            won.set()
            await until(lambda: api.all(LEASES))
            hold.set()
            await runner.deciding.wait()
            await until(lambda: len(bound(api)) == 1)
        assert bound(api)[0]["spec"]["nodeName"] == "node-2"


async def test_a_replica_that_leads_at_once_lists_every_kind_once() -> None:
    class PatientClock(RealClock):
        """The limit for the first attempt never passes."""

        async def sleep(self, seconds: float) -> None:
            await asyncio.Event().wait()

    async with server() as (api, client):
        api.put(NODES, node("node-1"))
        async with running(client, lease=LeaseSettings(), identity="a", clock=PatientClock()) as runner:
            await runner.deciding.wait()
            lists = Counter(path for method, path in api.requests if method == "GET")
        # A list and a watch. ConfigMaps have the same path with several selectors.
        once = {path: count for path, count in lists.items() if "/leases/" not in path}
        assert {count for path, count in once.items() if not path.endswith("/configmaps")} <= {1, 2}
        assert once["/api/v1/nodes"] == 2


async def test_metrics_that_cannot_be_counted_end_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[object] = []

    def count(adapter: SchedulerAdapter, observer: Metrics) -> None:
        counted.append(observer)
        raise KeyError("a defect")

    monkeypatch.setattr(SchedulerAdapter, "count", count)
    async with server() as (api, client):
        api.put(NODES, node("node-1"))
        async with running(client, clock=InstantClock()):
            await until(lambda: bool(counted))
            api.put(PODS, pod("train", 1))
            await until(lambda: len(bound(api)) == 1)


async def test_a_server_cannot_make_a_reflector_wait_for_a_day() -> None:
    async with server() as (api, client):
        api.put(NODES, node("node-1"))
        api.put(PODS, pod("train", 1))
        api.fault("GET /api/v1/nodes", status=429, retry_after=86400)
        clock = InstantClock()
        async with running(client, clock=clock):
            await until(lambda: len(bound(api)) == 1)
        assert MAX_RETRY_AFTER <= max(clock.slept) <= MAX_RETRY_AFTER + 1


@pytest.mark.parametrize("what", ["binding", "creation", "eviction"])
async def test_nothing_is_written_when_credentials_come_after_the_lease_was_lost(what: str) -> None:
    async with FakeApiServer() as api:
        api.put(NODES, node("node-1"))
        credentials, clock = HeldCredentials(), FrozenClock()
        sent_late: list[str] = []
        async with (
            Client(Access(api.url, credentials)) as client,
            running(
                client,
                parts=scheduler_and_controller,
                job_commands=True,
                lease=LeaseSettings(),
                clock=clock,
            ) as runner,
        ):
            await runner.deciding.wait()
            await until(
                lambda: [one["status"].get("state") for one in with_status(api, QUEUES)] == ["Open"] * 2
            )

            def is_late(method: str, path: str) -> bool:
                if method != "GET" and "/leases" not in path and not runner._fence.is_open:
                    sent_late.append(f"{method} {path}")
                return False

            api.fault(is_late)
            credentials.available.clear()
            # The renewal of the lease waits, perhaps a status of a queue, and then a write of the leader.
            await until(lambda: credentials.waiting)
            waiting = credentials.waiting
            if what == "creation":
                api.put(JOBS, vcjob("train", 1, 8))
            elif what == "binding":
                api.put(PODS, pod("train", 8))
            else:
                assert runner._term is not None
                uid = api.put(PODS, pod("old", 8, on="node-1"))["metadata"]["uid"]
                runner._term._execute([Evict(uid, "default", "old", "a test")])
            await until(lambda: credentials.waiting > waiting)
            clock.moment += 60
            credentials.available.set()
            await until(lambda: runner.terms == 2)
            await until(lambda: what == "eviction" or bound(api))
        assert sent_late == []


async def test_an_internal_error_of_the_core_ends_the_process_with_its_message() -> None:
    class Broken(SchedulerAdapter):
        def decide(self, events: Any, now: int) -> Any:
            raise ZeroDivisionError("a defect")

    async with server() as (api, client):
        api.put(NODES, node("node-1"))
        runner = Runner(client, lambda: [Broken(new_scheduler())], clock=InstantClock())
        with pytest.raises(CoreFailedError, match="ZeroDivisionError: a defect"):
            await runner.run(asyncio.Event())


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


async def test_a_vcjob_runs_from_submission_to_its_end() -> None:
    async with server() as (api, client):
        for index in range(2):
            api.put(NODES, node(f"node-{index}"))
        api.put(JOBS, vcjob("train", 2, 8))
        async with running(client, parts=scheduler_and_controller, job_commands=True):
            await until(lambda: len(bound(api)) == 2)
            made = api.get(PODS, "default/train-worker-1")
            container = made["spec"]["containers"][0]
            assert container["image"] == "train:1"
            assert {"name": "VC_TASK_INDEX", "value": "1"} in container["env"]
            assert made["metadata"]["annotations"]["example.com/mine"] == "kept"
            owner = made["metadata"]["ownerReferences"][0]
            assert (owner["kind"], owner["name"], owner["controller"]) == ("Job", "train", True)
            assert made["spec"]["subdomain"] == "train"
            # The pods do not wait for what the job's plugins create.
            await until(lambda: api.all("/api/v1/services") and api.all(CONFIG_MAPS))
            assert api.get("/api/v1/services", "default/train")["spec"]["clusterIP"] == "None"
            assert api.get(CONFIG_MAPS, "default/train-svc")["data"]["worker.host"]
            for one in bound(api):
                api.put(PODS, {**one, "status": {"phase": "Running"}})
            await until(lambda: api.get(JOBS, "default/train")["status"]["state"]["phase"] == "Running")
            for one in bound(api):
                api.put(PODS, {**one, "status": {"phase": "Succeeded"}})
            await until(lambda: api.get(JOBS, "default/train")["status"]["state"]["phase"] == "Completed")
            assert api.get(JOBS, "default/train")["status"]["succeeded"] == 2


async def test_the_queues_default_and_root_are_created_where_they_are_missing() -> None:
    async with server() as (api, client):
        api.put(QUEUES, {"metadata": {"name": "default"}, "spec": {"weight": 7}})
        api.fault(f"POST {QUEUES}", status=500)
        async with running(client):
            await until(lambda: len(api.all(QUEUES)) == 2)
        found = {one["metadata"]["name"]: one["spec"] for one in api.all(QUEUES)}
        assert found == {"default": {"weight": 7}, "root": {"weight": 1, "reclaimable": False}}


async def test_a_replica_that_only_reads_creates_no_queue() -> None:
    async with server() as (api, client):
        api.put(NODES, node("node-1"))
        async with running(client, read_only=True) as runner:
            await until(lambda: runner.ready)
        assert not any(method == "POST" for method, _ in api.requests)
