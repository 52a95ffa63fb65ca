"""Writes examples/cluster.yaml: sixteen nodes of eight chips, some in use, some broken.

python examples/make.py
"""

from __future__ import annotations

import json
from pathlib import Path

CHIP = "huawei.com/Ascend910"
NODES = 16
#: Chips that are broken, and one with a broken network port only.
FAULTY = {4: [7], 8: [0, 4]}
NETWORK_FAULTY = {12: [3]}
CORDONED = {10}
#: pod -> (PodGroup, node, chips)
RUNNING: dict[str, tuple[str | None, int, list[int]]] = {
    "notebook-ann": (None, 1, [0, 1]),
    "serve-0": ("serve", 2, [0, 1, 2, 3]),
    "serve-1": ("serve", 3, [4, 5, 6, 7]),
    "notebook-bob": (None, 3, [0]),
    "pretrain-0": ("pretrain", 5, list(range(8))),
    "pretrain-1": ("pretrain", 6, list(range(8))),
    "pretrain-2": ("pretrain", 7, list(range(8))),
    "tune-0": (None, 9, [0]),
    "tune-1": (None, 9, [4]),
    "eval-0": (None, 11, [0, 1]),
    "eval-1": (None, 11, [4]),
}
#: PodGroup -> (pods, how long they run)
GROUPS = {"serve": (2, None), "pretrain": (3, "2h")}


def names(chips: list[int]) -> str:
    return ",".join(f"Ascend910-{chip}" for chip in chips)


def node(number: int) -> str:
    devices = {f"Ascend910-{chip}": {"IP": f"10.1.{number}.{chip + 1}"} for chip in range(8)}
    healthy = 8 - len(FAULTY.get(number, []))
    cordon = "spec: {unschedulable: true}\n" if number in CORDONED else ""
    return f"""apiVersion: v1
kind: Node
metadata:
  name: node-{number}
  labels: {{accelerator: huawei-Ascend910, accelerator-type: module, host-arch: huawei-arm}}
  annotations:
    baseDeviceInfos: '{json.dumps(devices, separators=(",", ":"))}'
{cordon}status:
  addresses: [{{type: InternalIP, address: 10.0.0.{number}}}]
  capacity: {{cpu: "192", memory: 768Gi, pods: "110", {CHIP}: "8"}}
  allocatable: {{cpu: "192", memory: 768Gi, pods: "110", {CHIP}: "{healthy}"}}
  conditions: [{{type: Ready, status: "True"}}]
"""


def report(number: int) -> str:
    faulty = FAULTY.get(number, [])
    held = {chip for _, where, chips in RUNNING.values() if where == number for chip in chips}
    free = [chip for chip in range(8) if chip not in held and chip not in faulty]
    listed = {
        "DeviceInfo": {
            "DeviceList": {
                CHIP: names(free),
                f"{CHIP}-NetworkUnhealthy": names(NETWORK_FAULTY.get(number, [])),
                f"{CHIP}-Unhealthy": names(faulty),
            },
            "UpdateTime": 1768032000,
        }
    }
    return f"""apiVersion: v1
kind: ConfigMap
metadata: {{name: mindx-dl-deviceinfo-node-{number}, namespace: kube-system}}
data:
  DeviceInfoCfg: '{json.dumps(listed, separators=(",", ":"))}'
"""


def group(name: str) -> str:
    pods, duration = GROUPS[name]
    annotations = f"\n  annotations: {{ringwise.io/expected-duration: {duration}}}" if duration else ""
    return f"""apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata:
  name: {name}
  namespace: default
  creationTimestamp: "2026-01-10T07:00:00Z"{annotations}
spec: {{minMember: {pods}, queue: default}}
status: {{phase: Running}}
"""


def pod(name: str) -> str:
    owner, number, chips = RUNNING[name]
    grouped = f"\n    scheduling.k8s.io/group-name: {owner}" if owner else ""
    return f"""apiVersion: v1
kind: Pod
metadata:
  name: {name}
  namespace: default
  creationTimestamp: "2026-01-10T07:00:00Z"
  annotations:
    {CHIP}: {names(chips)}{grouped}
spec:
  nodeName: node-{number}
  schedulerName: volcano
  containers:
    - name: main
      image: train:latest
      resources: {{limits: {{{CHIP}: "{len(chips)}"}}, requests: {{{CHIP}: "{len(chips)}"}}}}
status: {{phase: Running}}
"""


def cluster() -> str:
    numbers = range(1, NODES + 1)
    documents = [
        *(node(number) for number in numbers),
        *(report(number) for number in numbers),
        *(group(name) for name in GROUPS),
        *(pod(name) for name in RUNNING),
    ]
    return "# Made by examples/make.py.\n" + "---\n".join(documents)


if __name__ == "__main__":
    (Path(__file__).parent / "cluster.yaml").write_text(cluster())
