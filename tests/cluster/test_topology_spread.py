"""Topology spread constraints, and affinity to pods of namespaces that are selected by their labels."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.cluster.cluster import GROUPS, SOON_GROUPED, Cluster, check_chips, node_of
from tests.cluster.commands import kubectl_ringwise
from tests.cluster.objects import Object, node, pod
from tests.cluster.owners import Workload

pytestmark = pytest.mark.cluster

ZONE = "topology.kubernetes.io/zone"
ZONES = {"a-1": "a", "a-2": "a", "b-1": "b", "b-2": "b"}


def in_zone(name: str) -> Object:
    return node(name, labels={ZONE: ZONES[name]})


def spread(app: str) -> Object:
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
        "matchLabelKeys": ["pod-template-hash"],
    }
    return {"topologySpreadConstraints": [constraint]}


def zones(pods: list[Object]) -> dict[str, int]:
    return dict(Counter(ZONES[node_of(one)] for one in pods if node_of(one)))


def test_replicas_are_spread_over_zones_and_the_one_too_many_waits_for_room_in_the_other(
    cluster: Cluster,
) -> None:
    cluster.apply([in_zone("a-1"), in_zone("a-2"), in_zone("b-1"), node("nowhere")])
    cluster.run()
    web = Workload(cluster, "Deployment", "web", 4, 4, pod_spec=spread("web"))
    running = cluster.wait_running("web", 4)
    check_chips(running)
    assert zones(running) == {"a": 2, "b": 2}
    # Zone b is full. One more fits into zone a, and not two.
    web.scale(6)

    def waiting() -> list[Object] | None:
        pods = cluster.pods("web")
        left = [one for one in pods if not node_of(one)]
        return left if len(pods) == 6 and zones(pods) == {"a": 3, "b": 2} else None

    (left,) = cluster.wait(waiting, "one of six waits")
    owner = left["metadata"]["ownerReferences"][0]["name"]

    def told() -> str | None:
        answer = kubectl_ringwise(cluster.admin_config, "why", f"{cluster.namespace}/{owner}")
        return answer.stdout if "maxSkew" in answer.stdout else None

    why = " ".join(cluster.wait(told, "why says so").split())
    assert re.search(r"would have 4 pods matching \S.* the minimum is 2, maxSkew is 1", why), why
    cluster.apply([in_zone("b-2")])
    assert zones(cluster.wait_running("web", 6)) == {"a": 3, "b": 3}


def test_a_pod_waits_until_pods_of_a_selected_namespace_are_there(cluster: Cluster) -> None:
    cluster.apply([in_zone("a-1"), in_zone("b-1")])
    cluster.run(waits=SOON_GROUPED)
    cluster.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "storage"}}])
    cache = pod("cache-0", 1, labels={"app": "cache"})
    cache["metadata"]["namespace"] = "storage"
    cache["spec"]["nodeSelector"] = {ZONE: "b"}
    cluster.apply([cache])
    near: Object = {
        "topologyKey": ZONE,
        "labelSelector": {"matchLabels": {"app": "cache"}},
        "namespaceSelector": {"matchLabels": {"role": "storage"}},
    }
    reader = pod("reader-0", 1)
    reader["spec"]["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    cluster.apply([reader])
    cluster.wait(lambda: "pod-affinity-unmet" in str(cluster.api.items(GROUPS)), "it says why it waits")
    assert not node_of(cluster.pods("reader")[0])
    cluster.api.patch("/api/v1/namespaces/storage", {"metadata": {"labels": {"role": "storage"}}})
    (placed,) = cluster.wait_running("reader", 1)
    assert node_of(placed) == "b-1"
