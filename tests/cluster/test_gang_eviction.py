"""gangpreempt and gangreclaim on a real API server: what jobs can spare goes, and the room is the gang's."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.cluster import Cluster, node_of, runs
from tests.cluster.commands import kubectl_ringwise
from tests.cluster.objects import Object, nodes, vcjob

pytestmark = pytest.mark.cluster

CONFIGURATION = "/api/v1/namespaces/volcano-system/configmaps/volcano-scheduler-configmap"
CHIP = "huawei.com/Ascend910"
HIGH: Object = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "tests-high"},
    "value": 1000,
}
TEXT = """
actions: "enqueue, allocate, gangreclaim, gangpreempt"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
  - name: capacity
  - name: topology910
- plugins:
  - name: predicates
  - name: nodeorder
  - name: network-topology-aware
configurations:
- name: init-params
  arguments: {}
- name: gangpreempt
  arguments: {MORE}
"""


def configure(cluster: Cluster, more: str = "{maxDomains: 4}") -> None:
    text = TEXT.replace("{MORE}", more)
    cluster.api.patch(CONFIGURATION, {"data": {"volcano-scheduler.conf": text}})


def queue(name: str, chips: int) -> Object:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1, "reclaimable": True, "deserved": {CHIP: str(chips)}},
    }


def hyper_node(name: str, tier: int, kind: str, *members: str) -> Object:
    chosen = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members]
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": tier, "members": chosen},
    }


def elastic(name: str = "elastic", queue: str = "default") -> Object:
    """Four pods of which two are needed."""
    job = vcjob(name, 4, 8, pod_annotations={"volcano.sh/preemptable": "true"})
    job["spec"] |= {"minAvailable": 2, "queue": queue}
    return job


def boss(pods: int, **spec: Any) -> Object:
    job = vcjob("boss", pods, 8)
    job["spec"] |= spec
    return job


def nodes_of(cluster: Cluster, job: str) -> set[str]:
    pods = cluster.pods(job)
    return {node_of(pod) for pod in pods if runs(pod)}


def runs_on(cluster: Cluster, job: str, count: int) -> set[str]:
    """The job runs on with so many pods; what it lost waits."""
    found: set[str] = cluster.wait(
        lambda: there if len(there := nodes_of(cluster, job)) == count else None,
        f"{count} pods of {job} run on",
    )
    return found


@pytest.fixture
def high(cluster: Cluster) -> dict[str, Any]:
    cluster.apply([HIGH])
    return {"priorityClassName": HIGH["metadata"]["name"]}


def test_what_a_job_can_spare_goes_and_a_wrong_argument_changes_nothing(
    cluster: Cluster, high: dict[str, Any]
) -> None:
    configure(cluster)
    cluster.apply(nodes(4))
    scheduler = cluster.run()
    cluster.apply([elastic()])
    cluster.wait_running("elastic", 4)
    # Nobody knows this argument: the configuration before it stays.
    configure(cluster, "{maxDomain: 4}")
    cluster.wait(
        lambda: "arguments.maxDomain: unknown argument" in scheduler.log(), "the scheduler says what is wrong"
    )
    cluster.apply([boss(2, **high)])
    cluster.wait_running("boss", 2)
    runs_on(cluster, "elastic", 2)
    group = cluster.group_of("elastic")
    assert group is not None
    (text,) = cluster.wait(
        lambda: [
            one["message"]
            for one in cluster.events("PodGroup", group["metadata"]["name"])
            if one["reason"] == "Preempted"
        ],
        "the job has an event",
    )
    assert text.startswith(f"2 pods are preempted for {cluster.namespace}/boss: 16 chips")

    def why() -> str:
        ran = kubectl_ringwise(cluster.admin_config, "why", f"{cluster.namespace}/elastic")
        return " ".join(ran.stdout.split())

    cluster.wait(lambda: f"preempted for {cluster.namespace}/boss at " in why(), "why tells by whom")


def test_a_queue_gets_back_what_it_deserves_from_what_another_can_spare(cluster: Cluster) -> None:
    configure(cluster)
    queues = [queue("borrower", 16), queue("owner", 16)]
    cluster.apply([*nodes(4), *queues])
    cluster.run()
    cluster.apply([elastic(queue="borrower")])
    cluster.wait_running("elastic", 4)
    cluster.apply([boss(2, queue="owner")])
    cluster.wait_running("boss", 2)
    runs_on(cluster, "elastic", 2)


def test_a_job_with_a_network_topology_gets_its_room_inside_one_hyper_node(
    cluster: Cluster, high: dict[str, Any]
) -> None:
    configure(cluster)
    machines = nodes(4)
    names = [one["metadata"]["name"] for one in machines if one["kind"] == "Node"]
    trees = [
        hyper_node("s0", 1, "Node", *names[:2]),
        hyper_node("s1", 1, "Node", *names[2:]),
        hyper_node("top", 2, "HyperNode", "s0", "s1"),
    ]
    cluster.apply([*machines, *trees])
    cluster.run()
    cluster.apply([elastic()])
    cluster.wait_running("elastic", 4)
    cluster.apply([boss(2, networkTopology={"mode": "hard", "highestTierAllowed": 1}, **high)])
    cluster.wait_running("boss", 2)
    assert nodes_of(cluster, "boss") in (set(names[:2]), set(names[2:]))
    runs_on(cluster, "elastic", 2)
