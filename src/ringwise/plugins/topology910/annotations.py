"""Annotations of a placed pod about its switch, its SuperPoD and its rack; the Binding carries them."""

from __future__ import annotations

from ringwise.placement.racks.model import RackShape, Slot
from ringwise.placement.superpods.blocks import Block
from ringwise.placement.switches.states import SwitchState
from ringwise.placement.switches.view import PlanEntry
from ringwise.wellknown import (
    IS_HEALTHY,
    IS_SHARED_TOR,
    LOGICAL_RACK,
    SHARED_TOR_IP,
    SUPER_POD_ID,
    SUPER_POD_RANK,
)


def switch_annotations(entry: PlanEntry, version: str, single_layer: bool = False) -> dict[str, str]:
    """Rule S2: how the pod's switch was taken. Version 1.0 and single layer write none."""
    if version != "2.0" or single_layer:
        return {}
    annotations = {
        IS_SHARED_TOR: str(entry.mark),
        IS_HEALTHY: "0" if entry.healthy or entry.mark != SwitchState.SHARED else "1",
    }
    if entry.mark == SwitchState.SHARED:
        annotations[SHARED_TOR_IP] = entry.name
    return annotations


def block_annotations(block: Block) -> dict[str, str]:
    """Rule P7: the logical and the physical SuperPoD of a pod of this block.

    After a restart of the scheduler the block map of the job is read from these two.
    """
    return {SUPER_POD_RANK: str(block.logical), SUPER_POD_ID: str(block.superpod)}


def rack_annotations(shape: RackShape, rank: int, slot: Slot) -> dict[str, str]:
    """Rule R2: block, physical SuperPoD and logical rack of a pod.

    After a restart of the scheduler the map of the job is read from these three.
    """
    return {
        SUPER_POD_RANK: str(shape.block_of(rank)),
        SUPER_POD_ID: str(slot.superpod),
        LOGICAL_RACK: str(shape.group_of(rank)),
    }
