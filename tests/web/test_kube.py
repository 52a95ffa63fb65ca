"""The dashboard of a scheduler on a cluster: the core on its own thread, leaders and standby replicas."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from aiohttp import ClientSession

from ringwise.apps.extensions import new_scheduler
from ringwise.apps.live import NothingReadableError
from ringwise.apps.web.job_documents import Recent, SchedulerAnswers
from ringwise.apps.web.kube import (
    BUDGETS_PERIOD,
    MEMORY,
    KubeCore,
    list_budgets,
    serve_standalone,
    serving_dashboard,
)
from ringwise.apps.web.options import WebOptions
from ringwise.kube.run.core_thread import CoreStoppedError, MachineAdapter, SchedulerAdapter
from ringwise.kube.run.leader_election import LeaseSettings
from ringwise.kube.run.leader_term import RunnerSettings
from ringwise.kube.run.runner import Runner
from ringwise.kubeclient.client import Client
from ringwise.kubeclient.resources import DISRUPTION_BUDGETS
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.metrics.endpoints import AddressError
from ringwise.scheduler.core.machine import Scheduler
from ringwise.state.reservations import Reservation
from ringwise.web.hub import WatchedScheduler
from ringwise_bench.control_plane import free_port
from tests.builders.values import CHIP
from tests.deploy.test_live_defrag import guarded
from tests.kube.fake_api_server import FakeApiServer, Object
from tests.kube.harness import GROUPS, NODES, PODS, group, node, pod, server, until
from tests.web.client import Mirror
from tests.web.rig import events_of

WEB = WebOptions("127.0.0.1:0")


class Replica:
    """A scheduler with its dashboard."""

    def __init__(
        self, runner: Runner, url: str, session: ClientSession, scheduler: Callable[[], Scheduler]
    ) -> None:
        self.runner = runner
        self.scheduler = scheduler
        self.url = url
        self.session = session

    async def get(self, path: str) -> tuple[int, Any]:
        async with self.session.get(f"{self.url}{path}") as response:
            return response.status, await response.json()


@asynccontextmanager
async def replica(
    client: Client, settings: RunnerSettings | None = None, web: WebOptions = WEB
) -> AsyncIterator[Replica]:
    current: list[Scheduler] = []

    def machines() -> list[MachineAdapter]:
        current[:] = [new_scheduler()]
        return [SchedulerAdapter(current[0])]

    runner, stop = Runner(client, machines, settings), asyncio.Event()
    async with serving_dashboard(runner, lambda: current[0], client, web) as url, ClientSession() as session:
        running = asyncio.create_task(runner.run(stop))
        try:
            yield Replica(runner, url, session, lambda: current[0])
        finally:
            stop.set()
            await running


def with_nodes(api: FakeApiServer) -> None:
    for number in range(3):
        api.put(NODES, node(f"n{number}"))


async def test_the_leader_shows_what_it_decides() -> None:
    async with server() as (api, client), replica(client) as one:
        with_nodes(api)
        await one.runner.deciding.wait()
        _, first = await one.get("api/v1/snapshot")
        mirror = Mirror.of_document(first)
        path = f"{one.url}api/v1/stream?epoch={first['epoch']}&since={first['sequence']}"
        async with one.session.get(path) as response:
            api.put(GROUPS, group("train", 2))
            for number in range(2):
                api.put(PODS, pod(f"train-{number}", 8, group="train"))
            async for name, change in events_of(response.content.iter_any()):
                assert name == "change"
                mirror.apply(change)
                if mirror.totals["resources"][CHIP]["used"] == 16 and mirror.totals["running"] == 1:
                    break
        _, last = await one.get("api/v1/snapshot")
        assert last["source"]["kind"] == "cluster"
        status, why = await one.get("api/v1/jobs/default/train/why")
        assert (status, why["state"]) == (200, "starting")
        status, history = await one.get("api/v1/jobs/default/train/history")
        assert (status, history["error"]["code"]) == (404, "no-journal")


@pytest.mark.parametrize("allowed", [0, 1])
async def test_moves_are_a_fix_only_where_disruption_budgets_allow_them(allowed: int) -> None:
    async with server() as (api, client):
        guarded(api, allowed)
        async with replica(client) as one:
            await one.runner.deciding.wait()
            _, why = await one.get("api/v1/jobs/default/train/why")
        assert ("moves" in [fix["kind"] for fix in why["fixes"]]) is (allowed > 0)


async def test_however_many_ask_disruption_budgets_are_listed_now_and_then() -> None:
    async with server() as (api, client):
        guarded(api, 1)
        now = 0.0
        budgets = Recent(partial(list_budgets, client), BUDGETS_PERIOD, lambda: now)

        async def listed() -> int:
            first, second = await asyncio.gather(budgets(), budgets())
            assert first == second
            assert len(first[0]) == 1
            return api.count(DISRUPTION_BUDGETS.path())

        assert await listed() == 1
        assert await listed() == 1
        now = BUDGETS_PERIOD
        assert await listed() == 2


async def test_a_slow_read_counts_from_its_end_for_all_who_waited_for_it() -> None:
    now, reads = 0.0, 0

    async def read() -> int:
        nonlocal now, reads
        await asyncio.sleep(0)
        now, reads = now + 2 * BUDGETS_PERIOD, reads + 1
        return reads

    recent = Recent(read, BUDGETS_PERIOD, lambda: now)
    assert set(await asyncio.gather(recent(), recent(), recent())) == {1}
    now += BUDGETS_PERIOD
    assert await recent() == 2


async def test_a_standby_replica_says_who_leads() -> None:
    def settings(name: str) -> RunnerSettings:
        return RunnerSettings(lease=LeaseSettings(retry=1), identity=name)

    async with server() as (api, client):
        with_nodes(api)
        api.put(GROUPS, group("waits", 4))
        for number in range(4):
            api.put(PODS, pod(f"waits-{number}", 8, group="waits"))
        async with replica(client, settings("first")) as first:
            await first.runner.deciding.wait()
            async with replica(client, settings("second")) as second:
                await until(lambda: second.runner.ready)
                status, document = await second.get("api/v1/snapshot")
                assert (status, document["error"]["code"]) == (503, "not-leading")
                assert document["error"]["leader"] == "first"
                # What it knows is enough for a question: the leader is left alone.
                status, why = await second.get("api/v1/jobs/default/waits/why")
                assert (status, why["state"]) == (200, "pending")
                # What it does not know it says.
                assert why["omitted"] == [MEMORY]
                # Its journal does not have what the leader decided.
                status, told = await second.get("api/v1/jobs/default/waits/history")
                assert (status, told["error"]["code"]) == (503, "not-leading")
                _, of_leader = await first.get("api/v1/jobs/default/waits/why")
                assert (why["reason"], why["fixes"]) == (of_leader["reason"], of_leader["fixes"])
                async with second.session.get(f"{second.url}api/v1/stream?since=0") as response:
                    events = [event async for event in events_of(response.content.iter_any())]
                assert events == [("leader", {"leader": "first", "address": ""})]
            _, document = await first.get("api/v1/snapshot")
            assert document["source"]["leader"] == "first"


class Counted:
    """Whose copies answered questions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.schedulers: list[WatchedScheduler] = []
        answer = SchedulerAnswers._answer

        async def counted(answers: SchedulerAnswers, question: Any) -> Any:
            found = await answer(answers, question)
            core = answers.core
            assert isinstance(core, KubeCore)
            self.schedulers.append(core._scheduler())
            return found

        monkeypatch.setattr(SchedulerAnswers, "_answer", counted)

    def taken(self) -> list[WatchedScheduler]:
        found, self.schedulers = self.schedulers, []
        return found


@asynccontextmanager
async def two_replicas(api: FakeApiServer, client: Client) -> AsyncIterator[tuple[Replica, Replica]]:
    """One that leads, and a standby that it knows. A job waits on their cluster."""

    def settings(name: str) -> RunnerSettings:
        return RunnerSettings(lease=LeaseSettings(retry=1), identity=name)

    with_nodes(api)
    api.put(GROUPS, group("waits", 4))
    for number in range(4):
        api.put(PODS, pod(f"waits-{number}", 8, group="waits"))
    known = f"127.0.0.1:{free_port()}"
    async with replica(client, settings("first"), replace(WEB, replicas=known)) as first:
        await first.runner.deciding.wait()
        async with replica(client, settings("second"), replace(WEB, address=known)) as second:
            await until(lambda: second.runner.ready)
            yield first, second


WAITS = "api/v1/jobs/default/waits/why"
MANIFEST = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "later", "namespace": "default"},
    "spec": {
        "schedulerName": "volcano",
        "containers": [{"name": "a", "resources": {"limits": {"huawei.com/Ascend910": "8"}}}],
    },
}


async def test_a_standby_replica_answers_the_questions_that_the_leader_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted = Counted(monkeypatch)
    async with server() as (api, client), two_replicas(api, client) as (first, second):
        own = await second.get(WAITS)
        assert counted.taken() == [second.scheduler()]
        status, why = await first.get(WAITS)
        assert (status, counted.taken()) == (200, [second.scheduler()])
        # The leader has looked whether it remembers more, and it does not: nothing is left out.
        assert "omitted" not in why
        assert why["reason"] == own[1]["reason"]
        async with first.session.post(f"{first.url}api/v1/what-if", json=MANIFEST) as response:
            assert response.status == 200
            assert [job["name"] for job in (await response.json())["jobs"]] == ["later"]
        assert counted.taken() == [second.scheduler()]
        # What is refused there is refused here.
        async with first.session.post(f"{first.url}api/v1/what-if", data=b"[") as response:
            assert (response.status, (await response.json())["error"]["code"]) == (400, "bad-manifest")
        # Nobody has read about it yet: the leader looks itself.
        assert (await first.get("api/v1/jobs/default/nobody/why"))[0] == 404


async def test_the_leader_answers_what_only_it_remembers(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    async with server() as (api, client), two_replicas(api, client) as (first, _):
        leader = first.scheduler()
        resource = "huawei.com/Ascend910"
        kept = Reservation("default/other", resource, {0: 0xFF})
        await first.runner.ask(lambda now: leader.view.reservations.make(kept))
        assert (await first.get(WAITS))[0] == 200
        assert counted.taken() == [leader]


async def test_the_leader_answers_where_no_standby_replica_does(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    async with server() as (api, client):
        # A name that has the address of the leader alone, as where all others are gone.
        own = replace(WEB, address=f"127.0.0.1:{free_port()}")
        with_nodes(api)
        api.put(GROUPS, group("waits", 4))
        async with replica(client, None, replace(own, replicas=own.address)) as alone:
            await alone.runner.deciding.wait()
            assert (await alone.get(WAITS))[0] == 200
            assert counted.taken() == [alone.scheduler()]
        nobody = replace(WEB, replicas=f"127.0.0.1:{free_port()}")
        async with replica(client, None, nobody) as alone:
            await alone.runner.deciding.wait()
            assert (await alone.get(WAITS))[0] == 200
            assert counted.taken() == [alone.scheduler()]


class Beside:
    """`ringwise web` beside a cluster."""

    def __init__(self, url: str, session: ClientSession) -> None:
        self.url = url
        self.session = session

    async def get(self, path: str) -> tuple[int, Any]:
        async with self.session.get(f"{self.url}{path}") as response:
            return response.status, await response.json()

    async def snapshot(self) -> Any:
        """As soon as everything is read."""
        while True:
            status, document = await self.get("api/v1/snapshot")
            if status == 200:
                return document
            await asyncio.sleep(0.005)


@asynccontextmanager
async def beside(client: Client) -> AsyncIterator[Beside]:
    urls: list[str] = []
    stop = asyncio.Event()
    serving = asyncio.create_task(serve_standalone(WEB, client, shipped_catalog(()), urls.append, stop))
    await until(lambda: urls)
    async with ClientSession() as session:
        yield Beside(urls[0], session)
    stop.set()
    await serving


async def test_beside_a_cluster_nothing_is_decided_or_written() -> None:
    async with server() as (api, client):
        with_nodes(api)
        api.put(PODS, pod("waits", 4))
        api.put(PODS, pod("runs", 4, on="n1", held="Ascend910-0,Ascend910-1,Ascend910-2,Ascend910-3"))
        async with beside(client) as page:
            document = await page.snapshot()
            rows = {row["name"]: row for row in document["jobs"]}
            assert rows["waits"]["state"] == "pending"
            assert rows["runs"]["state"] == "scheduled"
            assert document["totals"]["resources"][CHIP]["used"] == 4
            _, why = await page.get("api/v1/jobs/default/waits/why")
            assert why["namespace"] == "default"
        assert api.count("POST ") == 0
        assert api.count("PATCH ") == 0


async def test_beside_a_cluster_nodes_and_pods_must_be_readable() -> None:
    async with server() as (api, client):
        api.fault("GET /api/v1/nodes", status=403)
        urls: list[str] = []
        with pytest.raises(NothingReadableError) as refused:
            await serve_standalone(WEB, client, shipped_catalog(()), urls.append, asyncio.Event())
        assert str(refused.value).startswith("nodes: not allowed; you need the verb list on nodes in the")
        assert urls == []


async def test_beside_a_cluster_what_may_not_be_read_is_left_out() -> None:
    async with server() as (api, client):
        with_nodes(api)
        api.fault("/queues", status=403, times=1000)
        api.fault("/configmaps", status=403, times=1000)
        async with beside(client) as page:
            assert len((await page.snapshot())["nodes"]) == 3


def condition(reason: str, message: str = "", type_: str = "Unschedulable", status: str = "True") -> Object:
    return {"type": type_, "status": status, "reason": reason, "message": message}


def group_with(name: str, *conditions: Object) -> Object:
    made = group(name, 1, phase="Pending")
    made["status"]["conditions"] = list(conditions)
    return made


def pod_with(name: str, *conditions: Object, **more: Any) -> Object:
    made = pod(name, 8, **more)
    made["status"]["conditions"] = list(conditions)
    return made


TOLD = condition("NotEnoughResources", "0 of 3 nodes\n fit " + "x" * 400)
#: Objects, and then outcome, reason, beginning of the message and whose condition it is, of the job `waits`.
CONDITIONS = {
    "none": ([group_with("waits")], [], ("pending", "", "", "")),
    "PodGroup": (
        [group_with("waits", TOLD)],
        [],
        ("pending", "NotEnoughResources", "0 of 3 nodes fit", "PodGroup"),
    ),
    "another type after it": (
        [group_with("waits", TOLD, condition("tasks in gang are ready", type_="Scheduled"))],
        [],
        ("pending", "NotEnoughResources", "0 of 3 nodes fit", "PodGroup"),
    ),
    "the last": (
        [group_with("waits", condition("old", "old"), TOLD)],
        [],
        ("pending", "NotEnoughResources", "0 of 3 nodes fit", "PodGroup"),
    ),
    "not any more": ([group_with("waits", {**TOLD, "status": "False"})], [], ("pending", "", "", "")),
    "refused": (
        [group_with("waits", condition("JobValidateFailed", "3 chips"))],
        [],
        ("rejected", "JobValidateFailed", "3 chips", "PodGroup"),
    ),
    "pod": (
        [],
        [pod_with("waits", condition("Unschedulable", "no node", "PodScheduled", "False"))],
        ("pending", "Unschedulable", "no node", "Pod"),
    ),
    "pod with other conditions": (
        [],
        [pod_with("waits", condition("Unschedulable", "no", "Ready", "False"))],
        ("pending", "", "", ""),
    ),
    "group before pod": (
        [group_with("waits", TOLD)],
        [
            pod_with("a-0", condition("Unschedulable", "no node", "PodScheduled", "False"), group="waits"),
        ],
        ("pending", "NotEnoughResources", "0 of 3 nodes fit", "PodGroup"),
    ),
    "pod of a silent group": (
        [group_with("waits")],
        [
            pod_with("a-0", group="waits"),
            pod_with("a-1", condition("Unschedulable", "no node", "PodScheduled", "False"), group="waits"),
        ],
        ("pending", "Unschedulable", "no node", "Pod"),
    ),
    "it runs": (
        [group_with("waits", TOLD)],
        [pod_with("a-0", group="waits", on="n1", held="Ascend910-" + ",Ascend910-".join("01234567"))],
        ("scheduled", "", "", ""),
    ),
}


@pytest.mark.parametrize("case", CONDITIONS)
async def test_beside_a_cluster_the_reason_is_that_of_the_condition(case: str) -> None:
    groups, pods, (outcome, reason, message, kind) = CONDITIONS[case]
    async with server() as (api, client):
        with_nodes(api)
        for one in groups:
            api.put(GROUPS, copy.deepcopy(one))
        for one in pods:
            api.put(PODS, copy.deepcopy(one))
        async with beside(client) as page:
            (row,) = (await page.snapshot())["jobs"]
            assert (row["state"], row["reason_code"], row["reason_source"]) == (outcome, reason, kind)
            assert row["reason_message"].startswith(message)
            assert len(row["reason_message"]) <= 300
            assert bool(row["reason_message"]) == bool(message)


async def test_beside_a_cluster_a_condition_is_followed_alone() -> None:
    """It changes nothing else of the PodGroup or the pod, so that no event reaches the scheduler."""
    async with server() as (api, client):
        with_nodes(api)
        api.put(GROUPS, group_with("gang"))
        api.put(PODS, pod_with("alone"))
        async with beside(client) as page:
            first = await page.snapshot()
            mirror = Mirror.of_document(first)

            def told() -> dict[str, str]:
                return {row["name"]: row["reason_message"] for row in mirror.jobs.values()}

            assert told() == {"gang": "", "alone": ""}
            path = f"{page.url}api/v1/stream?epoch={first['epoch']}&since={first['sequence']}"
            async with page.session.get(path) as response:
                events = events_of(response.content.iter_any())

                async def until_told(wanted: dict[str, str]) -> None:
                    while told() != wanted:
                        name, change = await anext(events)
                        assert name == "change"
                        mirror.apply(change)

                api.put(GROUPS, group_with("gang", condition("NotEnoughResources", "first")))
                api.put(PODS, pod_with("alone", condition("x", "second", "PodScheduled", "False")))
                await until_told({"gang": "first", "alone": "second"})
                api.put(GROUPS, group_with("gang", condition("NotEnoughResources", "third")))
                api.put(PODS, pod_with("alone"))
                await until_told({"gang": "third", "alone": ""})


async def test_a_core_that_has_ended_answers_no_question() -> None:
    async with server() as (api, client):
        with_nodes(api)
        async with replica(client) as one:
            await one.runner.deciding.wait()
            core = one.runner._core
            assert core is not None
            assert await one.runner.ask(lambda now: now) > 0
            with pytest.raises(ZeroDivisionError):
                await one.runner.ask(lambda now: now // 0)
            # A question that fails is not a failure of the core.
            assert await one.runner.ask(lambda now: now) > 0
        with pytest.raises(CoreStoppedError):
            core.ask(lambda now: now).result(5)
        with pytest.raises(CoreStoppedError):
            await one.runner.ask(lambda now: now)


@pytest.mark.parametrize(
    "options",
    [
        WebOptions("0.0.0.0:8090"),
        WebOptions(":8090"),
        WebOptions("10.0.0.1:8090"),
        WebOptions("nonsense"),
        WebOptions("127.0.0.1:8090", certificate=None, key="x"),  # type: ignore[arg-type]
    ],
)
def test_tokens_are_not_sent_in_the_clear(options: WebOptions) -> None:
    with pytest.raises(AddressError):
        options.check()
