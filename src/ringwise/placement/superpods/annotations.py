"""What a pod is told about its block."""

from __future__ import annotations

from ringwise.placement.superpods.blocks import Block

SUPER_POD_RANK = "super-pod-rank"
SUPER_POD_ID = "super-pod-id"


def block_annotations(block: Block) -> dict[str, str]:
    """The pod's logical SuperPoD and the physical one it sits in.

    These two also carry the job's map over a restart of the scheduler.
    """
    return {SUPER_POD_RANK: str(block.logical), SUPER_POD_ID: str(block.superpod)}
