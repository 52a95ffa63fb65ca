"""Operators that create pods once their PodGroup is Inqueue, and the queues that clients look up."""

from __future__ import annotations

import json

import pytest

from tests.cluster.cluster import GROUPS, Cluster, check_chips
from tests.cluster.objects import CHIP, nodes
from tests.cluster.owners import Operator

pytestmark = pytest.mark.cluster

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"


def test_an_operator_gets_its_pod_group_admitted_and_its_pods_run(cluster: Cluster) -> None:
    cluster.apply(nodes(2))
    cluster.run("scheduler")
    first = Operator(cluster, "first", 2, 8)
    cluster.wait(first.reconcile, "the PodGroup of first is Inqueue")
    check_chips(cluster.wait_running("first", 2))
    # The second waits for chips, and its PodGroup says so.
    second = Operator(cluster, "second", 1, 8)
    condition = cluster.wait(lambda: cluster.condition("second"), "second says why it waits")
    assert condition["reason"] == "JobEnqueueFailed"
    assert CHIP in condition["message"]
    assert not second.reconcile()
    for one in cluster.pods("first"):
        cluster.kubectl("delete", "pod", one["metadata"]["name"], "--wait=false")
    cluster.kubectl("delete", "podgroups.scheduling.volcano.sh", "first")
    cluster.wait(second.reconcile, "the PodGroup of second is Inqueue")
    check_chips(cluster.wait_running("second", 1))


def test_a_promise_whose_pods_never_come_is_given_back(cluster: Cluster) -> None:
    cluster.apply(nodes(1))
    cluster.configure({"pod-creation-timeout": "2"})
    cluster.run("scheduler")
    absent = Operator(cluster, "absent", 1, 8)
    cluster.wait(
        lambda: "Inqueue" in [one.object.get("status", {}).get("phase") for one in cluster.history(GROUPS)],
        "it is admitted",
    )
    cluster.wait(lambda: given_back(cluster), "its promise is given back")
    cluster.wait(lambda: cluster.events("PodGroup", "absent"), "an event says so")
    cluster.wait(absent.reconcile, "it is admitted again")
    cluster.wait_running("absent", 1)


def given_back(cluster: Cluster) -> bool:
    """Phase and condition are written apart, and it is tried again soon."""
    statuses = [one.object.get("status", {}) for one in cluster.history(GROUPS, "absent")]
    return any(
        one.get("phase") == "Pending" and "none of its 1 pod exists" in json.dumps(one) for one in statuses
    )


def test_the_queues_default_and_root_exist(cluster: Cluster) -> None:
    cluster.kubectl("delete", "queues.scheduling.volcano.sh", "--all")
    cluster.run("scheduler", "controller")
    cluster.wait(lambda: len(cluster.api.items(QUEUES)) == 2, "both are created")
    found = {one["metadata"]["name"]: one["spec"] for one in cluster.api.items(QUEUES)}
    assert found["root"]["reclaimable"] is False
    assert found["default"]["weight"] == 1
    cluster.wait(
        lambda: cluster.api.get(f"{QUEUES}/default").get("status", {}).get("state") == "Open", "it is Open"
    )
