"""From `kubectl apply` to the container on a real kubelet: its chips are those of the decision."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any

import pytest
from aiohttp import web

from tests.cluster.cluster import CONFIG_MAPS, PODS, Cluster, check_chips, chips_of, node_of
from tests.cluster.faulty_proxy import FaultyProxy
from tests.cluster.objects import CHIP, Object, pod, vcjob
from tests.node.conftest import StartMachine
from tests.node.machine import Machine

pytestmark = [pytest.mark.cluster, pytest.mark.node]

Machines = tuple[Cluster, StartMachine]
REAL = "huawei.com/AscendReal"


def numbers(pod: Object) -> list[int]:
    return sorted(int(chip.rpartition("-")[2]) for chip in chips_of(pod))


def in_container(machine: Machine, pod: Object) -> list[int]:
    return machine.containers()[f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"]


def settled(cluster: Cluster, job: str, count: int, *machines: Machine) -> list[Object] | None:
    """The pods when they run and all annotations name what their containers have."""
    pods = cluster.running(job, count) if job else [one for one in cluster.pods() if _runs(one)]
    if pods is None or len(pods) != count:
        return None
    by_name = {machine.name: machine for machine in machines}
    for one in pods:
        annotations = one["metadata"]["annotations"]
        mounted = in_container(by_name[node_of(one)], one)
        table = json.loads(annotations.get("ascend.kubectl.kubernetes.io/ascend-910-configuration", "{}"))
        named = sorted(int(device["device_id"]) for device in table.get("devices", ()))
        real = sorted(int(chip.rpartition("-")[2]) for chip in annotations.get(REAL, "x-99").split(","))
        if not numbers(one) == real == named == mounted:
            return None
    return pods


def _runs(pod: Object) -> bool:
    return bool(pod["status"].get("phase") == "Running")


def no_chip_twice(pods: list[Object], *machines: Machine) -> None:
    check_chips(pods)
    no_chip_in_two_containers(pods, *machines)


def no_chip_in_two_containers(pods: list[Object], *machines: Machine) -> None:
    for machine in machines:
        given = [chip for one in pods if node_of(one) == machine.name for chip in in_container(machine, one)]
        assert len(given) == len(set(given)), machine.containers()


def test_one_pod(machines: Machines) -> None:
    cluster, start = machines
    node = start("node-1")
    cluster.run("scheduler")
    cluster.apply([pod("train", 2)])
    (placed,) = cluster.wait(lambda: settled(cluster, "", 1, node), "the pod runs with its chips")
    assert in_container(node, placed) == numbers(placed)

    def reported() -> Object:
        data = cluster.api.get(f"{CONFIG_MAPS}/mindx-dl-deviceinfo-node-1")["data"]
        found: Object = json.loads(data["RingwiseMountedChips"])
        return found

    # Reports are written at most once a second.
    uid = placed["metadata"]["uid"]
    cluster.wait(lambda: uid in reported(), "the report names the pod")
    assert reported()[uid] == placed["metadata"]["annotations"][REAL]


def test_eight_pods_in_a_burst(machines: Machines) -> None:
    cluster, start = machines
    node = start("node-1")
    cluster.run("scheduler")
    cluster.apply([pod(f"train-{number}", 1) for number in range(8)])
    pods = cluster.wait(lambda: settled(cluster, "", 8, node), "eight pods run with their chips")
    no_chip_twice(pods, node)
    assert sorted(chip for one in pods for chip in in_container(node, one)) == list(range(8))


def test_a_gang_on_two_nodes(machines: Machines) -> None:
    cluster, start = machines
    nodes = [start("node-1"), start("node-2")]
    cluster.run("scheduler", "controller")
    cluster.apply([vcjob("gang", 2, 8)])
    pods = cluster.wait(lambda: settled(cluster, "gang", 2, *nodes), "the gang runs with its chips")
    assert {node_of(one) for one in pods} == {"node-1", "node-2"}
    for machine in nodes:
        assert [in_container(machine, one) for one in pods if node_of(one) == machine.name] == [
            list(range(8))
        ]


def test_kubelet_restarts(machines: Machines) -> None:
    cluster, start = machines
    node = start("node-1")
    cluster.run("scheduler")
    cluster.apply([pod("before", 4)])
    cluster.wait(lambda: settled(cluster, "", 1, node), "the first pod runs")
    before = node.registrations()
    node.kubelet.kill()
    node.start_kubelet()
    cluster.wait(lambda: node.registrations() > before, "the plugin registers again")
    cluster.wait(lambda: node.allocatable() == 8, "kubelet knows the chips again")
    cluster.apply([pod("after", 4)])
    pods = cluster.wait(lambda: settled(cluster, "", 2, node), "both pods run with their chips")
    no_chip_twice(pods, node)


def test_a_pod_that_was_bound_while_kubelet_was_away_starts(machines: Machines) -> None:
    """A kubelet that starts rejects pods with chips while it does not know the plugin. The plugin hears of
    the new socket at once, so it has registered when kubelet comes to its pods.
    """
    cluster, start = machines
    node = start("node-1")
    cluster.run("scheduler")
    for count in (1, 2, 3):
        # A kubelet that started tells the cluster of its chips again only some time later.
        cluster.wait(lambda: node.allocatable() == 8, "kubelet knows the chips")
        node.kubelet.kill()
        cluster.apply([pod(f"train-{count}", 2)])
        bound = partial(_bound, cluster, count)
        cluster.wait(bound, "the pod is bound while kubelet is away")
        node.start_kubelet()
        runs = partial(settled, cluster, "", count, node)
        no_chip_twice(cluster.wait(runs, "it runs with its chips"), node)


def _bound(cluster: Cluster, count: int) -> bool:
    return sum(bool(node_of(one)) for one in cluster.pods()) == count


class HoldingProxy(FaultyProxy):
    """Keeps patches of pods from the server, and tells when one is here."""

    hold = False
    held = 0

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if self.hold and request.method == "PATCH" and "/pods/" in request.path:
            self.held += 1
            await asyncio.Event().wait()
        return await super()._handle(request)


def test_the_plugin_is_killed_between_allocate_and_its_patch(machines: Machines) -> None:
    cluster, start = machines
    node = start("node-1", plugin=False)
    proxy = HoldingProxy(cluster.plane.url, cluster.plane.authority, 1)
    with proxy:
        node.start_plugin(server=proxy.url)
        cluster.wait(lambda: node.allocatable() == 8, "the chips are known")
        cluster.run("scheduler")
        proxy.hold = True
        cluster.apply([pod("unlucky", 2)])
        cluster.wait(lambda: proxy.held, "Allocate waits for its patch")
        node.plugin.kill()
        failed = cluster.wait(lambda: _failed(cluster, "unlucky"), "kubelet fails the pod")
        assert failed["status"]["reason"] == "UnexpectedAdmissionError"
    cluster.wait(lambda: node.allocatable() == 0, "kubelet knows that the plugin is gone")
    node.start_plugin()
    cluster.wait(lambda: node.allocatable() == 8, "the chips are known again")
    cluster.apply([pod("lucky", 8)])
    pods = cluster.wait(lambda: settled(cluster, "", 1, node), "the next pod gets all chips")
    assert in_container(node, pods[0]) == list(range(8))


def _failed(cluster: Cluster, name: str) -> Any:
    found = cluster.api.get(f"{PODS}/{name}")
    return found if found["status"].get("phase") == "Failed" else None


def test_a_pod_is_deleted_by_force_while_its_container_runs(machines: Machines) -> None:
    """Kubelet forgets the pod and gives its ids to the next one before the container has ended."""
    cluster, start = machines
    node = start("node-1")
    cluster.run("scheduler")
    cluster.apply([pod("old", 8)])
    (old,) = cluster.wait(lambda: settled(cluster, "", 1, node), "the pod runs with its chips")
    uid = old["metadata"]["uid"]

    def data() -> Object:
        found: Object = cluster.api.get(f"{CONFIG_MAPS}/mindx-dl-deviceinfo-node-1")["data"]
        return found

    cluster.wait(lambda: uid in data()["RingwiseMountedChips"], "the report names the pod")
    node.hold("old", True)
    cluster.api.delete(f"{PODS}/old", {"gracePeriodSeconds": 0})
    cluster.apply([pod("new", 8)])
    cluster.wait(lambda: data()["RingwiseKubeletDevices"] == "{}", "kubelet lists it no more")
    assert uid in node.running()
    assert uid in data()["RingwiseMountedChips"]
    # A pod that another scheduler binds meanwhile is rejected, and says why.
    thief = pod("thief", 8)
    thief["spec"] |= {"nodeName": "node-1", "schedulerName": "another"}
    thief["metadata"]["annotations"] = {CHIP: chips_text(old), "predicate-time": "1"}
    cluster.apply([thief])
    failed = cluster.wait(lambda: _failed(cluster, "thief"), "kubelet rejects a pod with its chips")
    assert "which is deleted and may still run" in failed["status"]["message"]
    assert uid in node.running()
    assert list(node.containers()) == [f"{cluster.namespace}/old"]
    assert not node_of(cluster.api.get(f"{PODS}/new"))
    cluster.api.delete(f"{PODS}/thief", {"gracePeriodSeconds": 0})
    node.hold("old", False)
    (new,) = cluster.wait(lambda: settled(cluster, "", 1, node), "the next pod gets the chips")
    assert new["metadata"]["name"] == "new"
    assert node.running() == {new["metadata"]["uid"]}


def chips_text(pod: Object) -> str:
    return ",".join(f"Ascend910-{number}" for number in numbers(pod))


def test_a_chip_breaks(machines: Machines) -> None:
    cluster, start = machines
    node = start("node-1")
    cluster.run("scheduler")
    node.set_faults({"0": ["80E18402"]})
    cluster.wait(lambda: node.allocatable() == 7, "kubelet knows that a chip is broken")

    def reported() -> bool:
        text = cluster.api.get(f"{CONFIG_MAPS}/mindx-dl-deviceinfo-node-1")["data"]["DeviceInfoCfg"]
        return bool(json.loads(text)["DeviceInfo"]["DeviceList"][f"{CHIP}-Unhealthy"] == "Ascend910-0")

    cluster.wait(reported, "the report has it")
    cluster.apply([pod(f"train-{number}", 1) for number in range(7)])
    pods = cluster.wait(lambda: settled(cluster, "", 7, node), "seven pods run beside it")
    assert sorted(chip for one in pods for chip in in_container(node, one)) == list(range(1, 8))
    node.set_faults({})
    cluster.wait(lambda: node.allocatable() == 8, "the chip is back")
