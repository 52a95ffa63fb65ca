"""Restarts, replicas, RBAC and malformed objects."""

from __future__ import annotations

import json
from functools import partial

import pytest

from ringwise.wellknown import VOLCANO_SYSTEM
from tests.cluster.cluster import CONFIG_MAPS, PODS, Cluster, Component, check_chips, chips_of, node_of
from tests.cluster.commands import kubectl_ringwise
from tests.cluster.objects import CHIP, node, nodes, pod, switch_topology, vcjob

pytestmark = pytest.mark.cluster


def test_restart_rebuilds_everything(cluster: Cluster) -> None:
    cluster.apply(nodes(2))
    first = cluster.run("scheduler")
    cluster.apply([pod(f"before-{number}", 2) for number in range(5)])
    before = {
        one["metadata"]["name"]: (node_of(one), chips_of(one)) for one in cluster.wait_running("before", 5)
    }
    first.stop()
    cluster.apply([pod("after-0", 4), pod("after-1", 2)])
    cluster.run("scheduler")
    cluster.wait_running("after", 2)
    pods = cluster.pods()
    check_chips(pods)
    assert before == {
        one["metadata"]["name"]: (node_of(one), chips_of(one))
        for one in pods
        if one["metadata"]["name"].startswith("before")
    }


def test_the_other_replica_takes_over_from_a_killed_leader(cluster: Cluster) -> None:
    cluster.apply(nodes(4))
    cluster.run("controller")
    replicas = [cluster.start("scheduler"), cluster.start("scheduler")]
    leader = _leader(cluster, replicas)
    other = next(one for one in replicas if one is not leader)
    cluster.apply([vcjob("one", 2, 8)])
    cluster.wait_running("one", 2)
    cluster.wait(lambda: other.ready, "the other replica has read everything")
    leader.process.kill()
    cluster.apply([vcjob("two", 2, 8)])
    cluster.wait_running("two", 2)
    cluster.wait(lambda: other.leads, "the other replica leads")
    check_chips(cluster.pods())


def test_a_leader_that_was_stopped_binds_nothing_afterwards(cluster: Cluster) -> None:
    """A leader process that was stopped for longer than its lease continues, and its fence is closed."""
    cluster.apply(nodes(2))
    replicas = [cluster.start("scheduler"), cluster.start("scheduler")]
    leader = _leader(cluster, replicas)
    other = next(one for one in replicas if one is not leader)
    cluster.wait(lambda: other.ready, "the other replica has read everything")
    leader.process.pause()
    try:
        cluster.apply([pod(f"part-{number}", 4) for number in range(3)])
        cluster.wait_running("part", 3)
    finally:
        leader.process.pause(False)
    cluster.apply([pod("late-0", 4)])
    cluster.wait_running("late", 1)
    cluster.wait(lambda: not leader.leads and other.leads, "one replica leads")
    check_chips(cluster.pods())


def _leader(cluster: Cluster, replicas: list[Component]) -> Component:
    def found() -> Component | None:
        return next((one for one in replicas if one.leads), None)

    leader: Component = cluster.wait(found, "one replica leads")
    return leader


def test_the_shipped_rbac_rules_are_sufficient_and_minimal(cluster: Cluster) -> None:
    """All tests run with it. Here: no request was forbidden, and what is not needed is not allowed."""
    cluster.apply([*nodes(2), switch_topology({"leaf-1": ["10.0.0.1", "10.0.0.2"]})])
    scheduler = cluster.run()
    labels = {"tor-affinity": "large-model-schema"}
    cluster.apply([vcjob("train", 2, 8, labels=labels), vcjob("too-large", 9, 8)])
    cluster.wait_running("train", 2)
    cluster.wait(lambda: cluster.condition("too-large"), "the other says why it waits")
    cluster.wait(lambda: cluster.events("Job", "too-large"), "and has an event")
    for component in cluster.components:
        refused = [line for line in component.log().splitlines() if "403 " in line or "orbidden" in line]
        assert not refused, refused[0]
    assert scheduler.running
    account = f"--as=system:serviceaccount:{VOLCANO_SYSTEM}:ringwise-scheduler"
    for verb, what in (
        ("delete", "nodes"),
        ("create", "pods"),
        ("get", "secrets"),
        ("patch", "clusterroles"),
        ("delete", "jobs.batch.volcano.sh"),
    ):
        answer = cluster.kubectl("auth", "can-i", verb, what, account, "-A", check=False)
        assert answer.splitlines()[-1].startswith("no"), (verb, what, answer)


def test_of_two_nodes_with_one_address_the_older_keeps_the_position(cluster: Cluster) -> None:
    """The name of the younger one comes first; a job with switch affinity does not use it."""
    addresses = {"leaf-1": ["10.0.0.1", "10.0.0.2"]}
    cluster.apply([*nodes(2), switch_topology(addresses)])
    older: str = max(one["metadata"]["creationTimestamp"] for one in cluster.api.items("/api/v1/nodes"))
    thief = node("a-node", address="10.0.0.1")

    def joined_later() -> bool:
        """Times of objects have seconds."""
        cluster.apply([thief])
        created: str = cluster.api.get("/api/v1/nodes/a-node")["metadata"]["creationTimestamp"]
        if created == older:
            cluster.api.delete("/api/v1/nodes/a-node")
        return created != older

    cluster.wait(joined_later, "the other node is younger")
    cluster.run()
    labels = {"tor-affinity": "large-model-schema"}
    cluster.apply([vcjob("train", 2, 8, labels=labels)])
    placed = {node_of(one) for one in cluster.wait_running("train", 2)}
    assert placed == {"node-1", "node-2"}

    def recorded() -> set[str]:
        found = cluster.api.items("/api/v1/namespaces/default/events")
        return {one["involvedObject"]["name"] for one in found if one["reason"] == "DuplicateInternalIP"}

    cluster.wait(lambda: recorded() == {"node-1", "a-node"}, "both nodes have an event")
    document = json.loads(kubectl_ringwise(cluster.admin_config, "doctor", "-o", "json").stdout)
    (finding,) = [one for one in document["findings"] if one["code"] == "duplicate-internal-ip"]
    assert finding["object"] == "2 nodes (node-1, a-node)"
    described = cluster.kubectl("describe", "node", "a-node")
    assert "node-1 is the oldest and keeps the position under leaf switch leaf-1" in described


def test_malformed_objects_affect_no_others(cluster: Cluster) -> None:
    bad_node = node("bad-node", annotations={"baseDeviceInfos": '{"Ascend910-x": 7, "broken'})
    bad_report = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "mindx-dl-deviceinfo-node-1",
            "namespace": "kube-system",
            "labels": {"mx-consumer-cim": "true"},
        },
        "data": {"DeviceInfoCfg": "{not json"},
    }
    bad_topology = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "basic-tor-node-cm", "namespace": "kube-system"},
        "data": {"tor_info": '{"server_list": 7}'},
    }
    cluster.apply([*nodes(3), bad_node, bad_report, bad_topology])
    strange = [
        pod("strange-0", 1, annotations={CHIP: "Ascend910-99999999999,,x", "predicate-time": "-1"}),
        pod(
            "strange-1", 1, annotations={"hccl/rankIndex": "NaN", "huawei.com/schedule_minAvailable": "many"}
        ),
        pod("strange-2", 1, annotations={"huawei.com/schedule_policy": "chip9-node0"}),
        pod("strange-3", 1, on="node-1", annotations={CHIP: "Ascend910-\u2603"}),
        pod("strange-4", 1, annotations={"sp-block": "-16"}, labels={"tor-affinity": "no-such-schema"}),
    ]
    cluster.apply(strange)
    scheduler = cluster.run()
    path = "/api/v1/namespaces/volcano-system/configmaps/volcano-scheduler-configmap"
    cluster.api.patch(path, {"data": {"volcano-scheduler.conf": "tiers: [[["}})
    cluster.api.patch(f"{CONFIG_MAPS}/basic-tor-node-cm", {"data": {"tor_info": "\u0000 nothing"}})
    strange_job = vcjob("strange", 1, 1, annotations={"sp-block": "x"})
    strange_job["spec"]["tasks"][0]["policies"] = [{"event": "NoSuchEvent", "action": "Dance"}]
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(strange_job), check=False)
    cluster.apply([vcjob("good", 1, 8)])
    check_chips(
        [one for one in cluster.wait_running("good", 1) if one["metadata"]["name"].startswith("good")]
    )
    assert scheduler.running
    assert all(component.running for component in cluster.components)
    cluster.wait(lambda: scheduler.metric("ringwise_invalid_objects") >= 1, "the scheduler counts them")
    cluster.wait(lambda: "basic-tor-node-cm" in scheduler.log(), "its log names one")
    # Each has an event; that of the node, which has no namespace, is in the default namespace.
    for kind, name, namespace in (
        ("Pod", "strange-3", "-"),
        ("Node", "bad-node", "default"),
        ("ConfigMap", "basic-tor-node-cm", "kube-system"),
    ):
        cluster.wait(
            partial(_has_malformed_event, cluster, kind, name, namespace),
            f"an event says what is wrong with {kind} {name}",
        )
    assert "InvalidObject" in cluster.kubectl("describe", "pod", "strange-3")


def _has_malformed_event(cluster: Cluster, kind: str, name: str, namespace: str) -> bool:
    return any(
        event["reason"] == "InvalidObject"
        and (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == (kind, name)
        for event in cluster.api.items(f"/api/v1/namespaces/{namespace}/events")
    )


def test_a_pod_deleted_while_pending_is_forgotten(cluster: Cluster) -> None:
    cluster.apply(nodes(1))
    scheduler = cluster.run("scheduler")
    cluster.apply([pod("first-0", 8), pod("waits-0", 8)])
    cluster.wait(lambda: any(node_of(one) for one in cluster.pods()), "one of them runs")
    waiting = next(one for one in cluster.pods() if not node_of(one))["metadata"]["name"]
    cluster.api.delete(f"{PODS}/{waiting}", {"gracePeriodSeconds": 0})
    cluster.apply([node("node-2"), pod("third-0", 8)])
    cluster.wait_running("third", 1)
    assert scheduler.running
    check_chips(cluster.pods())
