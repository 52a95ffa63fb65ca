from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ringwise.apps.live import (
    LiveCluster,
    NothingReadableError,
    read_cluster,
    with_submitted,
)
from ringwise.apps.place import AlreadyThereError
from ringwise.apps.sources import cluster as cluster_source
from ringwise.apps.sources.cluster import ClusterSource, read_records
from ringwise.cli.commands import plugin
from ringwise.kubeclient.client import Client
from ringwise.kubeclient.config import direct
from ringwise.manifests.bundle import read_bundle
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.topology.switches import SwitchTopology
from tests.event_loop import run
from tests.kube.fake_api_server import FakeApiServer
from tests.kube.harness import (
    CONFIG_MAPS,
    GROUPS,
    NODES,
    PODS,
    QUEUES,
    cluster_was_read,
    group,
    node,
    pod,
    server,
)

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "jobs" / "01-one-chip.yaml"


def small_cluster(api: FakeApiServer) -> None:
    api.put(NODES, node("node-1"))
    api.put(QUEUES, {"metadata": {"name": "default"}})
    api.put(PODS, pod("runs", 4, on="node-1", held="Ascend910-0,Ascend910-1,Ascend910-2,Ascend910-3"))
    api.put(GROUPS, group("gang", 2))
    for name in ("gang-0", "gang-1"):
        api.put(PODS, pod(name, 8, group="gang"))
    api.put(PODS, {"metadata": {"name": "odd", "namespace": "default"}, "spec": {"containers": "none"}})
    configuration = "configurations:\n- name: init-params\n  arguments: {super-pod-size: 7}\n"
    api.put(
        CONFIG_MAPS,
        {
            "metadata": {"name": "volcano-scheduler-configmap", "namespace": "volcano-system"},
            "data": {"volcano-scheduler.conf": configuration},
        },
    )
    api.put(
        CONFIG_MAPS,
        {
            "metadata": {"name": "basic-tor-node-cm", "namespace": "kube-system"},
            "data": {"tor_info": "{}"},
        },
    )


async def test_everything_is_read_once_and_nothing_is_changed() -> None:
    async with server() as (api, client):
        small_cluster(api)
        version = api.version
        live = await read_cluster(client)
        assert [one.name for one in live.bundle.nodes] == ["node-1"]
        assert sorted(one.name for one in live.bundle.pods) == ["gang-0", "gang-1", "runs"]
        assert len(live.bundle.of(SwitchTopology)) == 1
        assert live.configuration.settings.super_pod_size == 7
        assert [error.origin for error in live.bundle.errors] == ["Pod default/odd"]
        assert live.missing == []
        assert api.version == version
        assert {method for method, _ in api.requests} == {"GET"}


async def test_missing_permissions_and_kinds_are_reported_and_the_rest_is_read() -> None:
    async with server() as (api, client):
        small_cluster(api)
        api.unknown.add("jobs")
        api.fault("/namespaces/mindx-dl/configmaps", status=403, times=2)
        live = await read_cluster(client)
        needed = "you need the verb list on configmaps in namespace mindx-dl"
        assert live.missing == [
            *(
                f"{kind}: not allowed; {needed} (ClusterRole ringwise-reader and docs/reference/rbac.md)"
                for kind in ("node-health", "cluster-reports")
            ),
            "jobs: the API server does not serve this kind; install the Helm chart",
        ]
        assert live.bundle.nodes


async def test_without_nodes_there_is_no_answer() -> None:
    async with server() as (api, client):
        api.fault("GET /api/v1/nodes", status=403)
        with pytest.raises(NothingReadableError, match="verb list on nodes in the whole cluster"):
            await read_cluster(client)


def test_a_what_if_must_be_new() -> None:
    submitted = read_bundle([str(EXAMPLE)])
    live = LiveCluster()
    (job,) = with_submitted(live.bundle, submitted)
    assert job == (submitted.vcjobs[0].namespace, submitted.vcjobs[0].name)
    with pytest.raises(AlreadyThereError, match="exists in the cluster"):
        with_submitted(live.bundle, read_bundle([str(EXAMPLE)]))


# -- the commands


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The commands, on a cluster that was read from a stand-in."""
    kept: list[LiveCluster] = []

    def ask(*arguments: str) -> Result:
        async def read() -> None:
            async with server() as (api, client):
                small_cluster(api)
                api.remove(CONFIG_MAPS, "kube-system/basic-tor-node-cm")
                kept.append(await read_cluster(client))

        run(read())

        cluster_was_read(monkeypatch, kept[-1])
        return CliRunner().invoke(plugin, list(arguments), catch_exceptions=False)

    return ask


def test_why_a_gang_waits(asked: Any) -> None:
    result = asked("why", "gang", "-o", "json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["state"] == "pending"
    assert "ignored: Pod default/odd" in result.stderr


def test_an_unknown_job_is_one_line(asked: Any) -> None:
    result = asked("why", "no-such-job")
    assert result.exit_code == 2
    assert "no-such-job" in result.stderr


def test_get_lists_jobs_and_nodes(asked: Any) -> None:
    jobs = {one["name"]: one for one in json.loads(asked("get", "-o", "json").stdout)["jobs"]}
    assert (jobs["runs"]["phase"], jobs["runs"]["chips"], jobs["runs"]["nodes"]) == ("Running", 4, ["node-1"])
    assert (jobs["gang"]["state"], jobs["gang"]["scheduled"]) == ("pending", 0)
    assert jobs["gang"]["reason"]["message"]
    assert json.loads(asked("get", "-n", "elsewhere", "-o", "json").stdout)["jobs"] == []
    (one,) = json.loads(asked("get", "nodes", "-o", "json").stdout)["nodes"]
    (chips,) = one["chips"]
    assert (one["name"], chips["count"], chips["used"], chips["free"]) == (
        "node-1",
        8,
        [0, 1, 2, 3],
        [4, 5, 6, 7],
    )
    assert "node-1" in asked("get", "nodes").stdout
    assert "default/runs" in asked("get").stdout


def test_place_answers_for_what_is_submitted_only(asked: Any) -> None:
    result = asked("place", "-f", str(EXAMPLE), "-o", "json")
    assert result.exit_code == 0, result.stderr
    (job,) = json.loads(result.stdout)["jobs"]
    assert job["state"] in ("scheduled", "pending")
    assert asked("place", "-f", str(EXAMPLE), "--scores").exit_code == 0


@pytest.mark.parametrize(
    ("forbidden", "why"),
    [
        (True, "you need the verb get on configmaps in namespace volcano-system"),
        (False, "moves.json: unsupported version 1: this Ringwise reads version 2"),
    ],
)
async def test_place_says_that_the_records_of_the_scheduler_are_not_known(forbidden: bool, why: str) -> None:
    read: list[LiveCluster] = []
    async with server() as (api, client):
        small_cluster(api)
        if forbidden:
            api.fault("/configmaps/ringwise-rescheduling", status=403)
        meta = {"namespace": "volcano-system", "name": "ringwise-rescheduling"}
        api.put(CONFIG_MAPS, {"metadata": meta, "data": {"moves.json": '{"version":1,"plans":[]}'}})
        read.append(await read_cluster(client))
        await read_records(client, read[0])
    told: list[str] = []

    def tell(line: object) -> None:
        told.append(str(line))

    source = ClusterSource(direct("http://stand-in"), shipped_catalog(()), notify=tell, live=read[0])
    source.place(read_bundle([str(EXAMPLE)]))
    (note,) = (line for line in told if line.startswith("note: "))
    assert note.startswith("note: chips and quota that the scheduler holds for other jobs are not known; ")
    assert why in note


def test_doctor_lists_what_could_not_be_read(asked: Any) -> None:
    result = asked("doctor", "-o", "json")
    found = [one for one in json.loads(result.stdout)["findings"] if one["code"] == "unreadable-object"]
    assert any("Pod default/odd" in one["object"] for one in found)
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("minor", "runs", "reported"),
    [(29, True, True), (30, True, False), (None, True, False), (29, False, False)],
)
async def test_doctor_reports_tokens_of_the_device_plugin_that_name_no_node(
    monkeypatch: pytest.MonkeyPatch, minor: int | None, runs: bool, reported: bool
) -> None:
    """Before Kubernetes 1.30 no policy can limit them to their node."""

    async def version(client: Client) -> int | None:
        return minor

    found: list[LiveCluster] = []
    monkeypatch.setattr(cluster_source, "server_minor_version", version)
    async with server() as (api, client):
        small_cluster(api)
        plugin_pod = pod("plugin", 0, on="node-1")
        labels = {"app.kubernetes.io/name": "ringwise", "app.kubernetes.io/component": "device-plugin"}
        plugin_pod["metadata"]["labels"] = labels if runs else {}
        api.put(PODS, plugin_pod)
        found.append(await cluster_source.read_all(client))
    cluster_was_read(monkeypatch, found[0])
    document = json.loads(CliRunner().invoke(plugin, ["doctor", "-o", "json"]).stdout)
    findings = [one for one in document["findings"] if one["code"] == "device-plugin-tokens"]
    assert [one["severity"] for one in findings] == ["warning"] * reported
    if reported:
        assert "(Kubernetes 1.29)" in findings[0]["message"]
        assert findings[0]["object"] == "device plugin on 1 node"


def test_capacity_and_topology(asked: Any) -> None:
    assert json.loads(asked("capacity", "-o", "json").stdout)["boards"]
    assert asked("topology", "show", "-o", "json").exit_code == 0
