"""Issue 17: the jobs that people write for each kind of node, on one cluster that has all of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders.objects import Plain, node, pod_spec, vcjob
from tests.builders.values import CHIP
from tests.place.asking import ask
from tests.place.workloads import ascend_job, replicated

NPU, A310, A310P = "huawei.com/npu", "huawei.com/Ascend310", "huawei.com/Ascend310P"
ARM = {"host-arch": "huawei-arm"}
CARD, CARD_A2 = {**ARM, "accelerator-type": "card"}, {**ARM, "accelerator-type": "card-910b-2"}
MODULE, A2 = {**ARM, "accelerator-type": "module"}, {**ARM, "accelerator-type": "module-910b-8"}
A2_16, A3 = (
    {**ARM, "accelerator-type": "module-910b-16"},
    {**ARM, "accelerator-type": "module-a3-16-super-pod"},
)
SOC = {**ARM, "servertype": "soc"}
RACKS = {"huawei.com/schedule_policy": "chip8-node8-ra64-sp", "sp-block": "16", "ra-block": "8"}
SHARED = {"huawei.com/schedule_policy": "chip1-softShareDev"}
RECOVERY = {
    "fault-scheduling": "force",
    "fault-retry-times": "10",
    "pod-rescheduling": "on",
    "process-recover-enable": "on",
    "subHealthyStrategy": "hotSwitch",
    "tor-affinity": "null",
}
STRATEGY = {"recover-strategy": "retry,recover,dump,exit,elastic-training", "wait-reschedule-timeout": "270"}


def several(name: str, count: int, chips: int, labels: Plain, resource: str = CHIP) -> list[Plain]:
    return [
        node(f"{name}-{index}", chips=chips, resource=resource, devices=range(chips), labels=labels)
        for index in range(count)
    ]


def superpods(name: str, count: int, chips: int, labels: Plain, resource: str) -> list[Plain]:
    return [
        node(
            f"{name}-{index}",
            chips=chips,
            resource=resource,
            devices=range(chips),
            labels=labels,
            annotations={"superPodID": str(index // 4), "rackID": str(index // 2)},
        )
        for index in range(count)
    ]


NODES = [
    *several("card", 2, 2, CARD),
    *several("card-a2", 2, 2, CARD_A2),
    *several("module", 3, 8, MODULE),
    *several("a2", 3, 8, A2),
    *several("a2-16", 2, 16, A2_16),
    *superpods("a3", 8, 16, A3, CHIP),
    *several("i310", 1, 4, ARM, A310),
    *several("i310p", 1, 8, ARM, A310P),
    *several("soc", 1, 1, SOC, A310P),
    *superpods("rack", 8, 8, ARM, NPU),
]


def body(
    chips: int, selector: Plain | None = None, resource: str = CHIP, apart: Plain | None = None
) -> Plain:
    """A pod as such manifests have it: devices from the annotation, mounts, grace period."""
    spec = pod_spec(chips, resource, selector=selector, terminationGracePeriodSeconds=360)
    spec["volumes"] = [
        {"name": "ranktable", "hostPath": {"path": "/user/ranktable", "type": "Directory"}},
        {"name": "ascend-config", "configMap": {"name": "rings-config-app", "defaultMode": 0o640}},
        {"name": "code", "nfs": {"server": "127.0.0.1", "path": "/code"}},
        {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}},
    ]
    path = f"metadata.annotations['{resource}']"
    devices = {"name": "ASCEND_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {"fieldPath": path}}}
    spec["containers"][0] |= {
        "name": "ascend",
        "env": [devices] if chips else [],
        "ports": [{"containerPort": 2222, "name": "ascendjob-port"}],
        "volumeMounts": [{"name": "code", "mountPath": "/job/code"}],
    }
    if apart:
        terms = [{"key": key, "operator": "In", "values": [value]} for key, value in apart.items()]
        term = {"labelSelector": {"matchExpressions": terms}, "topologyKey": "kubernetes.io/hostname"}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        spec["affinity"] = {"podAntiAffinity": required}
    return spec


def of_volcano(replicas: int, spec: Plain, **more: Any) -> Plain:
    policies = [{"event": "PodEvicted", "action": "RestartJob"}]
    plugins: Plain = {"ssh": [], "env": [], "svc": []}
    tasks = [("default-test", replicas, spec)]
    return vcjob("app", tasks, policies=policies, plugins=plugins, maxRetry=3, **more)


def deployment(replicas: int, spec: Plain, **more: Any) -> Plain:
    return replicated("Deployment", 1, replicas, pod=spec, **more)


def of_operator(framework: str, roles: dict[str, tuple[int, Plain]], least: int, **metadata: Plain) -> Plain:
    written: dict[str, Plain | None] = {
        name: {"replicas": replicas, "restartPolicy": "Never", "template": {"spec": spec}}
        for name, (replicas, spec) in roles.items()
    }
    policy = {"minAvailable": least, "queue": "default"}
    return ascend_job(
        written, framework, name="app", policy=policy, metadata=metadata, successPolicy="AllWorkers"
    )


def pair(leader: str, spec: Plain) -> dict[str, tuple[int, Plain]]:
    return {leader: (1, spec), "Worker": (1, spec)}


APART = {"job-name": "app"}
WORKERS = {"job-name": "app", "replica-type": "worker"}
#: The job, and the nodes of its pods by rank, pods without chips last.
PLACED: dict[str, tuple[Plain, list[str]]] = {
    "vcjob, 910 card": (of_volcano(1, body(1, CARD)), ["card-0"]),
    "vcjob, 910 card by policy": (
        of_volcano(1, body(2), annotations={"huawei.com/schedule_policy": "chip1-node2"}),
        ["card-0"],
    ),
    "vcjob, 910": (of_volcano(2, body(8, MODULE)), ["module-0", "module-1"]),
    "vcjob, A2, graceful": (of_volcano(1, body(8, A2), labels={"fault-scheduling": "grace"}), ["a2-0"]),
    "vcjob, A2 for inference": (of_volcano(1, body(1, A2)), ["a2-0"]),
    "vcjob, racks": (of_volcano(2, body(8, resource=NPU), annotations=RACKS), ["rack-0", "rack-1"]),
    "Deployment, A2 card": (deployment(1, body(1, CARD_A2, apart={"app": "app"})), ["card-a2-0"]),
    "Deployment, 910": (deployment(2, body(8, MODULE, apart={"app": "app"})), ["module-0", "module-1"]),
    "Deployment, 16 chips": (deployment(1, body(16, A2_16)), ["a2-16-0"]),
    "Deployment, policy on the owner": (
        deployment(
            1, body(16, A2_16), metadata={"annotations": {"huawei.com/schedule_policy": "chip8-node16"}}
        ),
        ["a2-16-0"],
    ),
    "Deployment, racks on the owner": (
        deployment(2, body(8, resource=NPU), metadata={"annotations": RACKS}),
        ["rack-0", "rack-1"],
    ),
    "Deployment, racks on the pods": (
        deployment(2, body(8, resource=NPU), pod_metadata={"annotations": RACKS}),
        ["rack-0", "rack-1"],
    ),
    "Deployment, 310 by card": (
        deployment(1, body(1, ARM, A310), pod_metadata={"labels": {"npu-310-strategy": "card"}}),
        ["i310-0"],
    ),
    "Deployment, SoC": (deployment(1, body(1, SOC, A310P)), ["soc-0"]),
    "AscendJob, PyTorch, one pod": (
        of_operator(
            "pytorch",
            {"Master": (1, body(1))},
            1,
            labels={"ring-controller.atlas": "ascend-910", "tor-affinity": "null"},
            annotations={"huawei.com/schedule_policy": "chip8-node8"},
        ),
        ["card-0"],
    ),
    "AscendJob, PyTorch, recovery": (
        of_operator(
            "pytorch", pair("Master", body(8, A2, apart=APART)), 2, labels=RECOVERY, annotations=STRATEGY
        ),
        ["a2-0", "a2-1"],
    ),
    "AscendJob, PyTorch, inference": (
        of_operator("pytorch", pair("Master", body(2, A2, apart=APART)), 2),
        ["a2-0", "a2-1"],
    ),
    "AscendJob, TensorFlow": (
        of_operator("tensorflow", pair("Chief", body(8, MODULE, apart=APART)), 2),
        ["module-0", "module-1"],
    ),
    "AscendJob, MindSpore": (
        of_operator(
            "mindspore", {"Scheduler": (1, body(0, MODULE)), "Worker": (2, body(8, MODULE, apart=WORKERS))}, 3
        ),
        # The Scheduler is first; nodeorder then prefers the others.
        ["module-1", "module-2", "module-0"],
    ),
    "AscendJob, MindSpore, a Scheduler with chips": (
        of_operator("mindspore", pair("Scheduler", body(8, A2)), 2),
        ["a2-0", "a2-1"],
    ),
    "AscendJob, MindSpore, racks": (
        of_operator(
            "mindspore",
            {"Scheduler": (1, body(0, A3)), "Worker": (2, body(8, resource=NPU, apart=WORKERS))},
            3,
            annotations=RACKS,
        ),
        ["rack-0", "rack-1", "a3-0"],
    ),
    "AscendJob, SuperPoD": (
        of_operator("pytorch", pair("Master", body(16, A3, apart=APART)), 2, annotations={"sp-block": "32"}),
        ["a3-0", "a3-1"],
    ),
    "AscendJob, SuperPoD, one chip": (
        of_operator("tensorflow", {"Chief": (1, body(1, ARM))}, 1, annotations={"sp-block": "1"}),
        ["a3-0"],
    ),
    "AscendJob, SuperPoD, workers alone": (
        of_operator("mindspore", {"Worker": (2, body(16, ARM))}, 2, annotations={"sp-block": "32"}),
        ["a3-0", "a3-1"],
    ),
    "AscendJob without chips": (of_operator("pytorch", {"Master": (1, body(0, A2))}, 1), ["a2-0"]),
}
REFUSED: dict[str, tuple[Plain, str]] = {
    "dynamic vNPU": (of_volcano(1, body(1, resource="huawei.com/npu-core")), "ring-label-unknown"),
    "static vNPU": (of_volcano(1, body(2, resource=f"{A310P}-2c")), "more-than-one-part"),
    "shared chip": (
        of_operator("pytorch", pair("Master", body(50, A2)), 2, annotations=SHARED),
        "soft-sharing-label-missing",
    ),
    # The manual's rule; `multi-pod-requests: vendor` allows it.
    "two pods with half a node each": (
        of_operator(
            "mindspore", {"Scheduler": (1, body(0, MODULE)), "Worker": (2, body(4, MODULE, apart=WORKERS))}, 3
        ),
        "multi-pod-request-not-allowed",
    ),
}


@pytest.mark.parametrize("case", PLACED)
def test_a_job_is_placed(case: str) -> None:
    manifest, nodes = PLACED[case]
    (job,) = ask([*NODES, manifest])["jobs"]
    assert (job["state"], [pod["node"] for pod in job["pods"]]) == ("scheduled", nodes), job["reason"]


@pytest.mark.parametrize("case", REFUSED)
def test_a_job_is_refused_with_the_reason(case: str) -> None:
    manifest, code = REFUSED[case]
    (job,) = ask([*NODES, manifest])["jobs"]
    assert (job["state"], job["reason"]["code"]) == ("rejected", code)


def test_the_owner_of_pods_is_read_where_the_pods_say_nothing() -> None:
    """What the pod template says comes first."""
    owner = {"annotations": {"huawei.com/schedule_policy": "chip4-node4"}}
    inside = {"annotations": {"huawei.com/schedule_policy": "chip8-node16"}}
    (job,) = ask([*NODES, deployment(1, body(16, A2_16), metadata=owner, pod_metadata=inside)])["jobs"]
    assert job["state"] == "scheduled"
