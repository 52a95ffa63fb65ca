"""PodGroups for Deployments, StatefulSets, Jobs of Kubernetes and bare pods (issue 17, 4)."""

from __future__ import annotations

from datetime import datetime

import pytest

from tests.cluster.cluster import GROUPS, PODS, SOON_GROUPED, SOON_TOLD, Cluster, check_chips, node_of
from tests.cluster.objects import ENDS, GROUP, Object, node, node_report, nodes, pod, pod_group
from tests.cluster.owners import Workload, evict, pod_group_named

pytestmark = pytest.mark.cluster


def created(one: Object) -> datetime:
    return datetime.fromisoformat(one["metadata"]["creationTimestamp"])


def written(pods: list[Object], key: str) -> set[str | None]:
    return {one["metadata"].get("annotations", {}).get(key) for one in pods}


def test_the_replicas_of_a_deployment_share_a_pod_group_and_have_different_ranks(cluster: Cluster) -> None:
    cluster.apply(nodes(3))
    cluster.run()
    chat = Workload(cluster, "Deployment", "chat", 2, 8)
    running = cluster.wait_running("chat", 2)
    check_chips(running)
    assert written(running, "hccl/rankIndex") == {"0", "1"}
    assert written(running, "distributed-job") == {"true"}
    first = chat.group_name
    assert written(running, GROUP) == {first}
    group = pod_group_named(cluster, first) or {}
    assert group["spec"]["minMember"] == 1
    assert group["spec"]["minResources"]["huawei.com/Ascend910"] == "8"
    (owner,) = group["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("ReplicaSet", chat.owner, True)
    # A rolling update: the pods of the new ReplicaSet have a PodGroup of their own, and come one by one.
    chat.roll_out({"tests.ringwise/model": "2"})

    def is_rolled_out() -> list[Object] | None:
        pods = cluster.running("chat", 2)
        return pods if pods is not None and written(pods, "tests.ringwise/model") == {"2"} else None

    after = cluster.wait(is_rolled_out, "both pods are of the new template")
    check_chips(after)
    second = chat.group_name
    assert second != first
    assert written(after, GROUP) == {second}
    assert written(after, "hccl/rankIndex") == {"0", "1"}
    cluster.wait(lambda: chat.status.get("availableReplicas") == 2, "the Deployment says so")
    # The old ReplicaSet has 0 replicas and no pods: its PodGroup goes, too.
    cluster.wait(lambda: pod_group_named(cluster, first) is None, "its PodGroup is deleted")
    assert pod_group_named(cluster, second) is not None


def test_a_gang_of_a_stateful_set_waits_for_its_pods(cluster: Cluster) -> None:
    cluster.apply(nodes(3))
    cluster.run(waits=SOON_TOLD)
    gang = Workload(
        cluster, "StatefulSet", "gang", 2, 8, annotations={"scheduling.volcano.sh/group-min-member": "3"}
    )
    cluster.wait(lambda: written(cluster.pods("gang"), GROUP) == {gang.group_name}, "both have a group")
    cluster.wait(
        lambda: (
            "2 of 3 required pods of gang are valid (minAvailable)"
            in (cluster.condition("gang") or {}).get("message", "")
        ),
        "it says why it waits",
    )
    assert not any(node_of(one) for one in cluster.pods("gang"))
    gang.scale(3)
    running = cluster.wait_running("gang", 3)
    ranks = {one["metadata"]["name"]: one["metadata"]["annotations"]["hccl/rankIndex"] for one in running}
    assert ranks == {"gang-0": "0", "gang-1": "1", "gang-2": "2"}


def test_a_job_that_needs_40_pods_holds_nothing_with_8(cluster: Cluster) -> None:
    cluster.apply(nodes(8))
    cluster.run()
    least = {"huawei.com/schedule_minAvailable": "40"}
    job = Workload(cluster, "Job", "many", 40, 8, pod_annotations=least)
    cluster.wait(lambda: len(cluster.pods("many")) == 40, "all pods exist")
    cluster.wait(lambda: cluster.condition("many"), "it says why it waits")
    cluster.wait(
        lambda: written(cluster.pods("many"), GROUP) == {job.group_name}, "all pods have their group"
    )
    assert not any(node_of(one) for one in cluster.pods("many"))


def test_a_job_whose_pod_is_evicted_is_whole_again_and_completes(cluster: Cluster) -> None:
    cluster.apply(nodes(3))
    cluster.run()
    job = Workload(cluster, "Job", "batch", 2, 8, pod_annotations={"huawei.com/schedule_minAvailable": "2"})
    before = {one["metadata"]["name"]: one for one in cluster.wait_running("batch", 2)}
    lost, stays = before
    rank = before[lost]["metadata"]["annotations"]["hccl/rankIndex"]
    evict(cluster, lost)

    def is_whole() -> list[Object] | None:
        pods = [one for one in cluster.pods("batch") if one["status"]["phase"] == "Running"]
        names = {one["metadata"]["name"] for one in pods}
        return pods if len(names) == 2 and lost not in names else None

    after = cluster.wait(is_whole, "the evicted pod was made again")
    check_chips(after)
    assert written(after, GROUP) == {job.group_name}
    (made,) = [one for one in after if one["metadata"]["name"] != stays]
    assert made["metadata"]["annotations"]["hccl/rankIndex"] == rank
    for one in after:
        cluster.api.patch(
            f"{PODS}/{one['metadata']['name']}", {"metadata": {"annotations": {ENDS: "succeeds"}}}
        )
    cluster.wait(lambda: job.status.get("succeeded") == 2, "the Job is complete")
    cluster.wait(
        lambda: (
            (pod_group_named(cluster, job.group_name) or {}).get("status", {}).get("phase") == "Completed"
        ),
        "so is its PodGroup",
    )


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
    Workload(
        cluster,
        "Deployment",
        "block",
        2,
        16,
        pod_annotations={"huawei.com/schedule_policy": "chip2-node16-sp", "sp-block": "32"},
        selector=kind,
    )
    running = cluster.wait_running("block", 2)
    check_chips(running)
    assert written(running, "super-pod-rank") == {"0"}
    assert len(written(running, "super-pod-id")) == 1
    assert written(running, "hccl/rankIndex") == {"0", "1"}


def test_a_bare_pod_gets_a_pod_group_once_it_has_waited_and_others_are_left_alone(cluster: Cluster) -> None:
    cluster.apply([*nodes(2), pod_group("own", 1)])
    cluster.run("scheduler")
    Workload(cluster, "ReplicaSet", "mine", 1, 8, pod_annotations={GROUP: "own"})
    assert written(cluster.wait_running("mine", 1), GROUP) == {"own"}
    cluster.api.create(PODS, pod("bare-0", 8))
    cluster.api.create(PODS, pod("theirs-0", 4, scheduler="default-scheduler"))
    cluster.wait_running("bare", 1)
    # The controller comes now: on a busy machine the pod might have waited too long.
    cluster.run("controller", waits=SOON_GROUPED)
    late = cluster.api.create(PODS, pod("late-0", 8))
    name = f"podgroup-{late['metadata']['uid']}"
    cluster.wait(lambda: written(cluster.pods("late"), GROUP) == {name}, "it has its PodGroup")
    group = pod_group_named(cluster, name)
    assert group is not None
    waited = created(group) - created(late)
    # Times of the API have whole seconds.
    assert waited.total_seconds() >= 9
    # Bound at once, it needs none.
    assert written(cluster.pods("bare"), GROUP) == {None}
    cluster.kubectl("delete", "pod", "bare-0", "--wait=false")
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
    scheduler = cluster.run("scheduler", waits=SOON_TOLD)
    Workload(cluster, "ReplicaSet", "lone", 1, 8)
    (lone,) = cluster.wait(lambda: cluster.pods("lone"), "its pod is made")
    event = cluster.wait(lambda: cluster.events("Pod", lone["metadata"]["name"]), "it is told")[0]
    assert "the PodGroup of the pod is not created yet" in event["message"]
    cluster.crash(scheduler)
    cluster.start("scheduler", "--no-pod-groups")
    cluster.wait_running("lone", 1)
