"""The events of a reflector match the objects of the server, whatever fails in between."""

from __future__ import annotations

import asyncio
import io
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.kube.watch.config_map_readers import ConfigurationReader, ReportReader
from ringwise.kube.watch.invalid_objects import InvalidObjects
from ringwise.kube.watch.kinds import Reader, WatchTarget
from ringwise.kube.watch.readers import (
    DataReader,
    PlainReader,
    PodReader,
)
from ringwise.kube.watch.reflector import MAX_PROBLEMS, UNKNOWN_KIND_PAUSE, Reflector
from ringwise.kubeclient.client import Client, LineSplitter, UnreachableError
from ringwise.kubeclient.list_watch import HEALTHY_WATCH_SECONDS
from ringwise.kubeclient.resources import CONFIG_MAPS as CONFIG_MAP_KIND
from ringwise.kubeclient.resources import NODES as NODE_KIND
from ringwise.kubeclient.resources import PODS as POD_KIND
from ringwise.kubeclient.resources import QUEUES as QUEUE_KIND
from ringwise.log import Logger
from ringwise.manifests.kinds import KIND_OF
from ringwise.manifests.objects.pods import PodClassCache
from ringwise.manifests.text.errors import Findings
from ringwise.messages import events as ev
from ringwise.state.model import Node
from ringwise.topology.switches import SwitchTopology
from tests.builders.values import CHIP
from tests.event_loop import run
from tests.examples import examples
from tests.kube.fake_api_server import FakeApiServer, Object
from tests.kube.harness import CONFIG_MAPS, NODES, PODS, InstantClock, node, pod, server, until


class Watching:
    """A reflector, and the objects according to its events."""

    def __init__(
        self, client: Client, target: WatchTarget, reader: Reader, page: int = 500, **more: Any
    ) -> None:
        self.events: list[ev.Event] = []
        self.malformed = InvalidObjects()
        self.clock = InstantClock()
        self.reflector = Reflector(
            client,
            target,
            reader,
            self.events.extend,
            clock=self.clock,
            rng=random.Random(1),
            malformed=self.malformed,
            page_size=page,
            **more,
        )

    @property
    def pods(self) -> dict[str, ev.PodSeen]:
        found: dict[str, ev.PodSeen] = {}
        for event in self.events:
            if isinstance(event, ev.PodSeen):
                found[event.pod.uid] = event
            elif isinstance(event, ev.PodGone):
                del found[event.uid]
        return found


@asynccontextmanager
async def watching(
    client: Client,
    target: WatchTarget | None = None,
    reader: Reader | None = None,
    page: int = 500,
    **more: Any,
) -> AsyncIterator[Watching]:
    one = Watching(
        client, target or WatchTarget(POD_KIND), reader or PodReader(PodClassCache()), page, **more
    )
    one.reflector.start()
    try:
        yield one
    finally:
        await one.reflector.stop()


def agrees(one: Watching, api: FakeApiServer) -> bool:
    """Whether the events match the objects of the server."""
    seen_pods = {seen.pod.uid: (seen.pod.name, seen.pod.node) for seen in one.pods.values()}
    return seen_pods == {
        found["metadata"]["uid"]: (found["metadata"]["name"], found["spec"].get("nodeName"))
        for found in api.all(PODS)
    }


async def test_a_paged_list_and_a_watch_from_its_version() -> None:
    async with server() as (api, client):
        for index in range(7):
            api.put(PODS, pod(f"pod-{index}"))
        async with watching(client, page=3) as one:
            await one.reflector.synced.wait()
            assert len(one.events) == 7
            api.put(PODS, pod("late"))
            await until(lambda: agrees(one, api))
            assert len(one.events) == 8
        assert api.count("GET /api/v1/pods") == 4


async def test_objects_deleted_during_an_interruption_give_deletion_events() -> None:
    async with server() as (api, client):
        for index in range(3):
            api.put(PODS, pod(f"pod-{index}"))
        async with watching(client) as one:
            await one.reflector.synced.wait()
            hold = asyncio.Event()
            api.fault("GET /api/v1/pods", until=hold, status=500)
            api.cut_watches()
            await until(lambda: not api.faults)
            api.remove(PODS, "default/pod-0")
            api.remove(PODS, "default/pod-1")
            recreated = api.put(PODS, pod("pod-1"))["metadata"]["uid"]
            api.forget_history()
            hold.set()
            await until(lambda: agrees(one, api))
            assert recreated in one.pods
            # Only differences give events: two deletions, one new object.
            assert len(one.events) == 3 + 3


async def test_duplicate_events_are_sent_once() -> None:
    async with server() as (api, client):
        api.duplicate = True
        async with watching(client) as one:
            await one.reflector.synced.wait()
            api.put(PODS, pod("a"))
            api.put(PODS, pod("a", on="node-1"))
            api.remove(PODS, "default/a")
            api.put(PODS, pod("b"))
            await until(lambda: agrees(one, api) and one.events)
            assert len(one.events) == 4


async def test_a_heartbeat_without_a_change_gives_no_event() -> None:
    async with server() as (api, client):
        api.put(NODES, node("node-1"))
        async with watching(client, WatchTarget(NODE_KIND), PlainReader(KIND_OF[Node])) as one:
            await one.reflector.synced.wait()
            beating = node("node-1")
            beating["status"]["conditions"][0]["lastHeartbeatTime"] = "2025-01-01T00:00:10Z"
            api.put(NODES, beating)
            api.put(NODES, node("node-2"))
            await until(lambda: len(one.events) == 2)


async def test_a_list_that_expires_between_pages_is_read_without_pages() -> None:
    async with server() as (api, client):
        for index in range(6):
            api.put(PODS, pod(f"pod-{index}"))
        api.fault(lambda method, path: api.count("GET /api/v1/pods") == 2, status=410)
        async with watching(client, page=2) as one:
            await one.reflector.synced.wait()
            assert agrees(one, api)
            assert api.count("GET /api/v1/pods") <= 4


async def test_an_optional_kind_without_a_definition_is_retried() -> None:
    async def _slept(one: Watching) -> bool:
        await until(lambda: UNKNOWN_KIND_PAUSE in one.clock.slept)
        return True

    async with server() as (api, client):
        api.unknown.add("pods")
        async with watching(client, WatchTarget(POD_KIND, optional=True)) as one:
            await one.reflector.synced.wait()
            assert UNKNOWN_KIND_PAUSE in one.clock.slept or await _slept(one)
            api.unknown.clear()
            api.put(PODS, pod("a"))
            await until(lambda: agrees(one, api))


async def test_a_required_kind_delays_the_start() -> None:
    async with server() as (api, client):
        api.fault("GET /api/v1/pods", status=404, times=5)
        async with watching(client) as one:
            await one.reflector.synced.wait()
            assert api.count("GET /api/v1/pods") >= 6


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    stream = io.StringIO()
    monkeypatch.setattr(Logger, "_stream", stream)
    return stream


async def test_a_kind_that_may_not_be_listed_is_left_out_where_that_is_asked_for(log: io.StringIO) -> None:
    async with server() as (api, client):
        api.put(PODS, pod("pod-1"))
        api.fault("GET /api/v1/pods", status=403, times=3)
        async with watching(client, without_forbidden=True) as one:
            await one.reflector.synced.wait()
            assert not one.pods
            # The permission is given meanwhile.
            await until(lambda: agrees(one, api))
            assert one.clock.slept[:3] == [UNKNOWN_KIND_PAUSE] * 3
    (line,) = log.getvalue().splitlines()
    assert "not allowed to list; continuing without it" in line
    assert "you need the verb list on pods in the whole cluster" in line


async def test_a_kind_that_may_not_be_watched_is_listed_again(log: io.StringIO) -> None:
    async with server() as (api, client):
        api.put(PODS, pod("pod-1"))
        watch_is_next = iter((False, True, False, True))
        api.fault(lambda method, path: next(watch_is_next, False), status=403, times=2)
        async with watching(client, without_forbidden=True) as one:
            await one.reflector.synced.wait()
            api.put(PODS, pod("pod-2"))
            await until(lambda: agrees(one, api))
            await until(lambda: one.clock.slept[:2] == [UNKNOWN_KIND_PAUSE] * 2)
    (line,) = log.getvalue().splitlines()
    assert "you need the verb watch on pods in the whole cluster" in line


async def test_backoff_grows_up_to_a_limit() -> None:
    async with server() as (api, client):
        api.fault("GET /api/v1/pods", status=500, times=12)
        async with watching(client) as one:
            await one.reflector.synced.wait()
            slept = one.clock.slept[:12]
            assert slept[0] <= 0.2
            assert max(slept) > 10
            assert max(slept) <= 30


@pytest.mark.parametrize(
    ("lasts", "at_least", "at_most"), [(HEALTHY_WATCH_SECONDS, 0.0, 0.2), (0.0, 5.0, 30.0)]
)
async def test_a_long_watch_without_events_is_opened_again_at_once(
    lasts: float, at_least: float, at_most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def later(clock: InstantClock) -> float:
        clock.moment += lasts
        return clock.moment

    monkeypatch.setattr(InstantClock, "monotonic", later)
    async with server() as (api, client):
        api.bookmarks = False
        async with watching(client) as one:

            def ended_often() -> bool:
                api.cut_watches()
                return len(one.clock.slept) >= 12

            await until(ended_often)
            assert at_least < max(one.clock.slept) <= at_most


async def test_an_object_that_becomes_unreadable_keeps_its_last_state() -> None:
    async with server() as (api, client):
        api.put(NODES, node("node-1"))
        async with watching(client, WatchTarget(NODE_KIND), PlainReader(KIND_OF[Node])) as one:
            await one.reflector.synced.wait()
            broken = node("node-1")
            broken["metadata"]["annotations"] = {"superPodID": "seven"}
            api.put(NODES, broken)
            await until(lambda: len(one.malformed))
            assert str(next(iter(one.malformed))).startswith("Node node-1: metadata.annotations")
            assert len(one.events) == 1
            api.put(NODES, node("node-1", chips=4))
            await until(lambda: len(one.events) == 2)
            assert not len(one.malformed)
            api.remove(NODES, "node-1")
            await until(lambda: one.events[-1] == ev.NodeGone("node-1"))


async def test_an_unreadable_line_leads_to_a_new_list() -> None:
    async with server() as (api, client), watching(client) as one:
        await one.reflector.synced.wait()
        one.reflector._process(b'{"type":"ADDED","object":{"metadata":{}}}', [])
        with pytest.raises(UnreachableError, match="cannot be decoded"):
            one.reflector._process(b"{nonsense", [])
        api.put(PODS, pod("a"))
        api.cut_watches()
        await until(lambda: agrees(one, api))


# -- ConfigMaps


def report_map(name: str, chips: str, updated: int = 1) -> Object:
    listed = {"huawei.com/Ascend910": chips, "huawei.com/Ascend910-Unhealthy": ""}
    info = {"DeviceInfo": {"DeviceList": listed, "UpdateTime": updated}}
    return {
        "metadata": {
            "name": f"mindx-dl-deviceinfo-{name}",
            "namespace": "kube-system",
            "labels": {"mx-consumer-cim": "true"},
        },
        "data": {"DeviceInfoCfg": msgspec.json.encode(info).decode()},
    }


def aggregate(name: str, *nodes: str) -> Object:
    infos = {
        f"mindx-dl-deviceinfo-{node}": {
            "DeviceList": {"huawei.com/Ascend910": "Ascend910-0"},
            "UpdateTime": 1,
        }
        for node in nodes
    }
    return {
        "metadata": {
            "name": name,
            "namespace": "mindx-dl",
            "labels": {"mx-consumer-volcano": "true"},
        },
        "data": {name: msgspec.json.encode(infos).decode()},
    }


async def test_a_report_with_only_a_new_time_gives_no_event() -> None:
    async with server() as (api, client):
        target = WatchTarget(CONFIG_MAP_KIND, "kube-system", {"labelSelector": "mx-consumer-cim=true"})
        api.put(CONFIG_MAPS, report_map("node-1", "Ascend910-0"))
        api.put(CONFIG_MAPS, {"metadata": {"name": "other", "namespace": "kube-system"}})
        async with watching(client, target, ReportReader()) as one:
            await one.reflector.synced.wait()
            api.put(CONFIG_MAPS, report_map("node-1", "Ascend910-0", updated=2))
            api.put(CONFIG_MAPS, report_map("node-1", "Ascend910-0,Ascend910-1", updated=3))
            await until(lambda: len(one.events) == 2)
            api.remove(CONFIG_MAPS, "kube-system/mindx-dl-deviceinfo-node-1")
            await until(lambda: one.events[-1] == ev.ReportGone("node-1"))
            assert len(one.events) == 3


async def test_a_node_that_moves_between_aggregates_is_not_lost() -> None:
    async with server() as (api, client):
        target = WatchTarget(CONFIG_MAP_KIND, "mindx-dl", parts_move=True)
        api.put(CONFIG_MAPS, aggregate("cluster-info-device-0", "n1", "n2"))
        async with watching(client, target, ReportReader()) as one:
            await one.reflector.synced.wait()
            api.put(CONFIG_MAPS, aggregate("cluster-info-device-1", "n2"))
            api.put(CONFIG_MAPS, aggregate("cluster-info-device-0", "n1"))
            api.put(CONFIG_MAPS, aggregate("cluster-info-device-0"))
            await until(lambda: ev.ReportGone("n1", aggregated=True) in one.events)
            assert ev.ReportGone("n2", aggregated=True) not in one.events
            api.put(CONFIG_MAPS, aggregate("cluster-info-device-2", "n2", "n3"))
            await until(lambda: isinstance(one.events[-1], ev.ReportSeen))
            api.remove(CONFIG_MAPS, "mindx-dl/cluster-info-device-1")
            api.put(CONFIG_MAPS, aggregate("cluster-info-device-2", "n2"))
            await until(lambda: ev.ReportGone("n3", aggregated=True) in one.events)
            assert ev.ReportGone("n2", aggregated=True) not in one.events
            api.remove(CONFIG_MAPS, "mindx-dl/cluster-info-device-2")
            await until(lambda: ev.ReportGone("n2", aggregated=True) in one.events)


def with_entry(made: Object, node: str, entry: object) -> Object:
    """An aggregate in which one node's entry is something else."""
    (name,) = made["data"]
    infos = {**msgspec.json.decode(made["data"][name]), f"mindx-dl-deviceinfo-{node}": entry}
    return {**made, "data": {name: msgspec.json.encode(infos).decode()}}


def reports_now(one: Watching) -> dict[str, str]:
    """Node -> its free chips, by the events."""
    found: dict[str, str] = {}
    for event in one.events:
        if isinstance(event, ev.ReportSeen):
            found[event.report.node] = bin(event.report.free)
        elif isinstance(event, ev.ReportGone):
            found.pop(event.node, None)
    return found


@pytest.mark.parametrize(
    "bad", [7, None, {}, {"DeviceList": {CHIP: 7}}, {"DeviceList": {CHIP: "Ascend910-x"}}]
)
@pytest.mark.parametrize("from_the_start", [True, False])
async def test_a_bad_entry_of_an_aggregate_costs_the_reports_of_no_other_node(
    bad: object, from_the_start: bool
) -> None:
    name = "cluster-info-device-0"
    more = {"DeviceList": {CHIP: "Ascend910-0,Ascend910-1"}, "UpdateTime": 2}
    async with server() as (api, client):
        whole = aggregate(name, "n1", "n2", "n3")
        api.put(CONFIG_MAPS, with_entry(whole, "n1", bad) if from_the_start else whole)
        target = WatchTarget(CONFIG_MAP_KIND, "mindx-dl", parts_move=True)
        async with watching(client, target, ReportReader()) as one:
            await one.reflector.synced.wait()
            known = {"n2": "0b1", "n3": "0b1"} if from_the_start else dict.fromkeys(("n1", "n2", "n3"), "0b1")
            assert reports_now(one) == known
            # The entry stays bad, another node changes, a third one leaves.
            changed = with_entry(aggregate(name, "n1", "n2"), "n2", more)
            api.put(CONFIG_MAPS, with_entry(changed, "n1", bad))
            kept = {} if from_the_start else {"n1": "0b1"}
            await until(lambda: reports_now(one) == {**kept, "n2": "0b11"})
            (wrong,) = one.malformed
            assert all("mindx-dl-deviceinfo-n1" in problem for problem in wrong.problems)
            # A node that was good while another was bad keeps its report, too.
            api.put(CONFIG_MAPS, with_entry(with_entry(changed, "n1", bad), "n2", bad))
            await until(
                lambda: any("n2" in problem for one_bad in one.malformed for problem in one_bad.problems)
            )
            assert reports_now(one) == {**kept, "n2": "0b11"}
            api.put(CONFIG_MAPS, changed)
            await until(lambda: not len(one.malformed))
            assert reports_now(one) == {"n1": "0b1", "n2": "0b11"}


async def test_many_problems_of_one_object_are_told_in_few_words(log: io.StringIO) -> None:
    async with server() as (api, client):
        infos = {f"mindx-dl-deviceinfo-n{number}": 7 for number in range(3000)}
        name = "cluster-info-device-0"
        made = aggregate(name)
        api.put(CONFIG_MAPS, {**made, "data": {name: msgspec.json.encode(infos).decode()}})
        target = WatchTarget(CONFIG_MAP_KIND, "mindx-dl", parts_move=True)
        async with watching(client, target, ReportReader()) as one:
            await one.reflector.synced.wait()
            (bad,) = one.malformed
            assert len(bad.problems) == MAX_PROBLEMS + 1
    (line,) = log.getvalue().splitlines()
    assert len(line) < 5000


def test_a_report_of_thousands_of_resources_is_none() -> None:
    listed = {f"huawei.com/Chip{number}": "" for number in range(3000)}
    made = report_map("n1", "")
    text = msgspec.json.encode({"DeviceInfo": {"DeviceList": listed, "UpdateTime": 1}}).decode()
    found = Findings("ConfigMap x")
    raw = msgspec.Raw(msgspec.json.encode({**made, "data": {"DeviceInfoCfg": text}}))
    assert ReportReader().read(raw, found) is None
    assert [error.message for error in found.errors] == [
        "must list the chips of at most 16 resources, got 3000"
    ]


def objects_of(reader: Reader, data: dict[str, str]) -> tuple[Any, list[str]]:
    found = Findings("ConfigMap x")
    raw = msgspec.Raw(msgspec.json.encode({"metadata": {"name": "x"}, "data": data}))
    return reader.read(raw, found), [str(error) for error in found.errors]


def test_an_invalid_configuration_is_reported_and_not_used() -> None:
    facts, problems = objects_of(ConfigurationReader(), {"volcano-scheduler.conf": "actions: dance"})
    assert facts is None
    assert "dance" in problems[0]
    facts, problems = objects_of(ConfigurationReader(), {"volcano-scheduler.conf": 'actions: "allocate"'})
    assert facts is not None
    assert facts[0][1].actions == ("allocate",)
    assert problems == []


def test_an_unreadable_topology_is_sent_with_its_reason() -> None:
    facts, problems = objects_of(DataReader(KIND_OF[SwitchTopology]), {"tor_info": "{"})
    assert facts is not None
    assert facts[0][1].unusable is not None
    assert problems


# -- lines


@given(
    st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"")), max_size=8),
    st.data(),
)
def test_lines_do_not_depend_on_the_chunks(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    splitter = LineSplitter()
    found: list[bytes] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += splitter.feed(stream[start:end])
    assert found == [line for line in lines if line.strip()]


# -- chaos


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 4)),
        st.tuples(st.just("bind"), st.integers(0, 4)),
        st.tuples(st.just("remove"), st.integers(0, 4)),
        st.tuples(
            st.sampled_from(["cut", "forget", "duplicate", "fail", "drop", "expire", "rest"]), st.just(0)
        ),
    ),
    min_size=1,
    max_size=20,
)


@settings(max_examples=examples(60))
@given(STEPS)
def test_events_match_the_objects_under_random_faults(steps: list[tuple[str, int]]) -> None:
    async def test() -> None:
        async with server() as (api, client), watching(client, page=2) as one:
            for step, index in steps:
                key = f"default/pod-{index}"
                match step:
                    case "put":
                        if key not in api.collections.get(PODS, {}):
                            api.put(PODS, pod(f"pod-{index}"))
                    case "bind":
                        if key in api.collections.get(PODS, {}):
                            api.put(PODS, pod(f"pod-{index}", on="node-1"))
                    case "remove":
                        if key in api.collections.get(PODS, {}):
                            api.remove(PODS, key)
                    case "cut":
                        api.cut_watches()
                    case "forget":
                        api.forget_history()
                    case "duplicate":
                        api.duplicate = not api.duplicate
                    case "fail":
                        api.fault("GET /api/v1/pods", status=500)
                    case "drop":
                        api.fault("GET /api/v1/pods", drop=True)
                    case "expire":
                        api.fault("GET /api/v1/pods", status=410)
                    case "rest":
                        # Long enough for a request and its response.
                        for _ in range(30):
                            await asyncio.sleep(0)
                await asyncio.sleep(0)
            api.faults.clear()
            api.cut_watches()
            await until(lambda: one.reflector.synced.is_set() and agrees(one, api))

    run(test())


def test_the_watch_target_of_queues() -> None:
    assert WatchTarget(QUEUE_KIND).path == "/apis/scheduling.volcano.sh/v1beta1/queues"
    assert WatchTarget(POD_KIND, "a").path == "/api/v1/namespaces/a/pods"
