"""Partitions of a task: each starts whole inside one HyperNode, and is restarted by itself."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.cluster import JOBS, PODS, Cluster, check_chips, node_of
from tests.cluster.objects import Object, nodes, vcjob

pytestmark = pytest.mark.cluster

CONFIGURATION = "/api/v1/namespaces/volcano-system/configmaps/volcano-scheduler-configmap"
HYPER_NODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
PART = "volcano.sh/partition-id"
LEAVES = {"leaf-a": ("node-1", "node-2"), "leaf-b": ("node-3", "node-4"), "leaf-c": ("node-5", "node-6")}
TEXT = (
    'actions: "enqueue, allocate, backfill"\n'
    "tiers:\n- plugins:\n  - {name: priority}\n  - {name: gang}\n  - {name: topology910}\n"
    "- plugins:\n  - {name: predicates}\n  - {name: nodeorder}\n  - {name: network-topology-aware}\n"
    "configurations:\n- name: init-params\n  arguments: {}\n"
)


def hyper_node(name: str, members: tuple[str, ...]) -> Object:
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {
            "tier": 1,
            "members": [{"type": "Node", "selector": {"exactMatch": {"name": node}}} for node in members],
        },
    }


def partitioned(name: str, partitions: int, size: int, least: int, chips: int = 8, **policy: Any) -> Object:
    job = vcjob(
        name,
        partitions * size,
        chips,
        policies=[
            {"event": "PodFailed", "action": "RestartPartition"},
            {"event": "PodEvicted", "action": "RestartPartition"},
        ],
    )
    task = job["spec"]["tasks"][0]
    task["partitionPolicy"] = {
        "totalPartitions": partitions,
        "partitionSize": size,
        "minPartitions": least,
        "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
        **policy,
    }
    task["minAvailable"] = job["spec"]["minAvailable"] = least * size
    return job


def that_run(cluster: Cluster, name: str, count: int) -> list[Object] | None:
    pods = [pod for pod in cluster.pods(name) if pod["status"].get("phase") == "Running"]
    return pods if len(pods) == count else None


def leaves(pods: list[Object]) -> dict[str, set[str]]:
    """Where the pods of each partition are."""
    found: dict[str, set[str]] = {}
    for pod in pods:
        leaf = next(leaf for leaf, names in LEAVES.items() if node_of(pod) in names)
        found.setdefault(pod["metadata"]["labels"][PART], set()).add(leaf)
    return found


def test_partitions_start_whole_each_in_one_leaf_and_are_restarted_alone(cluster: Cluster) -> None:
    cluster.api.patch(CONFIGURATION, {"data": {"volcano-scheduler.conf": TEXT}})
    tree = [hyper_node(name, members) for name, members in LEAVES.items()]
    cluster.apply([*nodes(6), *tree])
    cluster.run()
    cluster.apply([vcjob("filler", 1, 8, selector={"kubernetes.io/hostname": "node-6"})])
    cluster.wait_running("filler", 1)
    # Two of three: leaf-c has one node left, and a part of a partition is of no use.
    cluster.apply([partitioned("train", 3, 2, 2)])
    running = cluster.wait(lambda: that_run(cluster, "train", 4), "two partitions run")
    check_chips(running)
    placed = leaves(running)
    # Which two depends on the pods that are there first.
    assert len(placed) == 2
    assert sorted(map(sorted, placed.values())) == [["leaf-a"], ["leaf-b"]]
    group = cluster.group_of("train")
    assert group is not None
    (policy,) = group["spec"]["subGroupPolicy"]
    assert (policy["name"], policy["subGroupSize"], policy["minSubGroups"]) == ("work", 2, 2)
    assert policy["networkTopology"] == {"mode": "hard", "highestTierAllowed": 1}
    cluster.wait(lambda: len(cluster.pods("train")) == 6, "the third partition waits")
    assert sum(not node_of(pod) for pod in cluster.pods("train")) == 2
    # With the other node of leaf-c the third starts, as a whole.
    cluster.api.delete(f"{JOBS}/filler")
    running = cluster.wait_running("train", 6)
    placed = leaves(running)
    assert sorted(map(sorted, placed.values())) == [["leaf-a"], ["leaf-b"], ["leaf-c"]]
    # A pod fails: its partition is restarted, and the others run on.
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in running}
    failed = {"phase": "Failed", "reason": "Crashed"}
    cluster.api.patch(f"{PODS}/train-work-2/status", {"status": failed})

    def restarted() -> list[Object] | None:
        pods = that_run(cluster, "train", 6)
        new = {
            pod["metadata"]["name"]
            for pod in pods or ()
            if pod["metadata"]["uid"] != before[pod["metadata"]["name"]]
        }
        return pods if new == {"train-work-2", "train-work-3"} else None

    again = cluster.wait(restarted, "only partition 1 is restarted")
    assert leaves(again) == placed
    status = cluster.api.get(f"{JOBS}/train")["status"]
    assert (status["retryCount"], status["version"]) == (1, 0)


def test_partitions_that_cannot_be_are_refused_and_other_jobs_run(cluster: Cluster) -> None:
    cluster.apply(nodes(1))
    cluster.run()
    cluster.apply([partitioned("wrong", 2, 2, 1, totalPartitions=3), vcjob("other", 1, 8)])
    cluster.wait_running("other", 1)

    def refused() -> dict[str, Any] | None:
        state: dict[str, Any] = cluster.api.get(f"{JOBS}/wrong").get("status", {}).get("state", {})
        return state if state.get("reason") == "Invalid" else None

    state = cluster.wait(refused, "the job says what is wrong")
    assert "task work has 4 replicas and 3 partitions of 2 are 6" in state["message"]
    assert not cluster.pods("wrong")
