"""Objects that a reader or the core cannot handle, among many jobs: no other job is placed differently."""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import partial

import pytest

from tests.cluster.cluster import GROUPS, Cluster, check_chips, chips_of, node_of
from tests.cluster.objects import CHIP, NAMESPACE, Object, node, node_report, nodes, pod, pod_group

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


def named(cluster: Cluster, kind: str, name: str, namespace: str) -> list[str]:
    """Messages of the events about an object that could not be read or handled."""
    return [
        event["message"]
        for event in cluster.api.items(f"/api/v1/namespaces/{namespace}/events")
        if event["type"] == "Warning"
        and (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == (kind, name)
    ]


def test_poisoned_objects_among_100_jobs_change_no_other_placement(cluster: Cluster) -> None:
    without = placements(cluster)
    cluster.clear()
    assert placements(cluster, poisoned()) == without
    for kind, name, namespace, what in (
        ("PodGroup", "poison", NAMESPACE, "schedule_minAvailable"),
        ("Node", "huge", "default", CHIP),
        ("ConfigMap", f"mindx-dl-deviceinfo-{REPORTED}", "kube-system", "DeviceInfoCfg"),
    ):
        found = cluster.wait(
            partial(named, cluster, kind, name, namespace),
            f"an event names {kind} {name}",
            20,
        )
        assert any(what in message for message in found), found
    # They stay harmless when the scheduler starts again, and when they change.
    cluster.stop_components()
    again = cluster.run("scheduler")
    cluster.api.patch(f"{GROUPS}/poison", {"metadata": {"annotations": {"changed": "1"}}})
    cluster.apply([pod("late-0", 1)])
    cluster.wait_running("late", 1)
    assert again.running
