"""Pods of a Deployment before their PodGroup exists, as the questions about a live cluster see them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ringwise.apps.live import LiveCluster, read_cluster
from ringwise.cli.commands import plugin
from tests.event_loop import run
from tests.kube.harness import NODES, PODS, QUEUES, cluster_was_read, node, pod, server

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "chat-1", "uid": "r1", "controller": True}
DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {name: later}
spec:
  replicas: 2
  selector: {matchLabels: {app: later}}
  template:
    metadata: {labels: {app: later}}
    spec:
      schedulerName: volcano
      containers: [{name: main, resources: {limits: {huawei.com/Ascend910: 1}}}]
"""


def owned(name: str, **more: Any) -> dict[str, Any]:
    made = pod(name, 1, **more)
    made["metadata"]["ownerReferences"] = [OWNER]
    return made


def ask(monkeypatch: pytest.MonkeyPatch, pods: list[dict[str, Any]], *arguments: str) -> Any:
    kept: list[LiveCluster] = []

    async def read() -> None:
        async with server() as (api, client):
            api.put(NODES, node("node-1"))
            api.put(QUEUES, {"metadata": {"name": "default"}})
            for one in pods:
                api.put(PODS, one)
            kept.append(await read_cluster(client))

    run(read())

    cluster_was_read(monkeypatch, kept[-1])
    result = CliRunner().invoke(plugin, [*arguments, "-o", "json"], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_why_says_that_a_pod_waits_for_its_pod_group(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = ask(monkeypatch, [owned("chat-1-a")], "why", "chat-1-a")
    assert (answer["state"], answer["reason"]["code"]) == ("pending", "pod-group-not-created")
    (job,) = ask(monkeypatch, [owned("chat-1-a")], "get")["jobs"]
    assert job["reason"]["code"] == "pod-group-not-created"


def test_bare_pods_and_clusters_without_pod_groups_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    would = "would be placed on node-1 now"
    assert ask(monkeypatch, [pod("alone", 1)], "why", "alone")["message"] == would
    placed = owned("chat-1-b", on="node-1", held="Ascend910-0")
    # It was placed by a scheduler that creates no PodGroups and waits for none.
    placed["metadata"]["annotations"]["predicate-time"] = "1"
    assert ask(monkeypatch, [placed, owned("chat-1-a")], "why", "chat-1-a")["message"] == would


def test_a_deployment_that_is_submitted_gets_its_pod_group(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "later.yaml"
    file.write_text(DEPLOYMENT)
    answer = ask(monkeypatch, [owned("chat-1-a")], "place", "-f", str(file))
    assert {job["state"] for job in answer["jobs"]} == {"scheduled"}
