"""`ringwise lab --soft N --dynamic N`: shares of chips and vNPUs in a lab, as the commands show them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ringwise.apps.lab.lab import FleetSettings, LabSettings
from tests.builders.objects import pod, pod_group, pod_spec, queue, vcjob
from tests.lab.rig import Terminal, running
from tests.place.asking import Plain
from tests.place.part_cases import node_object, pod_object, report_object

LAB = LabSettings(fleet=FleetSettings(1, "910-x8", soft=1, dynamic=1), speed=None)
QUOTA = "huawei.com/scheduler.softShareDev."
POLICY = {"huawei.com/schedule_policy": "chip1-softShareDev"}


def text(document: Plain) -> str:
    return json.dumps(document) + "\n"


def share(name: str, percent: int, mb: int, pods: int = 1) -> Plain:
    values = {"aicoreQuota": str(percent), "hbmQuota": str(mb), "policy": "elastic"}
    labels = {QUOTA + key: value for key, value in values.items()}
    return vcjob(name, [("w", pods, pod_spec(percent))], pod_labels=labels, pod_annotations=POLICY)


def vnpu(name: str, cores: int, pods: int = 1) -> Plain:
    labels = {"ring-controller.atlas": "ascend-310P"}
    spec = pod_spec(cores, "huawei.com/npu-core")
    return vcjob(name, [("w", pods, spec)], pod_labels=labels)


def test_shares_and_vnpus_run_and_are_shown(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, LAB):
        terminal.submit(text(share("serve", 30, 20_000, pods=3)), text(vnpu("infer", 2, pods=2)))
        terminal.ok("advance 2s")
        # The device plugin has not told yet which vNPU the second pod of a chip could stand beside.
        pods = {one["name"]: one for one in terminal.json("get pods")["pods"]}
        assert [pods[f"infer-w-{at}"]["chips"] for at in (0, 1)] == [[0], [1]]
        terminal.ok("advance 20s")
        pods = {one["name"]: one for one in terminal.json("get pods")["pods"]}
        assert {one["phase"] for one in pods.values()} == {"Running"}
        assert {pods[f"serve-w-{at}"]["node"] for at in range(3)} == {"node-1"}
        assert pods["serve-w-0"]["part"]["message"] == "30%"
        assert pods["infer-w-0"]["part"] == {
            "mode": "dynamic",
            "message": "2 cores",
            "percent": None,
            "memory_mb": None,
            "policy": None,
            "cores": 2,
            "template": "vir02_1c",
        }
        described = terminal.ok("describe pod infer-w-0")
        assert "Ascend310P-2c.1cpu-100-0_0" in described
        jobs = {one["name"]: one["chips"] for one in terminal.json("get jobs")["jobs"]}
        # Memory counts if it is more: 20000 of 65536 MB are 31 percent.
        assert jobs == {"serve": 0.93, "infer": 0.5}
        nodes = {one["name"]: one for one in terminal.json("get nodes")["nodes"]}
        assert nodes["node-1"]["allocation_mode"] == "soft"
        assert nodes["node-1"]["chips"][0]["used_percent"] == [91]
        assert nodes["node-2"]["allocation_mode"] == "dynamic"
        assert "[9.......]" in terminal.ok("get nodes")
        assert "90% 60000 of 65536 MB (elastic), 3 pods" in terminal.ok("get chips --node node-1")
        assert "vcjob/serve-w-0 (30%), vcjob/serve-w-1 (30%), vcjob/serve-w-2 (30%)" in terminal.ok(
            "get chips --node node-1"
        )
        assert "chip 0: 25% used: vcjob/infer-w-0 (2 cores)" in terminal.ok("describe node node-2")
        (chip,) = [one for one in terminal.json("get chips")["chips"] if len(one.get("shares", ())) == 3]
        assert chip["shares"][0] == {
            "pod": "vcjob/serve-w-0",
            "job": "vcjob/serve",
            "message": "30%",
            "percent": 31,
        }
        assert "2 of 8 cores, 1 vNPU" in terminal.ok("get chips --node node-2")
        terminal.ok("advance 1h")
        rows = terminal.json("report --group-by job")["rows"]
        held = {one["job"]: one["allocated_chip_hours"] for one in rows}
        assert {name: round(hours, 1) for name, hours in held.items()} == {"serve": 0.9, "infer": 0.5}
        counted = {one["board"]: one for one in terminal.json("capacity")["boards"]}
        shapes = {one["shape"]: one["jobs"] for one in counted["soft shares"]["shapes"]}
        assert shapes["50% of a chip, elastic"] == 14
        cores = {one["shape"]: one["jobs"] for one in counted["dynamic vNPUs"]["shapes"]}
        assert cores == {"1 core": 54, "2 cores": 30, "4 cores": 14, "a whole chip": 6}
        assert "0 errors, 0 warnings" in terminal.ok("doctor")


def test_a_fault_of_a_chip_moves_every_share_on_it_V17(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, LAB):
        job = share("serve", 30, 1000, pods=3)
        for part in (job, job["spec"]["tasks"][0]["template"]):
            part.setdefault("metadata", {}).setdefault("labels", {}).update(
                {"fault-scheduling": "force", "pod-rescheduling": "on"}
            )
        terminal.submit(text(job))
        terminal.ok("advance 10s")
        terminal.ok("fault inject chip node-1 0")
        terminal.ok("advance 60s")
        pods = terminal.json("get pods")["pods"]
        assert [(one["phase"], one["chips"]) for one in pods] == [("Running", [1])] * 3


def test_what_would_help_is_tried(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, LAB):
        terminal.submit(text(share("large", 50, 70_000)))
        assert 'set the label huawei.com/scheduler.softShareDev.hbmQuota to "65536"' in terminal.ok(
            "why large"
        )
        terminal.submit(text(vnpu("odd", 3)))
        assert "request 2 instead of 3 cores" in terminal.ok("why odd")


def test_doctor_names_capabilities_in_percent_and_static_vnpus_on_faulty_chips_V17_V18(
    tmp_path: Path,
) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, LAB):
        wide = queue("shares", capability={"huawei.com/Ascend910": 800})
        part = "huawei.com/Ascend310P-2c"
        static = node_object({"name": "static", "labels": {}, "capacities": {part: 4}, "pods": []}, None)
        lists = {
            "huawei.com/Ascend310P": "Ascend310P-1",
            "huawei.com/Ascend310P-Unhealthy": "Ascend310P-0",
        }
        report = report_object({"name": "static", "device_info": lists, "pods": []}, None)
        real = {"huawei.com/AscendReal": "Ascend310P-2c-100-0"}
        old = pod_object(
            "old", "old", {part: "1"}, annotations=real, labels={}, node="static", phase="Running"
        )
        terminal.submit(*map(text, (wide, static, report, old)))
        terminal.ok("advance 1s")
        found = {one["code"]: one for one in json.loads(terminal.run("doctor -o json").stdout)["findings"]}
        assert "divide a capability in percent by 100" in found["queue-capability-above-cluster"]["fix"]
        assert "vcjob/old has a static vNPU of a faulty chip" in str(found["static-vnpu-on-faulty-chip"])


#: Two of Huawei's samples, and the pods and PodGroup that its operator makes of a third.
SAMPLES = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: infer, namespace: vcjob, labels: {ring-controller.atlas: ascend-310P}}
spec:
  minAvailable: 1
  schedulerName: volcano
  queue: default
  tasks:
  - name: task
    replicas: 1
    template:
      metadata:
        labels: {app: infer, ring-controller.atlas: ascend-310P, vnpu-dvpp: "null", vnpu-level: low}
      spec:
        containers:
        - {name: c, image: i, resources: {limits: {huawei.com/npu-core: 1}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: serve, namespace: vcjob}
spec:
  replicas: 1
  selector: {matchLabels: {app: serve}}
  template:
    metadata:
      labels:
        app: serve
        ring-controller.atlas: ascend-310P
        fault-scheduling: grace
        vnpu-dvpp: "null"
        vnpu-level: low
    spec:
      schedulerName: volcano
      containers:
      - {name: c, image: i, resources: {limits: {huawei.com/npu-core: 1}}}
"""


def operator_objects(job: str, resource: str, **spec: Any) -> list[Plain]:
    """The PodGroup and the pods that Huawei's operator makes of an AscendJob with master and worker."""
    values = {"aicoreQuota": "50", "hbmQuota": "2048", "policy": "fixed-share"}
    labels = {QUOTA + key: value for key, value in values.items()}
    group = pod_group(job, 2, labels=labels, annotations=POLICY)
    names = [f"{job}-{role}-0" for role in ("master", "worker")]
    labels["training.kubeflow.org/job-name"] = job
    return [group] + [
        pod(name, pod_spec(50, resource, **spec), group=job, labels=labels, annotations=POLICY)
        for name in names
    ]


def test_the_samples_run(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, LAB):
        described = {
            "name": "node-950",
            "labels": {
                "huawei.com/scheduler.chip1softsharedev.enable": "true",
                "mind-cluster/npu-chip-memory": "112G",
            },
            "capacities": {"huawei.com/npu": 800},
            "device_info": {"huawei.com/npu": ",".join(f"npu-{chip}" for chip in range(8))},
            "pods": [],
        }
        terminal.submit(*map(text, (node_object(described, None), report_object(described, None))))
        terminal.submit(SAMPLES)
        made = operator_objects(
            "acjob", "huawei.com/Ascend910", selector={"accelerator-type": "module-910b-8"}
        )
        terminal.submit(*map(text, (*made, *operator_objects("npujob", "huawei.com/npu"))))
        terminal.ok("advance 30s")
        pods = terminal.json("get pods")["pods"]
        assert {one["name"]: one["phase"] for one in pods} == {one["name"]: "Running" for one in pods}
        placed = {one["name"]: (one["node"], one["chips"]) for one in pods}
        assert [placed[f"acjob-{role}-0"] for role in ("master", "worker")] == [("node-1", [0])] * 2
        assert [placed[f"npujob-{role}-0"] for role in ("master", "worker")] == [("node-950", [0])] * 2
        assert len(pods) == 6
        described_pod = terminal.ok("describe pod npujob-worker-0")
        assert "npu-0" in described_pod
        job = {one["name"]: one["chips"] for one in terminal.json("get jobs")["jobs"]}
        assert (job["acjob"], job["npujob"]) == (1, 1)
