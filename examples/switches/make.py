"""Writes the example files of docs/concepts/switches.md from diagrams.

python examples/switches/make.py        rewrites the files in its directory

In a diagram, `.` is a free node, and a letter is a node that is used by a pod of the running
job with that name; `x` is a job without the label tor-affinity.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

MODEL, COMMON = "large-model-schema", "normal-schema"
CHIPS = "Ascend910-0,Ascend910-1,Ascend910-2,Ascend910-3,Ascend910-4,Ascend910-5,Ascend910-6,Ascend910-7"


@dataclass
class Example:
    """`marks`: `isSharedTor` of each running job, by leaf switch; `lost`: pending ranks of `train`."""

    leaves: list[str]
    label: str
    pods: int
    #: Running jobs: label and marks by leaf switch.
    running: dict[str, tuple[str, dict[int, int]]] = field(default_factory=dict)
    limit: int = 2
    version: str = "2.0"
    level: str = "double_layer"
    lost: int = 0


EXAMPLES = {
    "exclusive-pass": Example(["....", "...x", "...."], MODEL, 8),
    "shared-1-closest": Example(
        ["....", "a...", "bb.."], MODEL, 6, {"a": (COMMON, {1: 1}), "b": (COMMON, {2: 1})}, limit=1
    ),
    "shared-1-idle": Example(["....", "....", "aaa."], MODEL, 6, {"a": (COMMON, {2: 1})}, limit=1),
    "shared-2-single": Example(
        ["....", "aaa.", "bb.."], MODEL, 6, {"a": (COMMON, {1: 1}), "b": (COMMON, {2: 1})}
    ),
    "shared-2-pair": Example(
        ["....", "aaa.", "bbb.", "cc.."],
        MODEL,
        6,
        {"a": (COMMON, {1: 1}), "b": (COMMON, {2: 1}), "c": (COMMON, {3: 1})},
    ),
    "idle-and-exclusive": Example(["....", "...x", "aa.."], MODEL, 6, {"a": (COMMON, {2: 2})}),
    "exclusive-owner-at-limit": Example(
        ["....", "...x", "aa..", "aaaa", "aaaa"], MODEL, 6, {"a": (MODEL, {2: 2, 3: 1, 4: 1})}
    ),
    "unhealthy": Example(["aa..", "aa.."], MODEL, 4, {"a": (COMMON, {0: 1, 1: 1})}, limit=1),
    "common-first": Example(["....", "bb.."], COMMON, 6, {"b": (COMMON, {1: 1})}, limit=1),
    "common-fallback": Example(
        ["....", "aaa.", "aaaa", "b..."],
        COMMON,
        8,
        {"a": (COMMON, {1: 1, 2: 1}), "b": (COMMON, {3: 1})},
        limit=1,
    ),
    "common-waits": Example(
        ["....", "aaa.", "bbbb", "b..."],
        COMMON,
        8,
        {"a": (COMMON, {1: 1}), "b": (MODEL, {2: 2, 3: 1})},
        limit=1,
    ),
    "padding": Example(["....", "bb..", "a..."], MODEL, 2, {"a": (COMMON, {2: 2}), "b": (COMMON, {1: 1})}),
    "padding-idle": Example(
        ["....", "bbb.", "aaa."], MODEL, 3, {"a": (COMMON, {2: 2}), "b": (COMMON, {1: 1})}
    ),
    "padding-waits": Example(["..xx", "..xx"], MODEL, 3),
    "fault-exclusive": Example(["t.tt", "t.x.", "...."], MODEL, 5, {"t": (MODEL, {0: 2, 1: 1})}, lost=1),
    "fault-shared": Example(["txtt", "t.x.", "...."], MODEL, 5, {"t": (MODEL, {0: 2, 1: 1})}, lost=1),
    "fault-unused": Example(["txtt", "txxx", "...."], MODEL, 5, {"t": (MODEL, {0: 2, 1: 1})}, lost=1),
    "logical-switch": Example(["...x", "x...", ".xx."], MODEL, 4, version="1.0"),
    "single-layer": Example(["....", "..xx", "...x"], COMMON, 3, level="single_layer"),
}

_NODE = """\
apiVersion: v1
kind: Node
metadata: {{name: node-{number}}}
status:
  addresses: [{{type: InternalIP, address: 192.168.{leaf}.{place}}}]
  allocatable: {{huawei.com/Ascend910: "8"}}
  capacity: {{huawei.com/Ascend910: "8"}}
  conditions: [{{type: Ready, status: "True"}}]
"""

_POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: {job}-{rank}
  namespace: default
  {labels}annotations: {{{notes}}}
spec:
  schedulerName: volcano
  {node}containers: [{{name: train, image: train, resources: {{limits: {{huawei.com/Ascend910: 8}}}}}}]
status: {{phase: {phase}}}
"""

_GROUP = """\
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {{name: {name}, namespace: default, labels: {{tor-affinity: {label}}}}}
spec: {{minMember: {pods}}}
status: {{phase: Running}}
"""

_JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: train, namespace: default, labels: {{tor-affinity: {label}}}}}
spec:
  schedulerName: volcano
  minAvailable: {pods}
  tasks:
    - name: worker
      replicas: {pods}
      template:
        metadata: {{labels: {{tor-affinity: {label}}}}}
        spec:
          containers: [{{name: train, image: train, resources: {{limits: {{huawei.com/Ascend910: 8}}}}}}]
"""

_SETTINGS = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
  - name: topology910
- plugins:
  - name: predicates
  - name: nodeorder
configurations:
- name: init-params
  arguments: {{"nslb-version": "{version}", "shared-tor-num": "{limit}"}}
"""


def topology(example: Example) -> str:
    switches = [
        {
            "tor_id": leaf,
            "tor_ip": f"leaf-{leaf + 1}",
            "server": [
                {"server_ip": f"192.168.{leaf + 1}.{place + 1}", "npu_count": 8, "slice_id": place}
                for place in range(len(row))
            ],
        }
        for leaf, row in enumerate(example.leaves)
    ]
    lines = ",\n    ".join(json.dumps(switch) for switch in switches)
    width = max(len(row) for row in example.leaves)
    return (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: basic-tor-node-cm, namespace: kube-system}\n"
        f"data:\n  tor_level: {example.level}\n  tor_info: |\n"
        f'    {{"version": "1.0", "tor_count": {width}, "server_list": [\n    {lines}\n    ]}}\n'
    )


def documents(example: Example) -> list[str]:
    found = [topology(example)]
    running: dict[str, list[str]] = {}
    number = 0
    for leaf, row in enumerate(example.leaves):
        for place, sign in enumerate(row):
            number += 1
            found.append(_NODE.format(number=number, leaf=leaf + 1, place=place + 1))
            if sign != ".":
                running.setdefault(sign, []).append(pod(example, sign, running, leaf, number))
    for job, pods in running.items():
        if job != "x":
            total = example.pods if job == "t" else len(pods)
            found.append(_GROUP.format(name=name_of(job), label=example.running[job][0], pods=total))
        found.extend(pods)
    if example.lost:
        found.append(waiting_pod(example))
    else:
        found.append(_JOB.format(label=example.label, pods=example.pods))
    return found


def name_of(job: str) -> str:
    return "train" if job == "t" else job


def pod(example: Example, job: str, running: dict[str, list[str]], leaf: int, number: int) -> str:
    rank = len(running.get(job, []))
    notes = {"huawei.com/AscendReal": f'"{CHIPS}"'}
    labels = ""
    if job != "x":
        label, marks = example.running[job]
        # The rank that waits is the one after the first: its pod is the lost one.
        rank += 1 if job == "t" and rank >= example.lost else 0
        notes |= {"scheduling.k8s.io/group-name": name_of(job), "hccl/rankIndex": f'"{rank}"'}
        notes |= {"isSharedTor": f'"{marks[leaf]}"', "isHealthy": '"0"'}
        labels = f"labels: {{tor-affinity: {label}}}\n  "
    return _POD.format(
        job=name_of(job),
        rank=rank,
        labels=labels,
        notes=", ".join(f"{key}: {value}" for key, value in notes.items()),
        node=f"nodeName: node-{number}\n  ",
        phase="Running",
    )


def waiting_pod(example: Example) -> str:
    return _POD.format(
        job="train",
        rank=example.lost,
        labels=f"labels: {{tor-affinity: {example.label}}}\n  ",
        notes=f'scheduling.k8s.io/group-name: train, hccl/rankIndex: "{example.lost}"',
        node="",
        phase="Pending",
    )


def main() -> None:
    here = Path(__file__).parent
    for name, example in EXAMPLES.items():
        settings = f"version-{example.version}-shared-{example.limit}.conf"
        (here / settings).write_text(_SETTINGS.format(version=example.version, limit=example.limit))
        heading = f"# ringwise place -f examples/switches/{name}.yaml --config examples/switches/{settings}\n"
        (here / f"{name}.yaml").write_text(heading + "---\n".join(documents(example)))


if __name__ == "__main__":
    main()
