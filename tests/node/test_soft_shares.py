"""Soft shares on a real kubelet: the file, the mounts, and what a killed plugin leaves behind (V19, V20)."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest

from tests.cluster.cluster import PODS, Cluster
from tests.cluster.objects import CHIP, Object, pod
from tests.node.machine import Machine
from tests.node.test_kills import KILLS, SEED
from tests.node.test_stories import Machines

pytestmark = [pytest.mark.cluster, pytest.mark.node]

QUOTA = "huawei.com/scheduler.softShareDev."
#: Percent and chip of the pods that run together.
SHARES = ((60, 0), (40, 0), (100, 1), (30, 2))


def share(name: str, percent: int, chip: int, job: str) -> Object:
    """A pod as the scheduler leaves it."""
    bound = pod(name, percent, on="node-1", labels={"volcano.sh/job-name": job})
    bound["metadata"]["annotations"] = {
        CHIP: f"Ascend910-{chip}",
        QUOTA + "aicoreQuota": str(percent),
        QUOTA + "hbmQuota": "2048",
        QUOTA + "policy": "fixed-share",
        "predicate-time": str(time.time_ns()),
    }
    return bound


def records(node: Machine) -> dict[str, Object]:
    """The last container of each pod, as the runtime was told, by the name of the pod."""
    found = [json.loads(line) for line in node.records.read_text().splitlines()]
    return {record["pod"].partition("/")[2]: record for record in found}


def files(node: Machine) -> list[Path]:
    assert node.shares is not None
    return sorted(node.shares.rglob("npu_info.config"))


def in_phase(cluster: Cluster, phase: str) -> list[Object]:
    return [one for one in cluster.pods() if one["status"].get("phase") == phase]


def die_of(chip: int) -> str:
    return f"SIMULATED-{chip:08X}"


def test_two_pods_of_a_job_share_a_chip(machines: Machines) -> None:
    cluster, start = machines
    node = start("node-1", shares=True)
    cluster.apply([share("first", 60, 2, "job")])
    cluster.wait(lambda: len(in_phase(cluster, "Running")) == 1, "the first pod runs")
    cluster.apply([share("second", 30, 2, "job")])
    cluster.wait(lambda: len(in_phase(cluster, "Running")) == 2, "both pods run")
    folder = f"{cluster.namespace}.job"
    contents = {}
    for name, percent, number in (("first", 60, 0), ("second", 30, 1)):
        record = records(node)[name]
        assert ["/dev/davinci2", "/dev/davinci2", "rw"] in record["devices"]
        assert [f"/etc/enpu/{folder}/2_{number}", "/etc/enpu/vcann-rt/"] in record["mounts"]
        assert [f"{node.folder}/share/2/{die_of(2)}", f"/dev/shm/{die_of(2)}"] in record["mounts"]
        assert record["envs"]["WORLD_SIZE"] == "1"
        contents[f"2_{number}"] = (
            f"physical-npu-id=2\nvirtual-npu-id={number}\naicore-quota={percent}\nmemory-quota=2048\n"
            f"shm-id={die_of(2)}\nscheduling-policy=1\n"
        )
    assert {path.parent.name: path.read_text() for path in files(node)} == contents
    cluster.api.delete(f"{PODS}/first")
    cluster.wait(lambda: [path.parent.name for path in files(node)] == ["2_1"], "the first share is removed")
    cluster.api.delete(f"{PODS}/second")
    cluster.wait(lambda: node.shares is not None and not any(node.shares.iterdir()), "the folder is removed")


@pytest.mark.chaos
def test_V20_the_plugin_is_killed_while_shares_start_and_end(machines: Machines) -> None:
    cluster, start = machines
    node = start("node-1", shares=True)
    rng = random.Random(SEED)
    created = 0

    def complete() -> bool:
        """Whether all shares run; those that kubelet rejected are created again under new names."""
        nonlocal created
        pods = cluster.pods()
        _check(node, pods)
        missing = list(SHARES)
        for one in pods:
            annotations = one["metadata"]["annotations"]
            held = (int(annotations[QUOTA + "aicoreQuota"]), int(annotations[CHIP].rpartition("-")[2]))
            if one["status"].get("phase") != "Failed":
                missing.remove(held)
            elif "deletionTimestamp" not in one["metadata"]:
                cluster.api.delete(f"{PODS}/{one['metadata']['name']}")
        for percent, chip in missing:
            created += 1
            cluster.api.create(PODS, share(f"share-{created}", percent, chip, f"job-{created % 3}"))
        return len(in_phase(cluster, "Running")) == len(SHARES)

    kills = 0
    while kills < KILLS:
        complete()
        # From before the first Allocate until after the last report.
        time.sleep(rng.uniform(0.0, 3.0))
        _restart(cluster, node)
        cluster.wait(complete, "all shares run")
        cluster.api.delete(PODS, {"gracePeriodSeconds": 1})
        time.sleep(rng.uniform(0.0, 1.0))
        _restart(cluster, node)
        cluster.wait(lambda: not cluster.pods(), "the pods are gone")
        cluster.wait(lambda: not files(node), "no file is left")
        kills += 2


def _check(node: Machine, pods: list[Object]) -> None:
    """No virtual number of a chip is in two containers that run."""
    running = node.running()
    told = records(node)
    held = [
        host.rpartition("/")[2]
        for one in pods
        if one["metadata"]["uid"] in running and one["metadata"]["name"] in told
        for host, container in told[one["metadata"]["name"]]["mounts"]
        if container == "/etc/enpu/vcann-rt/"
    ]
    assert len(held) == len(set(held)), held


def _restart(cluster: Cluster, node: Machine) -> None:
    node.plugin.kill()
    node.start_plugin()
    cluster.wait(node.registrations, "the plugin registers again")
    cluster.wait(lambda: node.allocatable() == node.ids, "kubelet has the ids again")
