"""Queues as `vcctl queue` uses them: commands, status, and what the webhook refuses."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.cluster.cluster import JOBS, Cluster
from tests.cluster.objects import NAMESPACE, Object, nodes, vcjob

pytestmark = pytest.mark.cluster

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
COMMANDS = f"/apis/bus.volcano.sh/v1alpha1/namespaces/{NAMESPACE}/commands"


def queue(name: str, **spec: Any) -> Object:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1, **spec},
    }


def in_queue(name: str, job: Object) -> Object:
    job["spec"]["queue"] = name
    return job


def operate(cluster: Cluster, name: str, action: str) -> None:
    """As `vcctl queue operate -n NAME -a open|close` does."""
    found = cluster.api.get(f"{QUEUES}/{name}")
    target = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "name": name,
        "uid": found["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    command = {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {
            "generateName": f"{name}-{action.lower()}-",
            "namespace": NAMESPACE,
            "ownerReferences": [target],
        },
        "target": target,
        "action": action,
    }
    cluster.api.create(COMMANDS, command)


def states(cluster: Cluster, *names: str) -> dict[str, str]:
    found = {
        one["metadata"]["name"]: one.get("status", {}).get("state", "") for one in cluster.api.items(QUEUES)
    }
    return {name: found.get(name, "") for name in names}


def told(cluster: Cluster, name: str) -> set[tuple[str, str, str]]:
    """Type, reason and message of the events on a queue: in `default`, as a queue has no namespace."""
    return {
        (one["type"], one["reason"], one["message"])
        for one in cluster.api.items("/api/v1/namespaces/default/events")
        if (one["involvedObject"]["kind"], one["involvedObject"]["name"]) == ("Queue", name)
    }


def has_used(cluster: Cluster, name: str, amounts: dict[str, str]) -> bool:
    allocated = cluster.api.get(f"{QUEUES}/{name}").get("status", {}).get("allocated", {})
    return all(allocated.get(resource) == amount for resource, amount in amounts.items())


def test_08_commands_open_and_close_queues_with_those_below(cluster: Cluster) -> None:
    cluster.apply([*nodes(1), queue("dept"), queue("team", parent="dept"), queue("own", parent="dept")])
    cluster.run()
    names = ("dept", "team", "own")
    cluster.wait(lambda: states(cluster, *names) == dict.fromkeys(names, "Open"), "new queues are open")
    cluster.wait(
        lambda: cluster.api.get(f"{QUEUES}/dept")["spec"].get("parent") == "root", "the parent is written"
    )
    cluster.apply([in_queue("team", vcjob("runs", 1, 8)), in_queue("dept", vcjob("parent", 1, 1))])
    cluster.wait_running("runs", 1)
    condition = cluster.wait(lambda: cluster.condition("parent"), "a job in a parent waits")
    assert "queue dept has the queues own, team below it" in condition["message"]
    used = {"huawei.com/Ascend910": "8", "pods": "1"}
    for name in ("team", "dept", "root"):
        cluster.wait(partial(has_used, cluster, name, used), f"the pod is counted in {name}")
    cluster.api.delete(f"{JOBS}/parent")

    operate(cluster, "own", "CloseQueue")
    cluster.wait(lambda: states(cluster, "own") == {"own": "Closed"}, "own is closed")
    operate(cluster, "dept", "CloseQueue")
    closed = {"dept": "Closed", "team": "Closing", "own": "Closed"}
    cluster.wait(lambda: states(cluster, *names) == closed, "closing descends")
    assert cluster.running("runs", 1), "what runs goes on"
    operate(cluster, "team", "OpenQueue")
    refusal = "queue team cannot be opened because its parent queue dept is Closed; open dept first"
    cluster.wait(lambda: ("Warning", "OpenQueue", refusal) in told(cluster, "team"), "the refusal is told")
    assert states(cluster, "team") == {"team": "Closing"}
    cluster.api.delete(f"{JOBS}/runs")
    cluster.wait(lambda: states(cluster, "team") == {"team": "Closed"}, "the last PodGroup has left")

    operate(cluster, "dept", "OpenQueue")
    opened = {"dept": "Open", "team": "Open", "own": "Closed"}
    cluster.wait(lambda: states(cluster, *names) == opened, "opening opens what was closed with it")
    assert ("Normal", "CloseQueue", "Close queue succeed") in told(cluster, "own")
    assert cluster.api.items(COMMANDS) == []
    for name in ("team", "own", "dept"):
        cluster.api.delete(f"{QUEUES}/{name}")
