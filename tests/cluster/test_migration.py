"""From Volcano with the vendor's plugin to Ringwise and back with running jobs (docs/guides/migration.md).

The vendor's programs are not here; what they leave in the API is: objects in Volcano's formats, pods with the
annotations of the vendor's scheduler plugin and device plugin.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable

import pytest

from ringwise.wellknown import GROUP_NAME, VOLCANO_SYSTEM
from tests.cluster.cluster import (
    GROUPS,
    JOBS,
    PODS,
    Cluster,
    check_chips,
    chips_of,
    is_live,
    node_of,
)
from tests.cluster.commands import finished
from tests.cluster.objects import CHIP, ENDS, GROUP, Object, node_report, nodes, pod, pod_group, vcjob

pytestmark = pytest.mark.cluster

REAL_CHIPS = "huawei.com/AscendReal"
RANK_TABLE = "ascend.kubectl.kubernetes.io/ascend-910-configuration"
#: Everything that the vendor's scheduler plugin writes on a pod with chips.
VENDORS = {CHIP, "predicate-time", "hccl/rankIndex", "distributed-job", REAL_CHIPS, RANK_TABLE}
#: Labels and annotations of Volcano's controller and of kubectl.
OTHERS = ("volcano.sh/", "scheduling.k8s.io/", "kubectl.kubernetes.io/")
CONSUMED = str(2**64 - 1)


def as_volcanos_controller(cluster: Cluster, job: Object, phase: str) -> Object:
    """The PodGroup of a job as Volcano's controller creates it, with the phase of its scheduler."""
    meta = job["metadata"]
    group = pod_group(f"{meta['name']}-{meta['uid']}", job["spec"]["minAvailable"])
    group["metadata"]["ownerReferences"] = [_owner(job)]
    made: Object = cluster.api.create(GROUPS, group)
    if phase:
        cluster.api.patch(f"{GROUPS}/{made['metadata']['name']}", {"status": {"phase": phase, "running": 2}})
    return made


def _owner(job: Object) -> Object:
    return {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_of(job: Object, number: int, chips: int, *, on: str = "", version: int = 0) -> Object:
    """A pod of a vcjob with Volcano's annotations; `on`: bound there, with mounted chips."""
    meta = job["metadata"]
    metadata = {
        "volcano.sh/job-name": meta["name"],
        "volcano.sh/task-spec": "work",
        "volcano.sh/task-index": str(number),
        "volcano.sh/queue-name": "default",
    }
    annotations = {
        **metadata,
        GROUP: f"{meta['name']}-{meta['uid']}",
        "volcano.sh/job-version": str(version),
        "volcano.sh/job-retry-count": "0",
        "volcano.sh/template-uid": f"{meta['name']}-work",
    }
    name = f"{meta['name']}-work-{number}"
    if on:
        held = ",".join(f"Ascend910-{chip}" for chip in range(chips))
        annotations |= {
            CHIP: held,
            REAL_CHIPS: held,
            "huawei.com/kltDev": held,
            "predicate-time": CONSUMED,
            "hccl/rankIndex": str(number),
            "distributed-job": "true",
            RANK_TABLE: json.dumps({"pod_name": name, "server_id": "", "devices": []}),
        }
    labels = {
        "ring-controller.atlas": "ascend-910",
        "volcano.sh/job-namespace": meta["namespace"],
        **metadata,
    }
    made = pod(name, chips, on=on, labels=labels, annotations=annotations)
    made["metadata"]["ownerReferences"] = [_owner(job)]
    return made


def kubectl_ringwise(cluster: Cluster, *arguments: str) -> str:
    own = "from ringwise.cli.kubectl import main; main()"
    command = [sys.executable, "-c", own, *arguments, f"--kubeconfig={cluster.admin_config}"]
    done = finished(command, {**os.environ, "COLUMNS": "200"})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def free_for_the_vendor(pods: Iterable[Object], node: str) -> list[int]:
    """Free chips of a node as the vendor's scheduler counts them: from the annotations of live pods alone."""
    used = {
        chip
        for one in pods
        if is_live(one) and node_of(one) == node
        for chip in (one["metadata"]["annotations"].get(REAL_CHIPS) or ",".join(chips_of(one))).split(",")
    }
    return [chip for chip in range(8) if f"Ascend910-{chip}" not in used]


def unchanged(one: Object) -> Object:
    """What stays as it is. Pods without a PodGroup get the name of one, as from Volcano's controller."""
    meta = one["metadata"]
    kept = {key: value for key, value in meta["annotations"].items() if key != GROUP_NAME}
    return {"uid": meta["uid"], "node": node_of(one), "annotations": kept}


def by_name(pods: Iterable[Object]) -> dict[str, Object]:
    return {one["metadata"]["name"]: unchanged(one) for one in pods}


def test_migration_and_rollback_with_running_jobs(cluster: Cluster) -> None:
    # -- jobs of Volcano with the vendor's plugin ------------------------------------------------------
    reports = [node_report(f"node-{number}", []) for number in (1, 2)]
    reports += [node_report("node-3", (0, 1, 2, 3, 6, 7)), node_report("node-4", range(8))]
    cluster.apply([*nodes(4), *reports])
    old = cluster.api.create(JOBS, vcjob("old", 2, 8))
    as_volcanos_controller(cluster, old, "Running")
    # It was restarted once: its pods are those of the second attempt.
    status = {"state": {"phase": "Running"}, "running": 2, "minAvailable": 2, "version": 1, "retryCount": 1}
    cluster.api.patch(f"{JOBS}/old/status", {"status": status})
    for number in (0, 1):
        cluster.api.create(PODS, pod_of(old, number, 8, on=f"node-{number + 1}", version=1))
    # The device plugin mounted other chips than were chosen: both count, because users can write them (N8).
    moved = pod("moved-0", 2, on="node-3", held=(0, 1), annotations={REAL_CHIPS: "Ascend910-4,Ascend910-5"})
    cluster.apply([moved])
    cluster.wait_running("old", 2)
    cluster.wait_running("moved", 1)
    before = by_name(cluster.pods())
    nodes_before = {one["metadata"]["name"]: one["metadata"] for one in cluster.api.items("/api/v1/nodes")}

    # -- switch: Ringwise schedules, Volcano's controller stays ---------------------------------------
    assert "old" in kubectl_ringwise(cluster, "get", "-A")
    scheduler = cluster.run("scheduler")
    new = cluster.api.create(JOBS, vcjob("new", 1, 8))
    group = as_volcanos_controller(cluster, new, "")["metadata"]["name"]
    # Volcano's controller creates pods only when the group is Inqueue.
    cluster.wait(
        lambda: cluster.api.get(f"{GROUPS}/{group}").get("status", {}).get("phase") == "Inqueue",
        "the group of the new job is let in",
    )
    cluster.api.create(PODS, pod_of(new, 0, 8))
    cluster.apply([pod("small-0", 2), pod("small-1", 2)])
    placed = cluster.wait_running("new", 1) + cluster.wait_running("small", 2)
    assert {one["metadata"]["name"]: node_of(one) for one in placed} == {
        "new-work-0": "node-4",
        "small-0": "node-3",
        "small-1": "node-3",
    }, cluster.picture()
    check_chips(one for one in cluster.pods() if one["metadata"]["name"] != "moved-0")
    on_third = {chip for one in placed if node_of(one) == "node-3" for chip in chips_of(one)}
    assert on_third == {f"Ascend910-{chip}" for chip in (2, 3, 6, 7)}
    cluster.wait(
        lambda: cluster.api.get(f"{GROUPS}/{group}")["status"]["phase"] == "Running",
        "the new group is Running",
    )
    assert by_name(cluster.pods("old") + cluster.pods("moved")) == before

    # -- the controller, too: it continues the existing jobs -------------------------------------------
    controller = cluster.run("controller")
    cluster.api.patch(f"{PODS}/new-work-0", {"metadata": {"annotations": {ENDS: "succeeds"}}})
    cluster.wait(
        lambda: cluster.api.get(f"{JOBS}/new").get("status", {}).get("state", {}).get("phase") == "Completed",
        "the job of Volcano's controller comes to its end",
    )
    status = cluster.api.get(f"{JOBS}/old")["status"]
    assert (status["state"]["phase"], status.get("version"), status.get("retryCount")) == ("Running", 1, 1)
    assert by_name(cluster.pods("old") + cluster.pods("moved")) == before
    # It would exit with 1 if the chips of a running pod were not known.
    kubectl_ringwise(cluster, "doctor")

    # -- back: only what the vendor's scheduler reads is left ------------------------------------------
    while_ringwise_led = by_name(cluster.pods())
    for component in (scheduler, controller):
        component.stop()
    leases = cluster.api.items(f"/apis/coordination.k8s.io/v1/namespaces/{VOLCANO_SYSTEM}/leases")
    assert [one["spec"].get("holderIdentity", "") for one in leases] == ["", ""]
    pods = cluster.pods()
    assert by_name(pods) == while_ringwise_led
    for one in placed:
        annotations = one["metadata"]["annotations"]
        assert set(annotations) >= {CHIP, "predicate-time", "hccl/rankIndex", "distributed-job"}
        ours = {key for key in annotations if not key.startswith(OTHERS)}
        assert ours <= VENDORS, ours
        assert 0 < int(annotations["predicate-time"]) < 2**64
    for one in cluster.api.items("/api/v1/nodes"):
        meta, earlier = one["metadata"], nodes_before[one["metadata"]["name"]]
        for key in ("annotations", "labels"):
            assert meta.get(key) == earlier.get(key)
    assert free_for_the_vendor(pods, "node-3") == [0, 1]
    assert free_for_the_vendor(pods, "node-4") == list(range(8))

    # -- and again: the vendor's scheduler placed a job meanwhile --------------------------------------
    cluster.apply([pod("between-0", 4, on="node-4", held=free_for_the_vendor(pods, "node-4")[4:])])
    cluster.wait_running("between", 1)
    cluster.run("scheduler", "controller")
    cluster.apply([pod("again-0", 4)])
    again = cluster.wait_running("again", 1)[0]
    assert (node_of(again), chips_of(again)) == ("node-4", [f"Ascend910-{chip}" for chip in range(4)])
    assert by_name(cluster.pods("old") + cluster.pods("moved")) == before


def test_running_jobs_of_another_scheduler_keep_their_chips(cluster: Cluster) -> None:
    """Ringwise starts on a cluster with running jobs."""
    placed = [
        pod("old-0", 4, on="node-1", held=(0, 1, 2, 3)),
        pod("old-1", 2, on="node-1", held=(4, 5)),
        pod("old-2", 4, on="node-2", held=(4, 5, 6, 7)),
    ]
    cluster.apply([*nodes(2), *placed])
    before = {one["metadata"]["name"]: chips_of(one) for one in cluster.wait_running("old", 3)}
    cluster.run("scheduler")
    cluster.apply([pod("new-0", 4), pod("new-1", 2)])
    new = {one["metadata"]["name"]: one for one in cluster.wait_running("new", 2)}
    check_chips(cluster.pods())
    assert (node_of(new["new-0"]), chips_of(new["new-0"])) == (
        "node-2",
        [f"Ascend910-{chip}" for chip in range(4)],
    )
    assert (node_of(new["new-1"]), chips_of(new["new-1"])) == ("node-1", ["Ascend910-6", "Ascend910-7"])
    assert {one["metadata"]["name"]: chips_of(one) for one in cluster.pods("old")} == before


def test_pods_can_return_to_another_scheduler(cluster: Cluster) -> None:
    """Pods that Ringwise placed keep the annotations that others read."""
    cluster.apply(nodes(1))
    scheduler = cluster.run("scheduler")
    cluster.apply([pod("ours-0", 4)])
    before = cluster.wait_running("ours", 1)[0]
    scheduler.stop()
    after = cluster.pods("ours")[0]
    assert after["metadata"]["annotations"] == before["metadata"]["annotations"]
    assert set(after["metadata"]["annotations"]) >= {
        CHIP,
        "predicate-time",
        "hccl/rankIndex",
        "distributed-job",
    }
