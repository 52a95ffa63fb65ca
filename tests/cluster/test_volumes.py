"""Volume claims on a real control plane: kube-controller-manager binds, the scheduler says where.

Volcano's thirteen specs of volume binding are Kubernetes' own tests of local volumes. What they do inside of
containers (write a file, read it) needs real ones. What the scheduler decides in them is tried here:

| spec | here |
|---|---|
| one pod with a prebound claim: read from it; write to it (2) | `prebound`: it is on the volume's node |
| two pods that mount a local volume at the same time | `prebound`: both are on the volume's node |
| two pods that mount a local volume one after the other | `prebound`: so is the second one |
| fails due to a path that does not exist | kubelet cannot mount it: nothing is decided by a scheduler |
| fails due to a wrong node (`nodeName`) | kubelet refuses it: the pod is bound before a scheduler sees it |
| different NodeAffinity; different NodeSelector (2) | `prebound`: it waits and says which volume is where |
| StatefulSet spread over nodes, pods with anti-affinity, one by one; all at once (2) | `stateful_set` |
| StatefulSet on one node, pods with affinity, one by one; all at once (2) | `stateful_set` |
| dynamic provisioning | `provisioned`, and what hangs: `hangs` |
"""

from __future__ import annotations

import json

import pytest

from tests.cluster.cluster import (
    CLAIMS,
    CSI_NODES,
    PODS,
    STATEFUL_SETS,
    STORAGE_CAPACITIES,
    Cluster,
    check_chips,
    node_of,
)
from tests.cluster.objects import Object, node, nodes, pod, vcjob
from tests.cluster.volumes import (
    PROVISIONER,
    claim,
    provision,
    selected,
    using,
    volume,
    volume_of,
    wait_on,
    wait_told,
    with_scratch,
)
from tests.manifests.volumes import (
    HOST,
    NO_PROVISIONER,
    ZONE,
    claim_spec,
    csi_driver,
    csi_node,
    storage_capacity,
    storage_class,
)

pytestmark = pytest.mark.cluster

LOCAL = storage_class("local", NO_PROVISIONER, waits=True)
STATIC = storage_class("static", NO_PROVISIONER)
DYNAMIC = storage_class("dynamic", PROVISIONER, waits=True)
DRIVER = "csi.tests.ringwise"
CONFIGURATION = "/api/v1/namespaces/volcano-system/configmaps/volcano-scheduler-configmap"


def configure(cluster: Cluster, seconds: int) -> None:
    """How long a gang keeps its nodes for its claims."""
    arguments = json.dumps({"volumebinding.bindTimeoutSeconds": seconds})
    text = cluster.api.get(CONFIGURATION)["data"]["volcano-scheduler.conf"]
    changed = text.replace("- name: predicates\n", f"- name: predicates\n    arguments: {arguments}\n")
    assert changed != text
    cluster.api.patch(CONFIGURATION, {"data": {"volcano-scheduler.conf": changed}})


def delete_pod(cluster: Cluster, name: str) -> None:
    cluster.api.delete(f"{PODS}/{name}", {"gracePeriodSeconds": 0})
    cluster.wait(lambda: all(one["metadata"]["name"] != name for one in cluster.pods()), f"{name} is gone")


def test_a_gang_starts_where_its_local_volumes_are_and_one_too_many_waits_for_a_volume(
    cluster: Cluster,
) -> None:
    cluster.apply([*nodes(4), LOCAL, *(volume(f"on-{at}", "local", node=f"node-{at}") for at in (2, 3))])
    cluster.run()
    cluster.apply([with_scratch(vcjob("train", 2, 8), "local")])
    running = cluster.wait_running("train", 2)
    check_chips(running)
    assert {node_of(one) for one in running} == {"node-2", "node-3"}
    for one in running:
        found = volume_of(cluster, f"{one['metadata']['name']}-scratch")
        assert found["metadata"]["name"] == f"on-{node_of(one).removeprefix('node-')}"
    cluster.apply([with_scratch(vcjob("late", 1, 8), "local")])
    wait_told(cluster, "late", "late-work-0-scratch", "no free PersistentVolume")
    cluster.apply([volume("on-4", "local", node="node-4")])
    wait_on(cluster, "late", "node-4")


def test_prebound_claims_pin_their_pods_whatever_else_they_ask_for(cluster: Cluster) -> None:
    cluster.apply([*nodes(3), STATIC, volume("disk", "static", node="node-3"), claim("data", "static")])
    cluster.run()
    cluster.apply([using(pod("first", 1), "data"), using(pod("second", 1), "data")])
    for name in ("first", "second"):
        wait_on(cluster, name, "node-3")
    delete_pod(cluster, "first")
    cluster.apply([using(pod("third", 1), "data")])
    wait_on(cluster, "third", "node-3")
    by_selector, by_affinity = using(pod("selects", 1), "data"), using(pod("prefers", 1), "data")
    by_selector["spec"]["nodeSelector"] = {HOST: "node-1"}
    expression = {"key": HOST, "operator": "In", "values": ["node-1"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    by_affinity["spec"]["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
    }
    cluster.apply([by_selector, by_affinity])
    for name in ("selects", "prefers"):
        wait_told(cluster, name, "volume-node-affinity-conflict 2")


def test_zones_limits_of_attached_volumes_and_claims_for_one_pod(cluster: Cluster) -> None:
    in_zone = [node(f"{zone}-1", labels={ZONE: zone}) for zone in ("a", "b")]
    far = volume("far", "static", driver=DRIVER)
    far["metadata"]["labels"] = {ZONE: "b"}
    alone = volume("alone", "static", driver=DRIVER, mode="ReadWriteOncePod", zone="a")
    more = volume("more", "static", driver=DRIVER, zone="a")
    wanted = {"far": "ReadWriteOnce", "alone": "ReadWriteOncePod", "more": "ReadWriteOnce"}
    # One node can attach one volume.
    limits = [csi_node(one["metadata"]["name"], {DRIVER: 1}) for one in in_zone]
    cluster.apply([*in_zone, *limits, STATIC, far, alone, more])
    cluster.apply([claim(name, "static", mode=mode, volumeName=name) for name, mode in wanted.items()])
    cluster.run()
    cluster.apply([using(pod("far", 1), "far"), using(pod("alone", 1), "alone")])
    wait_on(cluster, "far", "b-1")
    wait_on(cluster, "alone", "a-1")
    cluster.apply([using(pod("again", 1), "alone")])
    wait_told(cluster, "again", "alone", "ReadWriteOncePod")
    cluster.apply([using(pod("more", 1), "more")])
    wait_told(cluster, "more", "too-many-volumes")
    cluster.api.delete(f"{CSI_NODES}/a-1")
    cluster.apply([csi_node("a-1", {DRIVER: 2})])
    wait_on(cluster, "more", "a-1")
    delete_pod(cluster, "alone")
    wait_on(cluster, "again", "a-1")


def test_a_volume_is_made_where_its_driver_has_room_and_a_job_starts_when_there_is_more(
    cluster: Cluster,
) -> None:
    """The rights of the chart suffice to hear of it."""
    room = [storage_capacity(f"room-{at}", "room", f"{at - 1}Gi", f"node-{at}") for at in (1, 2)]
    cluster.apply([*nodes(2), storage_class("room", DRIVER, waits=True), csi_driver(DRIVER), *room])
    cluster.run()
    cluster.apply([with_scratch(vcjob("train", 1, 8), "room")])
    cluster.wait(lambda: selected(cluster, "train-work-0-scratch") == "node-2", "node-2 is selected")
    provision(cluster, "room", lambda node: {"node": node})
    wait_on(cluster, "train", "node-2")
    cluster.apply([with_scratch(vcjob("late", 1, 8), "room")])
    wait_told(cluster, "late", "insufficient-storage-on-node 1")
    cluster.api.patch(f"{STORAGE_CAPACITIES}/room-1", {"capacity": "5Gi"})
    cluster.wait(lambda: selected(cluster, "late-work-0-scratch") == "node-1", "node-1 is selected")


def stateful_set(name: str, *, apart: bool, at_once: bool) -> Object:
    """Three pods with a claim each, on different nodes or on one."""
    labels = {"app": name}
    made = pod(name, 1, labels=labels)["spec"] | {"restartPolicy": "Always"}
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": HOST}
    kind = "podAntiAffinity" if apart else "podAffinity"
    made["affinity"] = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    made["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    template = {"metadata": {"name": "data"}, "spec": claim_spec("local", "1Gi")}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": 3,
            "serviceName": name,
            "podManagementPolicy": "Parallel" if at_once else "OrderedReady",
            "selector": {"matchLabels": labels},
            "volumeClaimTemplates": [template],
            "template": {"metadata": {"labels": labels}, "spec": made},
        },
    }


def test_pods_of_a_stateful_set_use_volumes_of_their_nodes(cluster: Cluster) -> None:
    places = [(f"node-{at}", f"disk-{at}-{number}") for at in (1, 2, 3) for number in range(8)]
    cluster.apply([*nodes(3), LOCAL, *(volume(name, "local", node=at) for at, name in places)])
    cluster.run()
    for at_once in (False, True):
        for apart in (False, True):
            name = f"{'apart' if apart else 'near'}-{'at-once' if at_once else 'in-order'}"
            cluster.apply([stateful_set(name, apart=apart, at_once=at_once)])
            running = cluster.wait_running(name, 3)
            assert len({node_of(one) for one in running}) == (3 if apart else 1)
            for one in running:
                found = volume_of(cluster, f"data-{one['metadata']['name']}")["metadata"]["name"]
                assert found.startswith(f"disk-{node_of(one).removeprefix('node-')}-")
            cluster.api.delete(f"{STATEFUL_SETS}/{name}", {"propagationPolicy": "Foreground"})
            cluster.wait(lambda: not cluster.pods(), "its pods are gone")


def test_volumes_are_made_for_the_nodes_of_a_gang_and_all_its_pods_can_use_a_shared_one(
    cluster: Cluster,
) -> None:
    zones = {"a-1": "a", "b-1": "b", "b-2": "b"}
    # Volumes are made in zone b alone.
    in_b = storage_class("dynamic", PROVISIONER, waits=True, zones=["b"])
    cluster.apply([*(node(name, labels={ZONE: zone}) for name, zone in zones.items()), in_b])
    cluster.run()
    job = with_scratch(vcjob("train", 2, 8), "dynamic")
    shared = {"mountPath": "/shared", "volumeClaim": claim_spec("dynamic", "1Gi", "ReadWriteMany")}
    job["spec"]["volumes"] = [shared]
    cluster.apply([job])

    def done() -> list[Object] | None:
        provision(cluster, "dynamic", lambda chosen: {"zone": zones[chosen]})
        return cluster.running("train", 2)

    running = cluster.wait(done, "train runs")
    check_chips(running)
    (zone,) = {zones[node_of(one)] for one in running}
    assert zone == "b"
    assert zone in str(volume_of(cluster, "train-volume-0")["spec"]["nodeAffinity"])
    for one in running:
        assert zone in str(volume_of(cluster, f"{one['metadata']['name']}-scratch")["spec"]["nodeAffinity"])


def test_a_provisioner_that_hangs_delays_nobody_else_and_its_chips_come_back(cluster: Cluster) -> None:
    cluster.apply([*nodes(2), DYNAMIC])
    configure(cluster, 10)
    cluster.run()
    cluster.apply([with_scratch(vcjob("slow", 1, 8), "dynamic")])
    cluster.wait(lambda: selected(cluster, "slow-work-0-scratch"), "its claim has a node")
    wait_told(cluster, "slow", "slow-work-0-scratch")
    cluster.apply([vcjob("quick", 1, 8)])
    cluster.wait_running("quick", 1)
    # The chips of the other node are held for the slow one, until its time is over.
    cluster.apply([vcjob("next", 1, 8)])
    cluster.wait_running("next", 1)
    wait_told(cluster, "slow", "slow-work-0-scratch")
    kept = selected(cluster, "slow-work-0-scratch")
    provision(cluster, "dynamic", lambda chosen: {"node": chosen})
    for job in ("quick", "next"):
        cluster.api.delete(f"/apis/batch.volcano.sh/v1alpha1/namespaces/-/jobs/{job}")
    (found,) = cluster.wait_running("slow", 1)
    assert node_of(found) == kept


def test_what_is_missing_is_named_and_the_pod_starts_when_it_is_there(cluster: Cluster) -> None:
    cluster.apply([*nodes(2), claim("classless", "missing-class")])
    cluster.run()
    lone = [using(pod("lacks-claim", 1), "missing-claim"), using(pod("lacks-class", 1), "classless")]
    cluster.apply(lone)
    wait_told(cluster, "lacks-claim", "missing-claim", "not found")
    wait_told(cluster, "lacks-class", "classless", "missing-class")
    cluster.apply([STATIC, volume("away", "static", node="node-9"), claim("away", "static")])
    cluster.apply([using(pod("elsewhere", 1), "away")])
    wait_told(cluster, "elsewhere", "volume-node-affinity-conflict 2")
    cluster.apply([vcjob("unharmed", 1, 1)])
    cluster.wait_running("unharmed", 1)
    cluster.apply([LOCAL, volume("here", "local", node="node-2"), claim("missing-claim", "local")])
    wait_on(cluster, "lacks-claim", "node-2")
    cluster.apply([volume("there", "missing-class", node="node-1")])
    cluster.apply([storage_class("missing-class", NO_PROVISIONER)])
    wait_on(cluster, "lacks-class", "node-1")
    cluster.apply([node("node-9")])
    wait_on(cluster, "elsewhere", "node-9")


def test_a_leader_that_is_killed_while_claims_are_bound_loses_nothing(cluster: Cluster) -> None:
    cluster.apply([*nodes(3), DYNAMIC])
    leader = cluster.run()
    second = cluster.start("scheduler")
    cluster.wait(lambda: second.ready, "the second replica is ready")
    cluster.apply([with_scratch(vcjob("train", 2, 8), "dynamic")])
    claims = [f"train-work-{number}-scratch" for number in range(2)]
    cluster.wait(lambda: all(selected(cluster, name) for name in claims), "both claims have a node")
    chosen = {name: selected(cluster, name) for name in claims}
    cluster.crash(leader)
    cluster.wait(lambda: second.leads, "the second replica leads")
    assert not any(map(node_of, cluster.pods("train")))

    def done() -> list[Object] | None:
        provision(cluster, "dynamic", lambda at: {"node": at})
        return cluster.running("train", 2)

    running = cluster.wait(done, "train runs")
    check_chips(running)
    assert {f"{one['metadata']['name']}-scratch": node_of(one) for one in running} == chosen
    # Their phase is written last.
    cluster.wait(
        lambda: {one["status"]["phase"] for one in cluster.api.items(CLAIMS)} == {"Bound"},
        "all claims are bound",
    )
