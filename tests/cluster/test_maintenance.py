"""Maintenance on a cluster: nodes are drained, isolated and released, and reserved for queues."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.cluster import BUDGETS, CONFIG_MAPS, Cluster, check_chips, node_of, start_plugin
from tests.cluster.commands import kubectl_ringwise, ringwise
from tests.cluster.objects import (
    CHIP,
    Object,
    node,
    node_report,
    nodes,
    pod,
    switch_topology,
    vcjob,
)
from tests.cluster.owners import Workload
from tests.cluster.recorder import Change
from tests.cluster.rights import may_evict

pytestmark = pytest.mark.cluster

ISOLATIONS = "/apis/ringwise.io/v1alpha1/isolations"
RESERVATIONS = "/apis/ringwise.io/v1alpha1/nodereservations"


def told(cluster: Cluster, job: str, reason: str) -> list[str]:
    """Messages of the events on the PodGroup of a job."""
    group = cluster.group_of(job)
    name = "" if group is None else group["metadata"]["name"]
    return [one["message"] for one in cluster.events("PodGroup", name) if one["reason"] == reason]


def is_away(cluster: Cluster, job: str, count: int, bad: set[str]) -> list[Object] | None:
    pods = cluster.running(job, count)
    return None if pods is None or any(node_of(one) in bad for one in pods) else pods


def wait_begun(cluster: Cluster, path: str) -> None:
    """Wait until the scheduler has said of all these objects that they are in force, or were."""

    def has_begun(one: Object) -> bool:
        conditions = one.get("status", {}).get("conditions", ())
        return any(
            found["type"] == "Active" and found["reason"] in ("Started", "Ended") for found in conditions
        )

    cluster.wait(lambda: all(map(has_begun, cluster.api.items(path))), "they are in force")


def budget(cluster: Cluster, name: str, rule: dict[str, int | str], labels: dict[str, str]) -> None:
    """A disruption budget, once its controller has counted the pods."""
    cluster.apply(
        [
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": name},
                "spec": {**rule, "selector": {"matchLabels": labels}},
            }
        ]
    )
    cluster.wait(lambda: allowed(cluster, name) is not None, f"disruption budget {name} is counted")


def allowed(cluster: Cluster, name: str) -> int | None:
    """How many evictions the budget allows; None while its present form is not counted."""
    found = cluster.api.get(f"{BUDGETS}/{name}")
    status: Object = found.get("status", {})
    if status.get("observedGeneration") != found["metadata"]["generation"]:
        return None
    return int(status["disruptionsAllowed"])


def drain(
    cluster: Cluster, kubeconfig: Path, *arguments: str, running: int = 0
) -> tuple[int, str, list[str]]:
    """Exit code, output, and the jobs in the order in which their pods were deleted.

    At every moment at least so many pods were `running`, and pods of at most one job terminated.
    """
    before = len(cluster.history())
    done = kubectl_ringwise(kubeconfig, "drain", *arguments, "--yes")
    order: list[str] = []
    pods: dict[str, Change] = {}
    for number, change in enumerate(cluster.history()):
        pods[change.uid] = change
        there = [one for one in pods.values() if one.type != "DELETED"]
        left = [one for one in there if one.object["status"]["phase"] == "Running" and not one.terminates]
        going = {one.name.split("-")[0] for one in there if one.terminates}
        if number >= before:
            assert len(left) >= running, f"only {[one.name for one in left]} ran"
            assert len(going) <= 1, f"{going} went at the same time"
            order += [job for job in going if job not in order]
    return done.returncode, done.stdout + done.stderr, order


def test_a_node_is_drained_job_by_job(cluster: Cluster, operator: Path) -> None:
    cluster.apply(nodes(3))
    cluster.run()
    for name in ("first", "second"):
        cluster.apply([vcjob(name, 1, 4)])
        cluster.wait_running(name, 1)
    (target,) = {node_of(one) for one in cluster.pods()}

    # A kubeconfig that is only there is no target.
    for arguments in (("drain", target, "--yes"), ("cordon", target), ("isolate", target, "--reason", "x")):
        practised = ringwise(operator, *arguments)
        assert practised.returncode == 2, practised.stdout
        assert f"kubectl ringwise {' '.join(arguments)}" in practised.stderr
    assert not cluster.api.get(f"/api/v1/nodes/{target}")["spec"].get("unschedulable")

    # Without the right to evict: one error, and how to give the node back.
    refused = kubectl_ringwise(operator, "drain", target, "--yes")
    assert refused.returncode == 1
    assert "pods/eviction" in refused.stderr, refused.stderr
    assert f"ringwise unisolate {target}" in refused.stderr
    assert not any("deletionTimestamp" in one["metadata"] for one in cluster.pods())

    cluster.apply(may_evict(cluster))
    plan = kubectl_ringwise(operator, "drain", target, "--plan", "-o", "json")
    assert plan.returncode == 0, plan.stderr
    assert {job["result"] for job in json.loads(plan.stdout)["jobs"]} == {"moves"}
    code, text, order = drain(cluster, operator, target)
    assert code == 0, text
    assert order == ["first", "second"], text
    assert "2 pods evicted" in text
    for name in ("first", "second"):
        check_chips(cluster.wait(partial(is_away, cluster, name, 1, {target}), f"{name} runs elsewhere"))
        (message,) = cluster.wait(partial(told, cluster, name, "Drained"), f"{name} has the event")
        assert message.startswith(f"{name}-work-0 must be evicted: {target} is drained")
    described = cluster.kubectl("describe", "podgroup")
    assert "Drained" in described

    # Nothing new comes until it is released.
    selected = pod("late-0", 4)
    selected["spec"]["nodeSelector"] = {"kubernetes.io/hostname": target}
    cluster.apply([selected])

    def says_why() -> bool:
        conditions = cluster.pods("late")[0]["status"].get("conditions", [])
        return any("isolated" in one.get("message", "") for one in conditions if one["status"] == "False")

    cluster.wait(says_why, "the pod says that the node is isolated")
    released = kubectl_ringwise(operator, "unisolate", target)
    assert released.returncode == 0, released.stderr
    cluster.wait_running("late", 1)


def test_a_disruption_budget_is_kept_and_a_drain_goes_on_when_run_again(
    cluster: Cluster, operator: Path
) -> None:
    cluster.apply([*nodes(2), *may_evict(cluster)])
    cluster.run()
    cluster.apply([vcjob("train", 1, 8)])
    (before,) = cluster.wait_running("train", 1)
    target = node_of(before)
    budget(cluster, "train", {"minAvailable": 1}, {"ring-controller.atlas": "ascend-910"})
    assert allowed(cluster, "train") == 0
    code, text, order = drain(cluster, operator, target, "--timeout", "3s", running=1)
    assert (code, order) == (1, []), text
    assert "1 pod still there after 3s (train-work-0)" in text, text
    assert "disruption budget" in text, text
    (same,) = cluster.pods("train")
    assert same["metadata"]["uid"] == before["metadata"]["uid"]

    cluster.api.patch(f"{BUDGETS}/train", {"spec": {"minAvailable": 0}})
    cluster.wait(lambda: allowed(cluster, "train") == 1, "the budget allows it")
    code, text, _ = drain(cluster, operator, target)
    assert code == 0, text
    cluster.wait(partial(is_away, cluster, "train", 1, {target}), "the job runs elsewhere")


def test_the_pods_of_a_deployment_are_drained_as_its_budget_allows(cluster: Cluster, operator: Path) -> None:
    """Both are on the node. The second one goes when the new one of the first one runs."""
    cluster.apply([*nodes(2), *may_evict(cluster)])
    cluster.run()
    Workload(cluster, "Deployment", "chat", 2, 4)
    before = cluster.wait_running("chat", 2)
    (target,) = {node_of(one) for one in before}
    budget(cluster, "chat", {"maxUnavailable": "50%"}, {"app": "chat"})
    cluster.wait(lambda: allowed(cluster, "chat") == 1, "the budget counts both")
    code, text, _ = drain(cluster, operator, target, running=1)
    assert code == 0, text
    assert "2 pods evicted" in text
    after = cluster.wait(partial(is_away, cluster, "chat", 2, {target}), "both run elsewhere")
    check_chips(after)
    assert not {one["metadata"]["uid"] for one in before} & {one["metadata"]["uid"] for one in after}


def test_F4_isolation_moves_nobody_and_a_drain_deletes_nothing_that_a_budget_protects(
    cluster: Cluster, operator: Path, tmp_path: Path
) -> None:
    """The job asks for force and pod level: a fault of its chips would move it at once."""
    cluster.apply([*nodes(3), *may_evict(cluster)])
    cluster.run()
    names = [f"node-{number}" for number in (1, 2, 3)]
    plugins = [start_plugin(cluster, name, tmp_path) for name in names]
    reports = {f"mindx-dl-deviceinfo-{name}" for name in names}
    cluster.wait(
        lambda: reports <= {one["metadata"]["name"] for one in cluster.api.items(CONFIG_MAPS)},
        "all device plugins report",
    )
    labels = {"fault-scheduling": "force", "pod-rescheduling": "on"}
    cluster.apply([vcjob("train", 2, 8, labels=labels)])
    uids = {one["metadata"]["uid"] for one in cluster.wait_running("train", 2)}
    budget(cluster, "train", {"minAvailable": 2}, labels)
    assert allowed(cluster, "train") == 0
    taken = sorted({node_of(one) for one in cluster.pods("train")})

    def reported(node: str) -> tuple[str, str, str]:
        data = cluster.api.get(f"{CONFIG_MAPS}/mindx-dl-deviceinfo-{node}")["data"]
        lists = json.loads(data["DeviceInfoCfg"])["DeviceInfo"]["DeviceList"]
        return data.get("RingwiseIsolatedChips", ""), lists[CHIP], lists[f"{CHIP}-Unhealthy"]

    def unmoved() -> None:
        pods = cluster.pods("train")
        assert {one["metadata"]["uid"] for one in pods} == uids
        assert not any("deletionTimestamp" in one["metadata"] for one in pods)

    everything = ",".join(f"Ascend910-{chip}" for chip in range(8))
    try:
        for node in taken:
            done = kubectl_ringwise(operator, "isolate", node, "--reason", "new firmware")
            assert done.returncode == 0, done.stderr
            cluster.wait(partial(_equals, reported, node, (everything, "", "")), f"{node} reports it")
        # The scheduler has seen it, and what it decides next moves nobody.
        cluster.apply([vcjob("next", 2, 8)])
        cluster.wait(
            lambda: "node-isolated 2" in (cluster.condition("next") or {}).get("message", ""),
            "the next job waits for the isolated nodes",
        )
        unmoved()
        cluster.kubectl("delete", "job.batch.volcano.sh", "next", "--wait=false")
        cluster.wait(lambda: not cluster.pods("next"), "the next job is gone")
        code, text, order = drain(cluster, operator, taken[0], "--timeout", "3s", running=2)
        assert (code, order) == (1, []), text
        assert "disruption budget" in text, text
        unmoved()
    finally:
        for plugin in plugins:
            plugin.stop()
    cluster.api.delete(f"{BUDGETS}/train")
    # Without the budget the drained pod has the third node, and its peer stays.
    code, text, order = drain(cluster, operator, taken[0])
    assert (code, order) == (0, ["train"]), text
    after = cluster.wait(partial(is_away, cluster, "train", 2, {taken[0]}), "the job runs without the node")
    assert {node_of(one) for one in after} == {taken[1], "node-3"}
    assert len(uids & {one["metadata"]["uid"] for one in after}) == 1


def _equals(read: Callable[[str], object], name: str, wanted: object) -> bool:
    return read(name) == wanted


def superpod_nodes(count: int) -> list[Object]:
    labels = {"accelerator-type": "module-a3-16-super-pod"}
    made: list[Object] = []
    for superpod in (1, 2):
        for index in range(count):
            name, annotations = (
                f"sp{superpod}-{index}",
                {"superPodID": str(superpod), "serverIndex": str(index)},
            )
            made.append(node(name, 16, labels=labels, annotations=annotations))
            made.append(node_report(name, range(16), superpod=superpod, index=index))
    return made


def test_a_superpod_is_drained(cluster: Cluster, operator: Path) -> None:
    cluster.apply([*superpod_nodes(2), *may_evict(cluster)])
    cluster.run()
    annotations = {"huawei.com/schedule_policy": "chip2-node16-sp", "sp-block": "32"}
    cluster.apply([vcjob("train", 2, 16, annotations=annotations)])
    before = cluster.wait_running("train", 2)
    (superpod,) = {node_of(one)[2] for one in before}
    other = "2" if superpod == "1" else "1"
    bad = {f"sp{superpod}-{index}" for index in range(3)}
    code, text, _ = drain(cluster, operator, f"superpod/{superpod}")
    assert code == 0, text
    assert f"SuperPoD {superpod} isolated; 2 pods evicted" in text
    after = cluster.wait(partial(is_away, cluster, "train", 2, bad), "the job runs in the other SuperPoD")
    assert {node_of(one) for one in after} == {f"sp{other}-0", f"sp{other}-1"}
    check_chips(after)
    messages = " ".join(cluster.wait(partial(told, cluster, "train", "Drained"), "the job has the event"))
    assert f"is drained with superpod/{superpod}" in messages, messages

    # A node that joins it later is isolated, too; all of it is given back by one command.
    joined = node(
        f"sp{superpod}-2",
        16,
        labels={"accelerator-type": "module-a3-16-super-pod"},
        annotations={"superPodID": superpod, "serverIndex": "2"},
    )
    report = node_report(f"sp{superpod}-2", range(16), superpod=int(superpod), index=2)
    cluster.apply([joined, report, vcjob("next", 1, 16, annotations={**annotations, "sp-block": "16"})])
    cluster.wait(
        lambda: "node-isolated 3" in (cluster.condition("next") or {}).get("message", ""),
        "the next job says that the chips are isolated",
    )
    released = kubectl_ringwise(operator, "unisolate", f"superpod/{superpod}")
    assert released.returncode == 0, released.stderr
    (placed,) = cluster.wait_running("next", 1)
    assert node_of(placed) in bad


def test_a_leaf_switch_is_isolated_and_released(cluster: Cluster, operator: Path) -> None:
    topology = {f"leaf-{switch}": [f"10.1.{switch}.{place}" for place in (1, 2)] for switch in (1, 2)}
    made = [
        node(f"leaf-{switch}-{place}", address=f"10.1.{switch}.{place}")
        for switch in (1, 2)
        for place in (1, 2)
    ]
    cluster.apply([switch_topology(topology), *made])
    cluster.run("scheduler")
    cluster.apply([pod("stays-0", 8)])
    (stays,) = cluster.wait_running("stays", 1)
    switch = node_of(stays).rpartition("-")[0]
    done = kubectl_ringwise(operator, "isolate", f"switch/{switch}", "--reason", "new firmware")
    assert done.returncode == 0, done.stderr
    assert f"leaf switch {switch} isolated" in done.stdout
    wait_begun(cluster, ISOLATIONS)
    cluster.apply([pod(f"next-{number}", 8) for number in range(3)])

    def two_run() -> list[Object] | None:
        found = [one for one in cluster.pods("next") if node_of(one)]
        return found if len(found) == 2 else None

    placed = cluster.wait(two_run, "two pods run on the other switch")
    assert all(not node_of(one).startswith(switch) for one in placed)
    (waiting,) = [one["metadata"]["name"] for one in cluster.pods("next") if not node_of(one)]
    why = kubectl_ringwise(operator, "why", f"{cluster.namespace}/{waiting}", "-o", "json")
    assert why.returncode == 0, why.stderr
    assert "node-isolated" in why.stdout
    # What ran there goes on.
    (same,) = cluster.wait_running("stays", 1)
    assert same["metadata"]["uid"] == stays["metadata"]["uid"]
    (stored,) = cluster.api.items(ISOLATIONS)
    assert stored["spec"] == {"leafSwitch": switch, "reason": "new firmware"}
    done = kubectl_ringwise(operator, "unisolate", f"switch/{switch}")
    assert done.returncode == 0, done.stderr
    pods = cluster.wait_running("next", 3)
    check_chips([*pods, same])
    again = kubectl_ringwise(operator, "unisolate", f"switch/{switch}")
    assert "is not isolated" in again.stdout + again.stderr


def test_nodes_are_reserved_for_a_queue_and_given_back(cluster: Cluster, operator: Path) -> None:
    research = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "research"},
        "spec": {"weight": 1},
    }
    cluster.apply([research, node("kept-1"), node("kept-2")])
    cluster.run("scheduler", "controller")
    # Who reads the cluster, and no more.
    tenant: list[Object] = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "tenant"}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "test-tenant"},
            "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": cluster.namespace}],
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "ringwise-reader",
            },
        },
    ]
    cluster.apply(tenant)
    reserve = ("reserve", "kept-1", "--for", "queue=research", "--to", "1h", "--name", "night", "--yes")
    try:
        token = cluster.plane.account_token(cluster.namespace, "tenant")
        denied = kubectl_ringwise(cluster.plane.kubeconfig("tenant", token), *reserve)
    finally:
        cluster.remove(tenant)
    assert denied.returncode == 1, denied.stdout
    assert "forbidden" in denied.stderr
    done = kubectl_ringwise(operator, *reserve)
    assert done.returncode == 0, done.stderr
    assert "reservation night: 1 node for queue research" in done.stdout
    wait_begun(cluster, RESERVATIONS)
    cluster.apply([pod("full-0", 8)])
    (full,) = cluster.wait_running("full", 1)
    assert node_of(full) == "kept-2"
    cluster.apply([pod("next-0", 4)])

    def told_why() -> str | None:
        why = kubectl_ringwise(operator, "why", f"{cluster.namespace}/next-0")
        return why.stdout if "node-reserved" in why.stdout else None

    said = cluster.wait(told_why, "why names the reservation")
    assert "ringwise unreserve night" in " ".join(said.split())
    # Another leader knows it, too.
    cluster.stop_components()
    cluster.run("scheduler", "controller")
    theirs = vcjob("theirs", 1, 4)
    theirs["spec"]["queue"] = "research"
    cluster.apply([theirs])
    (held,) = cluster.wait_running("theirs", 1)
    assert node_of(held) == "kept-1"
    (waits,) = cluster.pods("next")
    assert not node_of(waits)
    listed = kubectl_ringwise(operator, "get", "reservations", "-o", "json")
    (one,) = json.loads(listed.stdout)["reservations"]
    assert (one["state"], one["nodes"], one["running"]) == ("active", ["kept-1"], [])
    done = kubectl_ringwise(operator, "unreserve", "night")
    assert done.returncode == 0, done.stderr
    (started,) = cluster.wait_running("next", 1)
    assert node_of(started) == "kept-1"
    check_chips([full, held, started])
    # One that ends by itself.
    done = kubectl_ringwise(
        operator, "reserve", "kept-1", "kept-2", "--for", "queue=research", "--to", "20s", "--yes"
    )
    assert done.returncode == 0, done.stderr
    wait_begun(cluster, RESERVATIONS)
    cluster.remove([pod("full-0", 8)])
    cluster.apply([pod("late-0", 8)])
    cluster.wait_running("late", 1)
    assert (
        json.loads(kubectl_ringwise(operator, "get", "reservations", "-o", "json").stdout)["reservations"]
        == []
    )
