"""A reflector tells what there is, whatever happens between it and the server."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.kube.watch.kinds import Place, Reader
from ringwise.kube.watch.malformed import Malformed
from ringwise.kube.watch.readers import (
    ConfigurationReader,
    NodeReader,
    PodReader,
    ReportReader,
    TopologyReader,
)
from ringwise.kube.watch.reflector import ABSENT_PAUSE, LASTED, Reflector
from ringwise.kubeclient.client import Client, LineSplitter
from ringwise.kubeclient.resources import CONFIG_MAPS as CONFIG_MAP_KIND
from ringwise.kubeclient.resources import NODES as NODE_KIND
from ringwise.kubeclient.resources import PODS as POD_KIND
from ringwise.kubeclient.resources import QUEUES as QUEUE_KIND
from ringwise.manifests.errors import Findings
from ringwise.manifests.pods import PodClasses
from ringwise.messages import events as ev
from tests.kube.harness import CONFIG_MAPS, NODES, PODS, JumpingClock, node, pod, run, server, until
from tests.kube.standin import Object, StandIn


class Watching:
    """A reflector, and the world as its events tell it."""

    def __init__(self, client: Client, place: Place, reader: Reader, page: int = 500) -> None:
        self.events: list[ev.Event] = []
        self.malformed = Malformed()
        self.clock = JumpingClock()
        self.reflector = Reflector(
            client,
            place,
            reader,
            self.events.extend,
            clock=self.clock,
            chance=random.Random(1),
            malformed=self.malformed,
            page=page,
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
    client: Client, place: Place | None = None, reader: Reader | None = None, page: int = 500
) -> AsyncIterator[Watching]:
    one = Watching(client, place or Place(POD_KIND), reader or PodReader(PodClasses()), page)
    one.reflector.start()
    try:
        yield one
    finally:
        await one.reflector.stop()


def agrees(one: Watching, standin: StandIn) -> bool:
    """Whether what was told is what there is."""
    told = {seen.pod.uid: (seen.pod.name, seen.pod.node) for seen in one.pods.values()}
    return told == {
        found["metadata"]["uid"]: (found["metadata"]["name"], found["spec"].get("nodeName"))
        for found in standin.all(PODS)
    }


def test_a_list_comes_in_pages_and_a_watch_goes_on_from_it() -> None:
    async def test() -> None:
        async with server() as (standin, client):
            for index in range(7):
                standin.put(PODS, pod(f"pod-{index}"))
            async with watching(client, page=3) as one:
                await one.reflector.synced.wait()
                assert len(one.events) == 7
                standin.put(PODS, pod("late"))
                await until(lambda: agrees(one, standin))
                assert len(one.events) == 8
            assert standin.count("GET /api/v1/pods") == 4

    run(test())


def test_what_vanished_behind_our_back_is_told_as_gone() -> None:
    async def test() -> None:
        async with server() as (standin, client):
            for index in range(3):
                standin.put(PODS, pod(f"pod-{index}"))
            async with watching(client) as one:
                await one.reflector.synced.wait()
                hold = asyncio.Event()
                standin.fault("GET /api/v1/pods", until=hold, status=500)
                standin.cut_watches()
                await until(lambda: not standin.faults)
                standin.remove(PODS, "default/pod-0")
                standin.remove(PODS, "default/pod-1")
                recreated = standin.put(PODS, pod("pod-1"))["metadata"]["uid"]
                standin.forget_history()
                hold.set()
                await until(lambda: agrees(one, standin))
                assert recreated in one.pods
                # Only differences are told: two went, one came.
                assert len(one.events) == 3 + 3

    run(test())


def test_events_that_come_twice_are_told_once() -> None:
    async def test() -> None:
        async with server() as (standin, client):
            standin.duplicate = True
            async with watching(client) as one:
                await one.reflector.synced.wait()
                standin.put(PODS, pod("a"))
                standin.put(PODS, pod("a", on="node-1"))
                standin.remove(PODS, "default/a")
                standin.put(PODS, pod("b"))
                await until(lambda: agrees(one, standin) and one.events)
                assert len(one.events) == 4

    run(test())


def test_a_heartbeat_that_changes_nothing_is_not_told() -> None:
    async def test() -> None:
        async with server() as (standin, client):
            standin.put(NODES, node("node-1"))
            async with watching(client, Place(NODE_KIND), NodeReader()) as one:
                await one.reflector.synced.wait()
                beating = node("node-1")
                beating["status"]["conditions"][0]["lastHeartbeatTime"] = "2025-01-01T00:00:10Z"
                standin.put(NODES, beating)
                standin.put(NODES, node("node-2"))
                await until(lambda: len(one.events) == 2)

    run(test())


def test_a_list_that_grew_old_between_pages_is_read_in_one_piece() -> None:
    async def test() -> None:
        async with server() as (standin, client):
            for index in range(6):
                standin.put(PODS, pod(f"pod-{index}"))
            standin.fault(lambda method, path: standin.count("GET /api/v1/pods") == 2, status=410)
            async with watching(client, page=2) as one:
                await one.reflector.synced.wait()
                assert agrees(one, standin)
                assert standin.count("GET /api/v1/pods") <= 4

    run(test())


def test_a_kind_that_nobody_installed_is_waited_for() -> None:
    async def test() -> None:
        async with server() as (standin, client):
            standin.unknown.add("pods")
            async with watching(client, Place(POD_KIND, optional=True)) as one:
                await one.reflector.synced.wait()
                assert ABSENT_PAUSE in one.clock.slept or await _slept(one)
                standin.unknown.clear()
                standin.put(PODS, pod("a"))
                await until(lambda: agrees(one, standin))

    async def _slept(one: Watching) -> bool:
        await until(lambda: ABSENT_PAUSE in one.clock.slept)
        return True

    run(test())


def test_a_kind_that_must_be_there_keeps_the_start_waiting() -> None:
    async def test() -> None:
        async with server() as (standin, client):
            standin.fault("GET /api/v1/pods", status=404, times=5)
            async with watching(client) as one:
                await one.reflector.synced.wait()
                assert standin.count("GET /api/v1/pods") >= 6

    run(test())


def test_pauses_grow_and_are_bounded() -> None:
    async def test() -> None:
        async with server() as (standin, client):
            standin.fault("GET /api/v1/pods", status=500, times=12)
            async with watching(client) as one:
                await one.reflector.synced.wait()
                slept = one.clock.slept[:12]
                assert slept[0] <= 0.2
                assert max(slept) > 10
                assert max(slept) <= 30

    run(test())


@pytest.mark.parametrize(("lasts", "at_least", "at_most"), [(LASTED, 0.0, 0.2), (0.0, 5.0, 30.0)])
def test_silent_watches_are_opened_again_soon_if_they_lasted(
    lasts: float, at_least: float, at_most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def later(clock: JumpingClock) -> float:
        clock.moment += lasts
        return clock.moment

    async def test() -> None:
        async with server() as (standin, client):
            standin.bookmarks = False
            async with watching(client) as one:

                def ended_often() -> bool:
                    standin.cut_watches()
                    return len(one.clock.slept) >= 12

                await until(ended_often)
                assert at_least < max(one.clock.slept) <= at_most

    monkeypatch.setattr(JumpingClock, "monotonic", later)
    run(test())


def test_an_object_that_became_unreadable_keeps_what_it_held() -> None:
    async def test() -> None:
        async with server() as (standin, client):
            standin.put(NODES, node("node-1"))
            async with watching(client, Place(NODE_KIND), NodeReader()) as one:
                await one.reflector.synced.wait()
                broken = node("node-1")
                broken["metadata"]["annotations"] = {"superPodID": "seven"}
                standin.put(NODES, broken)
                await until(lambda: len(one.malformed))
                assert str(next(iter(one.malformed))).startswith("Node node-1: metadata.annotations")
                assert len(one.events) == 1
                standin.put(NODES, node("node-1", chips=4))
                await until(lambda: len(one.events) == 2)
                assert not len(one.malformed)
                standin.remove(NODES, "node-1")
                await until(lambda: one.events[-1] == ev.NodeGone("node-1"))

    run(test())


def test_a_broken_line_is_answered_with_a_new_list() -> None:
    async def test() -> None:
        async with server() as (standin, client), watching(client) as one:
            await one.reflector.synced.wait()
            one.reflector._line(b'{"type":"ADDED","object":{"metadata":{}}}', [])
            with_error = False
            try:
                one.reflector._line(b"{nonsense", [])
            except Exception as error:
                with_error = "cannot be read" in str(error)
            assert with_error
            standin.put(PODS, pod("a"))
            standin.cut_watches()
            await until(lambda: agrees(one, standin))

    run(test())


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


def test_a_report_with_a_new_time_alone_is_no_news() -> None:
    async def test() -> None:
        async with server() as (standin, client):
            place = Place(CONFIG_MAP_KIND, "kube-system", {"labelSelector": "mx-consumer-cim=true"})
            standin.put(CONFIG_MAPS, report_map("node-1", "Ascend910-0"))
            standin.put(CONFIG_MAPS, {"metadata": {"name": "other", "namespace": "kube-system"}})
            async with watching(client, place, ReportReader()) as one:
                await one.reflector.synced.wait()
                standin.put(CONFIG_MAPS, report_map("node-1", "Ascend910-0", updated=2))
                standin.put(CONFIG_MAPS, report_map("node-1", "Ascend910-0,Ascend910-1", updated=3))
                await until(lambda: len(one.events) == 2)
                standin.remove(CONFIG_MAPS, "kube-system/mindx-dl-deviceinfo-node-1")
                await until(lambda: one.events[-1] == ev.ReportGone("node-1"))
                assert len(one.events) == 3

    run(test())


def test_a_node_that_moves_between_aggregates_is_not_lost() -> None:
    async def test() -> None:
        async with server() as (standin, client):
            place = Place(CONFIG_MAP_KIND, "mindx-dl", moving_facts=True)
            standin.put(CONFIG_MAPS, aggregate("cluster-info-device-0", "n1", "n2"))
            async with watching(client, place, ReportReader()) as one:
                await one.reflector.synced.wait()
                standin.put(CONFIG_MAPS, aggregate("cluster-info-device-1", "n2"))
                standin.put(CONFIG_MAPS, aggregate("cluster-info-device-0", "n1"))
                standin.put(CONFIG_MAPS, aggregate("cluster-info-device-0"))
                await until(lambda: ev.ReportGone("n1", aggregated=True) in one.events)
                assert ev.ReportGone("n2", aggregated=True) not in one.events
                standin.put(CONFIG_MAPS, aggregate("cluster-info-device-2", "n2", "n3"))
                await until(lambda: isinstance(one.events[-1], ev.ReportSeen))
                standin.remove(CONFIG_MAPS, "mindx-dl/cluster-info-device-1")
                standin.put(CONFIG_MAPS, aggregate("cluster-info-device-2", "n2"))
                await until(lambda: ev.ReportGone("n3", aggregated=True) in one.events)
                assert ev.ReportGone("n2", aggregated=True) not in one.events
                standin.remove(CONFIG_MAPS, "mindx-dl/cluster-info-device-2")
                await until(lambda: ev.ReportGone("n2", aggregated=True) in one.events)

    run(test())


def facts_of(reader: Reader, data: dict[str, str]) -> tuple[Any, list[str]]:
    found = Findings("ConfigMap x")
    raw = msgspec.Raw(msgspec.json.encode({"metadata": {"name": "x"}, "data": data}))
    return reader.read(raw, found), [str(error) for error in found.errors]


def test_a_wrong_configuration_is_told_and_not_used() -> None:
    facts, problems = facts_of(ConfigurationReader(), {"volcano-scheduler.conf": "actions: dance"})
    assert facts is None
    assert "dance" in problems[0]
    facts, problems = facts_of(ConfigurationReader(), {"volcano-scheduler.conf": 'actions: "allocate"'})
    assert facts is not None
    assert facts[0][1].actions == ("allocate",)
    assert problems == []


def test_an_unreadable_topology_is_told_with_its_problem() -> None:
    facts, problems = facts_of(TopologyReader(), {"tor_info": "{"})
    assert facts is not None
    assert facts[0][1].unusable is not None
    assert problems


# -- lines


@given(
    st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"")), max_size=8),
    st.data(),
)
def test_lines_are_the_same_however_the_bytes_arrive(lines: list[bytes], data: st.DataObject) -> None:
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


@settings(max_examples=60)
@given(STEPS)
def test_whatever_happens_what_is_told_is_what_there_is(steps: list[tuple[str, int]]) -> None:
    async def test() -> None:
        async with server() as (standin, client), watching(client, page=2) as one:
            for step, index in steps:
                key = f"default/pod-{index}"
                match step:
                    case "put":
                        if key not in standin.collections.get(PODS, {}):
                            standin.put(PODS, pod(f"pod-{index}"))
                    case "bind":
                        if key in standin.collections.get(PODS, {}):
                            standin.put(PODS, pod(f"pod-{index}", on="node-1"))
                    case "remove":
                        if key in standin.collections.get(PODS, {}):
                            standin.remove(PODS, key)
                    case "cut":
                        standin.cut_watches()
                    case "forget":
                        standin.forget_history()
                    case "duplicate":
                        standin.duplicate = not standin.duplicate
                    case "fail":
                        standin.fault("GET /api/v1/pods", status=500)
                    case "drop":
                        standin.fault("GET /api/v1/pods", drop=True)
                    case "expire":
                        standin.fault("GET /api/v1/pods", status=410)
                    case "rest":
                        # Long enough for a request and its answer.
                        for _ in range(30):
                            await asyncio.sleep(0)
                await asyncio.sleep(0)
            standin.faults.clear()
            standin.cut_watches()
            await until(lambda: one.reflector.synced.is_set() and agrees(one, standin))

    run(test())


def test_queues_have_their_own_place() -> None:
    assert Place(QUEUE_KIND).path == "/apis/scheduling.volcano.sh/v1beta1/queues"
    assert Place(POD_KIND, "a").path == "/api/v1/namespaces/a/pods"
