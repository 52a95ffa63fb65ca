"""Chips as bit masks, and their names in annotations."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache


def mask_of(chips: Iterable[int]) -> int:
    """The set of chips, or of other small numbers, as bits: chip 3 is bit 3."""
    mask = 0
    for chip in chips:
        mask |= 1 << chip
    return mask


def union_of(masks: Iterable[int]) -> int:
    """All that is in one of these sets."""
    result = 0
    for mask in masks:
        result |= mask
    return result


def chips_of(mask: int) -> tuple[int, ...]:
    """The chips of a mask, ascending."""
    chips = []
    while mask:
        low = mask & -mask
        chips.append(low.bit_length() - 1)
        mask ^= low
    return tuple(chips)


def chip_prefix(resource: str) -> str:
    """`huawei.com/Ascend910` names its chips `Ascend910-0`, `huawei.com/npu` `npu-0`."""
    return resource.rpartition("/")[2] + "-"


@lru_cache(maxsize=1 << 12)
def chip_names(resource: str, chips: tuple[int, ...]) -> str:
    """The annotation value: names joined by commas, in the order given."""
    prefix = chip_prefix(resource)
    return ",".join(f"{prefix}{chip}" for chip in chips)
