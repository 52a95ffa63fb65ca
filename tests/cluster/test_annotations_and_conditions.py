"""Annotations and conditions of pods, and what the log says about a namespace that is being deleted."""

from __future__ import annotations

import json
from functools import partial

import pytest

from ringwise.wellknown import ASCEND_REAL, RANK_TABLE_910
from tests.cluster.cluster import Cluster, chips_of, node_of
from tests.cluster.objects import CHIP, HOLDS_END, Object, node, nodes, pod, pod_group, vcjob

pytestmark = pytest.mark.cluster

LEAVING = "leaving"
TOLD = "namespace is being deleted"


def scheduled(pod: Object) -> Object:
    """Its PodScheduled condition."""
    conditions = pod["status"].get("conditions", [])
    return next((one for one in conditions if one["type"] == "PodScheduled"), {})


def test_a_rank_table_is_written_only_where_the_addresses_are_known(cluster: Cluster) -> None:
    infos = {f"Ascend910-{chip}": {"IP": f"192.168.100.{chip}"} for chip in range(8)}
    without = {name: {**info, "IP": ""} for name, info in infos.items()}
    cluster.apply(
        [
            node("known", address="10.0.0.1", annotations={"baseDeviceInfos": json.dumps(infos)}),
            node("empty", address="10.0.0.2", annotations={"baseDeviceInfos": json.dumps(without)}),
            node("unreported", address="10.0.0.3"),
        ]
    )
    cluster.run("scheduler")
    cluster.apply([pod(f"whole-{number}", 8) for number in range(3)])
    written = {node_of(one): one["metadata"]["annotations"] for one in cluster.wait_running("whole", 3)}
    assert sorted(written) == ["empty", "known", "unreported"]
    # Huawei's device plugin leaves a pod alone that has both: a table without addresses would stay so.
    assert {name: {ASCEND_REAL, RANK_TABLE_910} & set(notes) for name, notes in written.items()} == {
        "known": {ASCEND_REAL, RANK_TABLE_910},
        "empty": set(),
        "unreported": set(),
    }
    table = json.loads(written["known"][RANK_TABLE_910])
    assert [one["device_ip"] for one in table["devices"]] == [f"192.168.100.{chip}" for chip in range(8)]
    assert written["known"][ASCEND_REAL] == written["known"][CHIP]


def exists(cluster: Cluster, namespace: str) -> bool:
    return any(one["metadata"]["name"] == namespace for one in cluster.api.items("/api/v1/namespaces"))


def test_a_namespace_that_is_being_deleted_is_one_line_in_the_log(cluster: Cluster) -> None:
    """Its controller deletes the pods, and waits for them before it deletes anything else."""
    cluster.apply([*nodes(5), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LEAVING}}])
    # While this pod ends, the job is there, and its pods are missing.
    last = pod("last", 8, on="node-5", annotations={HOLDS_END: "true"})
    last["metadata"]["namespace"] = LEAVING
    cluster.apply([last])
    cluster.run("scheduler", "controller")
    scheduler, controller = cluster.components
    job = vcjob("train", 4, 8)
    job["metadata"]["namespace"] = LEAVING
    cluster.apply([job])
    path = f"/api/v1/namespaces/{LEAVING}/pods"

    def running() -> bool:
        return [one["status"]["phase"] for one in cluster.api.items(path)] == ["Running"] * 5

    cluster.wait(running, "4 pods of train run, and the other one")
    cluster.kubectl("delete", "namespace", LEAVING, "--wait=false")
    cluster.wait(lambda: TOLD in controller.log(), "the controller tells it")
    # The rest goes on.
    cluster.apply([vcjob("other", 4, 8)])
    cluster.wait_running("other", 4)
    cluster.api.delete(f"{path}/last", {"gracePeriodSeconds": 0})
    cluster.wait(lambda: not exists(cluster, LEAVING), "the namespace is gone, with all that was in it")
    for component in (scheduler, controller):
        about = [line for line in component.log().splitlines() if "because it is being terminated" in line]
        assert about == [], component.process.name
    assert controller.log().count(TOLD) == 1
    assert scheduler.log().count(TOLD) <= 1


def test_gated_pods_are_named_as_gated(cluster: Cluster) -> None:
    cluster.apply(nodes(2))
    cluster.run("scheduler")
    gated = pod("gang-1", 8, group="gang")
    gated["spec"]["schedulingGates"] = [{"name": "tests.ringwise/wait"}]
    cluster.apply([pod_group("gang", 2), pod("gang-0", 8, group="gang"), gated])

    def says_so() -> bool:
        return "gated (schedulingGates)" in (cluster.condition("gang") or {}).get("message", "")

    cluster.wait(says_so, "the PodGroup says that a pod is gated")
    told = cluster.wait(
        lambda: next(
            (one for one in cluster.pods("gang") if "gated" in scheduled(one).get("message", "")), None
        ),
        "the other pod says so, too",
    )
    assert told["metadata"]["name"] == "gang-0"
    # The condition of the gated pod is the API server's own.
    assert scheduled(cluster.api.get("/api/v1/namespaces/-/pods/gang-1"))["reason"] == "SchedulingGated"
    cluster.kubectl(
        *("patch", "pod", "gang-1", "--type=json"),
        *("-p", '[{"op": "remove", "path": "/spec/schedulingGates"}]'),
    )
    cluster.wait_running("gang", 2)
    cluster.wait(lambda: cluster.condition("gang", "Scheduled"), "the PodGroup is scheduled")


def test_a_running_pod_keeps_no_stale_condition(cluster: Cluster) -> None:
    cluster.apply(nodes(1))
    cluster.run("scheduler")
    cluster.apply([pod("first-0", 8)])
    cluster.wait_running("first", 1)
    cluster.apply([pod(f"waits-{number}", 1) for number in range(16)])

    def refused() -> bool:
        pods = cluster.pods("waits")
        return len(pods) == 16 and all(scheduled(one).get("status") == "False" for one in pods)

    cluster.wait(refused, "all say that they wait")
    cluster.apply(nodes(4))
    pods = cluster.wait_running("waits", 16)
    assert all(len(chips_of(one)) == 1 for one in pods)

    def settled() -> bool:
        return all(
            (scheduled(one).get("status"), scheduled(one).get("reason"), scheduled(one).get("message"))
            == ("True", None, None)
            for one in cluster.pods("waits")
        )

    cluster.wait(settled, "no pod says that it waits")
    # What was still on its way has arrived by then.
    cluster.apply([pod("last-0", 1)])
    cluster.wait(partial(cluster.running, "last", 1), "another pod runs")
    assert settled()
