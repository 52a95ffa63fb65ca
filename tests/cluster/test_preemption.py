"""Preemption on a real API server: who is spared, who is named beforehand, warned, and told what it lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cluster.cluster import JOBS, PODS, Cluster
from tests.cluster.commands import kubectl_ringwise
from tests.cluster.objects import Object, nodes, vcjob

pytestmark = pytest.mark.cluster

QUEUE = "/apis/scheduling.volcano.sh/v1beta1/queues/default"
CONFIGURATION = "/api/v1/namespaces/volcano-system/configmaps/volcano-scheduler-configmap"
HIGH: Object = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "tests-high"},
    "value": 1000,
}
#: The cooldown that the job asks for is a hundred years.
CLAIMS = {"volcano.sh/preemptable": "true", "volcano.sh/cooldown-time": "876000h"}


def high(job: Object) -> Object:
    job["spec"]["priorityClassName"] = HIGH["metadata"]["name"]
    return job


def asked(cluster: Cluster, *arguments: str) -> str:
    ran = kubectl_ringwise(cluster.admin_config, *arguments)
    assert ran.returncode in (0, 1), ran.stderr
    return " ".join(ran.stdout.split())


def allow(cluster: Cluster, longest: str | None) -> None:
    cluster.api.patch(QUEUE, {"metadata": {"annotations": {"ringwise.io/max-cooldown": longest}}})


def warning(cluster: Cluster) -> str:
    """What was written to a pod before it was deleted."""
    pods = [one.object for one in cluster.history(PODS, "low-")]
    found = [pod["metadata"].get("annotations", {}).get("ringwise.io/eviction-notice", "") for pod in pods]
    return next(filter(None, found), "")


def test_a_job_is_spared_within_its_queues_limit_then_warned_preempted_and_told(
    cluster: Cluster, tmp_path: Path
) -> None:
    text = (
        'actions: "enqueue, allocate, preempt"\n'
        "tiers:\n- plugins:\n  - {name: priority}\n  - {name: gang, enablePreemptable: false}\n"
        "  - {name: conformance}\n  - {name: cdp}\n  - {name: topology910}\n"
        "- plugins:\n  - {name: predicates}\n  - {name: nodeorder}\n"
        "configurations:\n- name: init-params\n  arguments: {}\n"
    )
    cluster.api.patch(CONFIGURATION, {"data": {"volcano-scheduler.conf": text}})
    cluster.apply([*nodes(1), HIGH])
    scheduler = cluster.run()
    cluster.apply([vcjob("low", 1, 8, pod_annotations=CLAIMS)])
    cluster.wait_running("low", 1)
    # It is spared for an hour: no claim protects longer than the queue allows.
    cluster.apply([high(vcjob("first", 1, 8))])
    cluster.wait(lambda: cluster.condition("first"), "the other job waits")
    assert "cooldown-time: 876000h counts as 1h" in asked(cluster, "why", f"{cluster.namespace}/low")
    why = asked(cluster, "why", f"{cluster.namespace}/first")
    assert f"when cooldowns end: {cluster.namespace}/low loses 8 chips" in why
    cluster.api.delete(f"{JOBS}/first")
    cluster.wait(lambda: not cluster.pods("first"), "the other job is gone")
    allow(cluster, "0s")
    # The victims are named beforehand.
    boss = high(vcjob("boss", 1, 8))
    boss["metadata"]["namespace"] = cluster.namespace
    manifest = tmp_path / "boss.yaml"
    manifest.write_text(json.dumps(boss))
    assert f"{cluster.namespace}/low loses 8 chips and" in asked(cluster, "place", "-f", str(manifest))
    assert cluster.running("low", 1), "asking evicts nobody"
    cluster.apply([boss])
    said = cluster.wait(lambda: warning(cluster), "the pod is warned")
    assert said.endswith(f" preempt for {cluster.namespace}/boss")
    group = cluster.group_of("low")
    assert group is not None
    events = cluster.wait(
        lambda: [
            one
            for one in cluster.events("PodGroup", group["metadata"]["name"])
            if one["reason"] == "Preempted"
        ],
        "the job has an event",
    )
    assert f"1 pod is preempted for {cluster.namespace}/boss: 8 chips" in events[0]["message"]
    cluster.wait_running("boss", 1)
    told = f"preempted for {cluster.namespace}/boss at "
    cluster.wait(lambda: told in asked(cluster, "why", f"{cluster.namespace}/low"), "why tells by whom")
    # The next scheduler knows it, too.
    cluster.crash(scheduler)
    cluster.run("scheduler")
    assert told in asked(cluster, "why", f"{cluster.namespace}/low")
    cluster.api.delete(f"{JOBS}/boss")
    cluster.wait_running("low", 1)
