"""Faults on a cluster: jobs are whole again on healthy hardware, and pods that can stay or return do."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ringwise.wellknown import MINDX_DL, VOLCANO_SYSTEM
from tests.cluster.cluster import PODS, Cluster, Component, check_chips, node_of
from tests.cluster.objects import Object, node_report, nodes, pod, pod_group, vcjob

pytestmark = pytest.mark.cluster

LABELS = {"fault-scheduling": "grace"}
ALL = tuple(range(8))
COUNT = 3


class Owner:
    """Creates the pods of a job, and creates them again when they are gone: a vcjob's controller, a user with
    a PodGroup, or a program of its own whose pods have no group.
    """

    def __init__(self, cluster: Cluster, kind: str) -> None:
        self._cluster = cluster
        self.kind = kind
        self._references: list[Object] = []
        match kind:
            case "vcjob":
                cluster.apply([vcjob("train", COUNT, 8, labels=LABELS)])
            case "PodGroup":
                cluster.apply([pod_group("train", COUNT)])
            case "owner of its own":
                metadata = {"name": "operator"}
                cluster.apply([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}])
                found = cluster.api.get("/api/v1/namespaces/-/configmaps/operator")
                self._references = [
                    {
                        "apiVersion": "v1",
                        "kind": "ConfigMap",
                        "name": "operator",
                        "uid": found["metadata"]["uid"],
                        "controller": True,
                    }
                ]
        self.work()

    def work(self) -> None:
        if self.kind == "vcjob":
            return
        there = {one["metadata"]["name"] for one in self._cluster.pods("train")}
        missing = [f"train-work-{number}" for number in range(COUNT) if f"train-work-{number}" not in there]
        group = "train" if self.kind == "PodGroup" else ""
        made = [pod(name, 8, group=group, labels=LABELS) for name in missing]
        for one in made:
            one["metadata"]["ownerReferences"] = self._references
        if made:
            self._cluster.apply(made)

    def complete(self) -> list[Object] | None:
        self.work()
        return self._cluster.running("train", COUNT)


@pytest.fixture(params=["vcjob", "PodGroup", "owner of its own"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def where(pods: list[Object]) -> dict[str, str]:
    return {one["metadata"]["name"]: node_of(one) for one in pods}


def uids(pods: list[Object]) -> dict[str, str]:
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in pods}


def start(cluster: Cluster, kind: str) -> Component:
    """A scheduler. Pods of an owner of its own are jobs of one pod: they wait for no PodGroup."""
    return cluster.start("scheduler", *(["--no-pod-groups"] if kind == "owner of its own" else ()))


def running_job(cluster: Cluster, kind: str) -> tuple[Owner, list[Object]]:
    """Four nodes, of which the job uses three."""
    cluster.apply(nodes(4))
    cluster.apply([node_report(f"node-{number}", ALL, index=number) for number in range(1, 5)])
    scheduler = start(cluster, kind)
    cluster.wait(lambda: scheduler.leads, "the scheduler leads")
    if kind == "vcjob":
        cluster.run("controller")
    owner = Owner(cluster, kind)
    return owner, cluster.wait(owner.complete, "the job runs")


def moved(owner: Owner, pods: list[Object], name: str, bad: str) -> Callable[[], list[Object] | None]:
    """Whether the job is whole again, and this pod is a new one elsewhere."""
    before = uids(pods)

    def check() -> list[Object] | None:
        found = owner.complete()
        if found is None or uids(found)[name] == before[name] or where(found)[name] == bad:
            return None
        return found

    return check


def check_rest(kind: str, before: list[Object], after: list[Object], name: str) -> None:
    """The other pods are where they were; pods without a group were not even restarted."""
    old, new = where(before), where(after)
    assert {one: old[one] for one in old if one != name} == {one: new[one] for one in new if one != name}
    if kind == "owner of its own":
        assert all(uids(before)[one] == uids(after)[one] for one in old if one != name)
    check_chips(after)


def config_map(cluster: Cluster, namespace: str, name: str) -> dict[str, Any]:
    """Its contents; nothing while it does not exist."""
    found = cluster.api.items(f"/api/v1/namespaces/{namespace}/configmaps")
    return {
        key: json.loads(text)
        for one in found
        if one["metadata"]["name"] == name
        for key, text in one["data"].items()
    }


def test_S9_a_chip_breaks(cluster: Cluster, kind: str) -> None:
    owner, before = running_job(cluster, kind)
    bad = where(before)["train-work-2"]
    cluster.apply([node_report(bad, ALL[1:], unhealthy=[0])])
    after = cluster.wait(moved(owner, before, "train-work-2", bad), "the pod runs elsewhere")
    check_rest(kind, before, after, "train-work-2")

    def is_recorded() -> bool:
        events = cluster.events("Pod", "train-work-2")
        return any("Ascend910-0" in one["message"] for one in events if one["reason"] == "Rescheduled")

    def recorded() -> bool:
        faults = config_map(cluster, VOLCANO_SYSTEM, "vcjob-fault-npu-cm").get("fault-node", ())
        records = config_map(cluster, _records_namespace(cluster), "job-reschedule-reason")
        return [one["NodeName"] for one in faults] == [bad] and any(
            record["ReasonOfTask"][0]["RescheduleReason"] == "CardUnhealthy"
            for job in records.get("recent-reschedule-records", {}).values()
            for record in job["RescheduleRecords"]
        )

    cluster.wait(is_recorded, "an event is recorded")

    cluster.wait(recorded, "the fault is recorded")


def _records_namespace(cluster: Cluster) -> str:
    """Clusters without Huawei's components lack the usual namespace."""
    found = cluster.kubectl("get", "namespace", MINDX_DL, "-o", "name", check=False)
    return MINDX_DL if found.startswith("namespace/") else VOLCANO_SYSTEM


def test_S9_a_node_is_lost(cluster: Cluster, kind: str) -> None:
    owner, before = running_job(cluster, kind)
    bad = where(before)["train-work-2"]
    cluster.kubectl("delete", "node", bad, "--wait=false")
    after = cluster.wait(moved(owner, before, "train-work-2", bad), "the pod runs elsewhere")
    check_rest(kind, before, after, "train-work-2")


def test_the_report_of_a_device_plugin_is_gone(cluster: Cluster, kind: str) -> None:
    """Nothing moves because of it. A fault that is reported afterwards is handled."""
    owner, before = running_job(cluster, kind)
    bad = where(before)["train-work-2"]
    cluster.kubectl("delete", "configmap", f"mindx-dl-deviceinfo-{bad}", "-n", "kube-system")
    cluster.apply([pod("later-0", 8)])
    cluster.wait_running("later", 1)
    assert uids(cluster.pods("train")) == uids(before)
    cluster.kubectl("delete", "pod", "later-0")
    cluster.apply([node_report(bad, ALL[1:], unhealthy=[0])])
    after = cluster.wait(moved(owner, before, "train-work-2", bad), "the pod runs elsewhere")
    check_rest(kind, before, after, "train-work-2")


def test_F1_the_leader_is_killed_in_the_middle_of_a_rescheduling(cluster: Cluster, kind: str) -> None:
    owner, before = running_job(cluster, kind)
    leader = next(one for one in cluster.components if one.kind == "scheduler")
    other = start(cluster, kind)
    cluster.wait(lambda: other.ready, "the other replica has read everything")
    bad = where(before)["train-work-2"]
    old = uids(before)["train-work-2"]
    cluster.apply([node_report(bad, ALL[1:], unhealthy=[0])])

    def ends() -> bool:
        found = [one for one in cluster.api.items(PODS) if one["metadata"]["uid"] == old]
        return not found or "deletionTimestamp" in found[0]["metadata"]

    cluster.wait(ends, "the pod is deleted")
    cluster.crash(leader)
    after = cluster.wait(moved(owner, before, "train-work-2", bad), "the pod runs elsewhere")
    check_rest(kind, before, after, "train-work-2")
