"""`kubectl ringwise drain` on a stand-in for a cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ringwise.apps.drain import drain_jobs, objects_of, table_of
from ringwise.apps.lab.maintenance import affected_jobs, goes_in_cluster
from ringwise.apps.live import read_cluster
from ringwise.cli.commands import plugin
from ringwise.embed.kubelet import PodTimeline
from ringwise.embed.records import TIMELINE
from ringwise.kubeclient.client import ApiError, Client
from ringwise.manifests.bundle import Bundle
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.state.model import Owner, Pod, PodClass
from ringwise.state.vcjob import VcJob
from ringwise.views.cluster import JobView
from ringwise.wellknown import NODE_REPORT_LABEL
from tests.builders.values import SECOND
from tests.builders.values import pod as pod_value
from tests.device.test_commands import kubeconfig
from tests.event_loop import run
from tests.kube.fake_api_server import FakeApiServer, Object
from tests.kube.harness import (
    CONFIG_MAPS,
    GROUPS,
    JOBS,
    NODES,
    PODS,
    QUEUES,
    InstantClock,
    group,
    node,
    pod,
    server,
)
from tests.place.part_cases import node_object, pod_object, report_object

SHARE = {"aicoreQuota": "30", "hbmQuota": "1024", "policy": "elastic"}
ALL_CHIPS = ",".join(f"Ascend910-{chip}" for chip in range(8))


def owned(made: Object, kind: str = "Operator", name: str = "boss") -> Object:
    api = "batch.volcano.sh/v1alpha1" if kind == "Job" else "v1"
    reference = {"apiVersion": api, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}
    made["metadata"]["ownerReferences"] = [reference]
    return made


ISOLATIONS = "/apis/ringwise.io/v1alpha1/isolations"


def two_nodes(api: FakeApiServer, *, spare: int = 1) -> None:
    """On node-1: a gang of an operator, a pod of a DaemonSet with a chip, and a pod without chips."""
    for number in range(1 + spare):
        api.put(NODES, node(f"node-{number + 1}"))
    api.put(QUEUES, {"metadata": {"name": "default"}})
    api.put(GROUPS, group("gang", 1, phase="Running"))
    four = ALL_CHIPS[: ALL_CHIPS.index(",Ascend910-4")]
    api.put(PODS, owned(pod("gang-0", 4, group="gang", on="node-1", held=four)))
    api.put(PODS, owned(pod("agent", 1, on="node-1", held="Ascend910-7"), "DaemonSet", "agents"))
    api.put(PODS, owned(pod("web", 0, on="node-1", scheduler="default-scheduler"), "ReplicaSet", "web"))


def on_cluster(
    tmp_path: Path, prepare: Callable[[FakeApiServer], object], *commands: str, given: str | None = None
) -> tuple[list[Result], FakeApiServer]:
    results: list[Result] = []
    servers: list[FakeApiServer] = []

    async def test() -> None:
        async with FakeApiServer() as api:
            prepare(api)
            servers.append(api)
            config = kubeconfig(tmp_path, api.url)
            for command in commands:
                arguments = [*command.split(), "--kubeconfig", config]
                results.append(
                    await asyncio.to_thread(CliRunner().invoke, plugin, arguments, given, None, False)
                )

    run(test())
    return results, servers[0]


def pods_of(api: FakeApiServer) -> list[str]:
    return sorted(one["metadata"]["name"] for one in api.all(PODS))


def isolations(api: FakeApiServer) -> dict[str, Any]:
    return {one["metadata"]["name"]: one["spec"] for one in api.all(ISOLATIONS)}


# -- the plan


def test_a_plan_moves_the_pods_of_an_operator_and_changes_nothing(tmp_path: Path) -> None:
    (answered, drawn), api = on_cluster(
        tmp_path, two_nodes, "drain node-1 --plan -o json", "drain node-1 --plan"
    )
    assert answered.exit_code == 0, answered.output
    plan = json.loads(answered.stdout)
    (job,) = plan["jobs"]
    assert (job["name"], job["result"]) == ("gang", "moves")
    assert job["pods"] == [{"name": "gang-0", "from": "node-1", "to": "node-2"}]
    assert job["restarted"] == []
    assert "nothing was changed" in drawn.stdout
    assert {method for method, _ in api.requests} == {"GET"}


def test_a_plan_without_another_node_says_that_the_job_waits_and_why(tmp_path: Path) -> None:
    (answered, unforced), _ = on_cluster(
        tmp_path,
        lambda api: two_nodes(api, spare=0),
        "drain node-1 --plan --force -o json",
        "drain node-1 --plan -o json",
    )
    (left,) = json.loads(unforced.stdout)["jobs"]
    assert (left["result"], left["pods"]) == ("not-evicted", [])
    assert "node-isolated" in left["reason"]
    (job,) = json.loads(answered.stdout)["jobs"]
    assert (job["result"], job["pending_seconds"]) == ("pending", None)
    # The drain isolates, it does not cordon.
    assert "node-isolated" in job["reason"]
    assert job["pods"][0]["to"] is None


def test_a_plan_waits_for_the_end_of_another_job(tmp_path: Path) -> None:
    def prepare(api: FakeApiServer) -> None:
        two_nodes(api)
        other = pod("other", 8, on="node-2", held=ALL_CHIPS)
        other["metadata"]["annotations"]["ringwise.io/expected-duration"] = "1h"
        other["metadata"]["creationTimestamp"] = "2999-01-01T00:00:00Z"
        api.put(PODS, owned(other))

    (answered,), _ = on_cluster(tmp_path, prepare, "drain node-1 --plan --force -o json")
    (job,) = json.loads(answered.stdout)["jobs"]
    assert job["result"] == "pending"
    # It counts as started now: no pod started in the future.
    assert 3500 < job["pending_seconds"] <= 3700
    assert job["pods"][0]["to"] == "node-2"


def test_a_pod_without_an_owner_is_not_started_again(tmp_path: Path) -> None:
    def prepare(api: FakeApiServer) -> None:
        api.put(NODES, node("node-1"))
        api.put(NODES, node("node-2"))
        api.put(PODS, pod("alone", 8, on="node-1", held=ALL_CHIPS))

    (answered,), _ = on_cluster(tmp_path, prepare, "drain node-1 --plan --force -o json")
    (job,) = json.loads(answered.stdout)["jobs"]
    assert job["result"] == "not-restarted"


def test_a_plan_has_the_configuration_of_the_cluster(tmp_path: Path) -> None:
    """Without a plugin that gives chips no job moves."""

    def prepare(api: FakeApiServer) -> None:
        two_nodes(api)
        text = 'actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: gang\n'
        meta = {"name": "volcano-scheduler-configmap", "namespace": "volcano-system"}
        api.put(CONFIG_MAPS, {"metadata": meta, "data": {"volcano-scheduler.conf": text}})

    (answered,), _ = on_cluster(tmp_path, prepare, "drain node-1 --plan --force -o json")
    (job,) = json.loads(answered.stdout)["jobs"]
    assert job["result"] == "pending"


def vcjob(api: FakeApiServer, action: str = "RestartJob") -> None:
    """Two pods on node-1 and node-2, and what happens when one is evicted. node-3 is free."""
    for number in (1, 2, 3):
        api.put(NODES, node(f"node-{number}"))
    api.put(QUEUES, {"metadata": {"name": "default"}})
    template = {"spec": pod("template", 8)["spec"]}
    spec = {
        "schedulerName": "volcano",
        "minAvailable": 2,
        "queue": "default",
        "policies": [{"event": "PodEvicted", "action": action}],
        "tasks": [{"name": "worker", "replicas": 2, "template": template}],
    }
    meta = {"name": "train", "namespace": "default", "uid": "uid-train"}
    status = {"state": {"phase": "Running"}, "minAvailable": 2, "running": 2}
    api.put(JOBS, {"metadata": meta, "spec": spec, "status": status})
    api.put(GROUPS, owned(group("train-uid-train", 2, phase="Running"), "Job", "train"))
    for index in (0, 1):
        made = pod(
            f"train-worker-{index}", 8, group="train-uid-train", on=f"node-{index + 1}", held=ALL_CHIPS
        )
        names = {
            "volcano.sh/job-name": "train",
            "volcano.sh/task-spec": "worker",
            "volcano.sh/job-version": "0",
        }
        made["metadata"]["labels"] = names
        made["metadata"]["annotations"] |= {**names, "volcano.sh/task-index": str(index)}
        api.put(PODS, owned(made, "Job", "train"))


def test_the_pods_of_a_vcjob_are_created_by_its_controller_in_a_plan(tmp_path: Path) -> None:
    (answered,), _ = on_cluster(tmp_path, vcjob, "drain node-1 --plan -o json")
    (job,) = json.loads(answered.stdout)["jobs"]
    assert (job["kind"], job["name"], job["result"]) == ("vcjob", "train", "moves")
    (moved,), (restarted,) = job["pods"], job["restarted"]
    assert (moved["name"], moved["from"]) == ("train-worker-0", "node-1")
    assert (restarted["name"], restarted["from"]) == ("train-worker-1", "node-2")
    assert {moved["to"], restarted["to"]} == {"node-2", "node-3"}


def test_a_vcjob_that_an_eviction_ends_is_not_created_again_in_a_plan(tmp_path: Path) -> None:
    (answered,), _ = on_cluster(
        tmp_path, lambda api: vcjob(api, "AbortJob"), "drain node-1 --plan --force -o json"
    )
    (job,) = json.loads(answered.stdout)["jobs"]
    assert (job["result"], job["pending_seconds"]) == ("pending", None)
    assert [one["to"] for one in (*job["pods"], *job["restarted"])] == [None, None]


def test_running_pods_started_with_their_vcjob_and_others_when_they_were_created() -> None:
    def made(name: str, owner: str | None = None, **facts: Any) -> Pod:
        of = Owner("Job", owner, f"uid-{owner}") if owner else None
        return Pod(name, "default", name, PodClass(), node="node-1", created=10, owner=of, **facts)

    bundle = Bundle(
        {
            VcJob: [
                VcJob("default", "train", uid="uid-train", phase="Running", since=40),
                VcJob("default", "starts", uid="uid-starts", phase="Pending", since=40),
            ],
            Pod: [
                made("of-job", "train", phase="Running"),
                made("of-starting-job", "starts", phase="Running"),
                made("other", phase="Running"),
                made("bound"),
                made("leaving", phase="Running", deleting=True),
                made("over", phase="Succeeded"),
            ],
        },
    )
    table = table_of(bundle, 100)
    assert table.get(TIMELINE, "of-job") == PodTimeline(40, 40)
    assert table.get(TIMELINE, "of-starting-job") == PodTimeline(10, 10)
    assert table.get(TIMELINE, "other") == PodTimeline(10, 10)
    assert table.get(TIMELINE, "bound") == PodTimeline(100)
    assert table.get(TIMELINE, "leaving") == PodTimeline(10, 10, 100)
    assert table.get(TIMELINE, "over") is None
    assert table.get("Queue", "default") is not None


# -- the drain


def test_a_drain_isolates_and_evicts_pods_with_chips_only(tmp_path: Path) -> None:
    (answered,), api = on_cluster(tmp_path, two_nodes, "drain node-1 --yes")
    assert answered.exit_code == 0, answered.output
    assert "node node-1 isolated; 1 pod evicted" in answered.stdout
    printed = " ".join(answered.stdout.split())
    assert "kubectl ringwise unisolate node-1 --kubeconfig" in printed
    assert pods_of(api) == ["agent", "web"]
    entry = isolations(api)["node-1"]
    assert entry["reason"] == "drain"
    assert "startTime" not in entry
    writes = [path for method, path in api.requests if method != "GET"]
    assert writes[0] == ISOLATIONS
    assert writes[1].endswith("/pods/gang-0/eviction")


@pytest.mark.parametrize("resource", ["huawei.com/Ascend910", "huawei.com/npu-core"])
def test_a_drain_evicts_pods_with_shares_and_vnpus(resource: str, tmp_path: Path) -> None:
    quota = "huawei.com/scheduler.softShareDev."
    soft = {"mind-cluster/npu-chip-memory": "64G", "huawei.com/scheduler.chip1softsharedev.enable": "true"}
    labels, notes, count, offered, lists = (
        (
            soft,
            {
                resource: "Ascend910-0",
                "huawei.com/AscendReal": "Ascend910-0",
                "huawei.com/schedule_policy": "chip1-softShareDev",
                **{quota + key: text for key, text in SHARE.items()},
            },
            30,
            200,
            {resource: "Ascend910-0,Ascend910-1"},
        )
        if resource.endswith("910")
        else (
            {
                "accelerator": "huawei-Ascend310P",
                "servertype": "Ascend310P-8",
                "node.kubernetes.io/npu.chip.name": "310P3",
            },
            {resource: "0-vir01", "huawei.com/AscendReal": "Ascend310P-1c-100-0_0"},
            1,
            16,
            {"huawei.com/Ascend310P": "Ascend310P-0,Ascend310P-1"},
        )
    )

    def prepare(api: FakeApiServer) -> None:
        for name in ("node-1", "node-2"):
            described: dict[str, Any] = {
                "name": name,
                "labels": labels,
                "capacities": {resource: offered},
                "device_info": lists,
                "pods": [],
            }
            api.put(NODES, node_object(described, None))
            report = report_object(described, None)
            report["metadata"]["labels"] = {NODE_REPORT_LABEL: "true"}
            api.put(CONFIG_MAPS, report)
        api.put(QUEUES, {"metadata": {"name": "default"}})
        asked = {"ring-controller.atlas": "ascend-310P", **{quota + key: text for key, text in SHARE.items()}}
        limits = {resource: str(count)}
        serve = pod_object(
            "serve", "serve", limits, annotations=notes, labels=asked, node="node-1", phase="Running"
        )
        serve["metadata"]["namespace"] = "default"
        api.put(PODS, owned(serve, "ReplicaSet", "serve"))

    (planned, answered), api = on_cluster(
        tmp_path, prepare, "drain node-1 --plan -o json", "drain node-1 --yes"
    )
    (job,) = json.loads(planned.stdout)["jobs"]
    assert [(one["from"], one["to"]) for one in job["pods"]] == [("node-1", "node-2")]
    assert answered.exit_code == 0, answered.output
    assert "node node-1 isolated; 1 pod evicted" in answered.stdout
    assert pods_of(api) == []


@pytest.mark.parametrize(("given", "code"), [("n\n", 1), ("", 2)])
def test_without_a_yes_nothing_is_changed(tmp_path: Path, given: str, code: int) -> None:
    (answered,), api = on_cluster(tmp_path, two_nodes, "drain node-1", given=given)
    assert answered.exit_code == code
    assert "default/gang: 1 of 1 pod runs here" in answered.stderr
    assert "nothing was changed" in answered.stderr
    assert {method for method, _ in api.requests} == {"GET"}


def test_a_drain_ahead_writes_its_time_and_says_what_to_run(tmp_path: Path) -> None:
    (answered,), api = on_cluster(tmp_path, two_nodes, "drain node-1 --at 2999-01-31T08:00:00Z")
    assert answered.exit_code == 0, answered.output
    said = " ".join(answered.stdout.split())
    assert (
        f"to drain it at that time: kubectl ringwise drain node-1 --kubeconfig {tmp_path}/kubeconfig" in said
    )
    assert isolations(api)["node-1"]["startTime"] == "2999-01-31T08:00:00Z"
    assert "gang-0" in pods_of(api)
    (answered,), _ = on_cluster(tmp_path, two_nodes, "drain node-1 --at 2999-01-31T08:00:00Z -o json")
    assert json.loads(answered.stdout)["start"] == "2999-01-31T08:00:00Z"
    (answered,), _ = on_cluster(tmp_path, two_nodes, "drain node-1 --yes -o json")
    assert json.loads(answered.stdout)["start"] is None


@pytest.mark.parametrize("yes", [False, True])
def test_pods_that_no_owner_creates_again_are_named_before_anything_is_evicted(
    tmp_path: Path, yes: bool
) -> None:
    def prepare(api: FakeApiServer) -> None:
        two_nodes(api)
        api.put(GROUPS, group("bare", 2, phase="Running"))
        for index in range(2):
            api.put(PODS, pod(f"bare-{index}", 1, group="bare", on="node-1", held=f"Ascend910-{4 + index}"))

    command = "drain node-1 --force --yes" if yes else "drain node-1 --force"
    (answered,), api = on_cluster(tmp_path, prepare, command, given="n\n")
    lines = [line for line in answered.stderr.splitlines() if "not started again" in line]
    (line,) = lines
    assert line.strip().removeprefix("note: ") == (
        "default/bare: 2 of 2 pods run here; 0 would be left, and the gang needs 2; "
        "2 pods without a controller: not started again"
    )
    assert ("bare-0" in pods_of(api)) is not yes


def test_F4_jobs_that_could_not_be_completed_are_named_and_stay_unless_forced(tmp_path: Path) -> None:
    def prepare(api: FakeApiServer) -> None:
        two_nodes(api)
        api.put(PODS, pod("bare", 1, on="node-1", held="Ascend910-5"))

    (answered, forced), api = on_cluster(
        tmp_path, prepare, "drain node-1 --yes", "drain node-1 --yes --force -o json"
    )
    assert answered.exit_code == 1, answered.output
    assert "node node-1 isolated; 1 pod evicted\n  default/gang-0\n" in answered.stdout
    assert answered.stderr.splitlines()[0] == f"cluster x ({api.url})"
    assert answered.stderr.splitlines()[1:] == [
        "note: default/bare is not evicted, because it could not run again: nothing starts its pods again "
        "(--force evicts it)",
        "default/bare: not evicted",
    ]
    assert forced.exit_code == 0, forced.output
    assert json.loads(forced.stdout)["evicted_pods"] == ["default/bare"]
    assert pods_of(api) == ["agent", "web"]


def test_a_drain_that_was_interrupted_says_what_is_left_and_goes_on_when_it_is_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evict, asked = Client.evict, list[str]()

    async def interrupted(client: Client, namespace: str, name: str, uid: str) -> None:
        asked.append(name)
        if len(asked) == 3:
            raise KeyboardInterrupt
        await evict(client, namespace, name, uid)

    monkeypatch.setattr(Client, "evict", interrupted)
    force = "drain node-1 --yes --force"
    (first, second), api = on_cluster(tmp_path, two_jobs, force, force)
    assert first.exit_code == 130
    way = f"--kubeconfig {tmp_path}/kubeconfig"
    assert first.stderr.splitlines()[1:] == [
        "ringwise: interrupted: node node-1 stays isolated, and evicted pods are not restored",
        f"to continue: kubectl ringwise drain node-1 {way}",
        f"to cancel: kubectl ringwise unisolate node-1 {way}",
    ]
    assert second.exit_code == 0, second.output
    assert asked == ["first-0", "first-1", "second-0", "second-0", "second-1"]
    assert "2 pods evicted" in second.stdout
    assert pods_of(api) == []
    assert list(isolations(api)) == ["node-1"]


@pytest.mark.parametrize("readable", ["yes", "forbidden", "failing", "not installed"])
def test_uncordon_names_a_scheduled_drain(tmp_path: Path, readable: str) -> None:
    def prepare(api: FakeApiServer) -> None:
        two_nodes(api)
        spec = {"node": "node-1", "reason": "drain", "startTime": "2999-01-31T08:00:00Z"}
        api.put(ISOLATIONS, {"metadata": {"name": "node-1"}, "spec": spec})
        if readable == "forbidden":
            api.fault("/isolations", status=403, times=10)
        elif readable == "failing":
            api.fault("/isolations", status=500, times=10)
        elif readable == "not installed":
            api.unknown.add(ISOLATIONS)

    (answered, other, cordoned), _ = on_cluster(
        tmp_path, prepare, "uncordon node-1", "uncordon node-2", "cordon node-1"
    )
    assert [one.exit_code for one in (answered, other, cordoned)] == [0, 0, 0], answered.output
    assert answered.stdout == "node node-1 already uncordoned\n"
    note = (
        "note: node-1 is drained at 2999-01-31T08:00:00Z; to end that, too: kubectl ringwise unisolate node-1"
    )
    assert (note in answered.stderr) is (readable == "yes")
    assert ["note:" in one.stderr for one in (answered, other, cordoned)] == [readable == "yes", False, False]


def test_all_nodes_of_a_superpod_are_drained(tmp_path: Path) -> None:
    def prepare(api: FakeApiServer) -> None:
        for number in (1, 2, 3):
            made = node(f"node-{number}")
            made["metadata"]["annotations"] = {"superPodID": str(number // 3)}
            api.put(NODES, made)
            api.put(PODS, owned(pod(f"on-node-{number}", 8, on=f"node-{number}", held=ALL_CHIPS)))

    (plan, answered, again), api = on_cluster(
        tmp_path,
        prepare,
        "drain superpod/0 --plan -o json",
        "drain superpod/0 --yes --force -o json",
        "drain superpod/0 --yes -o json",
    )
    assert json.loads(plan.stdout)["nodes"] == ["node-1", "node-2"]
    assert answered.exit_code == 0, answered.output
    assert json.loads(answered.stdout)["evicted_pods"] == ["default/on-node-1", "default/on-node-2"]
    assert json.loads(again.stdout)["evicted_pods"] == []
    assert pods_of(api) == ["on-node-3"]
    (entry,) = isolations(api).values()
    assert entry == {"superPod": 0, "reason": "drain"}


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("drain node-9 --yes", 'node "node-9" not found'),
        ("drain superpod/7 --plan", 'SuperPoD "7" not found'),
        ("drain node-1 --at yesterday", 'invalid time "yesterday"'),
        ("drain node-1 --at 2001-01-01T00:00:00Z --plan", "is in the past"),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(tmp_path: Path, command: str, says: str) -> None:
    (answered,), api = on_cluster(tmp_path, two_nodes, command)
    assert answered.exit_code == 2
    assert says in " ".join(answered.stderr.split())
    assert {method for method, _ in api.requests} <= {"GET"}


def test_who_may_not_evict_is_told_what_stays(tmp_path: Path) -> None:
    def prepare(api: FakeApiServer) -> None:
        two_nodes(api)
        api.fault("/eviction", status=403, times=1)

    (answered,), api = on_cluster(tmp_path, prepare, "drain node-1 --yes")
    assert answered.exit_code == 1
    assert "the API server rejected the request" in answered.stderr
    assert "node node-1 stays isolated; kubectl ringwise unisolate node-1" in answered.stderr
    assert "gang-0" in pods_of(api)


def test_a_pod_that_does_not_go_in_time_fails_the_command(tmp_path: Path) -> None:
    def prepare(api: FakeApiServer) -> None:
        two_nodes(api)
        api.fault("/eviction", status=429, times=1000)

    (answered,), _ = on_cluster(tmp_path, prepare, "drain node-1 --yes --timeout 0s")
    assert answered.exit_code == 1
    assert "default/gang: 1 pod still there after 0s (gang-0)" in answered.stderr
    assert "0 pods evicted" in answered.stdout


def test_all_nodes_of_a_leaf_switch_are_drained(tmp_path: Path) -> None:
    def prepare(api: FakeApiServer) -> None:
        for name in ("node-1", "node-2", "node-3"):
            made = node(name)
            made["status"]["addresses"] = [{"type": "InternalIP", "address": f"10.0.0.{name[-1]}"}]
            api.put(NODES, made)
            api.put(PODS, owned(pod(f"on-{name}", 8, on=name, held=ALL_CHIPS)))
        switches = [
            {
                "tor_id": leaf,
                "tor_ip": f"172.0.0.{leaf}",
                "server": [
                    {"server_ip": f"10.0.0.{number}", "npu_count": 8, "slice_id": slice}
                    for slice, number in enumerate(numbers)
                ],
            }
            for leaf, numbers in enumerate(((1, 2), (3,)))
        ]
        info = {"version": "1.0", "tor_count": 2, "server_list": switches}
        meta = {"name": "basic-tor-node-cm", "namespace": "kube-system"}
        api.put(
            CONFIG_MAPS,
            {"metadata": meta, "data": {"tor_info": json.dumps(info), "tor_level": "single_layer"}},
        )

    (answered,), api = on_cluster(tmp_path, prepare, "drain switch/172.0.0.0 --yes --force -o json")
    assert answered.exit_code == 0, answered.output
    assert json.loads(answered.stdout)["evicted_pods"] == ["default/on-node-1", "default/on-node-2"]
    assert pods_of(api) == ["on-node-3"]
    (entry,) = isolations(api).values()
    assert entry["leafSwitch"] == "172.0.0.0"


# -- job by job


@pytest.mark.parametrize(
    ("kind", "goes"), [("ReplicaSet", True), ("DaemonSet", False), ("Node", False), (None, True)]
)
def test_pods_that_their_owner_starts_again_on_the_node_are_not_evicted(kind: str | None, goes: bool) -> None:
    """Static pods belong to their node."""
    owner = None if kind is None else Owner(kind, "node-1")
    assert goes_in_cluster(pod_value("p", 1, on="node-1", owner=owner)) is goes
    assert not goes_in_cluster(pod_value("p", 0, on="node-1", owner=owner))


async def views(client: Client) -> list[JobView]:
    live = await read_cluster(client)
    objects = objects_of(live.bundle, live.configuration, shipped_catalog(), 0)
    return affected_jobs(objects, ["node-1"], goes_in_cluster)


def two_jobs(api: FakeApiServer) -> None:
    api.put(NODES, node("node-1"))
    for name, chips in (("first", "0,1"), ("second", "2,3")):
        held = [f"Ascend910-{chip}" for chip in chips.split(",")]
        api.put(GROUPS, group(name, 2, phase="Running"))
        for index, chip in enumerate(held):
            api.put(PODS, owned(pod(f"{name}-{index}", 1, group=name, on="node-1", held=chip)))


def evictions(api: FakeApiServer) -> list[str]:
    return [path.split("/")[-2] for method, path in api.requests if path.endswith("/eviction")]


async def test_the_next_job_is_evicted_when_the_pods_of_the_one_before_are_gone() -> None:
    """A budget refuses the second pod of the first job at first."""
    async with server() as (api, client):
        two_jobs(api)
        jobs = await views(client)
        api.fault("first-1/eviction", status=429, times=3)
        clock = InstantClock()
        done = await drain_jobs(client, jobs, ["node-1"], 60 * SECOND, clock=clock)
        assert evictions(api) == ["first-0", *["first-1"] * 4, "second-0", "second-1"]
        assert done.evicted == [f"default/{name}" for name in ("first-0", "first-1", "second-0", "second-1")]
        assert done.problems == []
        assert sum(clock.slept) == 6


async def test_a_job_that_takes_too_long_does_not_hold_up_the_next() -> None:
    async with server() as (api, client):
        two_jobs(api)
        jobs = await views(client)
        api.fault("first-0/eviction", status=429, times=1000)
        done = await drain_jobs(client, jobs, ["node-1"], 60 * SECOND, clock=InstantClock())
        assert done.evicted == ["default/first-1", "default/second-0", "default/second-1"]
        (problem,) = done.problems
        assert problem.startswith("default/first: 1 pod still there after 1m (first-0): ")


async def test_pods_that_were_replaced_meanwhile_are_left_alone() -> None:
    async with server() as (api, client):
        two_jobs(api)
        jobs = await views(client)
        api.remove(PODS, "default/first-0")
        api.put(PODS, owned(pod("first-0", 1, group="first", on="node-2")))
        api.remove(PODS, "default/first-1")
        done = await drain_jobs(client, jobs, ["node-1"], 60 * SECOND, clock=InstantClock())
        assert done.evicted == ["default/second-0", "default/second-1"]
        assert pods_of(api) == ["first-0"]
        assert done.problems == []


async def test_a_denied_eviction_ends_the_drain() -> None:
    async with server() as (api, client):
        two_jobs(api)
        jobs = await views(client)
        api.fault("first-0/eviction", status=403, times=1)
        with pytest.raises(ApiError):
            await drain_jobs(client, jobs, ["node-1"], 60 * SECOND, clock=InstantClock())
        assert len(api.all(PODS)) == 4
