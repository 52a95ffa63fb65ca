"""PodGroups for Deployments, StatefulSets, Jobs of Kubernetes and bare pods (issue 17, 4)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.cluster import GROUPS, PODS, Cluster, check_chips, node_of
from tests.cluster.objects import GROUP, NAMESPACE, Object, node, node_report, nodes, pod, pod_group
from tests.cluster.owners import Workload

pytestmark = pytest.mark.cluster


@pytest.fixture(autouse=True)
def no_owners_are_left(cluster: Cluster) -> Iterator[None]:
    yield
    for kind in ("apps/v1", "replicasets"), ("apps/v1", "statefulsets"), ("batch/v1", "jobs"):
        cluster.api.delete(f"/apis/{kind[0]}/namespaces/{NAMESPACE}/{kind[1]}")


def written(pods: list[Object], key: str) -> set[str | None]:
    return {one["metadata"].get("annotations", {}).get(key) for one in pods}


def test_the_replicas_of_a_deployment_share_a_pod_group_and_have_different_ranks(cluster: Cluster) -> None:
    cluster.apply(nodes(3))
    cluster.run()
    chat = Workload(cluster, "ReplicaSet", "chat", 2, 8)
    # The second pod comes when the first one runs.
    chat.create_pods(0)
    cluster.wait_running("chat", 1)
    chat.create_pods(1)
    running = cluster.wait_running("chat", 2)
    check_chips(running)
    assert written(running, "hccl/rankIndex") == {"0", "1"}
    assert written(running, "distributed-job") == {"true"}
    assert written(running, GROUP) == {chat.group_name}
    group = chat.group or {}
    assert group["spec"]["minMember"] == 1
    assert group["spec"]["minResources"]["huawei.com/Ascend910"] == "8"
    assert group["metadata"]["ownerReferences"] == [chat.reference]
    # A rolling update: the pods of the new ReplicaSet have a PodGroup of their own.
    later = Workload(cluster, "ReplicaSet", "later", 1, 8)
    later.create_pods(0)
    assert written(cluster.wait_running("later", 1), GROUP) == {later.group_name}
    # At 0 replicas, when the pods are gone, the PodGroup goes, too.
    chat.scale(0)
    for number in range(2):
        cluster.kubectl("delete", "pod", f"chat-{number}", "-n", NAMESPACE, "--wait=false")
    cluster.wait(lambda: chat.group is None, "its PodGroup is deleted")
    assert later.group is not None


def test_a_gang_of_a_stateful_set_waits_for_its_pods(cluster: Cluster) -> None:
    cluster.apply(nodes(3))
    cluster.run()
    gang = Workload(
        cluster, "StatefulSet", "gang", 3, 8, annotations={"scheduling.volcano.sh/group-min-member": "3"}
    )
    gang.create_pods(0, 1)
    cluster.wait(lambda: written(cluster.pods("gang"), GROUP) == {gang.group_name}, "both have a group")
    cluster.wait(
        lambda: (
            "2 pods of gang can take part; 3 must start together"
            in (cluster.condition("gang") or {}).get("message", "")
        ),
        "it says why it waits",
    )
    assert not any(node_of(one) for one in cluster.pods("gang"))
    gang.create_pods(2)
    running = cluster.wait_running("gang", 3)
    ranks = {one["metadata"]["name"]: one["metadata"]["annotations"]["hccl/rankIndex"] for one in running}
    assert ranks == {"gang-0": "0", "gang-1": "1", "gang-2": "2"}


def test_a_job_that_needs_40_pods_holds_nothing_with_8(cluster: Cluster) -> None:
    cluster.apply(nodes(8))
    cluster.run()
    least = {"huawei.com/schedule_minAvailable": "40"}
    job = Workload(cluster, "Job", "many", 40, 8, pod_annotations=least)
    job.create_pods(*range(40))
    cluster.wait(lambda: cluster.condition("many"), "it says why it waits")
    cluster.wait(
        lambda: written(cluster.pods("many"), GROUP) == {job.group_name}, "all pods have their group"
    )
    assert not any(node_of(one) for one in cluster.pods("many"))


def test_blocks_of_a_deployment_stay_inside_one_superpod(cluster: Cluster) -> None:
    kind = {"accelerator-type": "module-a3-16-super-pod"}
    for superpod in (1, 2):
        for index in range(2):
            name = f"sp{superpod}-{index}"
            where = {"superPodID": str(superpod), "serverIndex": str(index)}
            cluster.apply(
                [
                    node(name, 16, labels=kind, annotations=where, address=f"10.0.{superpod}.{index}"),
                    node_report(name, range(16), superpod=superpod, index=index),
                ]
            )
    cluster.run()
    block = Workload(
        cluster,
        "ReplicaSet",
        "block",
        2,
        16,
        pod_annotations={"huawei.com/schedule_policy": "chip2-node16-sp", "sp-block": "32"},
        selector=kind,
    )
    block.create_pods(0, 1)
    running = cluster.wait_running("block", 2)
    check_chips(running)
    assert written(running, "super-pod-rank") == {"0"}
    assert len(written(running, "super-pod-id")) == 1
    assert written(running, "hccl/rankIndex") == {"0", "1"}


def test_a_bare_pod_gets_a_pod_group_once_it_has_waited_and_others_are_left_alone(cluster: Cluster) -> None:
    cluster.apply([*nodes(2), pod_group("own", 1)])
    cluster.run()
    mine = Workload(cluster, "ReplicaSet", "mine", 1, 8, pod_annotations={GROUP: "own"})
    mine.create_pods(0)
    assert written(cluster.wait_running("mine", 1), GROUP) == {"own"}
    cluster.api.create(PODS, pod("bare-0", 8))
    cluster.api.create(PODS, pod("theirs-0", 4, scheduler="default-scheduler"))
    cluster.wait_running("bare", 1)
    cluster.api.create(PODS, pod("late-0", 8))
    name = f"podgroup-{cluster.pods('late')[0]['metadata']['uid']}"
    cluster.wait(lambda: written(cluster.pods("late"), GROUP) == {name}, "it has its PodGroup", seconds=90)
    # Bound at once, it needs none.
    assert written(cluster.pods("bare"), GROUP) == {None}
    cluster.kubectl("delete", "pod", "bare-0", "-n", NAMESPACE, "--wait=false")
    cluster.wait_running("late", 1)
    cluster.wait(
        lambda: cluster.api.get(f"{GROUPS}/{name}").get("status", {}).get("phase") == "Running",
        "it is Running",
    )
    assert sorted(one["metadata"]["name"] for one in cluster.api.items(GROUPS)) == sorted(["own", name])
    assert GROUP not in cluster.pods("theirs")[0]["metadata"].get("annotations", {})


def test_without_a_controller_the_pods_of_an_owner_say_what_is_missing(cluster: Cluster) -> None:
    """And with --no-pod-groups each is scheduled on its own."""
    cluster.apply(nodes(1))
    scheduler = cluster.run("scheduler")
    lone = Workload(cluster, "ReplicaSet", "lone", 1, 8)
    lone.create_pods(0)
    event = cluster.wait(lambda: cluster.events("Pod", "lone-0"), "it is told", seconds=90)[0]
    assert "no PodGroup yet" in event["message"]
    scheduler.process.kill()
    cluster.start("scheduler", "--no-pod-groups")
    cluster.wait_running("lone", 1)
