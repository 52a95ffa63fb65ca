"""Objects that job plugins create for a job, with the shipped RBAC rules of the controller."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.cluster import PODS, Cluster
from tests.cluster.objects import NAMESPACE, Object, nodes, vcjob

pytestmark = pytest.mark.cluster

CORE = f"/api/v1/namespaces/{NAMESPACE}"
WALLS = f"/apis/networking.k8s.io/v1/namespaces/{NAMESPACE}/networkpolicies"


def with_plugins(name: str, plugins: dict[str, list[str]]) -> Object:
    job = vcjob(name, 2, 8)
    job["spec"]["plugins"] = plugins
    return job


def by_name(cluster: Cluster, path: str) -> dict[str, Any]:
    return {one["metadata"]["name"]: one for one in cluster.api.items(path)}


def test_service_network_policy_and_keys_of_a_job(cluster: Cluster) -> None:
    cluster.apply(nodes(4))
    cluster.run()
    walled = with_plugins("walled", {"svc": [], "ssh": [], "env": []})
    walled["spec"]["volumes"] = [
        {
            "mountPath": "/data",
            "volumeClaim": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
    ]
    open_to_all = ["--disable-network-policy=true", "--publish-not-ready-addresses=true"]
    cluster.apply([walled, with_plugins("open", {"svc": open_to_all})])
    pods = cluster.wait_running("walled", 2)
    cluster.wait_running("open", 2)

    uid = cluster.api.get(f"/apis/batch.volcano.sh/v1alpha1/namespaces/{NAMESPACE}/jobs/walled")["metadata"][
        "uid"
    ]
    services, walls = by_name(cluster, f"{CORE}/services"), by_name(cluster, WALLS)
    secrets, claims = by_name(cluster, f"{CORE}/secrets"), by_name(cluster, f"{CORE}/persistentvolumeclaims")
    job_resources = [services["walled"], walls["walled"], secrets["walled-ssh"], claims["walled-volume-0"]]
    for thing in job_resources:
        (owner,) = thing["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"]) == ("Job", "walled", uid)
    assert by_name(cluster, f"{CORE}/configmaps").keys() >= {"walled-svc", "open-svc"}

    wall = walls["walled"]["spec"]
    assert wall["policyTypes"] == ["Ingress"]
    (allowed,) = wall["ingress"]
    assert allowed == {"from": [{"podSelector": wall["podSelector"]}]}
    # The NetworkPolicy selects the pods of the job and no others.
    selector = "%2C".join(f"{key}%3D{value}" for key, value in wall["podSelector"]["matchLabels"].items())
    inside = cluster.api.items(f"{PODS}?labelSelector={selector}")
    assert {one["metadata"]["name"] for one in inside} == {one["metadata"]["name"] for one in pods}
    assert services["walled"]["spec"]["selector"] == wall["podSelector"]["matchLabels"]
    assert not services["walled"]["spec"].get("publishNotReadyAddresses")

    assert "open" not in walls
    assert services["open"]["spec"]["publishNotReadyAddresses"] is True
    for component in cluster.components:
        assert "403 " not in component.log()
