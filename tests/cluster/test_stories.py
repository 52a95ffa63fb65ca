"""User stories on a cluster, with real manifests and the shipped service accounts."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial

import pytest

from tests.cluster.cluster import (
    GROUPS,
    JOBS,
    PODS,
    SOON_TOLD,
    Cluster,
    check_chips,
    chips_of,
    node_of,
)
from tests.cluster.objects import (
    CHIP,
    ENDS,
    Object,
    node,
    node_report,
    nodes,
    pod,
    pod_group,
    switch_topology,
    vcjob,
)

pytestmark = pytest.mark.cluster

WHOLE = {f"Ascend910-{chip}" for chip in range(8)}


def test_a_job_of_8_by_8_chips_runs_and_is_cleaned_up(cluster: Cluster) -> None:
    cluster.apply(nodes(8))
    cluster.run()
    cluster.apply([vcjob("train", 8, 8)])
    pods = cluster.wait_running("train", 8)
    assert {node_of(one) for one in pods} == {f"node-{number}" for number in range(1, 9)}
    assert all(set(chips_of(one)) == WHOLE for one in pods)
    assert sorted(int(one["metadata"]["annotations"]["hccl/rankIndex"]) for one in pods) == list(range(8))
    assert all(one["metadata"]["annotations"]["predicate-time"].isdigit() for one in pods)
    cluster.wait(
        lambda: cluster.api.get(f"{JOBS}/train").get("status", {}).get("state", {}).get("phase") == "Running",
        "the job is Running",
    )
    cluster.wait(
        lambda: (cluster.group_of("train") or {})["status"]["phase"] == "Running", "its group is, too"
    )
    cluster.kubectl("delete", "job.batch.volcano.sh", "train", "--wait=false")
    cluster.wait(lambda: not cluster.pods() and not cluster.api.items(GROUPS), "nothing is left")
    # The chips are free again.
    cluster.apply([vcjob("next", 8, 8)])
    check_chips(cluster.wait_running("next", 8))


def test_a_job_runs_to_its_end(cluster: Cluster) -> None:
    cluster.apply(nodes(1))
    cluster.run()
    cluster.apply([vcjob("brief", 1, 8, pod_annotations={ENDS: "succeeds"})])
    cluster.wait(
        lambda: (
            cluster.api.get(f"{JOBS}/brief").get("status", {}).get("state", {}).get("phase") == "Completed"
        ),
        "the job is Completed",
    )
    cluster.apply([vcjob("after", 1, 8)])
    check_chips([*cluster.wait_running("after", 1), *cluster.pods()])


def test_a_failed_pod_restarts_the_job(cluster: Cluster) -> None:
    cluster.apply(nodes(2))
    cluster.run()
    cluster.apply([vcjob("train", 2, 8, policies=[{"event": "PodFailed", "action": "RestartJob"}])])
    first = {one["metadata"]["uid"] for one in cluster.wait_running("train", 2)}
    cluster.api.patch(f"{PODS}/train-work-1", {"metadata": {"annotations": {ENDS: "fails"}}})

    def again() -> bool:
        pods = cluster.running("train", 2)
        return pods is not None and not first.intersection(one["metadata"]["uid"] for one in pods)

    cluster.wait(again, "both pods are new and run")
    check_chips(cluster.pods())
    cluster.wait(
        lambda: cluster.api.get(f"{JOBS}/train")["status"].get("retryCount") == 1, "the restart is counted"
    )


def test_pods_of_a_group_start_together(cluster: Cluster) -> None:
    """Pods of an operator, with their own PodGroup."""
    cluster.apply(nodes(1))
    cluster.run(waits=SOON_TOLD)
    cluster.apply([pod_group("pair", 2), pod("pair-0", 8, group="pair")])
    cluster.wait(lambda: cluster.condition("pair"), "the group says what it waits for")
    assert not node_of(cluster.pods("pair")[0])
    cluster.apply([node("node-2"), pod("pair-1", 8, group="pair")])
    check_chips(cluster.wait_running("pair", 2))


def test_pods_without_a_group_run(cluster: Cluster) -> None:
    """Like the pods of a Deployment: with an owner and without a group."""
    cluster.apply(nodes(1))
    cluster.run("scheduler")
    annotations = {"huawei.com/schedule_policy": "chip4-node8", "huawei.com/schedule_minAvailable": "1"}
    labels = {"app": "infer", "deploy-name": "infer", "fault-scheduling": "grace"}
    cluster.apply([pod(f"infer-{name}", 2, labels=labels, annotations=annotations) for name in "abcd"])
    pods = cluster.wait_running("infer", 4)
    check_chips(pods)
    # Four pairs fill both rings; no pair is split over rings.
    assert all(len({int(chip.split("-")[1]) // 4 for chip in chips_of(one)}) == 1 for one in pods)


@pytest.mark.parametrize("sizes", [(4, 2, 1, 1), (4, 4), (1, 1, 2, 4)])
def test_pods_that_arrive_together_share_one_node(cluster: Cluster, sizes: tuple[int, ...]) -> None:
    cluster.apply(nodes(3))
    cluster.run("scheduler")
    cluster.apply([pod(f"part-{number}", size) for number, size in enumerate(sizes)])
    pods = cluster.wait_running("part", len(sizes))
    check_chips(pods)
    assert len({node_of(one) for one in pods}) == 1, cluster.picture()


def test_three_four_and_one_chips_share_one_node(cluster: Cluster) -> None:
    """On a board that allows three chips."""
    labels = {"accelerator-type": "module-910b-8"}
    cluster.apply([node(f"node-{number}", labels=labels) for number in range(1, 4)])
    cluster.run("scheduler")
    policy = {"huawei.com/schedule_policy": "chip8-node8"}
    cluster.apply([pod(f"part-{size}", size, annotations=policy) for size in (3, 4, 1)])
    pods = cluster.wait_running("part", 3)
    check_chips(pods)
    assert len({node_of(one) for one in pods}) == 1, cluster.picture()


def test_an_impossible_job_has_a_reason(cluster: Cluster) -> None:
    cluster.apply(nodes(1))
    cluster.run()
    cluster.apply([vcjob("too-large", 2, 8), vcjob("odd", 1, 3)])

    def told(job: str) -> Object | None:
        """The condition, when an event says the same: they are written apart, and may change meanwhile."""
        condition = cluster.condition(job)
        events = cluster.events("Job", job)
        said = condition is not None and any(condition["message"] in one["message"] for one in events)
        return condition if said else None

    for job, text in (("too-large", "8"), ("odd", "3")):
        condition = cluster.wait(partial(told, job), f"{job} says why, and has an event")
        assert condition["status"] == "True"
        assert text in condition["message"], condition
    described = cluster.kubectl("describe", "job.batch.volcano.sh", "odd")
    assert "3" in described.split("Events:")[1]


def test_S6_a_switch_job_takes_whole_switches_and_publishes_them(cluster: Cluster) -> None:
    cluster.apply(_switch_nodes(3, 4))
    configuration = {
        "volcano-scheduler.conf": (
            'actions: "enqueue, allocate, backfill"\n'
            "tiers:\n- plugins:\n  - {name: priority}\n  - {name: gang}\n  - {name: topology910}\n"
            "- plugins:\n  - {name: predicates}\n  - {name: nodeorder}\n"
            "configurations:\n- name: init-params\n"
            '  arguments: {"nslb-version": "2.0", "shared-tor-num": "2"}\n'
        )
    }
    path = "/api/v1/namespaces/volcano-system/configmaps/volcano-scheduler-configmap"
    cluster.api.patch(path, {"data": configuration})
    cluster.run()
    cluster.apply([vcjob("train", 6, 8, labels={"tor-affinity": "large-model-schema"})])
    pods = cluster.wait_running("train", 6)
    switches = Counter(int(node_of(one).split("-")[1]) for one in pods)
    assert sorted(switches.values()) == [2, 4], switches
    marks = {int(node_of(one).split("-")[1]): one["metadata"]["annotations"]["isSharedTor"] for one in pods}
    assert marks == {switch: "2" if count == 4 else "1" for switch, count in switches.items()}
    shared = "/api/v1/namespaces/volcano-system/configmaps/tor-share-cm"

    def published() -> bool:
        items = cluster.api.items("/api/v1/namespaces/volcano-system/configmaps")
        return any(
            one["metadata"]["name"] == "tor-share-cm" and "train" in json.dumps(one["data"]) for one in items
        )

    cluster.wait(published, "tor-share-cm names the job")
    cluster.kubectl("delete", "job.batch.volcano.sh", "train", "--wait=false")
    cluster.wait(lambda: not cluster.pods(), "the job is gone")
    cluster.wait(
        lambda: "train" not in json.dumps(cluster.api.get(shared)["data"]), "tor-share-cm forgets it"
    )


def _switch_nodes(switches: int, width: int) -> list[dict[str, object]]:
    topology = {
        f"leaf-{switch}": [f"10.1.{switch}.{place}" for place in range(1, width + 1)]
        for switch in range(1, switches + 1)
    }
    made = [
        node(f"leaf-{switch}-{place}", address=f"10.1.{switch}.{place}")
        for switch in range(1, switches + 1)
        for place in range(1, width + 1)
    ]
    return [switch_topology(topology), *made]


def test_P2_blocks_stay_inside_one_superpod(cluster: Cluster) -> None:
    """The SuperPoD of a node is in its report."""
    for superpod in (1, 2):
        for index in range(3):
            name = f"sp{superpod}-{index}"
            labels = {"accelerator-type": "module-a3-16-super-pod"}
            annotations = {"superPodID": str(superpod), "serverIndex": str(index)}
            cluster.apply(
                [
                    node(name, 16, labels=labels, annotations=annotations),
                    node_report(name, range(16), superpod=superpod, index=index),
                ]
            )
    cluster.run()
    annotations = {"huawei.com/schedule_policy": "chip2-node16-sp", "sp-block": "32"}
    cluster.apply([vcjob("train", 4, 16, annotations=annotations)])
    pods = cluster.wait_running("train", 4)
    check_chips(pods)
    blocks = Counter(node_of(one).split("-")[0] for one in pods)
    assert sorted(blocks.values()) == [2, 2], blocks


def test_N7_a_chip_reported_as_faulty_is_not_used(cluster: Cluster) -> None:
    cluster.apply([node("node-1"), node_report("node-1", (0, 1, 2, 4, 5, 6, 7), unhealthy=(3,))])
    cluster.run("scheduler")
    cluster.apply([pod(f"one-{number}", 1) for number in range(7)])
    pods = cluster.wait_running("one", 7)
    check_chips(pods)
    assert "Ascend910-3" not in {chip for one in pods for chip in chips_of(one)}


def test_a_pending_job_starts_when_chips_are_freed(cluster: Cluster) -> None:
    cluster.apply(nodes(1))
    cluster.run("scheduler")
    cluster.apply([pod("first-0", 8)])
    cluster.wait_running("first", 1)
    cluster.apply([pod("second-0", 8)])

    def waits() -> bool:
        (second,) = cluster.pods("second")
        return any(
            (one["type"], one["status"]) == ("PodScheduled", "False")
            for one in second["status"].get("conditions", ())
        )

    cluster.wait(waits, "the second pod says that it waits")
    assert not node_of(cluster.pods("second")[0])
    cluster.kubectl("delete", "pod", "first-0", "--wait=false")
    check_chips(cluster.wait_running("second", 1))


def test_the_status_of_a_queue(cluster: Cluster) -> None:
    cluster.apply(nodes(1))
    queue = "/apis/scheduling.volcano.sh/v1beta1/queues/research"
    cluster.apply(
        [
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "Queue",
                "metadata": {"name": "research"},
                "spec": {"weight": 3},
            }
        ]
    )
    jobs = [vcjob("runs", 1, 8), vcjob("waits", 1, 8)]
    for job in jobs:
        job["spec"]["queue"] = "research"

    def published(running: int, others: int, chips: str | None) -> bool:
        status = cluster.api.get(queue).get("status", {})
        waiting = status.get("pending", 0) + status.get("inqueue", 0)
        allocated = status.get("allocated", {}).get(CHIP)
        return (status.get("running"), waiting, allocated) == (running, others, chips)

    cluster.run()
    cluster.apply(jobs[:1])
    cluster.wait_running("runs", 1)
    cluster.apply(jobs[1:])
    cluster.wait(lambda: published(1, 1, "8"), "one group runs and one waits in the queue")
    assert cluster.api.get(queue)["status"]["state"] == "Open"
    columns = cluster.kubectl("get", "queue.scheduling.volcano.sh", "research").splitlines()[1].split()
    assert columns[:3] == ["research", "3", "Open"]
    for job in jobs:
        name = job["metadata"]["name"]
        cluster.kubectl("delete", "job.batch.volcano.sh", name, "--wait=false")
    cluster.wait(lambda: published(0, 0, None), "the queue is empty")
