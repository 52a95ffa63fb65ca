"""Queues as `vcctl queue` uses them: commands, status, and what the webhook refuses."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.cluster.cluster import JOBS, Cluster
from tests.cluster.objects import Object, nodes, vcjob

pytestmark = pytest.mark.cluster

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
#: `vcctl` creates Commands for queues in `default`.
COMMANDS = "/apis/bus.volcano.sh/v1alpha1/namespaces/default/commands"


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


def command(name: str, action: str, kind: str, target: str) -> Object:
    return {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"name": name},
        "target": {"kind": kind, "name": target},
        "action": action,
    }


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
    meta = {"generateName": f"{name}-{action.lower()}-", "ownerReferences": [target]}
    asked = command("", action, "Queue", name)
    cluster.api.create(COMMANDS, {**asked, "metadata": meta, "target": target})


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


def test_commands_open_and_close_queues_with_those_below(cluster: Cluster) -> None:
    cluster.apply([*nodes(1), queue("dept"), queue("team", parent="dept"), queue("own", parent="dept")])
    cluster.run()
    names = ("dept", "team", "own")
    cluster.wait(lambda: states(cluster, *names) == dict.fromkeys(names, "Open"), "new queues are open")
    cluster.wait(
        lambda: cluster.api.get(f"{QUEUES}/dept")["spec"].get("parent") == "root", "the parent is written"
    )
    cluster.apply([in_queue("team", vcjob("runs", 1, 8)), in_queue("dept", vcjob("parent", 1, 1))])
    cluster.wait_running("runs", 1)
    words = "queue dept has child queues (own, team)"
    cluster.wait(
        lambda: words in (cluster.condition("parent") or {}).get("message", ""), "a job in a parent waits"
    )
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
    closing = ("Normal", "CloseQueue", "Close queue succeed")
    cluster.wait(lambda: closing in told(cluster, "own"), "the closing is told")
    cluster.wait(lambda: not cluster.api.items(COMMANDS), "no Command is left")


def test_without_the_policy_commands_are_obeyed_in_named_namespaces_alone(cluster: Cluster) -> None:
    cluster.apply([queue("blue")])
    cluster.run("controller")
    cluster.wait(lambda: states(cluster, "blue") == {"blue": "Open"}, "the queue is open")
    strange = "/apis/bus.volcano.sh/v1alpha1/namespaces/-/commands"
    cluster.api.create(strange, command("mine", "CloseQueue", "Queue", "blue"))

    def refused() -> list[str]:
        return [
            one["message"]
            for one in cluster.api.items("/api/v1/namespaces/-/events")
            if (one["involvedObject"]["kind"], one["involvedObject"]["name"]) == ("Command", "mine")
        ]

    (message,) = cluster.wait(refused, "the refusal is told in the namespace of the Command")
    assert message.startswith(f"Commands of namespace {cluster.namespace} do not open or close queues; ")
    cluster.wait(lambda: not cluster.api.items(strange), "the Command is gone")
    # One that is obeyed comes after it, so nothing is under way any more.
    operate(cluster, "blue", "OpenQueue")
    opened = ("Normal", "OpenQueue", "Open queue succeed")
    cluster.wait(lambda: opened in told(cluster, "blue"), "a Command of vcctl is obeyed")
    assert not [one for one in told(cluster, "blue") if one[1] == "CloseQueue"]
    cluster.stop_components()

    cluster.start("controller", f"--queue-command-namespace={cluster.namespace}")
    cluster.api.create(strange, command("named", "CloseQueue", "Queue", "blue"))
    cluster.wait(lambda: states(cluster, "blue") == {"blue": "Closed"}, "the namespace is named by a setting")
