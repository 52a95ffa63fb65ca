"""Limits and the longest run time on a real API server, across a change of leaders."""

from __future__ import annotations

import pytest

from tests.cluster.cluster import GROUPS, JOBS, PODS, Cluster
from tests.cluster.commands import kubectl_ringwise
from tests.cluster.objects import Object, nodes, pod, pod_group, vcjob

pytestmark = pytest.mark.cluster

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
#: Seconds.
WARNING, LONGEST = 15, 30


def queue(name: str, **limits: str) -> Object:
    annotations = {f"ringwise.io/{key.replace('_', '-')}": value for key, value in limits.items()}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"weight": 1},
    }


def namespace_limits(text: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "ringwise-limits", "namespace": "kube-system"},
        "data": {"limits.yaml": text},
    }


def job_in(name: str, where: str, replicas: int = 1) -> Object:
    made = vcjob(name, replicas, 8)
    made["spec"]["queue"] = where
    return made


def said(cluster: Cluster, *arguments: str) -> str:
    ran = kubectl_ringwise(cluster.admin_config, *arguments)
    assert ran.returncode in (0, 1), ran.stderr
    return " ".join(ran.stdout.split())


def waits_for(cluster: Cluster, job: str, words: str) -> None:
    def told() -> bool:
        condition = cluster.condition(job)
        return condition is not None and words in condition.get("message", "")

    cluster.wait(told, f"{job} waits: {words}")


def phase(cluster: Cluster, name: str) -> str:
    return str(cluster.api.get(f"{JOBS}/{name}").get("status", {}).get("state", {}).get("phase", ""))


def told(cluster: Cluster, job: str, reason: str) -> list[str]:
    group = cluster.group_of(job)
    name = group["metadata"]["name"] if group is not None else job
    return [one["message"] for one in cluster.events("PodGroup", name) if one["reason"] == reason]


def test_jobs_wait_for_limits_and_are_woken(cluster: Cluster) -> None:
    cluster.apply([*nodes(4), queue("few", max_chips="8"), namespace_limits("namespaces: {}")])
    cluster.run()
    cluster.apply([job_in("first", "few")])
    cluster.wait_running("first", 1)
    cluster.apply([job_in("second", "few"), vcjob("other", 1, 8)])
    waits_for(cluster, "second", "queue few uses 8 of at most 8 chips and the job asks for 8 more")
    # It keeps nobody else waiting.
    cluster.wait_running("other", 1)
    why = said(cluster, "why", f"{cluster.namespace}/second")
    assert "the limit of queue few is used by first (8 chips)" in why
    assert "if ringwise.io/max-chips of queue few were 16 (now 8)" in why
    shown = said(cluster, "limits")
    assert "queue few 8 of 8" in shown
    # A limit that cannot be read leaves what was in force, and says so.
    cluster.apply([queue("few", max_chips="1e9")])
    cluster.apply([namespace_limits(f"namespaces:\n  {cluster.namespace}:\n    max-chip: 8\n")])
    assert "line 3: namespaces" in said(cluster, "doctor")
    cluster.apply([job_in("third", "few")])
    waits_for(cluster, "third", "of at most 8 chips")
    cluster.apply([queue("few", max_chips="8")])
    cluster.api.delete(f"{JOBS}/second")
    cluster.api.delete(f"{JOBS}/first")
    cluster.wait_running("third", 1)
    # Limits of the namespace come on top.
    cluster.apply([namespace_limits(f"namespaces:\n  {cluster.namespace}: {{max-running-jobs: 2}}\n")])
    cluster.apply([job_in("fourth", "few")])
    # Told before the other limit is raised: the two are watched by themselves.
    waits_for(cluster, "fourth", f"2 jobs of namespace {cluster.namespace} run and at most 2 may")
    cluster.apply([queue("few", max_chips="32")])
    cluster.remove([namespace_limits("")])
    cluster.wait_running("fourth", 1)


def test_a_run_time_ends_across_leaders(cluster: Cluster) -> None:
    cluster.configure({"max-run-time-warning": str(WARNING)})
    cluster.apply(
        [
            *nodes(2),
            queue("short", longest_run_time=f"{LONGEST}s"),
            queue("night", longest_run_time=f"{LONGEST}s", at_run_time_end="requeue"),
        ]
    )
    scheduler = cluster.run()
    cluster.apply([job_in("ends", "short"), job_in("returns", "night")])
    cluster.wait_running("ends", 1)
    (before,) = cluster.wait_running("returns", 1)
    # The next leader goes on with what this one wrote.
    cluster.crash(scheduler)
    cluster.run("scheduler")
    cluster.wait(lambda: told(cluster, "ends", "MaxRunTimeApproaching"), "it is warned")
    (message,) = told(cluster, "ends", "MaxRunTimeApproaching")
    assert f"the longest run time of queue short is {LONGEST}s" in message
    cluster.wait(lambda: phase(cluster, "ends") == "Terminated", "it is ended")
    assert not cluster.pods("ends")

    def started_over() -> bool:
        pods = cluster.running("returns", 1)
        return pods is not None and pods[0]["metadata"]["uid"] != before["metadata"]["uid"]

    cluster.wait(started_over, "it started over")
    assert not cluster.api.get(f"{JOBS}/returns")["status"].get("retryCount")


def move_group(cluster: Cluster, name: str, where: str) -> None:
    """As a tenant does it."""
    patch = f'{{"spec":{{"queue":"{where}"}}}}'
    cluster.kubectl("patch", "podgroups.scheduling.volcano.sh", name, "--type=merge", "-p", patch)


def test_pods_count_for_the_queue_they_were_bound_in_across_leaders(cluster: Cluster) -> None:
    """Two queues with 8 chips each never have 24 in use, whatever tenants do with PodGroups."""
    cluster.apply([*nodes(4), queue("few", max_chips="8"), queue("wide", max_chips="8")])
    scheduler = cluster.run()
    group = pod_group("first", 1)
    group["spec"]["queue"] = "few"
    cluster.apply([group, pod("first-0", 8, group="first")])
    cluster.wait_running("first", 1)
    move_group(cluster, "first", "wide")
    cluster.apply([job_in("second", "few"), job_in("third", "wide")])
    cluster.wait_running("third", 1)
    waits_for(cluster, "second", "queue few uses 8 of at most 8 chips and the job asks for 8 more")
    assert "queue few 8 of 8" in said(cluster, "limits")
    # The next leader knows it, also when the PodGroup is gone.
    cluster.api.delete(f"{JOBS}/second")
    cluster.api.delete(f"{GROUPS}/first")
    cluster.crash(scheduler)
    cluster.run("scheduler")
    cluster.apply([job_in("fourth", "few")])
    waits_for(cluster, "fourth", "queue few uses 8 of at most 8 chips and the job asks for 8 more")
    cluster.api.delete(f"{PODS}/first-0")
    cluster.wait_running("fourth", 1)


def test_a_vcjob_gets_its_queue_back_and_its_run_time_ends_wherever_it_is_moved(cluster: Cluster) -> None:
    cluster.configure({"max-run-time-warning": str(WARNING)})
    cluster.apply([*nodes(3), queue("short", longest_run_time=f"{LONGEST}s"), queue("wide")])
    scheduler = cluster.run()
    group = pod_group("moved", 1)
    group["spec"]["queue"] = "short"
    cluster.apply([job_in("train", "short"), group, pod("moved-0", 8, group="moved")])
    cluster.wait_running("train", 1)
    cluster.wait_running("moved", 1)
    of_job = cluster.group_of("train")
    assert of_job is not None
    for name in (of_job["metadata"]["name"], "moved"):
        move_group(cluster, name, "wide")

    def queue_of(job: str) -> str:
        found = cluster.group_of(job)
        return found["spec"]["queue"] if found is not None else ""

    cluster.wait(lambda: queue_of("train") == "short", "the PodGroup of the vcjob is in its queue again")
    assert queue_of("moved") == "wide"
    cluster.crash(scheduler)
    cluster.run("scheduler")
    cluster.wait(lambda: told(cluster, "moved", "MaxRunTimeApproaching"), "it is warned")
    assert (
        f"the longest run time of queue short is {LONGEST}s"
        in told(cluster, "moved", "MaxRunTimeApproaching")[0]
    )
    cluster.wait(lambda: not cluster.pods("moved"), "it is ended")
    cluster.wait(lambda: phase(cluster, "train") == "Terminated", "so is the vcjob")
