"""Objects that a reader or the core cannot handle, among many jobs: they cost no other job anything."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterable
from functools import partial

import pytest

from tests.cluster.cluster import GROUPS, Cluster, check_chips, chips_of, node_of
from tests.cluster.commands import kubectl_ringwise
from tests.cluster.objects import (
    CHIP,
    HOLDS_END,
    Object,
    node,
    node_report,
    nodes,
    pod,
    pod_group,
    vcjob,
)

pytestmark = pytest.mark.cluster

JOBS_COUNT = 100
NODE_COUNT = 48
#: Every tenth job is a gang of two pods.
GANGS = 10
#: More digits than Python converts.
DIGITS = "9" * 4301
#: Node whose report is poisoned; without it the node has no report.
REPORTED = "node-7"


def hundred_jobs() -> list[Object]:
    """Pods alone, and gangs of two pods."""
    rng = random.Random(13)
    made: list[Object] = []
    for number in range(JOBS_COUNT):
        name = f"job{number:03}"
        if number % GANGS == 0:
            made += [pod_group(name, 2), *(pod(f"{name}-{rank}", 8, group=name) for rank in range(2))]
        else:
            made.append(pod(f"{name}-0", rng.choice((1, 1, 1, 2, 2, 4))))
    return made


def poisoned() -> list[Object]:
    report = node_report(REPORTED, range(8))
    settings = report["data"]["DeviceInfoCfg"]
    report["data"]["DeviceInfoCfg"] = settings.replace('"ServerIndex": 0', f'"ServerIndex": {DIGITS}')
    assert DIGITS in report["data"]["DeviceInfoCfg"]
    group = pod_group("poison", 1, {"huawei.com/schedule_minAvailable": DIGITS})
    return [
        group,
        pod("poison-0", 1, group="poison", annotations={"huawei.com/schedule_minAvailable": DIGITS}),
        node("huge", 10**15),
        report,
    ]


def placements(cluster: Cluster, more: Iterable[Object] = ()) -> dict[str, tuple[str, list[str]]]:
    """All objects exist before the scheduler starts, so it decides about all jobs at once."""
    cluster.apply([*nodes(NODE_COUNT), *more, *hundred_jobs()])
    cluster.run("scheduler")
    expected = JOBS_COUNT + JOBS_COUNT // GANGS

    def bound() -> list[Object] | None:
        pods = [one for one in cluster.pods() if one["metadata"]["name"].startswith("job") and node_of(one)]
        return pods if len(pods) == expected else None

    pods = cluster.wait(bound, f"{expected} pods are bound")
    check_chips(pods)
    return {one["metadata"]["name"]: (node_of(one), chips_of(one)) for one in pods}


def told(cluster: Cluster, kind: str, name: str, namespace: str, words: str) -> bool:
    """Whether an event about an object that could not be read or handled has these words."""
    return any(
        words in event["message"]
        for event in cluster.api.items(f"/api/v1/namespaces/{namespace}/events")
        if event["type"] == "Warning"
        and (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == (kind, name)
    )


def test_poisoned_objects_among_100_jobs_change_no_other_placement(cluster: Cluster) -> None:
    without = placements(cluster)
    cluster.clear()
    assert placements(cluster, poisoned()) == without
    for kind, name, namespace, what in (
        ("PodGroup", "poison", "-", "schedule_minAvailable"),
        ("Node", "huge", "default", CHIP),
        ("ConfigMap", f"mindx-dl-deviceinfo-{REPORTED}", "kube-system", "DeviceInfoCfg"),
    ):
        cluster.wait(partial(told, cluster, kind, name, namespace, what), f"an event names {kind} {name}")
    # They stay harmless when the scheduler starts again, and when they change.
    cluster.stop_components()
    again = cluster.run("scheduler")
    cluster.api.patch(f"{GROUPS}/poison", {"metadata": {"annotations": {"changed": "1"}}})
    cluster.apply([pod("late-0", 1)])
    cluster.wait_running("late", 1)
    assert again.running


# -- reports of nodes while a job is rescheduled

ALL = tuple(range(8))
#: As large as an API server accepts.
MEGABYTE = 1_000_000


def hostile_reports(node: str) -> dict[str, tuple[Object, str]]:
    """What a device plugin or NodeD may write instead of a report, and words of the event about it."""

    def device(text: str) -> Object:
        made = node_report(node, ALL)
        return {**made, "data": {"DeviceInfoCfg": text}}

    def listed(chips: object) -> Object:
        return device(json.dumps({"DeviceInfo": {"DeviceList": {CHIP: chips}, "UpdateTime": 1}}))

    many = {f"huawei.com/Chip{number}": "" for number in range(20_000)}
    health = {
        **node_report(node, ALL),
        "metadata": {
            "name": f"mindx-dl-nodeinfo-{node}",
            "namespace": "mindx-dl",
            "labels": {"mx-consumer-cim": "true"},
        },
        "data": {"NodeInfo": json.dumps({"NodeInfo": {"FaultDevList": 7, "NodeStatus": ["UnHealthy"]}})},
    }
    return {
        "no JSON": (device("{not json"), "must be valid JSON"),
        "a megabyte": (device("x" * MEGABYTE), "must be valid JSON"),
        "a megabyte of chips": (listed("Ascend910-0," * (MEGABYTE // 12)), "at most 4096 characters"),
        "thousands of resources": (
            device(json.dumps({"DeviceInfo": {"DeviceList": many, "UpdateTime": 1}})),
            "at most 16 resources",
        ),
        "wrong types": (device(json.dumps({"DeviceInfo": [], "SuperPodID": "x"})), "must be an object"),
        "chips that are not text": (listed([0, 1, {"chip": None}]), "must be a string"),
        "chips of other names": (listed("Ascend910-\u2603,5,null,Ascend910--1"), "must name chips"),
        "deep": (device("[" * 100_000), "nested too deeply"),
        "health of wrong types": (health, "must be a string"),
    }


def test_hostile_reports_in_the_middle_of_a_rescheduling_hurt_no_other_job(cluster: Cluster) -> None:
    names = [f"node-{number}" for number in range(1, 7)]
    cluster.apply([*nodes(6), *(node_report(name, ALL, index=place) for place, name in enumerate(names))])
    scheduler = cluster.run()
    labels = {"fault-scheduling": "grace", "pod-rescheduling": "on"}
    # The pod that is deleted does not go before the reports have come.
    cluster.apply([vcjob("train", 2, 8, labels=labels, pod_annotations={HOLDS_END: "true"})])
    cluster.apply([vcjob("other", 2, 8, labels=labels)])
    before = {one["metadata"]["name"]: one for one in cluster.wait_running("train", 2)}
    others = {one["metadata"]["uid"]: node_of(one) for one in cluster.wait_running("other", 2)}
    bad = node_of(before["train-work-1"])
    victim = node_of(before["train-work-0"])
    cluster.apply([node_report(bad, ALL[1:], unhealthy=[0])])
    cluster.wait(
        lambda: any("deletionTimestamp" in one["metadata"] for one in cluster.pods("train")),
        "the pod on the broken chip is deleted",
    )
    # Of the node of the pod that stays, of those of the other job, and of one that is not there.
    targets = [victim, *others.values(), "node-of-nobody"]
    wanted: list[tuple[str, str, str]] = []
    for target, (title, (report, words)) in zip(
        itertools.cycle(targets), hostile_reports("x").items(), strict=False
    ):
        report = hostile_reports(target)[title][0]
        cluster.api.request("PATCH", *_written(report))
        wanted.append((report["metadata"]["name"], report["metadata"]["namespace"], words))
        cluster.wait(
            partial(told, cluster, "ConfigMap", *wanted[-1]),
            f"an event about {report['metadata']['name']} ({title})",
        )

    cluster.release("train")

    def whole() -> list[Object] | None:
        found = cluster.running("train", 2)
        moved = found is not None and all(node_of(one) != bad for one in found)
        return found if moved else None

    after = {one["metadata"]["name"]: one for one in cluster.wait(whole, "the job is whole again")}
    cluster.release("train")
    check_chips(cluster.pods())
    assert after["train-work-0"]["metadata"]["uid"] == before["train-work-0"]["metadata"]["uid"]
    assert {one["metadata"]["uid"]: node_of(one) for one in cluster.pods("other")} == others
    assert scheduler.running
    # One event for each problem, in one line; the log has short lines.
    for namespace in ("kube-system", "mindx-dl"):
        for event in cluster.api.items(f"/api/v1/namespaces/{namespace}/events"):
            if event["reason"] == "InvalidObject":
                assert event.get("count", 1) == 1
                assert len(event["message"].splitlines()) == 1
                assert len(event["message"]) < 400, event["message"]
    assert max(map(len, scheduler.log().splitlines())) < 3000
    # `doctor` names them, and a report that is good again is used: its chip is broken.
    found = kubectl_ringwise(cluster.admin_config, "doctor")
    assert f"mindx-dl-deviceinfo-{victim}" in found.stdout + found.stderr, found.stdout + found.stderr
    cluster.apply([node_report(victim, ALL[1:], unhealthy=[0])])
    cluster.wait(
        lambda: (
            (pods := cluster.running("train", 2)) is not None
            and all(node_of(one) not in (bad, victim) for one in pods)
        ),
        "the other pod leaves its broken chip, too",
    )


def _written(report: Object) -> tuple[str, Object, str]:
    """By server-side apply: `kubectl apply` would keep the value a second time in an annotation."""
    meta = report["metadata"]
    path = f"/api/v1/namespaces/{meta['namespace']}/configmaps/{meta['name']}"
    return f"{path}?fieldManager=hostile&force=true", report, "application/apply-patch+yaml"


# -- pods that choose their chips

CHOSEN = {"name": "ASCEND_VISIBLE_DEVICES", "value": "0-7"}
GIVEN = {
    "name": "ASCEND_VISIBLE_DEVICES",
    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{CHIP}']"}},
}


def with_variable(one: Object, variable: Object) -> Object:
    one["spec"]["containers"][0]["env"] = [variable]
    return one


def test_pods_that_choose_their_chips_are_not_placed_and_doctor_names_those_that_run(
    cluster: Cluster,
) -> None:
    cluster.apply(nodes(1))
    cluster.run("scheduler")
    # Another scheduler bound it: it keeps its chips, and its node stays open.
    running = with_variable(pod("bound-0", 4, on="node-1", held=[0, 1, 2, 3]), CHOSEN)
    greedy = [with_variable(pod("greedy-0", 2), CHOSEN), with_variable(pod("idle-0", 0), CHOSEN)]
    cluster.apply([running, *greedy, with_variable(pod("usual-0", 4), GIVEN)])
    (usual,) = cluster.wait_running("usual", 1)
    assert chips_of(usual) == [f"Ascend910-{chip}" for chip in (4, 5, 6, 7)]
    for name in ("greedy-0", "idle-0"):
        words = "spec.containers[0].env[0].value sets ASCEND_VISIBLE_DEVICES"
        cluster.wait(partial(told, cluster, "Pod", name, "-", words), f"an event names {name}")
    assert [one for one in cluster.pods("greedy") + cluster.pods("idle") if node_of(one)] == []
    found = kubectl_ringwise(cluster.admin_config, "doctor", "-o", "json")
    places = {
        one["object"] for one in json.loads(found.stdout)["findings"] if one["code"] == "visible-devices-set"
    }
    assert f"pod {cluster.namespace}/bound-0/main" in places
    assert not any("usual" in place for place in places)


# -- number 8: priorities that a tenant gives itself


def priority_class(name: str, value: int) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def quota_for_class(name: str, hard: dict[str, str]) -> Object:
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": [name]}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": f"for-{name}"},
        "spec": {"hard": hard, "scopeSelector": {"matchExpressions": [scope]}},
    }


def _says(cluster: Cluster, job: str, words: str) -> bool:
    return words in (cluster.condition(job) or {}).get("message", "")


def of_class(thing: Object, name: str) -> Object:
    thing["spec"]["priorityClassName"] = name
    return thing


def test_nobody_gives_its_own_jobs_a_priority_that_the_namespace_may_not_use(cluster: Cluster) -> None:
    """Four tricks and an honest job compete for the only node; the honest one is the youngest."""
    made = [
        priority_class("high", 1000),
        priority_class("low", 10),
        quota_for_class("high", {"pods": "0"}),
    ]
    tricks = [
        pod("climber-0", 8, annotations={"volcano.sh/task-priority": "2000000000"}),
        of_class(pod_group("critical", 1), "system-node-critical"),
        pod("critical-0", 8, group="critical"),
        of_class(pod_group("forbidden", 1), "high"),
        pod("forbidden-0", 8, group="forbidden"),
        of_class(vcjob("batch", 1, 8), "system-cluster-critical"),
    ]
    honest = [of_class(pod_group("honest", 1), "low"), of_class(pod("honest-0", 8, group="honest"), "low")]
    cluster.apply([*nodes(1), *made, *tricks])
    # Ages are counted in seconds, and it is to be the youngest by its name, too.
    cluster.apply(honest)
    cluster.run("controller", "scheduler")
    cluster.wait_running("honest", 1)
    for name, words in (
        ("critical", "only the namespaces kube-system, mindx-dl, volcano-system may use it"),
        ("forbidden", f"ResourceQuota {cluster.namespace}/for-high allows 0 of pods for it"),
        ("batch", "priority class system-cluster-critical is not used"),
    ):
        cluster.wait(partial(_says, cluster, name, words), f"the condition of {name} says it")
        group = cluster.group_of(name)
        assert group is not None
        known = group["metadata"]["name"]
        cluster.wait(partial(told, cluster, "PodGroup", known, "-", words), f"an event tells {name}")
    placed = {one["metadata"]["name"] for one in cluster.pods() if node_of(one)}
    assert placed == {"honest-0"}
    why = kubectl_ringwise(cluster.admin_config, "why", f"{cluster.namespace}/forbidden").stdout
    assert "priority class high is not used" in " ".join(why.split())
    # A quota with room lets the job use the class: it is the next to start.
    cluster.apply([quota_for_class("high", {"pods": "1"})])
    # Others would fit, too, as long as the scheduler does not know the quota.
    cluster.wait(lambda: not _says(cluster, "forbidden", "ResourceQuota"), "the class is used")
    cluster.kubectl("delete", "pod", "honest-0", "--wait=false")
    cluster.wait_running("forbidden", 1)
