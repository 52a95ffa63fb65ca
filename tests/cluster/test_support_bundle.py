"""`kubectl ringwise support-bundle` on a real API server: the same answers, and what a user may not list."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster, chips_of, node_of
from tests.cluster.commands import kubectl_ringwise, ringwise
from tests.cluster.objects import node_report, nodes, pod, vcjob
from tests.cluster.owners import Workload
from tests.cluster.rights import grant_reading

pytestmark = pytest.mark.cluster

SECRETS = ("umbrella", "weyland", "aperture", "sesame")


def test_a_bundle_of_a_cluster_with_the_journal_of_its_scheduler(cluster: Cluster, tmp_path: Path) -> None:
    journal, bundle, mapping = (tmp_path / name for name in ("j.jsonl", "bundle.tar.gz", "mapping.json"))
    cluster.apply(nodes(3))
    cluster.apply([node_report(f"node-{number}", range(8), index=number) for number in range(1, 4)])
    scheduler = cluster.start("scheduler", f"--journal={journal}")
    cluster.wait(lambda: scheduler.leads, "the scheduler leads")
    cluster.run("controller")
    cluster.apply([vcjob("umbrella", 2, 8, labels={"team": "weyland"})])
    cluster.wait_running("umbrella", 2)
    Workload(cluster, "Deployment", "aperture", 2, 2)
    cluster.wait_running("aperture", 2)
    secret = {"metadata": {"name": "sesame"}, "stringData": {"word": "sesame"}}
    cluster.apply([vcjob("weyland", 2, 8), {"apiVersion": "v1", "kind": "Secret", **secret}])
    cluster.wait(lambda: cluster.condition("weyland"), "weyland says why it waits")
    scheduler.stop()
    made = kubectl_ringwise(
        cluster.admin_config,
        "support-bundle",
        str(bundle),
        f"--journal={journal}",
        f"--mapping-file={mapping}",
    )
    assert made.returncode == 0, made.stdout + made.stderr
    assert "support bundle of a cluster" in made.stdout
    content = gzip.decompress(bundle.read_bytes()).decode().lower()
    assert [word for word in SECRETS if word in content] == []
    names = json.loads(mapping.read_bytes())

    replayed = ringwise(cluster.admin_config, "replay", str(bundle))
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    assert replayed.stdout.startswith("identical: ")
    job = f"{names.get(cluster.namespace, cluster.namespace)}/{names['weyland']}"
    why = ringwise(cluster.admin_config, "why", job, "-f", str(bundle), "-o", "json")
    asked = kubectl_ringwise(cluster.admin_config, "why", f"{cluster.namespace}/weyland", "-o", "json")
    told, original = json.loads(why.stdout), json.loads(asked.stdout)
    assert (told["state"], told["reason"]["code"]) == (original["state"], original["reason"]["code"])
    assert told["state"] == "pending"
    shown = ringwise(cluster.admin_config, "get", "pods", "-f", str(bundle), "-o", "json")
    held = {one["name"]: (one["node"], one["chips"]) for one in json.loads(shown.stdout)["pods"]}
    for one in cluster.pods("umbrella"):
        node, chips = held[
            one["metadata"]["name"].replace("umbrella-work", f"{names['umbrella']}-{names['work']}")
        ]
        assert node == names[node_of(one)]
        assert [f"Ascend910-{chip}" for chip in chips] == chips_of(one)


def test_what_a_user_may_not_list_is_named_in_the_bundle(cluster: Cluster, tmp_path: Path) -> None:
    cluster.apply(nodes(1))
    cluster.apply([pod("umbrella-0", 1)])
    account = {"name": "reader"}
    cluster.apply([{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}])
    config = cluster.plane.kubeconfig("reader", cluster.plane.account_token(cluster.namespace, "reader"))
    refused = kubectl_ringwise(config, "support-bundle", str(tmp_path / "none.tar.gz"))
    assert refused.returncode == 2
    assert "nodes: not allowed" in refused.stderr
    assert not (tmp_path / "none.tar.gz").exists()
    rules = ["--verb=list", "--resource=nodes,pods"]
    cluster.kubectl("create", "clusterrole", "some", *rules)
    reader = f"--serviceaccount={cluster.namespace}:reader"
    cluster.kubectl("create", "clusterrolebinding", "some", "--clusterrole=some", reader)
    partly = kubectl_ringwise(config, "support-bundle", str(tmp_path / "part.tar.gz"), "-o", "json")
    cluster.kubectl("delete", "clusterrole,clusterrolebinding", "some")
    assert partly.returncode == 1, partly.stderr
    document = json.loads(partly.stdout)
    assert document["objects"] == {"Node": 1, "Pod": 1}
    assert any(line.startswith("podgroups: not allowed") for line in document["missing"])
    assert any(line.startswith("queues: not allowed") for line in document["missing"])
    grant_reading(cluster, reader)
    whole = kubectl_ringwise(config, "support-bundle", str(tmp_path / "whole.tar.gz"), "-o", "json")
    assert whole.returncode == 0, whole.stdout + whole.stderr
