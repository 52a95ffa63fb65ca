"""Objects that job plugins create for a job, with the shipped RBAC rules of the controller."""

from __future__ import annotations

import base64
import json
from functools import partial
from typing import Any

import pytest

from tests.cluster.cluster import GROUPS, JOBS, PODS, Cluster
from tests.cluster.objects import Object, nodes, vcjob
from tests.cluster.volumes import volume

pytestmark = pytest.mark.cluster

CORE = "/api/v1/namespaces/-"
WALLS = "/apis/networking.k8s.io/v1/namespaces/-/networkpolicies"


def with_plugins(name: str, plugins: dict[str, list[str]]) -> Object:
    job = vcjob(name, 2, 8)
    job["spec"]["plugins"] = plugins
    return job


def by_name(cluster: Cluster, path: str) -> dict[str, Any]:
    return {one["metadata"]["name"]: one for one in cluster.api.items(path)}


def test_service_network_policy_and_keys_of_a_job(cluster: Cluster) -> None:
    cluster.apply([*nodes(4), volume("disk", "")])
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

    uid = cluster.api.get("/apis/batch.volcano.sh/v1alpha1/namespaces/-/jobs/walled")["metadata"]["uid"]
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


def env_of(pod: Object, container: str = "main") -> dict[str, Any]:
    (found,) = [one for one in pod["spec"]["containers"] if one["name"] == container]
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in found.get("env", [])}


def with_tasks(name: str, tasks: dict[str, int], plugins: dict[str, list[str]]) -> Object:
    """A job without chips: each task has one container that is called as the task."""
    job = vcjob(name, sum(tasks.values()), 0)
    (template,) = [task["template"] for task in job["spec"]["tasks"]]
    job["spec"]["plugins"] = plugins
    job["spec"]["tasks"] = [
        {
            "name": task,
            "replicas": replicas,
            "template": {
                "spec": {
                    **template["spec"],
                    "containers": [{"name": task, "image": "train:latest", "command": ["train"]}],
                }
            },
        }
        for task, replicas in tasks.items()
    ]
    return job


def test_frameworks_find_their_peers(cluster: Cluster) -> None:
    cluster.apply(nodes(2))
    cluster.run()
    cluster.apply(
        [
            with_tasks("torch", {"master": 1, "worker": 2}, {"pytorch": ["--port=7000"]}),
            with_tasks("flow", {"ps": 1, "worker": 1}, {"tensorflow": []}),
            with_tasks("message", {"master": 1, "worker": 2}, {"mpi": ["--port=2022"]}),
            with_tasks("rays", {"head": 1, "worker": 1}, {"ray": []}),
        ]
    )
    pods = {
        pod["metadata"]["name"]: pod
        for job, count in (("torch", 3), ("flow", 2), ("message", 3), ("rays", 2))
        for pod in cluster.wait_running(job, count)
    }
    env = env_of(pods["torch-worker-1"], "worker")
    assert (env["MASTER_ADDR"], env["MASTER_PORT"]) == ("torch-master-0.torch", "7000")
    assert (env["WORLD_SIZE"], env["RANK"]) == ("3", "2")
    assert json.loads(env_of(pods["flow-worker-0"], "worker")["TF_CONFIG"]) == {
        "cluster": {"ps": ["flow-ps-0.flow:2222"], "worker": ["flow-worker-0.flow:2222"]},
        "task": {"type": "worker", "index": 0},
    }
    env = env_of(pods["message-master-0"], "master")
    assert env["MPI_HOST"] == "message-worker-0.message,message-worker-1.message"
    (port,) = pods["message-worker-0"]["spec"]["containers"][0]["ports"]
    assert (port["name"], port["containerPort"]) == ("mpijob-port", 2022)
    secret = by_name(cluster, f"{CORE}/secrets")["message-ssh"]["data"]
    assert b"Host message-worker-1\n" in base64.b64decode(secret["config"])

    command = pods["rays-worker-0"]["spec"]["containers"][0]["command"]
    assert command == ["sh", "-c", "ray start --block --address=rays-head-0.rays:6379"]
    service = by_name(cluster, f"{CORE}/services")["rays-head-svc"]["spec"]
    assert {one["name"]: one["port"] for one in service["ports"]} == {
        "gcs": 6379,
        "dashboard": 8265,
        "client-server": 10001,
    }
    assert service["selector"]["volcano.sh/task-spec"] == "head"


def lists_hosts(cluster: Cluster, replicas: int) -> bool:
    hosts = [f"elastic-worker-{index}.elastic" for index in range(replicas)]
    found: dict[str, str] = by_name(cluster, f"{CORE}/configmaps")["elastic-svc"]["data"]
    return found == {
        "worker.host": "\n".join(hosts),
        "VC_WORKER_HOSTS": ",".join(hosts),
        "VC_WORKER_NUM": str(replicas),
    }


def test_host_lists_follow_a_job_that_is_scaled(cluster: Cluster) -> None:
    cluster.apply(nodes(2))
    cluster.run()
    elastic = with_tasks("elastic", {"worker": 2}, {"svc": []})
    elastic["spec"]["minAvailable"] = elastic["spec"]["tasks"][0]["minAvailable"] = 1
    cluster.apply([elastic])
    (pod, _) = cluster.wait_running("elastic", 2)
    reference = {"configMapKeyRef": {"name": "elastic-svc", "key": "VC_WORKER_HOSTS"}}
    assert env_of(pod, "worker")["VC_WORKER_HOSTS"] == reference
    for replicas in (2, 3, 1):
        elastic["spec"]["tasks"][0]["replicas"] = replicas
        cluster.apply([elastic])
        cluster.wait_running("elastic", replicas)
        cluster.wait(partial(lists_hosts, cluster, replicas), f"the lists name {replicas} hosts")


def test_an_unknown_plugin_is_refused_and_an_unknown_argument_ignored(cluster: Cluster) -> None:
    cluster.run()
    cluster.apply(
        [
            with_plugins("unknown", {"pytorhc": []}),
            with_plugins("mistyped", {"svc": ["--inject-host-env=false"]}),
        ]
    )

    def message(name: str) -> str:
        state = cluster.api.get(f"{JOBS}/{name}").get("status", {}).get("state", {})
        return str(state.get("message", ""))

    assert 'did you mean "pytorch"?' in cluster.wait(lambda: message("unknown"), "unknown is refused")
    groups = cluster.wait(lambda: cluster.api.items(GROUPS), "mistyped gets its PodGroup")
    assert {group["metadata"]["name"].partition("-")[0] for group in groups} == {"mistyped"}
