"""Jobs with a network topology: hard and soft, waiting with a reason, pods that pin the others, bad input."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster.cluster import JOBS, PODS, Cluster, check_chips, node_of
from tests.cluster.commands import kubectl_ringwise
from tests.cluster.objects import Object, nodes, pod, vcjob
from tests.cluster.owners import Workload

pytestmark = pytest.mark.cluster

CONFIGURATION = "/api/v1/namespaces/volcano-system/configmaps/volcano-scheduler-configmap"
ALLOCATED = "volcano.sh/job-allocated-hypernode"
MODE = "volcano.sh/network-topology-mode"
WITH_THE_PLUGIN = (
    'actions: "enqueue, allocate, backfill"\n'
    "tiers:\n- plugins:\n  - {name: priority}\n  - {name: gang}\n  - {name: conformance}\n"
    "  - {name: network-topology-aware}\n  - {name: topology910}\n"
    "- plugins:\n  - {name: drf}\n  - {name: predicates}\n  - {name: proportion}\n  - {name: nodeorder}\n"
    "  - {name: binpack}\n"
)


def hyper_node(name: str, tier: int, kind: str, *members: str, tier_name: str) -> Object:
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {
            "tier": tier,
            "tierName": tier_name,
            "members": [{"type": kind, "selector": {"exactMatch": {"name": one}}} for one in members],
        },
    }


TREE = [
    hyper_node("s0", 1, "Node", "node-1", "node-2", tier_name="leaf"),
    hyper_node("s1", 1, "Node", "node-3", "node-4", tier_name="leaf"),
    hyper_node("top", 2, "HyperNode", "s0", "s1", tier_name="spine"),
]
LEAVES = ({"node-1", "node-2"}, {"node-3", "node-4"})


def near(job: Object, **topology: Any) -> Object:
    job["spec"]["networkTopology"] = topology
    return job


def start(cluster: Cluster, count: int = 4) -> None:
    cluster.api.patch(CONFIGURATION, {"data": {"volcano-scheduler.conf": WITH_THE_PLUGIN}})
    cluster.apply([*nodes(count), *TREE])
    cluster.run()


def places(cluster: Cluster, job: str, count: int) -> set[str]:
    running = cluster.wait_running(job, count)
    check_chips(running)
    return {node_of(one) for one in running}


def wait_told(cluster: Cluster, job: str, words: str) -> None:
    """Before all pods of the job exist its condition may say that."""
    cluster.wait(lambda: words in (cluster.condition(job) or {}).get("message", ""), f"{job} waits: {words}")


def allocated(cluster: Cluster, job: str) -> str:
    group = cluster.group_of(job)
    return str((group or {}).get("metadata", {}).get("annotations", {}).get(ALLOCATED, ""))


def test_hard_jobs_stay_in_one_hyper_node_and_wait_for_it_with_a_reason(cluster: Cluster) -> None:
    start(cluster, 5)
    cluster.apply([near(vcjob("one", 1, 8), mode="hard", highestTierAllowed=1)])
    (first,) = places(cluster, "one", 1)
    home = next(leaf for leaf in LEAVES if first in leaf)
    away = next(leaf for leaf in LEAVES if leaf is not home)
    cluster.apply([near(vcjob("pair", 2, 8), mode="hard", highestTierName="leaf")])
    assert places(cluster, "pair", 2) == away
    cluster.wait(lambda: allocated(cluster, "pair") in ("s0", "s1"), "the HyperNode is written")
    group = cluster.group_of("pair")
    assert group is not None
    assert group["spec"]["networkTopology"] == {"mode": "hard", "highestTierName": "leaf"}
    # Two nodes are free: one in a HyperNode, and node-5, which is in none.
    cluster.apply([near(vcjob("late", 2, 8), mode="hard", highestTierAllowed=1)])
    wait_told(cluster, "late", "no HyperNode up to tier 1 fits 2 pods: of 2 HyperNodes the closest is")
    why = " ".join(kubectl_ringwise(cluster.admin_config, "why", f"{cluster.namespace}/late").stdout.split())
    assert "of 2 HyperNodes the closest is" in why
    # A pod of the running job is lost: it returns to the same HyperNode, though the other has room.
    cluster.api.delete(f"{JOBS}/one")
    assert places(cluster, "late", 2) == home
    lost = cluster.pods("late")[0]["metadata"]["name"]
    before = {one["metadata"]["uid"] for one in cluster.pods("late")}
    cluster.api.delete(f"/api/v1/namespaces/-/pods/{lost}")
    cluster.wait(
        lambda: {one["metadata"]["uid"] for one in cluster.running("late", 2) or ()} not in (set(), before),
        "the lost pod runs again",
    )
    assert places(cluster, "late", 2) == home


def test_soft_mode_takes_the_lowest_tier_and_pods_of_a_deployment_ask_by_annotations(
    cluster: Cluster,
) -> None:
    start(cluster, 5)
    cluster.apply([near(vcjob("soft", 3, 8), mode="soft")])
    running = places(cluster, "soft", 3)
    # node-5 is in no HyperNode.
    assert running < {"node-1", "node-2", "node-3", "node-4"}
    cluster.wait(lambda: allocated(cluster, "soft") == "top", "the HyperNode is written")
    wanted = {
        MODE: "hard",
        "volcano.sh/network-topology-highest-tier": "1",
    }
    Workload(cluster, "Deployment", "web", 2, 4, pod_annotations=wanted)
    web = cluster.wait_running("web", 2)
    (left,) = {"node-1", "node-2", "node-3", "node-4"} - running
    assert {node_of(one) for one in web} == {left}
    # A bare pod asks the same way. Its mode is misspelt: that counts as hard, and is told. node-5 is free.
    made = cluster.api.create(PODS, pod("bare-0", 8, annotations={**wanted, MODE: "hrad"}))
    group = f"podgroup-{made['metadata']['uid']}"

    def told() -> list[str]:
        found = cluster.events("PodGroup", group)
        return [one["message"] for one in found if one["reason"] == "InvalidNetworkTopology"]

    (message,) = cluster.wait(told, "the mode is told")
    assert 'must be hard or soft, got "hrad"; hard is used; did you mean "hard"?' in message
    cluster.wait(lambda: "no HyperNode" in str(cluster.pods("bare")[0]["status"]), "it waits for a HyperNode")
    assert not node_of(cluster.pods("bare")[0])


def test_bad_input_is_told_and_hurts_no_other_job(cluster: Cluster) -> None:
    start(cluster)
    refused = cluster.kubectl(
        "apply", "-f", "-", stdin=json.dumps(near(vcjob("worse", 1, 8), mode="harder")), check=False
    )
    both = near(vcjob("both", 2, 8, labels={"tor-affinity": "large-model-schema"}), highestTierAllowed=1)
    cluster.apply([both, near(vcjob("huge", 9, 8), mode="hard", highestTierAllowed=1)])
    cluster.apply([near(vcjob("good", 2, 8), highestTierAllowed=1)])
    assert places(cluster, "good", 2) in LEAVES
    wait_told(cluster, "both", "networkTopology cannot be combined with tor-affinity large-model-schema")
    # A tier that no HyperNode has restricts nothing.
    cluster.apply([near(vcjob("unknown", 1, 8), highestTierName="room")])
    places(cluster, "unknown", 1)
    assert "harder" in refused or not cluster.pods("worse")
