"""Suspend, resume and requeue on a real API server, with the rights of a tenant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster import JOBS, Cluster, node_of
from tests.cluster.commands import kubectl_ringwise
from tests.cluster.objects import HOLDS_END, Object, nodes, vcjob
from tests.cluster.owners import Workload, pod_group_named
from tests.cluster.workload import COMMANDS

pytestmark = pytest.mark.cluster

TENANT = "tenant"
RBAC = "rbac.authorization.k8s.io/v1"


def account() -> Object:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": TENANT}}


def role(namespace: str, name: str, *rules: tuple[str, str, list[str]]) -> list[Object]:
    """What docs/guides/suspend.md names for a tenant: group, resource, verbs."""
    metadata = {"name": name}
    return [
        {
            "apiVersion": RBAC,
            "kind": "Role",
            "metadata": metadata,
            "rules": [
                {"apiGroups": [group], "resources": [resource], "verbs": verbs}
                for group, resource, verbs in rules
            ],
        },
        {
            "apiVersion": RBAC,
            "kind": "RoleBinding",
            "metadata": metadata,
            "subjects": [{"kind": "ServiceAccount", "name": TENANT, "namespace": namespace}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        },
    ]


def may_read(cluster: Cluster) -> list[Object]:
    rules = ("batch.volcano.sh", "jobs", ["get"]), ("batch", "jobs", ["get"])
    return role(cluster.namespace, "tenant-reads", *rules)


def may_change(cluster: Cluster) -> list[Object]:
    return role(
        cluster.namespace,
        "tenant-changes",
        ("bus.volcano.sh", "commands", ["create", "get", "delete"]),
        ("batch.volcano.sh", "jobs", ["patch"]),
        ("batch", "jobs", ["patch"]),
    )


@pytest.fixture
def tenant(cluster: Cluster) -> Path:
    """The kubeconfig of somebody who may read his jobs, and change nothing."""
    cluster.apply([account(), *may_read(cluster)])
    return cluster.plane.kubeconfig(TENANT, cluster.plane.account_token(cluster.namespace, TENANT))


def phase(cluster: Cluster, name: str) -> dict[str, Any]:
    found: dict[str, Any] = cluster.api.get(f"{JOBS}/{name}").get("status", {})
    return found


def wait_phase(cluster: Cluster, name: str, wanted: str) -> dict[str, Any]:
    def reached() -> dict[str, Any] | None:
        found = phase(cluster, name)
        return found if found.get("state", {}).get("phase") == wanted else None

    found: dict[str, Any] = cluster.wait(reached, f"{name} is {wanted}")
    return found


def places(pods: list[Object]) -> dict[str, str]:
    return {pod["metadata"]["name"]: node_of(pod) for pod in pods}


def done(kubeconfig: Path, *arguments: str) -> str:
    ran = kubectl_ringwise(kubeconfig, *arguments)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_a_vcjob_is_suspended_and_returns_to_its_nodes(cluster: Cluster, tenant: Path) -> None:
    cluster.apply(nodes(4))
    scheduler = cluster.run()
    cluster.apply([vcjob("first", 2, 8)])
    cluster.wait_running("first", 2)
    cluster.apply([vcjob("train", 2, 8)])
    before = places(cluster.wait_running("train", 2))
    cluster.api.delete(f"{JOBS}/first")
    cluster.wait(lambda: not cluster.pods("first"), "the first nodes are free again")
    job = f"{cluster.namespace}/train"
    refused = kubectl_ringwise(tenant, "suspend", job)
    assert refused.returncode == 1
    assert "the API server rejected the request: 403" in refused.stderr
    assert f"serviceaccount:{cluster.namespace}:{TENANT}" in refused.stderr
    cluster.apply(may_change(cluster))
    said = done(tenant, "suspend", job, "--by", "anna", "--reason", "lunch", "--timeout", "2m")
    assert said == f"vcjob {job} suspended; its chips are released\n"
    aborted = wait_phase(cluster, "train", "Aborted")
    assert aborted["state"]["message"] == "AbortJob was requested by anna: lunch"
    again = kubectl_ringwise(tenant, "suspend", job)
    assert (again.returncode, again.stdout) == (2, "")
    assert f"vcjob {job} is already suspended; to resume it: ringwise resume {job}" in again.stderr
    admin = cluster.admin_config
    why = " ".join(done(admin, "why", job).split())
    assert "it is suspended (Aborted: AbortJob was requested by anna: lunch): it uses no chips" in why
    # All of its chips are for others at once.
    cluster.apply([vcjob("other", 4, 8)])
    cluster.wait_running("other", 4)
    cluster.api.delete(f"{JOBS}/other")
    cluster.wait(lambda: not cluster.pods("other"), "all nodes are free")
    # The next scheduler knows its nodes, too.
    cluster.crash(scheduler)
    cluster.run("scheduler")
    done(tenant, "resume", job, "--timeout", "2m")
    assert places(cluster.wait_running("train", 2)) == before
    for _ in range(3):
        done(tenant, "suspend", job, "--timeout", "2m")
        wait_phase(cluster, "train", "Aborted")
        done(tenant, "resume", job, "--timeout", "2m")
        assert places(cluster.wait_running("train", 2)) == before
    done(tenant, "requeue", job, "--timeout", "2m")
    cluster.wait_running("train", 2)
    assert not wait_phase(cluster, "train", "Running").get("retryCount")


def test_a_job_of_kubernetes_is_suspended_and_returns_to_its_nodes(cluster: Cluster, tenant: Path) -> None:
    cluster.apply([*nodes(4), *may_change(cluster)])
    cluster.run()
    cluster.apply([vcjob("first", 2, 8)])
    cluster.wait_running("first", 2)
    # Its pods end when the scheduler may know why: of those that are gone before, no nodes are remembered.
    batch = Workload(cluster, "Job", "train", 2, 8, pod_annotations={HOLDS_END: "true"})
    before = set(places(cluster.wait_running("train", 2)).values())
    cluster.api.delete(f"{JOBS}/first")
    cluster.wait(lambda: not cluster.pods("first"), "the first nodes are free again")
    job = f"{cluster.namespace}/train"

    def end_pods() -> None:
        cluster.wait(
            lambda: (
                (pod_group_named(cluster, batch.group_name) or {"metadata": {}})["metadata"]
                .get("annotations", {})
                .get("ringwise.io/suspended")
            ),
            "its PodGroup says so",
        )
        cluster.release("train")

    for action in ("suspend", "requeue"):
        if action == "suspend":
            assert done(tenant, "suspend", job) == f"Job {job} suspended; its chips are released\n"
            end_pods()
            cluster.wait(lambda: not cluster.pods("train"), "its pods are gone")
            group = f"{cluster.namespace}/{batch.group_name}"
            why = " ".join(done(cluster.admin_config, "why", group).split())
            assert f"it is suspended: it uses no chips; to resume it: ringwise resume {job}" in why
            cluster.apply([vcjob("other", 4, 8)])
            cluster.wait_running("other", 4)
            cluster.api.delete(f"{JOBS}/other")
            cluster.wait(lambda: not cluster.pods("other"), "all nodes are free")
            done(tenant, "resume", job)
        else:
            requeued = cluster.begin(tenant, "requeue", job, "--timeout", "2m")
            end_pods()
            ran = requeued.finish()
            assert ran.returncode == 0, ran.stderr
        assert set(places(cluster.wait_running("train", 2)).values()) == before
    again = kubectl_ringwise(tenant, "resume", job)
    assert again.returncode == 2
    assert f"Job {job} is not suspended" in again.stderr
    Workload(cluster, "Deployment", "chat", 1, 8)
    refused = kubectl_ringwise(cluster.admin_config, "suspend", f"{cluster.namespace}/chat")
    assert refused.returncode == 2
    assert f"kubectl scale deployment -n {cluster.namespace} chat --replicas=0" in refused.stderr


def test_queue_and_priority_change_and_the_pod_group_follows(cluster: Cluster, tenant: Path) -> None:
    cluster.apply(may_change(cluster))
    full = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "full"},
        "spec": {"weight": 1, "capability": {"huawei.com/Ascend910": 0}},
    }
    urgent = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent-test"},
        "value": 100,
    }
    cluster.apply([*nodes(2), full, urgent])
    cluster.run()
    waits = vcjob("waits", 1, 8)
    waits["spec"]["queue"] = "full"
    cluster.apply([waits])
    cluster.wait(lambda: cluster.condition("waits"), "the job waits with a reason")
    job = f"{cluster.namespace}/waits"
    assert done(tenant, "requeue", job, "--queue", "default") == f"vcjob {job} has queue default now\n"
    cluster.wait_running("waits", 1)
    group = cluster.group_of("waits")
    assert group is not None
    assert group["spec"]["queue"] == "default"
    pods = {pod["metadata"]["uid"] for pod in cluster.pods("waits")}
    wait_phase(cluster, "waits", "Running")
    stays = kubectl_ringwise(tenant, "requeue", job, "--queue", "full")
    assert stays.returncode == 2
    assert f"vcjob {job} is Running: only a job that is suspended, or pending without" in stays.stderr
    done(tenant, "requeue", job, "--priority", "urgent-test")
    cluster.wait(
        lambda: (cluster.group_of("waits") or {})["spec"].get("priorityClassName") == "urgent-test",
        "the PodGroup has the priority class",
    )
    assert {pod["metadata"]["uid"] for pod in cluster.pods("waits")} == pods


def test_without_a_controller_nothing_is_left_behind(cluster: Cluster, tenant: Path) -> None:
    cluster.apply([*may_change(cluster), vcjob("alone", 1, 8)])
    refused = kubectl_ringwise(tenant, "suspend", f"{cluster.namespace}/alone", "--timeout", "1s")
    assert refused.returncode == 2
    assert "no vcjob controller accepted the Command" in refused.stderr
    assert "nothing was changed; is Volcano's controller running" in refused.stderr
    assert cluster.api.items(COMMANDS) == []
    unknown = kubectl_ringwise(cluster.admin_config, "suspend", f"{cluster.namespace}/alne")
    assert f'job "alne" not found in namespace {cluster.namespace} among vcjobs' in unknown.stderr
    assert 'did you mean "alone"?' in unknown.stderr
