"""Beside Huawei's ClusterD: its aggregate counts where it has a node, and its hot switch replaces a pod."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ringwise.wellknown import MINDX_DL, NODE_REPORT_LABEL, RANK_INDEX
from ringwise_bench.control_plane import ApiAnswer
from tests.cluster.cluster import CONFIG_MAPS, GROUPS, PODS, Cluster, check_chips, node_of
from tests.cluster.objects import Object, node_report, nodes, pod, pod_group
from tests.clusterd import ClusterD, HotSwitch, PublicFault

pytestmark = pytest.mark.cluster

ALL = tuple(range(8))
REPORTS = f"/api/v1/namespaces/{MINDX_DL}/configmaps"
FORCE = {"fault-scheduling": "force", "pod-rescheduling": "on"}
HOT_SWITCH = {"fault-scheduling": "force", "subHealthyStrategy": "hotSwitch"}


class Reporter:
    """Runs the stand-in once: from the reports that are on the API server to its aggregates there."""

    def __init__(self, cluster: Cluster, clusterd: ClusterD) -> None:
        self._cluster = cluster
        self.clusterd = clusterd

    def run(self) -> None:
        found = [
            one
            for path in (CONFIG_MAPS, REPORTS)
            for one in self._cluster.api.items(path)
            if NODE_REPORT_LABEL in one["metadata"].get("labels", {})
        ]
        self._cluster.apply(self.clusterd.aggregates(found))


@pytest.fixture
def reporter(cluster: Cluster) -> Reporter:
    # Every node has a ConfigMap of its own: the aggregate of a large cluster has several.
    return Reporter(cluster, ClusterD(chunk=500))


class ClusterPods:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def _get(self, name: str) -> Object | None:
        try:
            found: Object = self._cluster.api.get(f"{PODS}/{name}")
            return found
        except ApiAnswer as answer:
            if answer.status != 404:
                raise
            return None

    def phase(self, name: str) -> str | None:
        found = self._get(name)
        return None if found is None else str(found["status"].get("phase"))

    def patch(
        self, name: str, annotations: Mapping[str, str | None], labels: Mapping[str, str] | None = None
    ) -> None:
        metadata = {"annotations": dict(annotations), "labels": dict(labels or {})}
        self._cluster.api.patch(f"{PODS}/{name}", {"metadata": metadata})

    def copy(self, name: str, to: str, annotations: Mapping[str, str]) -> None:
        source = self._get(name)
        assert source is not None
        rank = source["metadata"]["annotations"][RANK_INDEX]
        made = worker(to, int(rank), source["metadata"]["labels"])
        made["metadata"]["annotations"] |= annotations
        self._cluster.api.create(PODS, made)

    def delete(self, name: str) -> None:
        self._cluster.api.delete(f"{PODS}/{name}", {"gracePeriodSeconds": 0})


def worker(name: str, rank: int, labels: Mapping[str, str]) -> Object:
    """A pod as Huawei's operator makes it, with its rank."""
    return pod(name, 8, group="train", labels=labels, annotations={RANK_INDEX: str(rank)})


def start(cluster: Cluster, reporter: Reporter, labels: Mapping[str, str], count: int = 3) -> list[Object]:
    """A job of so many nodes and two more nodes; reports of device plugins and ClusterD's aggregate."""
    cluster.apply(nodes(count + 2))
    cluster.apply([node_report(f"node-{number}", ALL, index=number) for number in range(1, count + 3)])
    reporter.run()
    cluster.run("scheduler")
    cluster.apply([pod_group("train", count)])
    cluster.apply([worker(f"train-{rank}", rank, labels) for rank in range(count)])
    return cluster.wait_running("train", count)


def where(pods: list[Object]) -> dict[str, tuple[str, str]]:
    return {one["metadata"]["name"]: (one["metadata"]["uid"], node_of(one)) for one in pods}


def test_N7_a_fault_that_only_clusterd_knows_moves_a_pod(cluster: Cluster, reporter: Reporter) -> None:
    before = where(start(cluster, reporter, FORCE))
    assert sum("cluster-info-device-" in one["metadata"]["name"] for one in cluster.api.items(REPORTS)) == 5
    bad = before["train-2"][1]
    reporter.clusterd.public_faults = [PublicFault(bad, "Ascend910-5", "110001020", "SeparateNPU")]
    reporter.run()
    cluster.wait(lambda: ClusterPods(cluster).phase("train-2") is None, "the pod is deleted")
    cluster.apply([worker("train-2", 2, FORCE)])
    after = where(cluster.wait_running("train", 3))
    assert {name: after[name] for name in ("train-0", "train-1")} == {
        name: before[name] for name in ("train-0", "train-1")
    }
    assert after["train-2"][1] != bad
    check_chips(cluster.pods("train"))


def test_N7_an_aggregate_that_breaks_or_goes_moves_nobody(cluster: Cluster, reporter: Reporter) -> None:
    before = where(start(cluster, reporter, FORCE))
    mine = before["train-1"][1]
    # While an entry is garbage its last good one counts; once it is gone, the node's own report with a fault.
    (name,) = (
        one["metadata"]["name"]
        for one in cluster.api.items(REPORTS)
        if f'"mindx-dl-deviceinfo-{mine}"' in next(iter(one.get("data", {}).values()), "")
    )
    cluster.apply([node_report(mine, ALL[:-1], unhealthy=[7])])
    for text in ('{"mindx-dl-deviceinfo-', f'{{"mindx-dl-deviceinfo-{mine}": 7}}'):
        cluster.api.patch(f"{REPORTS}/{name}", {"data": {name: text}})
    marker = worker("train-marker", 0, {})
    marker["metadata"]["annotations"].pop("scheduling.k8s.io/group-name")
    cluster.apply([marker])
    cluster.wait(lambda: ClusterPods(cluster).phase("train-marker") == "Running", "the scheduler goes on")
    assert where(cluster.pods("train"))["train-1"] == before["train-1"]
    cluster.api.delete(f"{REPORTS}/{name}")
    cluster.wait(lambda: ClusterPods(cluster).phase("train-1") is None, "the own report of the node counts")
    now = where(cluster.pods("train"))
    assert [now[name] for name in ("train-0", "train-2")] == [before[name] for name in ("train-0", "train-2")]


def test_a_hot_switch(cluster: Cluster, reporter: Reporter) -> None:
    before = start(cluster, reporter, HOT_SWITCH)
    places = where(before)
    bad = places["train-1"][1]
    cluster.apply([node_report(bad, ALL, sub_healthy=[3])])
    reporter.run()
    switch = HotSwitch(ClusterPods(cluster), "train-1", "train-1-backup")
    switch.begin()
    cluster.wait(lambda: switch.is_ready, "the backup runs")
    both = cluster.wait_running("train", 4)
    check_chips(both)
    assert {name: place for name, place in where(both).items() if name in places} == places
    switch.take_over()
    cluster.wait(lambda: switch.is_over, "the old pod is deleted")
    switch.finish()
    after = cluster.wait_running("train", 3)
    check_chips(after)
    found = where(after)
    assert {name: found[name] for name in ("train-0", "train-2")} == {
        name: places[name] for name in ("train-0", "train-2")
    }
    assert found["train-1-backup"][1] not in {node for _, node in places.values()}
    ranks = {one["metadata"]["name"]: one["metadata"]["annotations"][RANK_INDEX] for one in after}
    assert ranks == {"train-0": "0", "train-1-backup": "1", "train-2": "2"}
    cluster.wait(
        lambda: cluster.api.get(f"{GROUPS}/train")["status"]["phase"] == "Running", "the group is Running"
    )

    def is_recorded() -> bool:
        events = cluster.events("Pod", "train-1")
        return any("hot switch" in one["message"] for one in events if one["reason"] == "Rescheduled")

    cluster.wait(is_recorded, "an event is recorded")


def test_a_hot_switch_that_fails(cluster: Cluster, reporter: Reporter) -> None:
    """The backup finds no node in time: it goes, and the job runs on as it was."""
    before = where(start(cluster, reporter, HOT_SWITCH))
    taken = [worker(f"other-{number}", 0, {}) for number in range(2)]
    for one in taken:
        one["metadata"]["annotations"].pop("scheduling.k8s.io/group-name")
    cluster.apply(taken)
    cluster.wait(lambda: cluster.running("other", 2), "no node is left")
    cluster.apply([node_report(before["train-1"][1], ALL, sub_healthy=[3])])
    reporter.run()
    switch = HotSwitch(ClusterPods(cluster), "train-1", "train-1-backup")
    switch.begin()
    cluster.wait(lambda: cluster.events("Pod", "train-1-backup"), "the backup waits, and an event says why")
    switch.give_up()
    assert where(cluster.wait_running("train", 3)) == before


def test_a_hot_switch_across_a_change_of_the_leader(cluster: Cluster, reporter: Reporter) -> None:
    places = where(start(cluster, reporter, HOT_SWITCH))
    cluster.apply([node_report(places["train-1"][1], ALL, sub_healthy=[3])])
    reporter.run()
    switch = HotSwitch(ClusterPods(cluster), "train-1", "train-1-backup")
    switch.begin()
    cluster.wait(lambda: switch.is_ready, "the backup runs")
    cluster.stop_components()
    switch.take_over()
    cluster.run("scheduler")
    cluster.wait(lambda: switch.is_over, "the old pod is deleted")
    switch.finish()
    found = where(cluster.wait_running("train", 3))
    assert [found[name] for name in ("train-0", "train-2")] == [
        places[name] for name in ("train-0", "train-2")
    ]
