"""Writes the example files of docs/concepts/racks.md, or nodes that you specify.

python examples/racks/make.py                          rewrites the files beside it
python examples/racks/make.py --free 0:2,4,6 1:8     prints Nodes, SuperPoD 0 with racks of 2, 4 and 6
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

CHIPS_PER_NODE = 8

_JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: {name}
  namespace: default
  labels: {{super-pod-affinity: {affinity}}}
  annotations:
    huawei.com/schedule_policy: chip8-node8-ra64-sp
    sp-block: "{sp_block}"   # chips of a block: {block_nodes} nodes of {chips_per_node}
    ra-block: "{ra_block}"   # chips of a logical rack: {group_nodes} nodes
spec:
  schedulerName: volcano
  minAvailable: {pods}
  tasks:
    - name: worker
      replicas: {pods}
      template:
        spec:
          containers:
            - name: train
              image: train:latest
              resources:
                requests: {{huawei.com/npu: {chips_per_node}}}
                limits: {{huawei.com/npu: {chips_per_node}}}
"""


def nodes(superpods: dict[int, list[int]]) -> str:
    """A List of Nodes: free nodes of each rack of each SuperPoD, racks numbered from 0."""
    items = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": f"sp{superpod}-rack{rack}-{number}",
                "annotations": {"superPodID": str(superpod), "rackID": str(rack)},
            },
            "status": {
                "allocatable": {"huawei.com/npu": str(CHIPS_PER_NODE)},
                "capacity": {"huawei.com/npu": str(CHIPS_PER_NODE)},
            },
        }
        for superpod, racks in superpods.items()
        for rack, count in enumerate(racks)
        for number in range(count)
    ]
    lines = ",\n".join(json.dumps(item, separators=(",", ":")) for item in items)
    return f'{{"apiVersion":"v1","kind":"List","items":[\n{lines}\n]}}\n'


def job(name: str, pods: int, block_nodes: int, group_nodes: int, affinity: str = "hard") -> str:
    """A Volcano job of whole nodes in blocks and logical racks of the given sizes."""
    return _JOB.format(
        name=name,
        affinity=affinity,
        sp_block=block_nodes * CHIPS_PER_NODE,
        ra_block=group_nodes * CHIPS_PER_NODE,
        block_nodes=block_nodes,
        group_nodes=group_nodes,
        chips_per_node=CHIPS_PER_NODE,
        pods=pods,
    )


def files() -> dict[str, str]:
    """The example files by name."""
    return {
        "one-rack-nodes.json": nodes({0: [2, 4, 6, 8]}),
        "groups-nodes.json": nodes({0: [2, 4, 6]}),
        "job.yaml": job("train", pods=8, block_nodes=8, group_nodes=2),
        "superpods-nodes.json": nodes({0: [8], 1: [8, 8], 2: [8, 8, 8]}),
        "blocks.yaml": job("train", pods=16, block_nodes=4, group_nodes=2),
        "multi-nodes.json": nodes({0: [8, 2], 1: [8, 3]}),
        "multi.yaml": job("train", pods=16, block_nodes=8, group_nodes=4),
        "fragments-nodes.json": nodes({0: [2, 4], 1: [2, 1]}),
        "soft.yaml": job("train", pods=8, block_nodes=8, group_nodes=2, affinity="soft"),
    }


def racks(text: str) -> tuple[int, list[int]]:
    """`0:2,4,6` as SuperPoD 0 with racks of 2, 4 and 6 free nodes."""
    superpod, _, counts = text.partition(":")
    return int(superpod), [int(count) for count in counts.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description="Example racks")
    parser.add_argument("--free", nargs="+", type=racks, help="free nodes of the racks of each SuperPoD")
    arguments = parser.parse_args()
    if arguments.free:
        print(nodes(dict(arguments.free)), end="")
        return
    for name, content in files().items():
        (Path(__file__).parent / name).write_text(content)


if __name__ == "__main__":
    main()
