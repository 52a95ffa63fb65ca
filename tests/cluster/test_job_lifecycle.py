"""The life of vcjobs as `vcctl` and Volcano's controller show it: restarts, commands, status, events."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.cluster import EVENTS, JOBS, PODS, Cluster
from tests.cluster.objects import Object, nodes, vcjob

pytestmark = pytest.mark.cluster

COMMANDS = "/apis/bus.volcano.sh/v1alpha1/namespaces/-/commands"


def job_of(name: str, commands: dict[str, tuple[int, str]], **spec: Any) -> Object:
    """Tasks by name, each with its replicas and what its shell runs."""
    job = vcjob(name, sum(replicas for replicas, _ in commands.values()), 0)
    (template,) = [task["template"] for task in job["spec"]["tasks"]]
    job["spec"]["tasks"] = [
        {
            "name": task,
            "replicas": replicas,
            "template": {
                "spec": {
                    **template["spec"],
                    "containers": [{"name": "main", "image": "busybox", "command": ["sh", "-c", script]}],
                }
            },
        }
        for task, (replicas, script) in commands.items()
    ]
    job["spec"].update(spec)
    return job


def status(cluster: Cluster, name: str) -> dict[str, Any]:
    found: dict[str, Any] = cluster.api.get(f"{JOBS}/{name}").get("status", {})
    return found


def wait_phase(cluster: Cluster, name: str, phase: str) -> dict[str, Any]:
    def reached() -> dict[str, Any] | None:
        found = status(cluster, name)
        return found if found.get("state", {}).get("phase") == phase else None

    found: dict[str, Any] = cluster.wait(reached, f"{name} is {phase}")
    return found


def command(cluster: Cluster, job: str, action: str) -> None:
    """As `vcctl job suspend` and `resume` do."""
    owner = cluster.api.get(f"{JOBS}/{job}")
    target = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": job,
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    cluster.api.create(
        COMMANDS,
        {
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": {"generateName": f"{job}-{action.lower()}-", "ownerReferences": [target]},
            "target": target,
            "action": action,
        },
    )


def messages(cluster: Cluster, job: str, reason: str) -> list[str]:
    return [event["message"] for event in cluster.events("Job", job) if event["reason"] == reason]


def test_a_restarted_pod_restarts_the_job_and_the_cause_stays(cluster: Cluster) -> None:
    cluster.apply(nodes(1))
    cluster.run()
    policy = {"event": "PodFailed", "action": "RestartPod"}
    tasks = {"good": (2, "sleep 1h"), "bad": (1, "exit 3")}
    cluster.apply([job_of("lame", tasks, minAvailable=1, policies=[policy])])
    found = wait_phase(cluster, "lame", "Failed")
    assert found["retryCount"] == 3
    assert found["version"] == 0
    assert found["state"]["reason"] == "PodFailed"
    assert "pod lame-bad-0 failed with exit code 3: RestartPod" in found["state"]["message"]
    assert {one["status"] for one in found["conditions"]} >= {"Pending", "Running", "Restarting", "Failed"}
    assert found["conditions"][-1]["status"] == "Failed"
    cluster.wait(lambda: messages(cluster, "lame", "ExecuteAction"), "the action is an event on the job")
    (message, *_) = messages(cluster, "lame", "ExecuteAction")
    assert message.startswith("Start to execute action RestartPod")


def test_a_job_that_starts_normally_gets_no_warning(cluster: Cluster) -> None:
    """From its creation until it runs: neither the job, nor its PodGroup, nor its pods."""
    cluster.apply(nodes(2))
    cluster.run()
    cluster.apply([vcjob("calm", 2, 8)])
    pods = cluster.wait_running("calm", 2)
    wait_phase(cluster, "calm", "Running")
    group = cluster.group_of("calm")
    assert group is not None
    names = {"calm", group["metadata"]["name"], *(pod["metadata"]["name"] for pod in pods)}

    def told() -> list[Object]:
        found = [one for one in cluster.api.items(EVENTS) if one["involvedObject"]["name"] in names]
        scheduled = [one for one in found if one["reason"] == "Scheduled"]
        # Events are written last, in their order.
        return found if len(scheduled) == 2 else []

    events = cluster.wait(told, "both pods have the event of their binding")
    assert [f"{one['reason']}: {one['message']}" for one in events if one["type"] == "Warning"] == []


def test_an_exit_code_chooses_the_policy(cluster: Cluster) -> None:
    cluster.apply(nodes(1))
    cluster.run()
    policies = [{"exitCode": 1, "action": "RestartJob"}, {"exitCode": 3, "action": "TerminateJob"}]
    cluster.apply([job_of("coded", {"work": (1, "exit 3")}, policies=policies)])
    found = wait_phase(cluster, "coded", "Terminated")
    assert (found["retryCount"], found["failed"]) == (0, 1)


def test_a_job_has_what_vcctl_shows(cluster: Cluster) -> None:
    """`vcctl job run, list, view, suspend, resume, delete` and `pod list`."""
    cluster.apply(nodes(1))
    cluster.run()
    # What `vcctl job run` creates: one task without a name, no queue, no policies.
    shown = job_of("shown", {"": (2, "sleep 1h")}, minAvailable=1, plugins={"svc": []})
    del shown["spec"]["queue"], shown["spec"]["tasks"][0]["name"]
    shown["metadata"]["labels"] = {"job.volcano.sh": "shown"}
    cluster.api.create(JOBS, shown)
    pods = cluster.wait_running("shown", 2)
    assert {pod["metadata"]["name"] for pod in pods} == {"shown-default0-0", "shown-default0-1"}
    for pod in pods:
        labels = pod["metadata"]["labels"]
        assert (labels["volcano.sh/job-name"], labels["volcano.sh/queue-name"]) == ("shown", "default")
    found = cluster.wait(
        lambda: found if (found := wait_phase(cluster, "shown", "Running")).get("running") == 2 else None,
        "the status counts both",
    )
    assert found["minAvailable"] == 1
    assert found["controlledResources"] == {"plugin-svc": "svc"}
    assert found["taskStatusCount"]["default0"]["phase"]["Running"] == 2

    command(cluster, "shown", "AbortJob")
    wait_phase(cluster, "shown", "Aborted")
    cluster.wait(lambda: not cluster.pods("shown"), "the pods of the suspended job are gone")
    cluster.wait(
        lambda: (
            not (found := status(cluster, "shown")).get("terminating") and not found.get("taskStatusCount")
        ),
        "the status counts none, of the job and of its task",
    )
    cluster.wait(lambda: messages(cluster, "shown", "CommandIssued"), "the command is an event")
    command(cluster, "shown", "ResumeJob")
    cluster.wait_running("shown", 2)
    found = wait_phase(cluster, "shown", "Running")
    # What somebody asks for uses no retry.
    assert (found["retryCount"], found["state"]["reason"]) == (0, "CommandIssued")
    cluster.wait(lambda: not cluster.api.items(COMMANDS), "no Command is left")

    cluster.api.delete(f"{JOBS}/shown")
    cluster.wait(lambda: not cluster.api.items(PODS), "the pods of the deleted job are gone")


def test_a_group_needs_what_quotas_count(cluster: Cluster) -> None:
    cluster.apply(nodes(1))
    cluster.run()
    job = job_of("quota", {"work": (2, "sleep 1h")})
    (container,) = job["spec"]["tasks"][0]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": "500m"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    cluster.apply([job])
    cluster.wait_running("quota", 2)
    group = cluster.group_of("quota")
    assert group is not None
    assert group["spec"]["minResources"] == {
        "cpu": "1000m",
        "requests.cpu": "1000m",
        "limits.cpu": "2000m",
        "memory": "2147483648",
        "requests.memory": "2147483648",
        "limits.memory": "2147483648",
        "pods": "2",
        "count/pods": "2",
    }
