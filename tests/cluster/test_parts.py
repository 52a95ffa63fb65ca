"""Dynamic vNPUs and soft shares on the real control plane: samples of the vendor run unchanged."""

from __future__ import annotations

import json

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.objects import CHIP, Object, node, node_report
from tests.cluster.owners import Workload

pytestmark = pytest.mark.cluster

CORES = "huawei.com/npu-core"
QUOTA = "huawei.com/scheduler.softShareDev."
#: Of the pod templates of both samples.
LABELS = {"ring-controller.atlas": "ascend-310P", "vnpu-dvpp": "null", "vnpu-level": "low"}
ONE_CORE = {"requests": {CORES: "1"}, "limits": {CORES: "1"}}


def divided_node(name: str) -> list[Object]:
    """A node of 8 chips 310P with dynamic vNPUs, and the report of its device plugin."""
    labels = {
        "accelerator": "huawei-Ascend310P",
        "servertype": "Ascend310P-8",
        "node.kubernetes.io/npu.chip.name": "310P3",
    }
    made = node(name, labels=labels)
    for amounts in (made["status"]["capacity"], made["status"]["allocatable"]):
        amounts.pop(CHIP, None)
        amounts[CORES] = "64"
    report = node_report(name, range(8))
    report["data"] = {key: text.replace("Ascend910", "Ascend310P") for key, text in report["data"].items()}
    return [made, report]


def shared_node(name: str) -> list[Object]:
    labels = {
        "accelerator-type": "module-910b-8",
        "huawei.com/scheduler.chip1softsharedev.enable": "true",
        "mind-cluster/npu-chip-memory": "64G",
    }
    return [node(name, 800, labels=labels), node_report(name, range(8))]


def test_the_vcjob_and_the_deployment_with_dynamic_vnpus_run(cluster: Cluster) -> None:
    cluster.apply(divided_node("node-1"))
    cluster.run()
    sample: Object = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {
            "name": "infer",
            "labels": {"ring-controller.atlas": "ascend-310P"},
        },
        "spec": {
            "minAvailable": 1,
            "schedulerName": "volcano",
            "policies": [{"event": "PodEvicted", "action": "RestartJob"}],
            "plugins": {"ssh": [], "env": [], "svc": []},
            "maxRetry": 3,
            "queue": "default",
            "tasks": [
                {
                    "name": "task",
                    "replicas": 1,
                    "template": {
                        "metadata": {"labels": LABELS},
                        "spec": {
                            "restartPolicy": "OnFailure",
                            "automountServiceAccountToken": False,
                            "nodeSelector": {"host-arch": "huawei-arm"},
                            "containers": [{"name": "c", "image": "i", "resources": ONE_CORE}],
                        },
                    },
                }
            ],
        },
    }
    cluster.apply([sample])
    (first,) = cluster.wait_running("infer", 1)
    assert first["metadata"]["annotations"][CORES] == "0-vir01"
    containers = [{"name": "c", "image": "i", "resources": ONE_CORE}]
    labels = {**LABELS, "fault-scheduling": "grace"}
    Workload(cluster, "Deployment", "serve", 1, 0, pod_labels=labels, pod_spec={"containers": containers})
    (second,) = cluster.wait_running("serve", 1)
    # The device plugin has not told of the first one, so it is on a chip of its own.
    assert second["metadata"]["annotations"][CORES] == "1-vir01"
    assert second["metadata"]["annotations"]["predicate-time"].isdigit()


def test_replicas_of_a_deployment_share_a_chip(cluster: Cluster) -> None:
    cluster.apply(shared_node("node-1"))
    cluster.run()
    quotas = {"aicoreQuota": "30", "hbmQuota": "2048", "policy": "elastic"}
    Workload(
        cluster,
        "Deployment",
        "serve",
        3,
        30,
        pod_labels={QUOTA + key: value for key, value in quotas.items()},
        pod_annotations={"huawei.com/schedule_policy": "chip1-softShareDev"},
    )
    pods = cluster.wait_running("serve", 3)
    assert {one["metadata"]["annotations"][CHIP] for one in pods} == {"Ascend910-0"}
    written = {key: pods[0]["metadata"]["annotations"][QUOTA + key] for key in quotas}
    assert json.dumps(written, sort_keys=True) == json.dumps(quotas, sort_keys=True)
