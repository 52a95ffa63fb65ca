"""Writes the example files of docs/concepts/superpods.md, or nodes that you specify.

python examples/superpods/make.py                    rewrites the files beside it
python examples/superpods/make.py --free 34,35,48    prints Nodes of SuperPoDs with so many free nodes
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

CHIPS_PER_NODE = 16
NODES_PER_BLOCK = 8

_JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: {name}
  namespace: default
  labels: {{super-pod-affinity: {affinity}}}
  annotations:
    huawei.com/schedule_policy: chip2-node16-sp
    sp-block: "{sp_block}"   # chips of a block: {nodes_per_block} nodes of {chips_per_node}
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
                requests: {{huawei.com/Ascend910: {chips_per_node}}}
                limits: {{huawei.com/Ascend910: {chips_per_node}}}
"""


def nodes(free_nodes: list[int]) -> str:
    """A List of Nodes; the SuperPoD's id is its number of free nodes, so that the output is easy to read."""
    items = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": f"sp{count}-{number:02}",
                "annotations": {"superPodID": str(count), "serverIndex": str(number)},
            },
            "status": {
                "allocatable": {"huawei.com/Ascend910": str(CHIPS_PER_NODE)},
                "capacity": {"huawei.com/Ascend910": str(CHIPS_PER_NODE)},
            },
        }
        for count in free_nodes
        for number in range(count)
    ]
    lines = ",\n".join(json.dumps(item, separators=(",", ":")) for item in items)
    return f'{{"apiVersion":"v1","kind":"List","items":[\n{lines}\n]}}\n'


def job(name: str, blocks: int, affinity: str = "hard") -> str:
    """A Volcano job with this number of blocks of eight nodes."""
    return _JOB.format(
        name=name,
        affinity=affinity,
        sp_block=NODES_PER_BLOCK * CHIPS_PER_NODE,
        nodes_per_block=NODES_PER_BLOCK,
        chips_per_node=CHIPS_PER_NODE,
        pods=blocks * NODES_PER_BLOCK,
    )


def files() -> dict[str, str]:
    """The example files by name."""
    return {
        "sequence-nodes.json": nodes([18, 19, 26, 27]),
        "sequence-jobs.yaml": "---\n".join(job(f"train-{number}", blocks=2) for number in range(1, 5)),
        "one-job.yaml": job("train", blocks=2),
        "fragments-nodes.json": nodes([6, 7, 10]),
        "fragments-soft.yaml": job("train", blocks=2, affinity="soft"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Example SuperPoDs")
    parser.add_argument(
        "--free", help="comma-separated counts of free nodes, one SuperPoD each, all different"
    )
    arguments = parser.parse_args()
    if arguments.free:
        print(nodes([int(count) for count in arguments.free.split(",")]), end="")
        return
    for name, content in files().items():
        (Path(__file__).parent / name).write_text(content)


if __name__ == "__main__":
    main()
