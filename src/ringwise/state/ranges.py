"""Ranges of the numbers that decide how much memory an object takes.

Readers of manifests and of the API check the same. Objects also come from journals and lab folders, so the
state checks them once more: chips are bits of a number, and chip 10^15 would need more memory than there is.
"""

from __future__ import annotations

from ringwise.state.model import DeviceReport, Node, Pod

#: Chips of one node or container: far more than any board has. Huawei's device plugin has the same limit.
MAX_NODE_CHIPS = 3600


def out_of_range(value: object) -> str | None:
    """What is wrong with a node, a device report or a pod; None for everything else."""
    match value:
        case Node():
            counts = (*value.chips_allocatable.values(), *value.chips_capacity.values())
            if any(not 0 <= count <= MAX_NODE_CHIPS for count in counts):
                return f"node {value.name}: a node has 0 to {MAX_NODE_CHIPS} chips of a resource"
            if any(not 0 <= device.chip < MAX_NODE_CHIPS for device in value.devices or ()):
                return f"node {value.name}: {_CHIP_IDS}"
        case DeviceReport():
            masks = (value.free, value.unhealthy, value.recovering, value.network_unhealthy or 0)
            if any(
                mask < 0 or mask.bit_length() > MAX_NODE_CHIPS
                for mask in (*masks, *value.mounted.values(), *value.doubtful.values())
            ):
                return f"the device report of node {value.node}: {_CHIP_IDS}"
        case Pod():
            if any(not 0 <= chip < MAX_NODE_CHIPS for chip in (*value.holds, *value.mounted)):
                return f"pod {value.key}: {_CHIP_IDS}"
    return None


_CHIP_IDS = f"chips have the numbers 0 to {MAX_NODE_CHIPS - 1}"
