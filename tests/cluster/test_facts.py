"""`kubectl ringwise` beside a scheduler that is missing, dead or cannot bind, and pods that are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster import JOBS, PODS, Cluster, node_of
from tests.cluster.commands import kubectl_ringwise
from tests.cluster.objects import nodes, pod, vcjob
from tests.cluster.rights import grant_reading

pytestmark = pytest.mark.cluster

ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/ringwise-scheduler"
READER = "reader-of-leases"
ONE_CHIP = Path(__file__).resolve().parents[2] / "examples" / "jobs" / "01-one-chip.yaml"


def answer(cluster: Cluster, *arguments: str) -> Any:
    return json.loads(kubectl_ringwise(cluster.admin_config, *arguments, "-o", "json").stdout)


def why(cluster: Cluster, job: str) -> tuple[str, str, list[str]]:
    found = answer(cluster, "why", f"{cluster.namespace}/{job}")
    return found["state"], found["message"], found.get("errors", [])


def job_row(cluster: Cluster, name: str) -> Any:
    (row,) = [one for one in answer(cluster, "get", "jobs", "-A")["jobs"] if one["name"] == name]
    return row


def scheduler_errors(cluster: Cluster) -> dict[str, str]:
    """Codes and texts of what `doctor` says is wrong with the scheduler; with such an error it fails."""
    ran = kubectl_ringwise(cluster.admin_config, "doctor", "-o", "json")
    errors = {
        one["code"]: one["message"]
        for one in json.loads(ran.stdout)["findings"]
        if one["severity"] == "error"
    }
    codes = ("no-scheduler", "scheduler-not-renewing", "bindings-fail")
    found = {code: errors[code] for code in codes if code in errors}
    assert not found or ran.returncode == 1
    return found


def wait_without_errors(cluster: Cluster) -> None:
    """A Lease that a busy machine renews late is reported for a moment, too."""
    cluster.wait(lambda: not scheduler_errors(cluster), "doctor finds a scheduler, and no fault of it")


def check_pending(cluster: Cluster, name: str) -> None:
    """No command says that the pod is placed, or has chips."""
    row = job_row(cluster, name)
    assert (row["state"], row["phase"], row["scheduled"]) == ("pending", "Pending", 0)
    assert row["would_be_scheduled_on"] == ["node-1"]
    top = answer(cluster, "top", "--once")["status"]
    assert (top["scheduled"], top["pending"]) == (0, 1)
    assert top["resources"]["huawei.com/Ascend910"]["used"] == 0
    assert answer(cluster, "describe", "job", f"{cluster.namespace}/{name}")["phase"] == "Pending"
    (shown,) = answer(cluster, "get", "pods", "-n", cluster.namespace)["pods"]
    assert (shown["node"], shown["would_be_scheduled_on"]) == (None, "node-1")


def test_without_a_scheduler_nothing_is_placed_and_doctor_fails(cluster: Cluster) -> None:
    cluster.apply([*nodes(1), pod("one-0", 8)])
    cluster.wait(lambda: answer(cluster, "get", "nodes")["nodes"][0]["schedulable"], "the node is ready")
    (missing,) = scheduler_errors(cluster).values()
    assert missing.startswith("no scheduler holds the Lease")
    assert why(cluster, "one-0") == ("pending", "would be placed on node-1 now", [missing])
    check_pending(cluster, "one-0")

    scheduler = cluster.run("scheduler")
    cluster.wait_running("one", 1)
    wait_without_errors(cluster)
    assert why(cluster, "one-0")[0] == job_row(cluster, "one-0")["phase"].lower() == "running"

    # It cannot release the Lease, and nothing renews it.
    scheduler.process.kill()
    cluster.wait(lambda: scheduler_errors(cluster), "doctor reports that the Lease is old")
    assert set(scheduler_errors(cluster)) == {"scheduler-not-renewing"}


def test_refused_bindings_are_an_error_with_the_message_of_the_api_server(cluster: Cluster) -> None:
    rules = cluster.api.get(ROLE)["rules"]
    without = [rule for rule in rules if "pods/binding" not in rule["resources"]]
    assert without != rules
    cluster.api.patch(ROLE, {"rules": without})
    try:
        cluster.apply(nodes(1))
        cluster.run("scheduler")
        cluster.apply([pod("one-0", 8)])
        failed = cluster.wait(
            lambda: scheduler_errors(cluster).get("bindings-fail"), "doctor reports the refused Binding"
        )
        assert "binding one-0 to node-1 failed: " in failed
        assert "cannot create resource" in failed
        assert "pods/binding" in failed
        cluster.wait(lambda: why(cluster, "one-0")[2], "why reports it, too")
        check_pending(cluster, "one-0")
    finally:
        cluster.api.patch(ROLE, {"rules": rules})
    cluster.wait_running("one", 1)
    wait_without_errors(cluster)


def test_with_two_replicas_every_command_shows_the_pods_as_they_are(cluster: Cluster) -> None:
    """A standby decides the same as the leader, and none of its decisions is shown."""
    cluster.apply(nodes(2))
    leader = cluster.run("scheduler")
    standby = cluster.start("scheduler")
    cluster.wait(lambda: standby.ready, "the standby has read everything")
    cluster.apply([pod("one-0", 8), pod("two-0", 8), pod("three-0", 8)])
    cluster.wait(lambda: len(placed_pods(cluster)) == 2, "two of the three pods have a node")
    check_facts(cluster)

    cluster.crash(leader)
    cluster.wait(lambda: standby.leads, "the standby leads")
    check_facts(cluster)
    # The new leader gives the chips of a pod that ended to the one that waits, and no others.
    first, *_ = sorted(placed_pods(cluster))
    cluster.api.delete(f"{PODS}/{first}")
    # Not one condition with two lists: the first pod may go between them, before the other one has its node.
    cluster.wait(lambda: len(placed_pods(cluster).keys() - {first}) == 2, "it is placed")
    cluster.wait(lambda: first not in placed_pods(cluster), "the first one is gone")
    check_facts(cluster)


def placed_pods(cluster: Cluster) -> dict[str, str]:
    return {one["metadata"]["name"]: node for one in cluster.pods() if (node := node_of(one))}


def check_facts(cluster: Cluster) -> None:
    """Every command counts the pods that have a node, and no error is reported."""
    placed = placed_pods(cluster)
    wait_without_errors(cluster)
    listed = answer(cluster, "get", "pods", "-n", cluster.namespace)["pods"]
    assert {one["name"]: one["node"] for one in listed if one["node"]} == placed
    jobs = answer(cluster, "get", "jobs", "-A")["jobs"]
    assert {one["name"] for one in jobs if one["scheduled"]} == set(placed)
    top = answer(cluster, "top", "--once")["status"]
    assert (top["scheduled"], top["pending"]) == (len(placed), len(listed) - len(placed))
    assert top["resources"]["huawei.com/Ascend910"]["used"] == 8 * len(placed)
    for pending in (one["name"] for one in listed if not one["node"]):
        outcome, _, errors = why(cluster, pending)
        assert (outcome, errors) == ("pending", [])


def test_pods_that_the_api_server_refuses_are_not_created_and_not_listed(cluster: Cluster) -> None:
    job = vcjob("train", 1, 8)
    job["spec"]["tasks"][0]["template"]["spec"]["dnsPolicy"] = "Nonsense"
    cluster.apply(nodes(1))
    cluster.run()
    cluster.apply([job])
    cluster.wait(
        lambda: "pods not created" in why(cluster, "train")[1], "why reports that its pods are refused"
    )
    outcome, sentence, _ = why(cluster, "train")
    assert outcome == "pending"
    assert sentence.startswith("pods not created: pod train-work-0: ")
    assert 'Unsupported value: "Nonsense"' in sentence
    row = job_row(cluster, "train")
    assert (row["phase"], row["scheduled"], row["reason"]["message"]) == ("Pending", 0, sentence)
    assert answer(cluster, "describe", "job", f"{cluster.namespace}/train")["pod_details"] == []
    assert answer(cluster, "get", "pods", "-n", cluster.namespace)["pods"] == []
    # Corrected, it starts.
    cluster.api.delete(f"{JOBS}/train")
    cluster.wait(lambda: not cluster.api.items(JOBS), "the job is gone")
    cluster.apply([vcjob("train", 1, 8)])
    cluster.wait_running("train", 1)
    cluster.wait(lambda: job_row(cluster, "train")["phase"] == "Running", "the job is Running")
    assert why(cluster, "train")[0] == "running"


def test_the_role_of_the_reader_shows_whether_a_scheduler_leads_and_what_it_holds(cluster: Cluster) -> None:
    cluster.apply(nodes(1))
    cluster.run("scheduler")
    cluster.kubectl("create", "serviceaccount", READER)
    config = cluster.plane.kubeconfig(READER, cluster.plane.account_token(cluster.namespace, READER))
    grant_reading(cluster, f"--serviceaccount={cluster.namespace}:{READER}")

    def finds_the_leader() -> bool:
        ran = kubectl_ringwise(config, "doctor", "-o", "json")
        return not [one for one in json.loads(ran.stdout)["findings"] if "scheduler" in one["code"]]

    cluster.wait(finds_the_leader, "doctor finds the scheduler")
    placed = kubectl_ringwise(config, "place", "-f", str(ONE_CHIP))
    assert placed.returncode == 0
    assert "not known" not in placed.stderr
